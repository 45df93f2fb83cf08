package create

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// foreign is the disk of VM 8000 that an administrator attaches to the VM of a create, too.
const foreign = "local-zfs:vm-8000-disk-7"

// lend gives VM 8000 that disk, and attaches it to VM 150 in a slot.
func lend(w *state.World, slot string) {
	w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-8000-disk-7", VMID: 8000, Content: "images",
		Format: "raw", Size: 1 << 30, Data: "8000"})
	w.Guests[8000].Node = "pve1"
	w.Guests[8000].Config["scsi7"] = foreign + ",size=1G"
	w.Guests[150].Config[slot] = foreign + ",size=1G"
}

// isLent reports whether VM 8000 has its disk as it was.
func (b bench) isLent() (is bool) {
	b.change(func(w *state.World) {
		v := w.Volume("pve1", foreign)
		is = v != nil && v.Size == 1<<30 && v.Data == "8000"
	})
	return is
}

// TestDeadVMWithTheDiskOfAnotherGuest: an administrator attaches the disk of another guest to the VM that a dead run has
// left. The next apply neither starts the VM with it, nor makes it part of a template, nor takes it for the disk that is
// configured there. Once it is detached, the apply completes that very VM.
func TestDeadVMWithTheDiskOfAnotherGuest(t *testing.T) {
	t.Parallel()
	template := startedVM()
	template.Start, template.Spec.Template = false, to(true)
	clone := ofTemplate()
	clone.VMID, clone.Start, clone.Spec.Name = 150, true, to("web")
	more := clone
	more.Spec.Disks = map[string]vm.Disk{"scsi1": {Storage: "local-zfs", Size: to(int64(2 << 30))}}
	for name, c := range map[string]struct {
		r    Request
		slot string
	}{
		"started": {startedVM(), "scsi5"}, "a template": {template, "scsi5"}, "a clone": {clone, "scsi5"},
		"a disk to come": {more, "scsi1"}, "in place of its own": {startedVM(), "scsi0"},
	} {
		given := 0
		eachDeadVM(t, c.r, func(t *testing.T, b bench, n int, was string) {
			own := b.vms()[150][c.slot]
			if b.vms()[150]["template"] == "1" || own != "" && c.slot == "scsi1" {
				return
			}
			given++
			b.change(func(w *state.World) { lend(w, c.slot) })
			before := b.vms()[150]
			time.Sleep(startUp)
			_, err := creatorOf(t, b.sim, token).Create(t.Context(), c.r)
			if diff := cmp.Diff(before, b.vms()[150]); diff != "" || err == nil || !strings.Contains(err.Error(), foreign) ||
				!b.isLent() {
				t.Errorf("%s, killed before %d: VM 8000 has its disk %t: %v\n%s", name, n, b.isLent(), err, diff)
			}
			b.change(func(w *state.World) {
				delete(w.Guests[150].Config, c.slot)
				if own != "" {
					w.Guests[150].Config[c.slot] = own
				}
			})
			_, err = creatorOf(t, b.sim, token).Create(t.Context(), c.r)
			if is, _ := b.left(); err != nil || is != was {
				t.Errorf("%s, killed before %d: detached, it is the same VM %t: %v", name, n, is == was, err)
			}
		})
		if given < 2 {
			t.Errorf("%s: it was given %d times", name, given)
		}
	}
}
