package destroy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestReplacementOfALeftoverTellsOfAddedDisks: -replace of what a failed create has left, once it is untainted, takes no disk along
// that a third party has given to it, and without such a disk it goes, a protected one too.
func TestReplacementOfALeftoverTellsOfAddedDisks(t *testing.T) {
	t.Parallel()
	const added = "local-zfs:vm-400-disk-7"
	for name, c := range map[string]struct {
		lines string
		disk  bool
	}{
		"kept":          {"on_failure = \"keep\"\n", true},
		"left":          {"", true},
		"kept, no disk": {"on_failure = \"keep\"\nprotection = true\n", false},
		"left, no disk": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.DestroyBlock(c.lines))
			w.Sim.SetFaults([]fault.Rule{
				{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before, Status: 500},
				{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before, Status: 500, Times: -1}})
			if err := s.Run(t.Context()); err == nil {
				t.Fatal("the create has not failed")
			}
			w.Sim.SetFaults(nil)
			s.Taint(rig.VMAddress, false)
			if c.disk {
				w.Change(func(world *state.World) {
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: 400,
						Format: "raw", Size: 2 << 30, Data: "the user's"})
					world.Guests[400].Config["scsi7"] = added + ",size=2G"
				})
			}
			pl, err := s.Plan(t.Context(), terraformtest.Replacing(rig.VMAddress))
			if c.disk {
				rig.MustSay(t, err, "Cannot replace VM 400 on pve1", added, "terraform taint")
				s.Taint(rig.VMAddress, true) // as the error says
				if pl, err = s.Plan(t.Context()); !strings.Contains(s.Diagnostics().String(), added) {
					t.Errorf("the plan of the tainted one says %s", s.Diagnostics())
				}
			}
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), pl))
			if rig.DataOf(w, "vm-400-disk-7") != "" {
				t.Error("the disk is still there")
			}
		})
	}
}
