package acctest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// phases are all ways in which an operation can go wrong.
var phases = []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial, fault.Rival}

// scenario is a create to be swept.
type scenario struct {
	name    string
	vmid    int // the id it gets
	request create.Request
}

func to[T any](v T) *T { return &v }

// sweepScenarios are the creates that are swept. HA is the cluster's, and only root may change it: the documented role has no
// Sys.Console.
func sweepScenarios(who sweepIdentity) []scenario {
	var ha *guest.HA
	if who.ticket {
		ha = &guest.HA{State: to("started"), MaxRestart: to(int64(2))}
	}
	wall := &guest.Firewall{Enabled: to(true), Rules: []guest.FirewallRule{
		{Type: to("in"), Action: to("ACCEPT"), Macro: to("SSH")}, {Type: to("in"), Action: to("DROP")}}}
	cloudInit := vm.CloudInit{Slot: "ide2", Storage: "local-zfs", CloudInitOptions: vm.CloudInitOptions{User: to("ops"),
		Addresses: map[string]vm.Address{"net0": {IPv4: to("10.0.0.5/24"), Gateway4: to("10.0.0.1")}}}}
	return []scenario{
		{name: "from scratch", vmid: 101, request: create.Request{Node: "pve1", Start: true, Pool: "web", HA: ha, Firewall: wall, Spec: vm.Spec{
			Options: vm.Options{Name: to("web-1"), Description: to("web server"), Protection: to(true), BIOS: to("ovmf"), Machine: to("q35"),
				SCSIHW: to("virtio-scsi-single")},
			Disks: map[string]vm.Disk{
				"scsi0": {Storage: "local-zfs", Size: to(int64(4 << 30)), DiskOptions: vm.DiskOptions{Discard: to(true)}},
				"scsi1": {Storage: "local-lvm", Size: to(int64(2 << 30))},
				"scsi2": {Storage: "local2", Size: to(int64(3 << 30)), ImportFrom: to("local:import/disk.qcow2")},
			},
			EFIDisk:   &vm.EFIDisk{Storage: "local-zfs", EFIOptions: vm.EFIOptions{Type: to("4m"), PreEnrolledKeys: to(true)}},
			Networks:  map[string]vm.NIC{"net0": {Model: "virtio", NICOptions: vm.NICOptions{Bridge: to("vmbr0")}}},
			CloudInit: cloudInit,
		}}},
		{name: "linked clone", vmid: 200, request: create.Request{VMID: 200, Start: true, Pool: "web",
			Clone: &guest.Clone{Name: "template"}, Spec: vm.Spec{
				Options: vm.Options{Name: to("web-2"), OnBoot: to(false), Protection: to(false)}, CPU: vm.CPU{Cores: to(int64(4))}, Disks: map[string]vm.Disk{"scsi0": {Size: to(int64(8 << 30)), DiskOptions: vm.DiskOptions{Discard: to(true)}}, "scsi1": {Storage: "local-lvm", Size: to(int64(1 << 30))}},
				CloudInit: vm.CloudInit{CloudInitOptions: vm.CloudInitOptions{User: to("ops"), Addresses: cloudInit.Addresses}},
			}}},
		{name: "full clone", vmid: 200, request: create.Request{VMID: 200, Start: true,
			Clone: &guest.Clone{VMID: 9000, Full: to(true), Storage: "local-lvm"}, Spec: vm.Spec{
				Options: vm.Options{Name: to("web-3")}, Disks: map[string]vm.Disk{"scsi0": {Size: to(int64(8 << 30))}},
			}}},
	}
}

// outcome is what a case came to.
type outcome string

const (
	complete   outcome = "complete"
	rolledBack outcome = "rolled back"
	residue    outcome = "residue"
)

// tally counts the effective cases by phase, identity and outcome.
type tally map[string]map[outcome]int

func (n tally) add(cell string, o outcome) {
	if n[cell] == nil {
		n[cell] = map[outcome]int{}
	}
	n[cell][o]++
}

func (n tally) print(t *testing.T, title string) int {
	total := 0
	t.Logf("%s: %-60s %11s %11s %8s", title, "", rolledBack, complete, residue)
	for _, cell := range slices.Sorted(maps.Keys(n)) {
		t.Logf("  %-60s %11d %11d %8d", cell, n[cell][rolledBack], n[cell][complete], n[cell][residue])
		total += n[cell][rolledBack] + n[cell][complete] + n[cell][residue]
	}
	t.Logf("%s: %d effective cases", title, total)
	return total
}

// eachIdentity sweeps with every identity, each on a cluster of its own, several at once, and adds up what they count.
func eachIdentity(t *testing.T, title string, want int, scenarios func(sweepIdentity) []scenario, sweep func(t *testing.T, b *bench, who sweepIdentity, sc scenario, counts tally)) {
	t.Helper()
	all := make(chan tally, len(sweepIdentities()))
	t.Run("identities", func(t *testing.T) {
		for _, who := range sweepIdentities() {
			t.Run(who.name, func(t *testing.T) {
				t.Parallel()
				counts, b := tally{}, newBench(t, who)
				for _, sc := range scenarios(who) {
					sweep(t, b, who, sc, counts)
				}
				all <- counts
			})
		}
	})
	close(all)
	sum := tally{}
	for counts := range all {
		maps.Copy(sum, counts) // the cells name the identity
	}
	if total := sum.print(t, title); total < want {
		t.Errorf("only %d effective cases, want at least %d", total, want)
	}
}

// TestSweepCreate fails every operation of every create in every way, for every identity.
func TestSweepCreate(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "creates", 300, sweepScenarios, sweepCreate)
}

func sweepCreate(t *testing.T, b *bench, who sweepIdentity, sc scenario, counts tally) {
	for _, seq := range b.cleanRun(sc) {
		for _, phase := range phases {
			c := &sweepCase{bench: b, who: who, sc: sc, faults: []fault.Rule{{Match: fault.Match{Seq: seq.Seq}, Phase: phase}}, op: opName(seq)}
			if o, effective := c.run(t); effective {
				counts.add(fmt.Sprintf("%-32s %s", who.name, phase), o)
			}
		}
	}
}

// TestSweepUndo fails every operation of the undo as well. The create is made to fail where the most is to be undone: at
// the start, at the commit, and by a killed worker.
func TestSweepUndo(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "undos", 100, sweepScenarios, sweepUndo)
}

func sweepUndo(t *testing.T, b *bench, who sweepIdentity, sc scenario, counts tally) {
	sweepUndoOf(t, b, who, sc, counts, 1)
}

// sweepUndoOf plays one case in so many.
func sweepUndoOf(t *testing.T, b *bench, who sweepIdentity, sc scenario, counts tally, share int) {
	n := 0
	for _, first := range b.triggers(b.cleanRun(sc)) {
		for _, op := range b.undoOf(t, who, sc, first) {
			for _, phase := range phases {
				if n++; n%share != 0 {
					continue
				}
				second := fault.Rule{Match: fault.Match{Seq: op.Seq}, Phase: phase}
				c := &sweepCase{bench: b, who: who, sc: sc, faults: []fault.Rule{first, second}, op: opName(op), undo: true}
				if o, effective := c.run(t); effective {
					counts.add(fmt.Sprintf("%-32s %s", who.name, phase), o)
				}
			}
		}
	}
}

// triggers are the faults that begin an undo.
func (b *bench) triggers(ops []pvesim.Op) []fault.Rule {
	var rules []fault.Rule
	for _, op := range ops {
		switch {
		case op.Method == http.MethodPost && (op.Path == "/nodes/{node}/qemu" || strings.HasSuffix(op.Path, "/clone")):
			rules = append(rules, fault.Rule{Match: fault.Match{Seq: op.Seq}, Phase: fault.KillTask},
				fault.Rule{Match: fault.Match{Seq: op.Seq}, Phase: fault.Partial})
		case strings.HasSuffix(op.Path, "/status/start"):
			rules = append(rules, fault.Rule{Match: fault.Match{Seq: op.Seq}, Phase: fault.Task})
		}
	}
	last := ops[len(ops)-1]
	for _, op := range ops {
		if op.Method == http.MethodPut && strings.HasSuffix(op.Path, "/config") {
			last = op
		}
	}
	return append(rules, fault.Rule{Match: fault.Match{Seq: last.Seq}, Phase: fault.Before})
}

// undoOf is what an undo asks of the server after its first fault.
func (b *bench) undoOf(t *testing.T, who sweepIdentity, sc scenario, first fault.Rule) []pvesim.Op {
	t.Helper()
	b.reset()
	b.sim.SetFaults([]fault.Rule{first})
	if _, err := b.svc.Create(t.Context(), sc.request); err == nil {
		t.Fatalf("%s, %s: %+v made no create fail", who.name, sc.name, first)
	}
	return slices.DeleteFunc(b.operations(), func(op pvesim.Op) bool { return op.Seq <= first.Match.Seq })
}

// cleanRun creates without faults, checks that nothing else changed, and returns the operations it took.
func (b *bench) cleanRun(sc scenario) []pvesim.Op {
	b.t.Helper()
	b.reset()
	created, err := b.svc.Create(b.t.Context(), sc.request)
	if err != nil {
		b.t.Fatalf("%s: a create without faults failed: %v", sc.name, err)
	}
	ops := b.operations()
	if created.Guest.VMID != sc.vmid {
		b.t.Fatalf("%s: got id %d, want %d", sc.name, created.Guest.VMID, sc.vmid)
	}
	if text := b.incomplete(sc); text != "" {
		b.t.Fatalf("%s: %s", sc.name, text)
	}
	return ops
}

// incomplete says what is wrong with the world after a create that reports success; "" if nothing is.
func (b *bench) incomplete(sc scenario) string {
	before, after := b.world(b.base), b.world(b.sim.Snapshot())
	guest, ok := after.guest(sc.vmid)
	if !ok {
		return "success, and no VM"
	}
	if diff := sameWorld(before, after.without(sc.vmid, "pve1")); diff != "" {
		return "success, and something else changed (-before +after):\n" + diff
	}
	want := "golden image"
	if d := sc.request.Spec.Description; d != nil {
		want = *d
	}
	switch {
	case guest.Config["lock"] != "":
		return "success, and the VM is locked"
	case guest.Config["description"] != want:
		return fmt.Sprintf("description is %q, want %q", guest.Config["description"], want)
	case guest.Running == nil:
		return "success, and the VM does not run"
	case guest.Config["name"] != *sc.request.Spec.Name:
		return "wrong name"
	}
	if text := after.lacksBeside(sc); text != "" {
		return text
	}
	for slot, disk := range sc.request.Spec.Disks {
		if size := ",size=" + vm.FormatSize(*disk.Size); !strings.Contains(guest.Config[slot]+",", size+",") {
			return fmt.Sprintf("%s is %q, want %s", slot, guest.Config[slot], size)
		}
	}
	if p := sc.request.Spec.Protection; p != nil && (guest.Config["protection"] == "1") != *p {
		return "wrong protection"
	}
	owned := 0
	for _, v := range after.Volumes {
		if v.VMID != sc.vmid || v.Node != "pve1" {
			continue
		}
		owned++
		if !slices.ContainsFunc(slices.Collect(maps.Values(guest.Config)), func(value string) bool {
			return strings.HasPrefix(value, v.Storage+":"+v.Name)
		}) {
			return fmt.Sprintf("volume %s:%s is in no slot", v.Storage, v.Name)
		}
	}
	if owned == 0 {
		return "no volumes"
	}
	return ""
}

// sweepCase is one create with one or two faults.
type sweepCase struct {
	*bench
	who    sweepIdentity
	sc     scenario
	faults []fault.Rule
	op     string // the operation of the last fault
	undo   bool
}

func (c *sweepCase) String() string {
	text := fmt.Sprintf("%s, %s", c.who.name, c.sc.name)
	for _, f := range c.faults {
		text += fmt.Sprintf(", %s at #%d", f.Phase, f.Match.Seq)
	}
	return text + " (" + c.op + ")"
}

// run plays a case. It is not effective when a fault of it did not fire, or changed nothing.
func (c *sweepCase) run(t *testing.T) (outcome, bool) {
	t.Helper()
	c.reset()
	c.sim.SetFaults(c.faults)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	created, err := c.svc.Create(ctx, c.sc.request)
	effective := c.sim.FaultsFired() == len(c.faults)
	c.sim.SetFaults(nil)
	if !effective {
		return "", false
	}
	if err == nil {
		if text := c.incomplete(c.sc); text != "" {
			t.Errorf("%s: %s", c, text)
		}
		return complete, true
	}
	if len(created.Left) == 0 {
		if created.Guest.VMID != 0 || !tx.RolledBack(err) && isRun(err) {
			t.Errorf("%s: nothing is named as left, and yet a guest is returned (%d) or an undo failed: %v", c, created.Guest.VMID, err)
		}
		c.wantBefore(t, 0, "rolled back: "+err.Error())
		return rolledBack, true
	}
	c.checkResidues(t, created, err)
	return residue, true
}

func isRun(err error) bool {
	var failed *tx.Error
	return errors.As(err, &failed)
}

// rival tells whether somebody else took the id.
func (c *sweepCase) rival() bool {
	return slices.ContainsFunc(c.faults, func(f fault.Rule) bool { return f.Phase == fault.Rival })
}

// wantBefore compares the world with the one before the create. Where a rival took the id, he must be there, untouched, and left
// volumes of ours beside his one.
func (c *sweepCase) wantBefore(t *testing.T, left int, why string) {
	t.Helper()
	before, after := c.world(c.base), c.world(c.sim.Snapshot())
	if c.rival() {
		rival, ok := after.guest(c.sc.vmid)
		if !ok || rival.Config["name"] != "rival" {
			t.Errorf("%s: the rival's VM is gone or changed: %v (%s)", c, rival.Config, why)
			return
		}
		if n := c.rivalVolumes(after, rival.Config["scsi0"]); n != 1+left {
			t.Errorf("%s: %d volumes carry the rival's id, want his one and %d of ours (%s)", c, n, left, why)
		}
		after = after.without(c.sc.vmid, "pve1")
	}
	if diff := sameWorld(before, after); diff != "" {
		t.Errorf("%s: the world is not as before (-before +after):\n%s\n%s", c, diff, why)
	}
}

// rivalVolumes counts the volumes of the id, and makes sure that the rival's still holds his data.
func (c *sweepCase) rivalVolumes(after world, scsi0 string) int {
	n, intact := 0, false
	for _, v := range after.Volumes {
		if v.VMID == c.sc.vmid && v.Node == "pve1" {
			n++
			intact = intact || strings.HasPrefix(scsi0, v.Storage+":"+v.Name) && v.Data == "the stranger's data"
		}
	}
	if !intact {
		return -1
	}
	return n
}

// checkResidues holds what is left against the table of what may be left, looks that it is named and really there, and
// runs the commands. Where a rival has the id they destroy nothing: a volume of that name may be his by the time they are run.
func (c *sweepCase) checkResidues(t *testing.T, created create.Created, err error) {
	t.Helper()
	if created.Guest.VMID != c.sc.vmid {
		t.Errorf("%s: residues, but the guest for state has id %d", c, created.Guest.VMID)
	}
	if !c.permitted() {
		t.Errorf("%s: left %v, which no rule permits: %v", c, created.Left, err)
	}
	after := c.sim.Snapshot()
	for _, r := range created.Left {
		if !strings.Contains(err.Error(), r.What) || r.Command == "" || r.Reason == "" {
			t.Errorf("%s: residue %+v is not named with reason and command in: %v", c, r, err)
		}
		if !c.isThere(c.world(after), r) {
			t.Errorf("%s: residue %+v is not there", c, r)
		}
		for _, command := range strings.Split(r.Command, " && ") {
			if _, err := c.root.Run(t.Context(), r.Node, strings.Fields(command)...); err != nil {
				t.Errorf("%s: the command %q of a residue failed: %v", c, r.Command, err)
			}
		}
	}
	left := 0
	if c.rival() {
		left = len(created.Left)
	}
	c.wantBefore(t, left, "residues removed by their commands; before: "+err.Error())
}

func (c *sweepCase) isThere(w world, r tx.Residue) bool {
	if r.Kind == "guest" {
		_, ok := w.guest(c.sc.vmid)
		return ok
	}
	storage, name, _ := strings.Cut(r.ID, ":")
	return slices.ContainsFunc(w.Volumes, func(v state.Volume) bool { return v.Storage == storage && v.Name == name && v.Node == r.Node })
}

// residueRule permits a leftover: who, after which fault, and why nobody could do better.
type residueRule struct {
	identities []string
	phase      fault.Phase
	op         string // suffix of the operation; "" = any
	reason     string
}

// permittedResidues is the table. The root ticket and the token with SSH stand in it only where the SSH or the storage
// itself is what failed.
func permittedResidues() []residueRule {
	unlockless := []string{"token without SSH", "token without Datastore.Allocate"}
	return []residueRule{
		{unlockless, fault.KillTask, "", "a dead worker's lock can only be taken away by root@pam with a password or on the node"},
		{[]string{"token without Datastore.Allocate"}, fault.Rival, "POST /nodes/{node}/qemu",
			"a stranger took the id before the undo could hold it, so the volumes can only be removed by themselves, which takes Datastore.Allocate"},
	}
}

func (c *sweepCase) permitted() bool {
	return slices.ContainsFunc(permittedResidues(), func(r residueRule) bool {
		return slices.Contains(r.identities, c.who.name) && strings.HasSuffix(c.op, r.op) &&
			slices.ContainsFunc(c.faults, func(f fault.Rule) bool { return f.Phase == r.phase })
	})
}
