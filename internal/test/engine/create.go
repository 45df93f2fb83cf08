package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/service"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// Now is the cluster's time.
func (b *CreateBench) Now() time.Time { return b.Sim.World().Clock.Now() }

// Lines keeps the service's messages while it waits: its retries, not its steps.
func (b *CreateBench) Lines() *[]string {
	var lines []string
	b.Service.Log = func(_ context.Context, message string, fields map[string]string) {
		if fields["try"] != "" {
			lines = append(lines, message)
		}
	}
	return &lines
}

// Sent counts the requests of a method whose template ends so.
func (b *CreateBench) Sent(method, end string) int {
	n := 0
	for _, op := range b.Sim.Ops() {
		if op.Method == method && strings.HasSuffix(op.Path, end) {
			n++
		}
	}
	return n
}

// MustNotTouch looks that nothing was asked of a VM but to be read and cloned.
func (b *CreateBench) MustNotTouch(t *testing.T, vmid int) {
	t.Helper()
	for _, op := range b.Sim.Ops() {
		if op.Params["vmid"] == fmt.Sprint(vmid) && op.Method != http.MethodGet && !strings.HasSuffix(op.Path, "/clone") {
			t.Errorf("VM %d: %s %s %v", vmid, op.Method, op.Path, op.Params)
		}
	}
}

// Scenario is a create to be swept.
type Scenario struct {
	Name    string
	VMID    int // the id it gets
	Request create.Request
}

// Node is that of the VM: that of its template, unless another one is configured.
func (sc Scenario) Node() string { return cmp.Or(sc.Request.Node, "pve1") }

// Triggers are the faults that begin an undo.
func (b *CreateBench) Triggers(ops []pvesim.Op) []fault.Rule {
	var rules []fault.Rule
	for _, op := range ops {
		switch {
		case op.Method == http.MethodPost && (op.Path == "/nodes/{node}/qemu" || strings.HasSuffix(op.Path, "/clone")):
			rules = append(rules, fault.Rule{Match: fault.Match{Seq: op.Seq}, Phase: fault.KillTask},
				fault.Rule{Match: fault.Match{Seq: op.Seq}, Phase: fault.Partial})
		case strings.HasSuffix(op.Path, "/status/start"), strings.HasSuffix(op.Path, "/template") && op.Method == http.MethodPost:
			rules = append(rules, fault.Rule{Match: fault.Match{Seq: op.Seq}, Phase: fault.Task})
		}
	}
	last := ops[len(ops)-1]
	for _, op := range ops {
		if op.Method == http.MethodPut && strings.HasSuffix(op.Path, "/config") {
			last = op
		}
	}
	return append(rules, fault.Rule{Match: fault.Match{Seq: last.Seq}, Phase: fault.Before, Status: http.StatusBadRequest})
}

// UndoOf is what an undo asks of the server after its first fault; nil if that has hit another request than it was meant for, and the
// create has gone well: those that are sent at the same time come in any order.
func (b *CreateBench) UndoOf(sc Scenario, first fault.Rule) []pvesim.Op {
	b.Reset()
	b.Sim.SetFaults([]fault.Rule{first})
	if _, err := b.Service.Create(b.t.Context(), sc.Request); err == nil {
		return nil
	}
	return slices.DeleteFunc(b.Operations(), func(op pvesim.Op) bool { return op.Seq <= first.Match.Seq })
}

// CleanRun creates without faults, checks that nothing else changed, and returns the operations it took.
func (b *CreateBench) CleanRun(sc Scenario) []pvesim.Op {
	b.t.Helper()
	b.Reset()
	created, err := b.Service.Create(b.t.Context(), sc.Request)
	if err != nil {
		b.t.Fatalf("%s: a create without faults failed: %v", sc.Name, err)
	}
	ops := b.Operations()
	if created.Guest.VMID != sc.VMID {
		b.t.Fatalf("%s: got id %d, want %d", sc.Name, created.Guest.VMID, sc.VMID)
	}
	if text := b.Incomplete(sc); text != "" {
		b.t.Fatalf("%s: %s", sc.Name, text)
	}
	return ops
}

// Incomplete describes the first defect of the world after a create that reports success; "" if there is none.
func (b *CreateBench) Incomplete(sc Scenario) string {
	before, after := b.Content(b.Base), b.Content(b.Sim.Snapshot())
	guest, ok := after.Guest(sc.VMID)
	if !ok {
		return "success, and no VM"
	}
	if diff := ContentDiff(before, after.Without(sc.VMID, sc.Node())); diff != "" {
		return "success, and something else changed (-before +after):\n" + diff
	}
	want := "golden image"
	if d := sc.Request.Spec.Description; d != nil {
		want = *d
	}
	switch {
	case guest.Config["lock"] != "":
		return "success, and the VM is locked"
	case guest.Config["description"] != want:
		return fmt.Sprintf("description is %q, want %q", guest.Config["description"], want)
	case (guest.Running != nil) != sc.Request.Start:
		return fmt.Sprintf("success, and that the VM runs is %t", guest.Running != nil)
	case guest.Node != sc.Node():
		return "success, and the VM is on " + guest.Node
	case (guest.Config["template"] == "1") != (sc.Request.Spec.Template != nil && *sc.Request.Spec.Template):
		return "wrong template"
	case guest.Config["name"] != *sc.Request.Spec.Name:
		return "wrong name"
	}
	if text := after.lacksBeside(sc); text != "" {
		return text
	}
	if text := lacksDisk(guest.Config, sc); text != "" {
		return text
	}
	if p := sc.Request.Spec.Protection; p != nil && (guest.Config["protection"] == "1") != *p {
		return "wrong protection"
	}
	owned := after.VolumesOf(sc.VMID, sc.Node())
	for _, v := range owned {
		if !slices.ContainsFunc(slices.Collect(maps.Values(guest.Config)), func(value string) bool {
			return strings.HasPrefix(value, v.Storage+":"+v.Name)
		}) {
			return fmt.Sprintf("volume %s:%s is in no slot", v.Storage, v.Name)
		}
	}
	if len(owned) == 0 {
		return "no volumes"
	}
	return ""
}

// lacksDisk describes a configured disk that is elsewhere or of another size; "" if there is none.
func lacksDisk(config map[string]string, sc Scenario) string {
	for slot, disk := range sc.Request.Spec.Disks {
		if !strings.HasPrefix(config[slot], cmp.Or(disk.Storage, "local")) {
			return fmt.Sprintf("%s is %q, want it on %s", slot, config[slot], disk.Storage)
		}
		if disk.Size != nil && !strings.Contains(config[slot]+",", ",size="+property.FormatSize(*disk.Size)+",") {
			return fmt.Sprintf("%s is %q, want %s", slot, config[slot], property.FormatSize(*disk.Size))
		}
	}
	return ""
}

// Begin changes the world that every case begins with.
func (b *CreateBench) Begin(change func(*state.World)) {
	if b.Base != nil {
		b.Reset()
	}
	w := b.Sim.World()
	w.Lock()
	change(w)
	w.Unlock()
	b.Base = b.Sim.Snapshot()
}

// FaultIdentity is who creates, and whether it has SSH to the node.
type FaultIdentity struct {
	Name   string
	auth   func(*pve.Config, pvesim.Credentials)
	SSH    bool
	Ticket bool
}

// FaultIdentities returns the identities for which creates are swept.
func FaultIdentities() []FaultIdentity {
	token := func(c *pve.Config, cred pvesim.Credentials) { c.APIToken = cred.Token }
	return []FaultIdentity{
		{Name: "root ticket", Ticket: true, auth: func(c *pve.Config, cred pvesim.Credentials) {
			c.Username, c.Password = cred.RootUsername, cred.RootPassword
		}},
		{Name: "token with SSH", auth: token, SSH: true},
		{Name: "token without SSH", auth: token},
		{Name: "token without Datastore.Allocate", auth: func(c *pve.Config, cred pvesim.Credentials) { c.APIToken = cred.TokenNoAllocate }},
	}
}

// Number is the identity's place among those of the sweeps.
func (f FaultIdentity) Number() int {
	return slices.IndexFunc(FaultIdentities(), func(o FaultIdentity) bool { return o.Name == f.Name })
}

// CreateBench is a simulated cluster with third parties in it, and a service for one identity on it.
type CreateBench struct {
	t       *testing.T
	Sim     *pvesim.Sim
	Base    []byte // the world every case begins with
	Service *service.Service
	Root    *ssh.Shell // the operator's access: root on every node
	client  *pve.Client
	config  pve.Config
	ssh     service.Shell      // the identity's access beside its API
	Also    func(*state.World) // what every case begins with besides, that a snapshot does not keep
}

// NewCreateBench makes a cluster in which orphan volumes of other ids and of the ids that the cases use stand about.
func NewCreateBench(t *testing.T, who FaultIdentity) *CreateBench {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	if err != nil {
		t.Fatal(err)
	}
	b := &CreateBench{t: t, Sim: sim}
	t.Cleanup(sim.Close)
	b.Root = b.shell()
	b.populate()
	b.config = pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext, Clock: clock.Client{Cluster: sim.World().Clock}}
	who.auth(&b.config, sim.Credentials())
	if who.SSH {
		b.ssh = b.shell()
	}
	b.connect()
	t.Cleanup(func() { b.client.Close() })
	return b
}

// connect makes the client and the service of a new process, so that every run makes the same requests: it asks again what a
// process asks once, and has logged in.
func (b *CreateBench) connect() {
	b.t.Helper()
	if b.client != nil {
		b.client.Close()
	}
	var err error
	if b.client, err = pve.New(b.config); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.client.Cluster().Resources(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.Service = service.New(b.client, b.ssh, b.config.Clock)
}

func (b *CreateBench) shell() *ssh.Shell { return Operator(b.t, b.Sim) }

// populate adds objects that no guest here owns: orphans of id 100, which an automatic create therefore must pass over, and
// of the ids 101 and 200 on the other node.
func (b *CreateBench) populate() { b.Begin(addStrangers) }

func addStrangers(w *state.World) {
	for _, v := range []state.Volume{
		{Storage: "local-zfs", Node: "pve1", Name: "vm-100-disk-3", VMID: 100},
		{Storage: "local-zfs", Node: "pve1", Name: "vm-777-disk-0", VMID: 777},
		{Storage: "local-lvm", Node: "pve1", Name: "vm-778-disk-0", VMID: 778},
		{Storage: "local-zfs", Node: "pve2", Name: "vm-101-disk-0", VMID: 101},
		{Storage: "local-lvm", Node: "pve2", Name: "vm-101-cloudinit", VMID: 101},
		{Storage: "local-zfs", Node: "pve2", Name: "vm-200-disk-0", VMID: 200},
	} {
		v.Content, v.Format, v.Size, v.Data = "images", "raw", 1<<30, "a third party's data in "+v.Name
		w.Put(&v)
	}
	w.AddBackup("pve1")
	w.Firewall[8000] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
	w.Firewall[9000] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
	w.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored", Options: map[string]string{"comment": "a third party's"}}
}

// Reset puts the world back and forgets faults and operations.
func (b *CreateBench) Reset() {
	b.Sim.SetFaults(nil)
	if err := b.Sim.Load(b.Base); err != nil {
		b.t.Fatal(err)
	}
	if b.Also != nil {
		w := b.Sim.World()
		w.Lock()
		b.Also(w)
		w.Unlock()
	}
	b.connect()
	b.Sim.ResetOps()
}

// lacksBeside describes a defect of a VM's firewall or HA entry; "" if there is none.
func (w Content) lacksBeside(sc Scenario) string {
	entry := slices.IndexFunc(w.HA, func(h haEntry) bool { return h.SID == "vm:"+strconv.Itoa(sc.VMID) })
	if want := sc.Request.HA; (want != nil) != (entry >= 0) || want != nil && w.HA[entry].State != *want.State {
		return fmt.Sprintf("HA is %+v", w.HA)
	}
	if want := sc.Request.Firewall; want != nil {
		file := slices.IndexFunc(w.Firewall, func(f fireFile) bool { return f.VMID == sc.VMID })
		if file < 0 || w.Firewall[file].Options["enable"] != "1" || len(w.Firewall[file].Rules) != len(want.Rules) || w.Firewall[file].Rules[0]["macro"] != "SSH" {
			return fmt.Sprintf("the firewall is %+v", w.Firewall)
		}
	}
	return ""
}

// Operations are the requests and commands since the reset, but for logins and task polls, which every run may need a
// different number of.
func (b *CreateBench) Operations() []pvesim.Op {
	return slices.DeleteFunc(slices.Clone(b.Sim.Ops()), func(op pvesim.Op) bool {
		return op.Path == "/access/ticket" || strings.HasPrefix(op.Path, "/nodes/{node}/tasks/{upid}")
	})
}
