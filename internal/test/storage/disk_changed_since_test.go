package storage_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestUpdateOfADiskKeepsThePlannedValues: a third party changes something between the plan of a disk and its apply. The state has
// what was planned, as Terraform demands, and the next plan shows the rest.
func TestUpdateOfADiskKeepsThePlannedValues(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"description", "name"} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.DiskBlock(rig.SmallDisk))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.DiskBlock(strings.Replace(rig.SmallDisk, "1G", "2G", 1)))
			planned, err := s.Plan(t.Context())
			rig.Must(t, err)
			w.Change(func(world *state.World) { world.Guests[300].Config[option] = "mine" })
			rig.Must(t, s.Apply(t.Context(), planned))
			next, err := s.Plan(t.Context())
			rig.Must(t, err)
			if next.Empty() {
				t.Error("the next plan shows nothing of it")
			}
			rig.Must(t, s.Converge(t.Context()))
		})
	}
}
