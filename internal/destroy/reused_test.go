package destroy

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// TestNameOfADetachedDiskWhileTheDestroyWaits: the state knows a detached disk. While the guest shuts down, or the destroy
// waits for a lock, a third party removes the disk and imports another one, which gets its name and its entry. The digest
// of the configuration is as before. That disk stays, and a warning names it.
func TestNameOfADetachedDiskWhileTheDestroyWaits(t *testing.T) {
	const detached = "local-zfs:vm-300-disk-1"
	for name, c := range map[string]struct {
		running, locked, empty bool
		size                   int64 // of the disk that has the name after the wait
		goes, refused          bool
		listings               int // of volumes, before the deletion; 0: any number
	}{
		"the guest shuts down":          {running: true, size: 50 << 30, listings: 2},
		"a lock at the end":             {locked: true, size: 50 << 30},
		"no other disk is in a slot":    {running: true, empty: true, size: 50 << 30, refused: true},
		"it is the same disk":           {running: true, size: 1 << 30, goes: true, listings: 2},
		"the same disk, after a lock":   {locked: true, size: 1 << 30, goes: true},
		"the same disk, without a wait": {size: 1 << 30, goes: true, listings: 1},
		"the same disk, the only one":   {running: true, empty: true, size: 1 << 30, goes: true, listings: 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asToken)
			ref := r.vm(300)
			r.change(func(w *state.World) {
				w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-1", VMID: 300, Content: "images", Format: "raw",
					Size: 1 << 30})
				w.Guests[300].Config["unused0"] = detached
			})
			if c.empty {
				r.without("scsi0")
			}
			waits := "/status/shutdown"
			if c.running {
				r.running()
			}
			remove := fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}
			if c.locked {
				waits = "/qemu/300"
				r.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Lock, VMID: 300, Lock: "backup", ForMS: 600_000, Before: remove}})
			}
			r.sim.ResetOps()
			r.answered = func(method, path string) {
				if method == http.MethodGet || !strings.HasSuffix(path, waits) {
					return
				}
				r.change(func(w *state.World) {
					for _, v := range w.Volumes {
						if v.Volid() == detached {
							v.Size = c.size
						}
					}
				})
			}
			_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{contested, detached},
				Slots: map[string]string{"scsi0": contested}, Sizes: map[string]int64{contested: 1 << 30, detached: 1 << 30}}})
			is, kept := r.has(300, detached)
			if kept == c.goes || is != c.refused || (err != nil) != c.refused {
				t.Errorf("%v; the VM is there: %t, the disk: %t", err, is, kept)
			}
			said := fmt.Sprint(err, warnings)
			if named := strings.Contains(said, detached) && strings.Contains(said, "nothing shows that they were its own") ||
				strings.Contains(said, "nothing shows to be its own ("+detached); named == c.goes {
				t.Error(said)
			}
			listings := 0
			for _, op := range r.sim.Ops() {
				if op.Method == http.MethodDelete {
					break
				}
				if strings.HasSuffix(op.Path, "/content") {
					listings++
				}
			}
			if c.listings > 0 && listings != c.listings {
				t.Errorf("%d listings, want %d", listings, c.listings)
			}
		})
	}
}

// TestDiskExchangedAndDetachedWhileTheGuestGoesOff: no disk is detached at first. While the guest goes off a third party removes the disk of
// scsi0 and imports another one, which gets the free name as an unused disk (qm disk import). That disk stays, however short the shutdown.
func TestDiskExchangedAndDetachedWhileTheGuestGoesOff(t *testing.T) {
	for _, beside := range []bool{false, true} { // another disk in a slot
		r := newRig(t, asToken)
		ref := r.vm(300)
		slots := map[string]string{"scsi0": contested}
		if beside {
			r.change(func(w *state.World) {
				slots["scsi1"] = r.alloc(w, "its own").Volid()
				w.Guests[300].Config["scsi1"] = slots["scsi1"] + ",size=1G"
			})
		}
		r.running()
		r.answered = func(method, path string) {
			if method != http.MethodPost || !strings.HasSuffix(path, "/status/shutdown") {
				return
			}
			r.change(func(w *state.World) {
				for _, v := range w.Volumes {
					if v.Volid() == contested {
						v.Size, v.Data = 2<<30, "theirs"
					}
				}
				delete(w.Guests[300].Config, "scsi0")
				w.Guests[300].Config["unused0"] = contested
			})
		}
		_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref, Foretold: Along{Snapshots: map[string]int64{}},
			Disks: Disks{Known: slices.Collect(maps.Values(slots)), Slots: slots, Sizes: map[string]int64{contested: 1 << 30}}})
		is, kept := r.has(300, contested)
		if !kept || is == beside || !strings.Contains(fmt.Sprint(err, warnings), contested) {
			t.Errorf("beside another %t: the disk is there %t, the VM %t: %v; %v", beside, kept, is, err, warnings)
		}
	}
}
