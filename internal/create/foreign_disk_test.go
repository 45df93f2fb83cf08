package create

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
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

// meddled is a cluster in which a third party acts once on VM 150: as soon as its create has made it, n answers later.
func meddled(t *testing.T, n int, act func(w *state.World, g *state.Guest), then ...func(*pvesim.Sim)) bench {
	var b bench
	answers, done := 0, false
	b = benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, func(c *pve.Config, cred pvesim.Credentials) {
		ticket(c, cred)
		c.Trace = func(_ context.Context, m string, _ map[string]string) {
			if m != "PVE request" || b.sim == nil || done {
				return
			}
			b.change(func(w *state.World) {
				g := w.Guests[150]
				if g == nil || g.Config["lock"] != "" || g.Config["scsi0"] == "" || !strings.Contains(g.Config["description"], "signature") {
					return
				}
				if done = answers == n; done {
					act(w, g)
				}
				answers++
			})
			for _, f := range then {
				if done {
					f(b.sim)
				}
			}
		}
	})
	return b
}

// TestDiskOfOthersInASlotThatTheCreateFills: a third party puts a disk into a slot of the new clone that the create is
// about to fill, or in place of one that it is about to grow. The create fails before it grows that disk.
func TestDiskOfOthersInASlotThatTheCreateFills(t *testing.T) {
	t.Parallel()
	own := func(slot string) func(w *state.World, g *state.Guest) {
		return func(w *state.World, g *state.Guest) {
			if is := guest.VolumeOf(g.Config[slot]); is != "" {
				g.Config["unused0"] = is
			}
			w.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-150-disk-77", VMID: 150, Content: "images",
				Format: "raw", Size: 1 << 30, Data: "theirs"})
			g.Config[slot] = theirs + ",size=1G"
		}
	}
	for name, c := range map[string]struct {
		slot string
		act  func(w *state.World, g *state.Guest)
	}{
		"another guest's":           {"scsi1", func(w *state.World, _ *state.Guest) { lend(w, "scsi1") }},
		"another guest's, in place": {"scsi0", func(w *state.World, _ *state.Guest) { lend(w, "scsi0") }},
		"with its id":               {"scsi1", own("scsi1")},
	} {
		for n := range 2 { // before the first look at the clone, and after it
			b := meddled(t, n, c.act)
			r := ofTemplate()
			r.VMID, r.Start, r.Spec.Name = 150, true, to("web")
			r.Spec.Disks = map[string]vm.Disk{"scsi0": {Size: to(int64(8 << 30))}, "scsi1": {Storage: "local-zfs", Size: to(int64(2 << 30))}}
			_, err := b.Create(t.Context(), r)
			changed := false
			b.change(func(w *state.World) {
				for _, volume := range []string{foreign, theirs} {
					v := w.Volume("pve1", volume)
					changed = changed || v != nil && v.Size != 1<<30
				}
			})
			if err == nil || !strings.Contains(err.Error(), "has got disks that its create has not put there") || changed ||
				!b.isLent() && b.kept() == "" {
				t.Errorf("%s, %d: changed %t: %v", name, n, changed, err)
			}
		}
	}
}

// kept is what the third party's disk with the id of VM 150 holds, "" if it is gone.
func (b bench) kept() (data string) {
	b.change(func(w *state.World) {
		if v := w.Volume("pve1", theirs); v != nil {
			data = v.Data
		}
	})
	return data
}

// TestTemplateWithADiskThatAnotherGuestHas: a third party attaches a disk of the new VM to another guest, or that guest's
// disk to the new VM. The create does not make it a template: PVE would rename the disk, and that guest would lose it.
func TestTemplateWithADiskThatAnotherGuestHas(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(w *state.World, g *state.Guest){
		"taken": func(w *state.World, g *state.Guest) { w.Guests[8000].Config["scsi9"] = g.Config["scsi0"] },
		"lent":  func(w *state.World, _ *state.Guest) { lend(w, "scsi5") },
		"taken, while a node is off": func(w *state.World, g *state.Guest) {
			w.Guests[8000].Config["scsi9"], w.Nodes["pve2"].Online = g.Config["scsi0"], false
		},
	} {
		for how, r := range map[string]Request{"create": onZFS(), "clone": ofTemplate()} {
			for n := range 3 {
				b := meddled(t, n, func(w *state.World, g *state.Guest) { w.Guests[8000].Node = "pve1"; act(w, g) })
				r.VMID, r.Spec.Template, r.Spec.Name = 150, to(true), to("web")
				_, err := b.Create(t.Context(), r)
				lost := name == "lent" && !b.isLent()
				b.change(func(w *state.World) {
					volume := guest.VolumeOf(w.Guests[8000].Config["scsi9"])
					lost = lost || volume != "" && w.Volume("pve1", volume) == nil
				})
				if lost || err == nil {
					t.Errorf("%s, %s, %d: VM 8000 has lost a disk %t: %v", how, name, n, lost, err)
				}
			}
		}
	}
}

// TestMovesOfADiskThatAnotherGuestHas: while a backup holds the new clone, a third party attaches its disk to another
// guest. It is then neither migrated to its node nor moved to its storage: PVE would free the place that it leaves.
func TestMovesOfADiskThatAnotherGuestHas(t *testing.T) {
	t.Parallel()
	moving, migrating := ofTemplate(), ofTemplate()
	moving.Spec.Disks = map[string]vm.Disk{"scsi0": {Storage: "local-lvm"}}
	migrating.Node = "pve2"
	for name, r := range map[string]Request{"moved": moving, "migrated": migrating} {
		for _, taken := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := meddled(t, 0, func(w *state.World, g *state.Guest) {
					w.Guests[8000].Node = "pve1"
					if taken {
						w.Guests[8000].Config["scsi9"] = g.Config["scsi0"]
					}
				}, func(s *pvesim.Sim) { s.HoldLock(150, "backup", 20*time.Second, "root@pam") })
				r.VMID = 150
				_, err := b.Create(t.Context(), r)
				b.change(func(w *state.World) {
					volume := guest.VolumeOf(w.Guests[8000].Config["scsi9"])
					lost := taken && w.Volume("pve1", volume) == nil
					if lost || (err != nil) != taken || taken && !strings.Contains(err.Error(), "is also used by VM 8000") {
						t.Errorf("%s: taken %t, VM 8000 has lost its disk %t: %v", name, taken, lost, err)
					}
				})
			})
		}
	}
}
