package update

import (
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestNoRestartForAThirdParty: an administrator gives the running guest more memory, which waits for its next start,
// while a disk of it moves, or while its restart waits for a turn and he has restarted it himself. The guest is not
// restarted for that. An option that the update itself has sent is due still.
func TestNoRestartForAThirdParty(t *testing.T) {
	for name, c := range map[string]struct {
		turn     bool   // else the disk moves
		cores    string // that the guest has by then
		restarts int
	}{
		"during a move":                   {false, "", 0},
		"before the turn":                 {true, "2", 0},
		"before the turn, and not theirs": {true, "1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci", "cores": "1"})
				w.start()
				r := w.request()
				r.PowerState = guest.Running
				wait := map[string]string{"memory": "2048"}
				if c.turn {
					r.Planned.CPU.Cores = new(int64(2))
					w.changer.LimitRestarts(1)
					other, err := w.changer.turns.take(t.Context(), 999)
					w.must(err)
					go func() {
						synctest.Wait()
						w.alter(func(g *state.Guest) {
							if g.Config["cores"] = c.cores; c.restarts > 0 {
								wait["cores"] = "2"
							}
							g.Pending = wait
						})
						other.leave(t.Context())
					}()
				} else {
					with(&r, "scsi0", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
					r.Planned.Description = new("two")
					did := false
					w.answered = func() {
						if !did && w.sent("move_disk") > 0 {
							did = true
							w.alter(func(g *state.Guest) { g.Pending = wait })
						}
					}
				}
				_, _, err := w.update(r)
				w.answered = nil
				if n := w.sent("/status/reboot"); err != nil || n != c.restarts {
					t.Errorf("%d restarts: %v after %v", n, err, w.writes())
				}
			})
		})
	}
}
