package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDiskGivenWhileTheCreateWaits: a third party gives a disk to the VM while its create waits for the guest. The plan
// of a destroy names that disk, at once and after a refresh. It does not name the disks that a clone has from its source.
func TestDiskGivenWhileTheCreateWaits(t *testing.T) {
	for _, more := range []string{"", "clone = { vmid = 9000 }\nprotection = false"} {
		for _, given := range []bool{true, false} {
			inTime(t, func(t *testing.T, w *rig.World) {
				s := w.Session(t, rig.TokenNoSSH, awaited(`wait_for = { ipv4 = true, timeout = "2m" }`, more))
				rig.SilenceAgent(w, 8)
				theirs := ""
				go func() {
					time.Sleep(10 * time.Second)
					w.Change(func(world *state.World) {
						if g := world.Guests[500]; g != nil && g.Config["lock"] == "" && given {
							theirs = putDisk(world, g, "scsi5")
						}
					})
				}()
				rig.Must(t, s.Run(t.Context()))
				for _, refreshed := range []bool{false, true} {
					if refreshed {
						rig.Must(t, s.Refresh(t.Context()))
					}
					_, err := s.Plan(t.Context(), terraformtest.ToDestroy())
					rig.Must(t, err)
					said := s.Diagnostics().String()
					if (theirs != "") != given || strings.Contains(said, "local-zfs:vm-500-") != given || !strings.Contains(said, theirs) {
						t.Errorf("%q, given %t, refreshed %t: the plan said %q", more, given, refreshed, said)
					}
				}
				if err := s.Run(t.Context()); err != nil || strings.Contains(s.Diagnostics().String(), "disk") {
					t.Errorf("%q, given %t: a plan without a change: %s, %v", more, given, s.Diagnostics(), err)
				}
			})
		}
	}
}
