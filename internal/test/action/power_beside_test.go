package action_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestActionsStartNoGuestBesideAnother: an administrator mends the disk of a VM in a VM of their own, which runs. Two guests on one disk
// destroy what is on it.
func TestActionsStartNoGuestBesideAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, action string
		runs         bool // the other one
	}{
		"start":                    {"stopped", "start", true},
		"resume from disk":         {"stopped suspended", "resume", true},
		"start from disk":          {"stopped suspended", "start", true},
		"start, the other is off":  {"stopped", "start", false},
		"resume, the other is off": {"stopped suspended", "resume", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newActor(t, rig.TokenNoSSH)
			a.w.ExpectPowerOffs(state.PowerStop, state.PowerSuspend)
			a.set(c.from)
			other := a.w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Attach, VMID: 500})
			if c.runs {
				a.w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Start, VMID: other.Made})
			}
			a.w.Sim.Advance(30 * time.Second)
			_, err := a.act("action = \"" + c.action + "\"")
			said := ""
			if err != nil {
				said = err.Error()
			}
			if c.runs != strings.Contains(said, "was not started") || c.runs != (a.guest() == c.from) || c.runs && len(a.writes()) > 0 {
				t.Errorf("the other one runs: %t; VM 500 is %s, sent %v: %s", c.runs, a.guest(), a.writes(), said)
			}
		})
	}
}
