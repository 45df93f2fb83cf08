package orphan

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// rig is a simulated cluster of two nodes with a Finder for one identity on it.
type rig struct {
	t   *testing.T
	sim *pvesim.Sim
	api *pve.Client
	s   *Finder
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigOf(t, pvesim.Options{})
}

// newRigOf is newRig with options of the cluster.
func newRigOf(t *testing.T, o pvesim.Options) *rig {
	t.Helper()
	o.Nodes = []string{"pve1", "pve2"}
	sim, err := pvesim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	r := &rig{t: t, sim: sim}
	r.as(sim.Credentials().Token)
	return r
}

// as makes the Finder of an identity, in a process of its own.
func (r *rig) as(token string) {
	r.t.Helper()
	here := clock.Client{Cluster: r.sim.World().Clock}
	api, err := pve.New(pve.Config{Endpoint: r.sim.Endpoint(), CACertificate: r.sim.CAPEM(), DialTLSContext: r.sim.DialTLSContext, Clock: here,
		APIToken: token})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(api.Close)
	jobs := request.New(api, here)
	r.api, r.s = api, New(jobs, guest.New(jobs))
}

// change alters the cluster behind everybody's back.
func (r *rig) change(f func(*state.World)) {
	w := r.sim.World()
	w.Lock()
	defer w.Unlock()
	f(w)
}

// without takes privileges from the token.
func (r *rig) without(privileges ...string) {
	r.change(func(w *state.World) {
		for name, held := range w.Roles {
			if name != "Administrator" {
				w.Roles[name] = slices.DeleteFunc(slices.Clone(held), func(p string) bool { return slices.Contains(privileges, p) })
			}
		}
	})
}

// volume puts a volume of 1 GiB into the cluster, made long ago.
func (r *rig) volume(storage, name string, vmid int) string {
	v := &state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: vmid, Content: "images", Format: "raw", Size: 1 << 30}
	r.change(func(w *state.World) {
		if w.Storages[storage].Shared {
			v.Node = ""
		}
		w.Put(v)
		v.Created = w.Clock.Now().Add(-48 * time.Hour)
	})
	return storage + ":" + name
}

// vm puts a complete VM with a disk on local-zfs into the cluster, and some options.
func (r *rig) vm(vmid int, options map[string]string) {
	volume := r.volume("local-zfs", fmt.Sprintf("vm-%d-disk-0", vmid), vmid)
	r.change(func(w *state.World) {
		g := &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1", Config: map[string]string{"name": fmt.Sprintf("vm%d", vmid), "memory": "512",
			"scsi0": volume + ",size=1G", "smbios1": fmt.Sprintf("uuid=11111111-2222-3333-4444-%012d", vmid), "meta": "creation-qemu=9.2.0,ctime=1"}}
		for option, value := range options {
			g.Config[option] = value
		}
		if g.Config["lock"] != "" {
			g.LockCause = "state"
		}
		w.Guests[vmid] = g
	})
}

// make has PVE make a VM.
func (r *rig) make(p pve.Params) {
	r.t.Helper()
	upid, err := r.api.Node("pve1").CreateVM(r.t.Context(), p)
	r.ended(upid, err)
}

// sets changes VM 300 by a task, as a create does that adds disks.
func (r *rig) sets(p pve.Params) {
	r.t.Helper()
	upid, err := r.api.QEMU("pve1", 300).UpdateConfigTask(r.t.Context(), p)
	r.ended(upid, err)
}

// ended awaits a task.
func (r *rig) ended(upid pve.UPID, err error) {
	r.t.Helper()
	if err == nil {
		_, err = r.api.Tasks().Wait(r.t.Context(), upid)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// find looks, and wants nothing to have been written.
func (r *rig) find(options ...Options) Report {
	r.t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	r.sim.ResetOps()
	before := string(r.sim.Snapshot())
	report, err := r.s.Find(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, op := range r.sim.Ops() {
		if op.Method != http.MethodGet {
			r.t.Errorf("a look has sent %s %s", op.Method, op.Path)
		}
	}
	if string(r.sim.Snapshot()) != before {
		r.t.Error("a look has changed the cluster")
	}
	for _, i := range report.Items {
		if (i.Command == "") != (i.Certainty == Unknown) && i.Kind != PoolMember && !strings.Contains(i.Reason, shell.ByHand) {
			r.t.Errorf("%s %s is %s and has the command %q", i.Kind, i.ID, i.Certainty, i.Command)
		}
	}
	return report
}

// line is an item in short: what it is, how sure that is, and the command.
func line(i Item) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", i.Kind, i.ID, i.Certainty, i.Command))
}

// mustFind compares a report in short.
func (r *rig) mustFind(what string, report Report, want ...string) {
	r.t.Helper()
	var got []string
	for _, i := range report.Items {
		got = append(got, line(r.seen(i)))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: found\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// seen drops the look for the VM's uuid, with which the command of each destroy has to begin.
func (r *rig) seen(i Item) Item {
	r.t.Helper()
	uuid := ""
	r.change(func(w *state.World) {
		if g := w.Guests[i.VMID]; g != nil {
			uuid = vm.UUID(g.Config)
		}
	})
	looks := uuid != "" && strings.Contains(i.Command, "qm destroy")
	if looks && !strings.HasPrefix(i.Command, shell.IfMarked(uuid, i.Node, i.VMID)+" && ") {
		r.t.Errorf("%s %s: %q does not look for the uuid %s first", i.Kind, i.ID, i.Command, uuid)
	}
	if looks {
		_, i.Command, _ = strings.Cut(i.Command, " && ")
	}
	return i
}

// mustMiss wants each text in one of the things that could not be looked at, and no other such thing.
func (r *rig) mustMiss(what string, report Report, texts ...string) {
	r.t.Helper()
	if len(report.Unchecked) != len(texts) {
		r.t.Errorf("%s: unchecked are %q, want %q", what, report.Unchecked, texts)
		return
	}
	for _, text := range texts {
		if !slices.ContainsFunc(report.Unchecked, func(u string) bool { return strings.Contains(u, text) }) {
			r.t.Errorf("%s: %q is not among what is unchecked: %q", what, text, report.Unchecked)
		}
	}
}

// later lets time pass.
func (r *rig) later(d time.Duration) { r.sim.Advance(d) }
