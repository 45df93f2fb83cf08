package docs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestGuideOfChanges lives through what the guide says: a change that needs a restart gets one graceful restart, one that does
// not gets none, and another node gets the VM as it runs.
func TestGuideOfChanges(t *testing.T) {
	t.Parallel()
	w := rig.ExampleWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.Examples(t)["guides/changes"])
	rig.Must(t, s.Converge(t.Context()))
	restarts := func(want ...state.PowerKind) {
		t.Helper()
		var kinds []state.PowerKind
		for _, off := range w.Sim.PowerOffs() {
			kinds = append(kinds, off.Kind)
			if off.Hard {
				t.Errorf("cut off: %+v", off)
			}
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("power-offs: %v, want %v", kinds, want)
		}
	}
	restarts()
	s.SetString("node", "pve2")
	rig.Must(t, s.Converge(t.Context()))
	if node := terraformtest.ShowValue(s.Attr("proxmox_vm.app", "node")); node != `"pve2"` {
		t.Errorf("the VM is on %s", node)
	}
	restarts()
	s.SetVariable("cores", cty.NumberIntVal(4))
	rig.Must(t, s.Converge(t.Context()))
	if waiting := terraformtest.ShowValue(s.Output("waiting_for_a_restart")); waiting != "[]" {
		t.Errorf("waiting: %s", waiting)
	}
	restarts(state.PowerReboot)
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// TestRestartParallelismGuide: the provider block of the guide is one, and restarts a VM of its example in a turn.
func TestRestartParallelismGuide(t *testing.T) {
	t.Parallel()
	_, block, _ := strings.Cut(rig.ReadFile(t, "../../../templates/guides/changes.md.tmpl"), "```terraform\nprovider \"proxmox\" {")
	line, _, ok := strings.Cut(block, "\n}\n```")
	if !ok || !strings.Contains(line, "restart_parallelism") {
		t.Fatalf("the guide has no such block, but %q", line)
	}
	w := rig.ExampleWorld(t)
	s := w.NewSession()
	login := strings.Replace(w.ProviderBlock(rig.TokenNoSSH), "provider \"proxmox\" {", "provider \"proxmox\" {"+line, 1)
	rig.Must(t, s.Configure(login, rig.Examples(t)["guides/changes"]))
	rig.Must(t, s.Converge(t.Context()))
	s.SetVariable("cores", cty.NumberIntVal(4))
	rig.Must(t, s.Converge(t.Context()))
	if offs := w.Sim.PowerOffs(); len(offs) != 1 || offs[0].Kind != state.PowerReboot {
		t.Errorf("power-offs: %v", offs)
	}
}
