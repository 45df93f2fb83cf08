package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// atHome skips a test of a simulated cluster whose like runs on the real one.
func atHome(t *testing.T) {
	t.Helper()
	if rig.OnRealCluster() {
		t.Skip("TestAccCluster does it on the cluster of the environment")
	}
}

// testWithCLI runs steps on a simulated cluster and wants nothing left afterwards. Each step's configuration is completed by the
// provider block.
func testWithCLI(t *testing.T, w *rig.World, steps ...resource.TestStep) {
	t.Helper()
	for i := range steps {
		if steps[i].Config != "" {
			steps[i].Config = w.ProviderBlock(rig.TokenSSH) + steps[i].Config
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: map[string]func() (tfprotov6.ProviderServer, error){"proxmox": w.Factory()},
		Steps:                    steps,
		CheckDestroy: func(*terraform.State) error {
			if left := w.Leaks(); len(left) > 0 {
				return fmt.Errorf("left on the server: %s", strings.Join(left, ", "))
			}
			return nil
		},
	})
}

// TestAccRollback lets a create fail in its last step, by a fault that only a simulated cluster can be told, and wants nothing left; then
// it succeeds.
func TestAccRollback(t *testing.T) {
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	w := rig.NewWorld(t, pvesim.Options{RealNetwork: true})
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task,
		Reason: "start failed: no such luck"}})
	testWithCLI(t, w,
		resource.TestStep{Config: rig.ScratchVM, ExpectError: regexp.MustCompile(`start failed: no such luck`)},
		resource.TestStep{
			PreConfig: func() {
				if w.Sim.FaultsFired() != 1 {
					t.Error("the fault has not fired")
				}
				w.MustBeClean(t)
			},
			Config: rig.ScratchVM,
			Check:  resource.TestCheckResourceAttr("proxmox_vm.scratch", "status", "running"),
		},
	)
}
