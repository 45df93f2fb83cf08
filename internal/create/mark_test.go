package create

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// marked puts a complete VM into the cluster whose description is the mark of a create that is over: 900, with the
// name web and a disk.
func marked(t *testing.T, b bench, also func(g *state.Guest)) {
	t.Helper()
	mark := guest.NewMark("pve1,pve2", 900, b.sim.World().Clock.Now().Add(-time.Hour))
	w := b.sim.World()
	w.Lock()
	defer w.Unlock()
	w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-900-disk-0", VMID: 900, Content: "images",
		Format: "raw", Size: 1 << 30, Data: "theirs"})
	g := &state.Guest{VMID: 900, Type: "qemu", Node: "pve1",
		Config: map[string]string{"name": "web", "memory": "512", "description": mark.String(),
			"scsi0": "local-zfs:vm-900-disk-0,size=1G", "smbios1": "uuid=11111111-2222-3333-4444-000000000900",
			"meta": "creation-qemu=9.2.0,ctime=1"}}
	also(g)
	w.Guests[900] = g
}

// TestMarkAloneIsNoProof: a VM that was restored or rolled back bears the mark again, and no create takes it away for
// that, under its name or under its id.
func TestMarkAloneIsNoProof(t *testing.T) {
	name, size := "web", int64(1<<30)
	for what, also := range map[string]func(g *state.Guest){
		"restored": func(*state.Guest) {}, // no task is known that has made it
		"rolled back": func(g *state.Guest) {
			g.Config["parent"] = "before"
			g.Snaps = map[string]map[string]string{"before": {"scsi0": g.Config["scsi0"], "snaptime": "1"}}
		},
		"at work": func(g *state.Guest) {
			g.Running = &state.Running{QMPStatus: "running", PID: 4711, StartedAt: time.Unix(1, 0),
				Booted: map[string]string{"scsi0": g.Config["scsi0"]}}
		},
	} {
		for _, vmid := range []int{0, 900} {
			b := newBench(t, ticket)
			marked(t, b, also)
			r := Request{Node: "pve1", VMID: vmid, Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "local-zfs",
				Size: &size}}}}
			r.Spec.Name = &name
			created, err := b.Create(t.Context(), r)
			said := ""
			if err != nil {
				said = err.Error()
			}
			for _, w := range created.Warnings {
				said += w.Summary + w.Detail
			}
			if !strings.Contains(said, "was not touched") || (err != nil) != (vmid != 0) {
				t.Errorf("%s, vmid %d: %v, %s", what, vmid, err, said)
			}
			if b.vms()[900]["name"] != "web" || len(b.sim.PowerOffs()) > 0 {
				t.Errorf("%s, vmid %d: VM 900 was taken away, or switched off", what, vmid)
			}
		}
	}
}

// TestRollbackToASnapshotIsSeen: who rolls a VM back and deletes the snapshot leaves no trace of it but
// the task.
func TestRollbackToASnapshotIsSeen(t *testing.T) {
	name, size := "web", int64(1<<30)
	for _, vmid := range []int{0, 900} {
		b := newBench(t, ticket)
		marked(t, b, func(*state.Guest) {})
		b.change(func(w *state.World) {
			for typ, ago := range map[string]time.Duration{"qmcreate": 2 * time.Hour, "qmsnapshot": 119 * time.Minute,
				"qmrollback": 2 * time.Minute, "qmdelsnapshot": time.Minute} {
				at := w.Clock.Now().Add(-ago)
				upid := fmt.Sprintf("UPID:pve1:00001000:00002000:%08X:%s:900:other@pve:", at.Unix(), typ)
				w.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: typ, ID: "900", User: "other@pve", Start: at,
					End: at, ExitStatus: "OK"}
			}
		})
		r := Request{Node: "pve1", VMID: vmid, Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "local-zfs",
			Size: &size}}}}
		r.Spec.Name = &name
		created, err := b.Create(t.Context(), r)
		said := fmt.Sprint(err, created.Warnings)
		if !strings.Contains(said, "task qmrollback of other@pve") || !strings.Contains(said, "was not touched") ||
			(err != nil) != (vmid != 0) {
			t.Errorf("vmid %d: %s", vmid, said)
		}
		if b.vms()[900]["name"] != "web" || len(b.sim.PowerOffs()) > 0 {
			t.Errorf("vmid %d: VM 900 was taken away, or switched off", vmid)
		}
	}
}
