package create

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// rootAway is root on a node that does not answer.
type rootAway struct{}

func (rootAway) SetVM(context.Context, string, int, map[string]string, string) (string, error) {
	return "", errors.New("the node does not answer")
}

// TestDiskInASlotThatTheFirstTaskLeaves: a third party puts its disk into a slot of a dead run's VM that the first task
// has not filled: root imports the disk of that slot afterwards, or the snapshot that was cloned has none there. The VM
// is not completed, and the disk stays.
func TestDiskInASlotThatTheFirstTaskLeaves(t *testing.T) {
	image, disk := "/srv/images/debian.qcow2", vm.Disk{Storage: "local-zfs", Size: to(int64(8 << 30))}
	imported := disk
	imported.ImportFrom = &image
	snapshot := Request{Clone: &guest.Clone{VMID: 8000, Full: to(true), Snapshot: "old"}}
	configured := snapshot
	configured.Spec.Disks = map[string]vm.Disk{"scsi1": disk}
	for name, c := range map[string]struct {
		slot string
		r    Request
	}{
		"imported by root":                  {"scsi0", Request{Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": imported}}}},
		"a snapshot without it":             {"scsi1", snapshot},
		"a snapshot without it, configured": {"scsi1", configured},
	} {
		given := 0
		wanted := func() Request {
			r := c.r
			r.Node, r.VMID, r.Start, r.Spec.Name = "pve1", 150, true, to("web")
			return r
		}
		for n, died := 1, true; died && n < 30; n++ {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.change(withSnapshot)
				died = b.killBy(t, deadProcess(t, b.Creator), wanted(), n, rootAway{})
				was, _ := b.left()
				if !died || was == "" || b.vms()[150][c.slot] != "" {
					return
				}
				b.give(c.slot, 1)
				given++
				time.Sleep(startUp)
				next := creatorOf(t, b.sim, token)
				next.jobs.Root = rootAway{}
				_, err := next.Create(t.Context(), wanted())
				if is, kept := b.left(); is != was || !kept || err == nil {
					t.Errorf("%s, killed before %d: the same VM %t, theirs is there %t: %v", name, n, is == was, kept, err)
				}
			})
		}
		if given == 0 {
			t.Errorf("%s: no disk was given", name)
		}
	}
}

// withSnapshot gives VM 8000 a snapshot, and a disk that is not in it.
func withSnapshot(w *state.World) {
	g := w.Guests[8000]
	snapshot := maps.Clone(g.Config)
	snapshot["snaptime"] = "946684800"
	g.Snaps, g.Config["parent"] = map[string]map[string]string{"old": snapshot}, "old"
	w.Volume("pve1", "local-lvm:vm-8000-disk-0").TakeSnapshot("old")
	g.Config["scsi1"] = "local-lvm:vm-8000-disk-1,size=1G"
	w.Put(&state.Volume{Storage: "local-lvm", Node: g.Node, Name: "vm-8000-disk-1", VMID: 8000, Content: "images",
		Format: "raw", Size: 1 << 30})
}

// TestDiskGivenToAVMWhoseCreateFails: a third party gives a disk to the VM while its create starts the guest, in a slot
// that is free or in place of the VM's own disk, and the start fails. The roll-back leaves the VM with that disk, and says
// so. Without such a disk it leaves nothing, also of the disk that the create has added to a copy.
func TestDiskGivenToAVMWhoseCreateFails(t *testing.T) {
	added := vm.Spec{Disks: map[string]vm.Disk{"scsi1": {Storage: "local-zfs", Size: to(int64(2 << 30))}}}
	from := "local-lvm:vm-8000-disk-1" // in scsi5, which the log of the import names
	imported := vm.Spec{Disks: map[string]vm.Disk{"scsi1": {Storage: "local-zfs", ImportFrom: &from}}}
	for name, r := range map[string]Request{"from scratch": onZFS(), "clone": {Clone: &guest.Clone{VMID: 9000}},
		"clone with another disk": {Clone: &guest.Clone{VMID: 9000, Full: to(true)}, Spec: added},
		"clone with an import":    {Clone: &guest.Clone{VMID: 9000, Full: to(true)}, Spec: imported}} {
		for _, slot := range []string{"", "scsi5", "scsi0"} {
			synctest.Test(t, func(t *testing.T) {
				given := slot != ""
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.change(withSnapshot)
				b.change(func(w *state.World) {
					g := w.Guests[8000]
					g.Config["scsi5"] = g.Config["scsi1"]
					delete(g.Config, "scsi1")
				})
				b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
					Phase: fault.Before, Status: 500, Reason: "no such bridge", Times: -1, DelayMS: 30000}})
				done := make(chan struct{})
				go func() {
					defer close(done)
					for b.asked(http.MethodPost, "/nodes/{node}/qemu/{vmid}/status/start", 150) == 0 {
						time.Sleep(time.Second)
					}
					if given {
						b.give(slot, 1)
					}
				}()
				r.Node, r.VMID, r.Start, r.Spec.Name = "pve1", 150, true, to("web")
				made, err := b.Create(t.Context(), r)
				<-done
				uuid, kept := b.left()
				if err == nil || kept != given || (uuid != "") != given || given != (len(made.Left) > 0) ||
					given && (made.Left[0].Command != "" || !strings.Contains(made.Left[0].Reason, theirs)) {
					t.Errorf("%s, given in %q: theirs is there %t, the VM has the uuid %q, left %+v: %v", name, slot, kept, uuid,
						made.Left, err)
				}
				if !given && len(b.volumesOf(150)) > 0 {
					t.Errorf("%s: left %v", name, b.volumesOf(150))
				}
			})
		}
	}
}

// TestProtectionOfACopy: a clone of a snapshot inherits the protection of that, and not the present one of its source.
func TestProtectionOfACopy(t *testing.T) {
	on, off := map[string]string{"protection": "1"}, map[string]string{"protection": "0"}
	for name, c := range map[string]struct {
		from *source
		ours bool
	}{
		"clone": {&source{config: on}, true}, "snapshot, since": {&source{config: on, snapshot: off}, false},
		"snapshot": {&source{config: off, snapshot: on}, true}, "none": {&source{config: off}, false}, "scratch": {nil, false},
	} {
		if is := isProtector(&attempt{plan: plan{from: c.from}}); is != c.ours {
			t.Errorf("%s: %t", name, is)
		}
	}
}

// TestFilledAtFirst: the task of a copy fills the slots in which the source, or its snapshot, has disks, whatever their
// names. An optical drive is none, and the paths that root imports come later.
func TestFilledAtFirst(t *testing.T) {
	path := "/srv/debian.qcow2"
	now := map[string]string{"scsi0": "local-zfs:base-9000-disk-0,size=2G", "scsi1": "san:0.0.1.scsi-36001405,size=8G",
		"ide0": "none,media=cdrom", "ide2": "local-zfs:vm-9000-cloudinit,media=cdrom"}
	spec := vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "local-zfs", Size: to(int64(1 << 30))},
		"scsi1": {Storage: "local-zfs", ImportFrom: &path}}}
	for name, c := range map[string]struct {
		p                plan
		filled, unlogged string
	}{
		"clone":      {plan{from: &source{config: now}}, "scsi0 scsi1", "scsi0 scsi1"},
		"a snapshot": {plan{from: &source{config: now, snapshot: map[string]string{"scsi0": now["scsi0"]}}}, "scsi0", "scsi0"},
		"scratch":    {plan{spec: spec}, "scsi0", "scsi0 scsi1"},
		"no disks":   {plan{}, "", ""},
	} {
		filled, unlogged := vm.Slots(c.p.filledAtFirst()), c.p.unloggedSlots()
		if strings.Join(filled, " ") != c.filled || strings.Join(unlogged, " ") != c.unlogged || unlogged == nil {
			t.Errorf("%s: %q and %q", name, filled, unlogged)
		}
	}
}
