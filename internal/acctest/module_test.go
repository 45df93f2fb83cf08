package acctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestModule runs the example of a user's own module with `terraform test` as the documentation says: on a cluster of the
// example world, with the provider built from this source, and without a registry.
func TestModule(t *testing.T) {
	useCLI(t)
	withoutEnvironment(t)
	examples, err := filepath.Abs(filepath.Join(examplesDir, "simulator"))
	if err != nil {
		t.Fatal(err)
	}
	world, err := state.Read([]byte(read(t, filepath.Join(examples, "world.yaml"))))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(t, pvesim.Options{World: world, RealNetwork: true, Clock: clock.Real{}, Violated: func(err error) { t.Error(err) }})
	dir := t.TempDir()
	settings := devOverride(t, dir)
	module := filepath.Join(dir, "web")
	if err := os.CopyFS(module, os.DirFS(filepath.Join(examples, "web"))); err != nil {
		t.Fatal(err)
	}
	token := ""
	w.Change(func(world *state.World) {
		for id, one := range world.Tokens {
			token = id + "=" + one.Secret
		}
	})
	test := exec.CommandContext(t.Context(), os.Getenv("TF_ACC_TERRAFORM_PATH"), "test", "-no-color")
	test.Dir = module
	test.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1",
		"PROXMOX_VE_ENDPOINT="+w.Sim.Endpoint(), "PROXMOX_VE_CA_CERTIFICATE="+w.Sim.CAPEM(), "PROXMOX_VE_API_TOKEN="+token)
	text, err := test.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "3 passed, 0 failed") {
		t.Errorf("terraform test: %v\n%s", err, text)
	}
	w.MustBeClean(t)
}
