package create

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
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
