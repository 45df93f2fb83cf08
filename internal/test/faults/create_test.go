package faults_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// sweepScenarios are the creates that are swept. HA is the cluster's, and only root may change it: the documented role has no
// Sys.Console.
func sweepScenarios(who engine.FaultIdentity) []engine.Scenario {
	var ha *guest.HA
	if who.Ticket {
		ha = &guest.HA{State: rig.Pointer("started"), MaxRestart: rig.Pointer(int64(2))}
	}
	wall := &firewall.Settings{Enabled: rig.Pointer(true), Rules: []firewall.Rule{
		{Type: rig.Pointer("in"), Action: rig.Pointer("ACCEPT"), Macro: rig.Pointer("SSH")}, {Type: rig.Pointer("in"), Action: rig.Pointer("DROP")}}}
	cloudInit := vm.CloudInit{Slot: "ide2", Storage: "local-zfs", CloudInitOptions: vm.CloudInitOptions{User: rig.Pointer("ops"),
		Addresses: map[string]vm.Address{"net0": {IPv4: rig.Pointer("10.0.0.5/24"), Gateway4: rig.Pointer("10.0.0.1")}}}}
	return []engine.Scenario{
		{Name: "from scratch", VMID: 101, Request: create.Request{Node: "pve1", Start: true, Pool: "web", HA: ha, Firewall: wall, Spec: vm.Spec{
			Options: vm.Options{Name: rig.Pointer("web-1"), Description: rig.Pointer("web server"), Protection: rig.Pointer(true), BIOS: rig.Pointer("ovmf"), Machine: rig.Pointer("q35"),
				SCSIHW: rig.Pointer("virtio-scsi-single")},
			Disks: map[string]vm.Disk{
				"scsi0": {Storage: "local-zfs", Size: rig.Pointer(int64(4 << 30)), DiskOptions: vm.DiskOptions{Discard: rig.Pointer(true)}},
				"scsi1": {Storage: "local-lvm", Size: rig.Pointer(int64(2 << 30))},
				"scsi2": {Storage: "local2", Size: rig.Pointer(int64(3 << 30)), ImportFrom: rig.Pointer("local:import/disk.qcow2")},
			},
			EFIDisk:   &vm.EFIDisk{Storage: "local-zfs", EFIOptions: vm.EFIOptions{Type: rig.Pointer("4m"), PreEnrolledKeys: rig.Pointer(true)}},
			Networks:  map[string]vm.NIC{"net0": {Model: "virtio", NICOptions: vm.NICOptions{Bridge: rig.Pointer("vmbr0")}}},
			CloudInit: cloudInit,
		}}},
		{Name: "linked clone", VMID: 200, Request: create.Request{VMID: 200, Start: true, Pool: "web",
			Clone: &guest.Clone{Name: "template"}, Spec: vm.Spec{
				Options: vm.Options{Name: rig.Pointer("web-2"), OnBoot: rig.Pointer(false), Protection: rig.Pointer(false)}, CPU: vm.CPU{Cores: rig.Pointer(int64(4))}, Disks: map[string]vm.Disk{"scsi0": {Size: rig.Pointer(int64(8 << 30)), DiskOptions: vm.DiskOptions{Discard: rig.Pointer(true)}}, "scsi1": {Storage: "local-lvm", Size: rig.Pointer(int64(1 << 30))}},
				CloudInit: vm.CloudInit{CloudInitOptions: vm.CloudInitOptions{User: rig.Pointer("ops"), Addresses: cloudInit.Addresses}},
			}}},
		{Name: "full clone", VMID: 200, Request: create.Request{VMID: 200, Start: true,
			Clone: &guest.Clone{VMID: 9000, Full: rig.Pointer(true), Storage: "local-lvm"}, Spec: vm.Spec{
				Options: vm.Options{Name: rig.Pointer("web-3")}, Disks: map[string]vm.Disk{"scsi0": {Size: rig.Pointer(int64(8 << 30))}},
			}}},
	}
}

const (
	complete   engine.Outcome = "complete"
	rolledBack engine.Outcome = "rolled back"
	leftover   engine.Outcome = "leftover"
)

// tally counts the effective cases by phase, identity and outcome.
type tally map[string]map[engine.Outcome]int

func (n tally) add(cell string, o engine.Outcome) {
	if n[cell] == nil {
		n[cell] = map[engine.Outcome]int{}
	}
	n[cell][o]++
}

func (n tally) print(t *testing.T, title string) int {
	total := 0
	t.Logf("%s: %-60s %11s %11s %8s", title, "", rolledBack, complete, leftover)
	for _, cell := range slices.Sorted(maps.Keys(n)) {
		t.Logf("  %-60s %11d %11d %8d", cell, n[cell][rolledBack], n[cell][complete], n[cell][leftover])
		total += n[cell][rolledBack] + n[cell][complete] + n[cell][leftover]
	}
	t.Logf("%s: %d effective cases", title, total)
	return total
}

// eachIdentity sweeps with every identity, each on a cluster of its own, several at once, and adds up their counts.
func eachIdentity(t *testing.T, title string, want int, scenarios func(engine.FaultIdentity) []engine.Scenario, sweep func(t *testing.T, b *engine.CreateBench, who engine.FaultIdentity, sc engine.Scenario, counts tally)) {
	t.Helper()
	all := make(chan tally, len(engine.FaultIdentities()))
	t.Run("identities", func(t *testing.T) {
		for _, who := range engine.FaultIdentities() {
			t.Run(who.Name, func(t *testing.T) {
				t.Parallel()
				counts, b := tally{}, engine.NewCreateBench(t, who)
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
	if total, want := sum.print(t, title), engine.Enough(want); total < want {
		t.Errorf("only %d effective cases, want at least %d", total, want)
	}
}

// TestSweepCreate fails every operation of every create in every way, for every identity; `make test` a share, each
// with another identity.
func TestSweepCreate(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "creates", 300, sweepScenarios, sweepCreate)
}

func sweepCreate(t *testing.T, b *engine.CreateBench, who engine.FaultIdentity, sc engine.Scenario, counts tally) {
	at := 0
	for op, phase := range engine.Cells(b.CleanRun(sc), engine.InPhases(engine.FaultPhases...)) {
		if at++; engine.IsDrawn(at, who.Number()) {
			counts.play(t, b, who, sc, fmt.Sprintf("%-32s %s", who.Name, phase), op, engine.FaultAt(op, phase))
		}
	}
}

// sweep fails the operations of a create in every way, and counts the effective cases by cell.
func (n tally) sweep(t *testing.T, b *engine.CreateBench, who engine.FaultIdentity, sc engine.Scenario, ops []pvesim.Op, cell func(pvesim.Op, fault.Phase) string) {
	for op, phase := range engine.Cells(ops, engine.InPhases(engine.FaultPhases...)) {
		n.play(t, b, who, sc, cell(op, phase), op, engine.FaultAt(op, phase))
	}
}

// play fails a create, and its undo if there is a second fault. It counts the case if it is effective, and gives its outcome.
func (n tally) play(t *testing.T, b *engine.CreateBench, who engine.FaultIdentity, sc engine.Scenario, cell string, op pvesim.Op, faults ...fault.Rule) engine.Outcome {
	c := &sweepCase{CreateBench: b, who: who, sc: sc, faults: faults, op: engine.OpName(op)}
	o, effective := c.run(t)
	if effective {
		n.add(cell, o)
	}
	return o
}

// TestSweepUndo fails every operation of the undo as well. The create is made to fail where the most is to be undone: at
// the start, at the commit, and by a killed worker. `make test` plays a share.
func TestSweepUndo(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "undos", 100, sweepScenarios, sweepUndo)
}

func sweepUndo(t *testing.T, b *engine.CreateBench, who engine.FaultIdentity, sc engine.Scenario, counts tally) {
	n := 0
	for _, first := range b.Triggers(b.CleanRun(sc)) {
		for op, phase := range engine.Cells(b.UndoOf(sc, first), engine.InPhases(engine.FaultPhases...)) {
			if n++; engine.IsOneIn(20, n, who.Number()) {
				counts.play(t, b, who, sc, fmt.Sprintf("%-32s %s", who.Name, phase), op, first, engine.FaultAt(op, phase))
			}
		}
	}
}

// sweepCase is one create with one or two faults.
type sweepCase struct {
	*engine.CreateBench
	who    engine.FaultIdentity
	sc     engine.Scenario
	faults []fault.Rule
	op     string // the operation of the last fault
}

func (c *sweepCase) String() string {
	text := fmt.Sprintf("%s, %s", c.who.Name, c.sc.Name)
	for _, f := range c.faults {
		text += fmt.Sprintf(", %s at #%d", f.Phase, f.Match.Seq)
	}
	return text + " (" + c.op + ")"
}

// run plays a case. It is not effective when a fault of it did not fire, or changed nothing.
func (c *sweepCase) run(t *testing.T) (engine.Outcome, bool) {
	t.Helper()
	c.Reset()
	c.Sim.SetFaults(c.faults)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	created, err := c.Service.Create(ctx, c.sc.Request)
	effective := c.Sim.FaultsFired() == len(c.faults)
	c.Sim.SetFaults(nil)
	if !effective {
		return "", false
	}
	if err == nil {
		if text := c.Incomplete(c.sc); text != "" {
			t.Errorf("%s: %s", c, text)
		}
		return complete, true
	}
	if len(created.Left) == 0 {
		if created.Guest.VMID != 0 || !saga.RolledBack(err) && isRun(err) {
			t.Errorf("%s: nothing is named as left, and yet a guest is returned (%d) or an undo failed: %v", c, created.Guest.VMID, err)
		}
		c.wantBefore(t, 0, "rolled back: "+err.Error())
		return rolledBack, true
	}
	c.checkLeftovers(t, created, err)
	return leftover, true
}

func isRun(err error) bool {
	var failed *saga.Error
	return errors.As(err, &failed)
}

// rival reports whether a third party took the id.
func (c *sweepCase) rival() bool {
	return slices.ContainsFunc(c.faults, func(f fault.Rule) bool { return f.Phase == fault.Rival })
}

// wantBefore compares the world with the one before the create. Where a rival took the id, it must be there, untouched, and left
// volumes of ours beside its one.
func (c *sweepCase) wantBefore(t *testing.T, left int, why string) {
	t.Helper()
	before, after := c.Content(c.Base), c.Content(c.Sim.Snapshot())
	if c.rival() {
		rival, ok := after.Guest(c.sc.VMID)
		if !ok || rival.Config["name"] != "rival" {
			t.Errorf("%s: the rival's VM is gone or changed: %v (%s)", c, rival.Config, why)
			return
		}
		if n := c.rivalVolumes(after, rival); n != 1+left {
			t.Errorf("%s: %d volumes carry the rival's id, want one of the rival's and %d of ours (%s)", c, n, left, why)
		}
		after = after.Without(c.sc.VMID, rival.Node)
	}
	if diff := engine.ContentDiff(before, after); diff != "" {
		t.Errorf("%s: the world is not as before (-before +after):\n%s\n%s", c, diff, why)
	}
}

// rivalVolumes counts the volumes of the id, and makes sure that the rival's still holds its data.
func (c *sweepCase) rivalVolumes(after engine.Content, rival state.Guest) int {
	of := after.VolumesOf(c.sc.VMID, rival.Node)
	if !slices.ContainsFunc(of, func(v state.Volume) bool {
		return strings.HasPrefix(rival.Config["scsi0"], v.Storage+":"+v.Name) && v.Data == "the third party's data"
	}) {
		return -1
	}
	return len(of)
}

// checkLeftovers holds what is left against the table of what may be left, looks that it is named and really there, and
// runs the commands. Where a rival has the id they destroy nothing: a volume of that name may be the rival's by the time they are run.
func (c *sweepCase) checkLeftovers(t *testing.T, created create.Created, err error) {
	t.Helper()
	if created.Guest.VMID != c.sc.VMID {
		t.Errorf("%s: leftovers, but the guest for state has id %d", c, created.Guest.VMID)
	}
	if !c.permitted() {
		t.Errorf("%s: left %v, which no rule permits: %v", c, created.Left, err)
	}
	after := c.Sim.Snapshot()
	for _, r := range created.Left {
		if r.Command == "" && r.Reason == fmt.Sprintf("it goes with VM %d", c.sc.VMID) && created.Left[0].Kind == "guest" {
			continue // by that one's command
		}
		if !strings.Contains(err.Error(), r.What) || r.Command == "" || r.Reason == "" {
			t.Errorf("%s: leftover %+v is not named with reason and command in: %v", c, r, err)
		}
		if !c.isThere(c.Content(after), r) {
			t.Errorf("%s: leftover %+v is not there", c, r)
		}
		for _, command := range strings.Split(r.Command, " && ") {
			if words := strings.Fields(command); words[0] == "grep" { // of the simulator reads no files
				vmid, _ := strconv.Atoi(r.ID)
				if g := c.Sim.World().Guests[vmid]; g == nil || !strings.Contains(g.Text(), words[3]) ||
					words[4] != fmt.Sprintf("/etc/pve/nodes/%s/qemu-server/%s.conf", r.Node, r.ID) {
					t.Errorf("%s: the command %q finds no mark", c, r.Command)
				}
				continue
			}
			if _, err := c.Root.Run(t.Context(), r.Node, strings.Fields(command)...); err != nil {
				t.Errorf("%s: the command %q of a leftover failed: %v", c, r.Command, err)
			}
		}
	}
	left := 0
	if c.rival() {
		left = len(created.Left)
	}
	c.wantBefore(t, left, "leftovers removed by their commands; before: "+err.Error())
}

func (c *sweepCase) isThere(w engine.Content, r saga.Residue) bool {
	if r.Kind == "guest" {
		_, ok := w.Guest(c.sc.VMID)
		return ok
	}
	storage, name, _ := strings.Cut(r.ID, ":")
	return slices.ContainsFunc(w.Volumes, func(v state.Volume) bool { return v.Storage == storage && v.Name == name && v.Node == r.Node })
}

// leftoverRule permits a leftover: the identity, the fault, and why no undo could do better.
type leftoverRule struct {
	identities []string
	phase      fault.Phase
	op         string // suffix of the operation; "" = any
	reason     string
}

// permittedLeftovers is the table. The root ticket and the token with SSH stand in it only where the SSH or the storage
// itself is what failed.
func permittedLeftovers() []leftoverRule {
	unlockless := []string{"token without SSH", "token without Datastore.Allocate"}
	return []leftoverRule{
		{unlockless, fault.KillTask, "", "a dead worker's lock can only be taken away by root@pam with a password or on the node"},
		{[]string{"token without Datastore.Allocate"}, fault.Rival, "POST /nodes/{node}/qemu",
			"a third party took the id before the undo could hold it, so the volumes can only be removed by themselves, which takes Datastore.Allocate"},
	}
}

func (c *sweepCase) permitted() bool {
	return slices.ContainsFunc(permittedLeftovers(), func(r leftoverRule) bool {
		return slices.Contains(r.identities, c.who.Name) && strings.HasSuffix(c.op, r.op) &&
			slices.ContainsFunc(c.faults, func(f fault.Rule) bool { return f.Phase == r.phase })
	})
}
