package contention_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
)

// TestDiskGivenWhileTheOthersAreRead: the destroy of a VM that is off reads all other guests first, which takes a while
// in a large cluster. Meanwhile a third party gives the disk to a guest that was read already, and perhaps takes it out
// of the VM that is to go. The guests that have changed are read once more at the end, so the destroy refuses.
func TestDiskGivenWhileTheOthersAreRead(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]bool{"and left": false, "and taken out": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := engine.NewHookedBench(t, engine.TokenIdentity())
			ref := h.Existing(t, engine.SmallCreate(300))
			disk := ""
			h.Change(func(w *state.World) {
				for id := 501; id <= 520; id++ {
					w.Guests[id] = &state.Guest{VMID: id, Type: "qemu", Node: "pve1", Config: map[string]string{"name": fmt.Sprint("his", id),
						"memory": "512", "smbios1": fmt.Sprintf("uuid=11111111-2222-4333-8444-555555555%d", id)}}
				}
				for _, value := range w.Guests[300].Config {
					if file, _, _ := strings.Cut(value, ","); strings.Contains(file, "vm-300-disk") {
						disk = file
					}
				}
			})
			h.Once("GET", "/qemu/501/pending", func() {
				h.Change(func(w *state.World) {
					g := w.Guests[300]
					for slot, value := range g.Config {
						if !strings.HasPrefix(value, disk) {
							continue
						}
						w.Guests[501].Config["scsi7"] = value
						if takes {
							delete(g.Config, slot)
							g.Config["unused0"] = disk
						}
					}
					state.Log(w, "pve1", "root@pam", "update VM %d: -scsi7 %s", 501, disk)
				})
				h.Sim.Advance(2 * time.Second)
			})
			_, _, err := h.Service.Delete(t.Context(), destroy.Request{Ref: ref, Disks: destroy.Disks{Known: []string{disk}}})
			if err == nil || !strings.Contains(err.Error(), "VM 501") {
				t.Errorf("the destroy said %v", err)
			}
			h.Change(func(w *state.World) {
				if w.Volume("pve1", disk) == nil {
					t.Errorf("%s is gone", disk)
				}
			})
		})
	}
}
