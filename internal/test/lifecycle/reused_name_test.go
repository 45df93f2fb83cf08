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

// TestNameOfADiskThatIsNotInState: a refresh has seen a disk in a slot that the configuration does not have. Then that
// disk leaves, and PVE gives its name to another one.
func TestNameOfADiskThatIsNotInState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shown          string
		tainted, stays bool
	}{
		"another disk":               {",size=50G", false, true},
		"another disk, tainted VM":   {",size=50G", true, true},
		"the disk":                   {",size=3G", false, false},
		"the disk, tainted VM":       {",size=3G", true, false},
		"the disk, and no size told": {"", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(madeVM))
			rig.Must(t, s.Converge(t.Context()))
			var volume string
			show := func(size string) {
				w.Change(func(world *state.World) {
					if volume == "" {
						volume = putDisk(world, world.Guests[400], "scsi3")
					}
					world.Guests[400].Config["scsi3"] = volume + size
				})
			}
			show(",size=3G")
			options := []terraformtest.PlanOption{terraformtest.ToDestroy()}
			if c.tainted {
				s.Taint(rig.VMAddress, true)
				options = nil
			}
			planned, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			show(c.shown)
			err = s.Apply(t.Context(), planned)
			if c.stays {
				rig.MustSay(t, err, volume+" is in scsi3, which the plan does not know")
			} else {
				rig.Must(t, err)
			}
			w.Change(func(world *state.World) {
				if there := world.Volume("pve1", volume) != nil; there != c.stays {
					t.Errorf("%s is there: %v", volume, there)
				}
			})
		})
	}
}
