package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// TestAccHARuleAndItsVMs: what the guide says of VMs that are removed and replaced under a rule, in the order that a CLI
// gives it. Each apply is the only one, and the plan after it is empty.
func TestAccHARuleAndItsVMs(t *testing.T) {
	share.InWhole(t)
	atHome(t)
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	config := rig.Examples(t)["guides/vms-on-different-nodes"]
	apart := `  comment   = "One node may fail, and two control planes stay"` + "\n"
	triggered := strings.Replace(config, apart, apart+"  lifecycle {\n    replace_triggered_by = [proxmox_vm.control_plane[\"cp-1\"].uuid]\n  }\n", 1)
	if triggered == config {
		t.Fatal("the rule of the guide is another one")
	}
	w := rig.WorldOf(t, config, pvesim.Options{RealNetwork: true, Clock: rig.NewFastClock()})
	ws := rig.NewWorkspace(t, w, rig.DevOverride(t, t.TempDir()), nil)
	members := func() (all string) {
		w.Change(func(world *state.World) { all = world.HARules["control-planes-apart"]["resources"] })
		return all
	}
	step := func(text string, want int, args ...string) {
		t.Helper()
		rig.Must(t, os.WriteFile(filepath.Join(ws.Dir, "main.tf"), []byte(text), 0o600))
		ws.Run(t, append([]string{"apply", "-auto-approve"}, args...)...)
		ws.Run(t, "plan", "-detailed-exitcode")
		if got := members(); strings.Count(got, "vm:") != want {
			t.Errorf("%v: the rule is about %q, want %d VMs", args, got, want)
		}
	}
	step(triggered, 3)
	step(triggered, 3, `-replace=proxmox_vm.control_plane["cp-1"]`)
	step(strings.Replace(triggered, `, cp-3 = "pve3"`, "", 1), 2)
	ws.Run(t, "destroy", "-auto-approve")
	w.MustBeClean(t)
}
