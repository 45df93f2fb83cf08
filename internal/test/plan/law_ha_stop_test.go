package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestLawRestartsByHA: a plan says that HA will stop the guest if and only if HA stops it after the apply.
func TestLawRestartsByHA(t *testing.T) {
	t.Parallel()
	ha := func(state string) string { return "ha = { state = \"" + state + "\" }\n" }
	for name, c := range map[string]struct {
		before, after string
		announced     bool
	}{
		"put under HA, stopped":  {"", ha("stopped"), true},
		"put under HA, disabled": {"", ha("disabled"), true},
		"from started":           {ha("started"), ha("stopped"), true},
		"started":                {"", ha("started"), false},
		"ignored":                {"", ha("ignored"), false},
		"off already":            {rig.Stopped, rig.Stopped + ha("stopped"), false},
		"another change":         {ha("started"), ha("started") + "description = \"x\"\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(c.before))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Sim.Advance(time.Minute)
			w.Sim.ResetPowerOffs()
			w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock(c.after))
			pl, err := s.Plan(t.Context())
			said := strings.Contains(fmt.Sprint(s.Diagnostics()), "will be stopped by HA")
			if err == nil {
				err = s.Apply(t.Context(), pl)
			}
			w.Sim.Advance(3 * time.Minute)
			if stopped := len(w.Sim.PowerOffs()) > 0; err != nil || said != c.announced || stopped != c.announced {
				t.Errorf("announced %t, stopped %t: %v", said, stopped, err)
			}
		})
	}
}

// TestPlanTellsThatHAStopsTheGuest: a shutdown of a guest under HA is HA's, which cuts off a guest that does not obey; the plan says so, also
// where an administrator has put the VM under HA. Where it leaves HA first, or HA ignores it, the apply fails instead.
func TestPlanTellsThatHAStopsTheGuest(t *testing.T) {
	t.Parallel()
	const short = "shutdown_timeout = \"30s\"\n"
	ha := func(state string) string { return short + "ha = { state = \"" + state + "\" }\n" }
	for name, c := range map[string]struct {
		before, after string
		byHand        bool // an administrator puts the VM under HA before the plan
		cut           bool
	}{
		"by the configuration":   {ha("started"), rig.Stopped + ha("stopped"), false, true},
		"by an administrator":    {short, rig.Stopped + short, true, true},
		"it is ignored":          {ha("ignored"), rig.Stopped + ha("ignored"), false, false},
		"it leaves HA":           {ha("started"), rig.Stopped + short, false, false},
		"it comes under HA":      {short, rig.Stopped + ha("stopped"), false, false},
		"and is off by the plan": {rig.Stopped + ha("stopped"), rig.Stopped + ha("stopped") + "description = \"x\"\n", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(c.before))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) { world.Guests[400].Ignores = []string{"shutdown"} })
			if c.byHand {
				w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.AddHA, VMID: 400})
			}
			w.Sim.Advance(time.Minute)
			w.Sim.ResetPowerOffs()
			w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock(c.after))
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := strings.Contains(pl.Diagnostics.String(), "cuts the guest off when it is not off within shutdown_timeout")
			err = s.Apply(t.Context(), pl)
			isCut := slices.ContainsFunc(w.Sim.PowerOffs(), func(off state.PowerOff) bool { return off.Kind == state.PowerStop })
			if said != c.cut || isCut != c.cut {
				t.Errorf("told %t, cut off %t, want %t: %v", said, isCut, c.cut, err)
			}
		})
	}
}
