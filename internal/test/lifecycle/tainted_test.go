package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const (
	diskOff = "node = \"pve1\"\npower_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	madeVM  = "vmid = 400\nname = \"x\"\n" + diskOff
)

// TestTaintedVMKeepsItsDetachedDisk: the destroy of a tainted VM knows the disks that an update has detached from it, as
// that of another VM does. An unused disk that was never in state is not its own.
func TestTaintedVMKeepsItsDetachedDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tainted, theirs bool }{
		"tainted":                   {true, false},
		"replaced":                  {false, false},
		"tainted, with another one": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			two := strings.Replace(madeVM, "scsi0 = {", "scsi1 = { storage = \"local-zfs\", size = \"2G\" }, scsi0 = {", 1)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(two))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(madeVM))
			rig.Must(t, s.Converge(t.Context()))
			if c.theirs {
				w.Change(func(world *state.World) { putDisk(world, world.Guests[400], "unused1") })
			}
			var options []terraformtest.PlanOption
			if s.Taint(rig.VMAddress, c.tainted); !c.tainted {
				options = append(options, terraformtest.Replacing(rig.VMAddress))
			}
			pl, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			if err = s.Apply(t.Context(), pl); c.theirs {
				rig.MustSay(t, err, "that no VM owns: local-zfs:vm-400-by-hand-unused1. They")
				return
			}
			rig.Must(t, err)
			if _, has := rig.GuestOf(w, 400).Config["unused0"]; has {
				t.Errorf("VM 400 has %v", rig.GuestOf(w, 400).Config)
			}
			if i, err := s.Instance(rig.VMAddress); err != nil || strings.Contains(string(i.Private), "failed") {
				t.Errorf("the new VM keeps what the plan passed on: %v, %s", err, i.Private)
			}
		})
	}
}
