package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestNameThatCameFreeSinceThePlan: a disk of the VM is given to another VM, and PVE gives its name to a new disk. The
// destroy removes no disk of another size than the plan knows, whichever slot it is in.
func TestNameThatCameFreeSinceThePlan(t *testing.T) {
	const disks = "power_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " +
		"scsi1 = { storage = \"local-zfs\", size = \"1G\" } }"
	for name, c := range map[string]struct {
		slot, shown string
		goes        bool
	}{
		"in its slot":                   {"scsi1", ",size=50G", false},
		"in another slot":               {"scsi5", ",size=50G", false},
		"smaller":                       {"scsi1", ",size=512M", false},
		"the same disk, rounded up":     {"scsi1", ",size=1025M", true},
		"the same disk, moved":          {"scsi5", ",size=1G", true},
		"the same disk, without a size": {"scsi1", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			l := rig.NewVM(t, disks)
			planned, err := l.Session.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			var volume string
			l.Guest(func(_ *state.World, g *state.Guest) {
				volume = strings.Split(g.Config["scsi1"], ",")[0]
				delete(g.Config, "scsi1")
				g.Config[c.slot] = volume + c.shown
			})
			err = l.Session.Apply(t.Context(), planned)
			if refused := err != nil && strings.Contains(err.Error(), "the plan knows it with 1G"); refused == c.goes {
				t.Errorf("the apply said %v", err)
			}
			l.World.Change(func(world *state.World) {
				if left := world.Volume("pve1", volume) != nil; left == c.goes {
					t.Errorf("the disk is there: %v", left)
				}
			})
		})
	}
}
