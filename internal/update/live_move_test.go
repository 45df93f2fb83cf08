package update

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestInterruptedMoveOfARunningGuestsDisk: Ctrl-C comes while PVE moves the disk of a running guest, which may be at the
// moment when QEMU has changed over and the configuration does not say so yet. The task is not stopped: the guest would
// write to a volume that is gone, and start with the old one the next time. The next apply finds the disk moved.
func TestInterruptedMoveOfARunningGuestsDisk(t *testing.T) {
	for _, to := range []string{"local-lvm", "local2", "shared-nfs"} {
		left := 0
		for seconds := 35; seconds < 600; seconds += 40 {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
				w.start()
				w.sim.SetTaskTime(10 * time.Minute)
				moving := func() Request {
					r := w.request()
					with(&r, "scsi0", func(d *vm.Disk) { d.Storage = to })
					return r
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
				defer cancel()
				_, warnings, err := w.changer.Update(ctx, moving())
				if err != nil && strings.Contains(err.Error(), "is not safe to stop, and still runs") {
					left++
				}
				time.Sleep(10 * time.Minute)
				inWorld(w, func(all *state.World) {
					g := all.Guests[theVM]
					has, open := guest.VolumeOf(g.Config["scsi0"]), guest.VolumeOf(g.Running.Booted["scsi0"])
					if has != open || all.Volume(g.Node, open) == nil {
						t.Errorf("to %s, interrupted after %d s: the guest writes to %s, which is there %t; its configuration has %s: %v, %v", to,
							seconds, open, all.Volume(g.Node, open) != nil, has, err, warnings)
					}
				})
				got, _, err := w.update(moving())
				if is := got.Spec.Disks["scsi0"].Volume; err != nil || !strings.HasPrefix(is, to+":") {
					t.Errorf("to %s, interrupted after %d s: the next update leaves %s: %v", to, seconds, is, err)
				}
			})
		}
		t.Logf("to %s: %d of 15 moves were left at work", to, left)
		if left < 5 {
			t.Errorf("to %s: %d of 15 moves were left at work", to, left)
		}
	}
}

// TestOptionThatWaitsBesideAnInterruptedMove: an administrator's option of a disk waits for a restart, and is dropped while
// the disk moves. The time of the update is over, and the move is left at work. The option waits again all the same.
func TestOptionThatWaitsBesideAnInterruptedMove(t *testing.T) {
	for _, minutes := range []int{5, 30} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
			w.start()
			w.sim.SetTaskTime(time.Duration(minutes) * time.Minute)
			r := w.request()
			with(&r, "scsi0", func(d *vm.Disk) { d.Storage = "local-lvm" })
			inWorld(w, func(all *state.World) {
				g := all.Guests[theVM]
				g.Pending = map[string]string{"scsi0": g.Config["scsi0"] + ",cache=writeback"}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(minutes)*36*time.Second)
			defer cancel()
			_, _, err := w.changer.Update(ctx, r)
			time.Sleep(30 * time.Minute)
			inWorld(w, func(all *state.World) {
				g := all.Guests[theVM]
				told := err != nil && strings.Contains(err.Error(), "was dropped for the change of a disk (scsi0: local-zfs:vm-400-disk-0,size=1G,cache=writeback)")
				if waits := strings.Contains(g.Pending["scsi0"], "cache=writeback"); waits == told || !waits && minutes == 5 {
					t.Errorf("%d min: scsi0 is %s, and %v waits: %v", minutes, g.Config["scsi0"], g.Pending, err)
				}
			})
		})
	}
}
