package acctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

// useCLI makes terraform-plugin-testing run the CLI of TF_CLI or PATH, and skips the test if there is none.
func useCLI(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a CLI")
	}
	names := []string{"terraform", "tofu"}
	if cli := os.Getenv("TF_CLI"); cli != "" {
		names = []string{cli}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TF_ACC_TERRAFORM_PATH", path)
		t.Setenv("CHECKPOINT_DISABLE", "1")
		// Nothing is installed, so whoever runs this needs none of his own settings; a warning about a missing file
		// confuses the test library, which reads the version from the output of OpenTofu.
		settings := filepath.Join(t.TempDir(), "cli.tfrc")
		if err := os.WriteFile(settings, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TF_CLI_CONFIG_FILE", settings)
		if strings.Contains(filepath.Base(path), "tofu") {
			t.Setenv("TF_ACC_PROVIDER_HOST", "registry.opentofu.org")
		}
		return
	}
	if os.Getenv("TF_CLI") != "" {
		t.Fatalf("TF_CLI=%s is no program", os.Getenv("TF_CLI"))
	}
	t.Skip("neither terraform nor tofu on PATH, and TF_CLI names none")
}

// withoutEnvironment hides the provider's environment variables, which a simulated cluster must not see.
func withoutEnvironment(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "PROXMOX_VE_") {
			t.Setenv(name, "")
		}
	}
}

// atHome skips a test of a simulated cluster whose like runs on the real one.
func atHome(t *testing.T) {
	t.Helper()
	if onACluster() {
		t.Skip("TestAccCluster does it on the cluster of the environment")
	}
}

// testWithCLI runs steps on a simulated cluster and wants nothing left afterwards. Each step's configuration is completed by the
// provider block.
func testWithCLI(t *testing.T, w *World, steps ...resource.TestStep) {
	t.Helper()
	for i := range steps {
		if steps[i].Config != "" {
			steps[i].Config = w.ProviderBlock(TokenSSH) + steps[i].Config
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
	useCLI(t)
	withoutEnvironment(t)
	w := NewWorld(t, pvesim.Options{RealNetwork: true})
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task,
		Reason: "start failed: no such luck"}})
	testWithCLI(t, w,
		resource.TestStep{Config: scratch, ExpectError: regexp.MustCompile(`start failed: no such luck`)},
		resource.TestStep{
			PreConfig: func() {
				if w.Sim.FaultsFired() != 1 {
					t.Error("the fault has not fired")
				}
				w.MustBeClean(t)
			},
			Config: scratch,
			Check:  resource.TestCheckResourceAttr("proxmox_vm.scratch", "status", "running"),
		},
	)
}
