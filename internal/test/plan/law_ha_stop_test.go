package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
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
