package rig

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// complaints records what would have failed a test.
type complaints struct {
	testing.TB
	text []string
}

func (c *complaints) Errorf(format string, _ ...any) { c.text = append(c.text, format) }

// TestPowerAccounting: only the configuration of the VM itself makes its power-off count as asked for.
func TestPowerAccounting(t *testing.T) {
	t.Setenv(PowerTally, "") // the acts on these guests are no power-offs of the provider
	const block = "resource \"proxmox_vm\" \"x\" {\n  vmid = 400\n  node = \"pve1\"\n  cpu = { cores = CORES }\n  reboot_policy = \"auto\"\n}\n"
	lose := func(vmid int, kind state.PowerKind) func(*testing.T, *World, *terraformtest.Session) {
		return func(_ *testing.T, w *World, _ *terraformtest.Session) {
			w.Change(func(world *state.World) {
				world.Guests[vmid].Running = &state.Running{QMPStatus: "running"}
				world.PowerLoss(world.Guests[vmid], kind, nil)
			})
		}
	}
	for name, tt := range map[string]struct {
		do     func(*testing.T, *World, *terraformtest.Session)
		unseen bool // not asked for
	}{
		"a restart by policy": {do: func(t *testing.T, w *World, s *terraformtest.Session) {
			Must(t, s.Configure(w.ProviderBlock(TokenNoSSH), strings.Replace(block, "CORES", "4", 1)))
			Must(t, s.Converge(t.Context()))
		}},
		"a destroy":                {do: func(t *testing.T, _ *World, s *terraformtest.Session) { Must(t, s.Destroy(t.Context())) }},
		"a guest that ends":        {do: func(_ *testing.T, w *World, _ *terraformtest.Session) { w.Sim.EndGuest(400) }},
		"its stop, unasked":        {do: lose(400, state.PowerStop), unseen: true},
		"a third party's shutdown": {do: lose(8000, state.PowerShutdown), unseen: true},
		"its reboot, unasked":      {do: lose(400, state.PowerReboot), unseen: true},
		"its reset, with nothing":  {do: lose(400, state.PowerReset), unseen: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := OpenWorld(pvesim.Options{})
			Must(t, err)
			defer w.Close()
			s := w.Session(t, TokenNoSSH, strings.Replace(block, "CORES", "2", 1))
			Must(t, s.Converge(t.Context()))
			tt.do(t, w, s)
			said := &complaints{TB: t}
			w.accountForPower(said)
			if (len(said.text) > 0) != tt.unseen {
				t.Errorf("power-offs %+v: complaints %q", w.Sim.PowerOffs(), said.text)
			}
		})
	}
}

// TestPowerAsked: the power-offs that an apply asks for, and those that it does not.
func TestPowerAsked(t *testing.T) {
	t.Parallel()
	vm := func(more map[string]string) cty.Value {
		values := map[string]cty.Value{"vmid": cty.NumberIntVal(400)}
		for name, value := range more {
			values[name] = cty.StringVal(value)
		}
		return cty.ObjectVal(values)
	}
	plain, none := vm(nil), cty.NullVal(cty.DynamicPseudoType)
	forced := cty.ObjectVal(map[string]cty.Value{"vmid": cty.NumberIntVal(400), "on_destroy": cty.ObjectVal(map[string]cty.Value{"power_off": cty.StringVal("force")})})
	for name, tt := range map[string]struct {
		prior, planned cty.Value
		kind           state.PowerKind
		want           bool
	}{
		"reboot, auto":               {plain, plain, state.PowerReboot, true},
		"reboot, never":              {plain, vm(map[string]string{"reboot_policy": "never"}), state.PowerReboot, false},
		"stop, auto":                 {plain, plain, state.PowerStop, false},
		"stop, force":                {plain, vm(map[string]string{"reboot_policy": "force"}), state.PowerStop, true},
		"shutdown, unmanaged":        {plain, plain, state.PowerShutdown, false},
		"shutdown, stopped":          {plain, vm(map[string]string{"power_state": "stopped"}), state.PowerShutdown, true},
		"destroy, graceful":          {plain, none, state.PowerStop, false},
		"destroy, by force":          {forced, none, state.PowerStop, true},
		"destroy, obedient":          {plain, none, state.PowerShutdown, true},
		"create of a VM that was":    {none, plain, state.PowerStop, false},
		"reset, whatever the policy": {plain, vm(map[string]string{"reboot_policy": "force"}), state.PowerReset, false},
	} {
		if _, asked := asksFor("proxmox_vm", tt.prior, tt.planned, []int{400}, pvesim.PowerOff{VMID: 400, Kind: tt.kind}); asked != tt.want {
			t.Errorf("%s: asked for is %t, want %t", name, asked, tt.want)
		}
	}
}
