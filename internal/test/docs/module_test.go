package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestModuleUnderFaults runs the example of a module under faults: a create that fails and one whose answer is lost, ordered by a file, in
// `terraform test`.
func TestModuleUnderFaults(t *testing.T) {
	document := rig.ReadFile(t, filepath.Join(rig.ExamplesDir, "simulator", "bad-day", "faults.json"))
	rules, err := fault.Read([]byte(document))
	rig.Must(t, err)
	w := testModule(t, "bad-day", "5 passed, 0 failed", rules)
	if fired := w.Sim.FaultsFired(); fired != len(rules) {
		t.Errorf("%d of %d faults had an effect", fired, len(rules))
	}
}

// TestModule runs the example of a user's own module with `terraform test` as the documentation says: on a cluster of the
// example world, with the provider built from this source, and without a registry.
func TestModule(t *testing.T) { testModule(t, "web", "3 passed, 0 failed", nil) }

func testModule(t *testing.T, name, want string, faults []fault.Rule) *rig.World {
	t.Helper()
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	examples, err := filepath.Abs(filepath.Join(rig.ExamplesDir, "simulator"))
	if err != nil {
		t.Fatal(err)
	}
	world, err := state.Read([]byte(rig.ReadFile(t, filepath.Join(examples, "world.yaml"))))
	if err != nil {
		t.Fatal(err)
	}
	w := rig.NewWorld(t, pvesim.Options{World: world, RealNetwork: true, Faults: faults, Clock: rig.NewFastClock(), Violated: func(err error) { t.Error(err) }})
	dir := t.TempDir()
	settings := rig.DevOverride(t, dir)
	rig.Must(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(examples)))
	module := filepath.Join(dir, "examples", name)
	token := ""
	w.Change(func(world *state.World) {
		for id, one := range world.Tokens {
			token = id + "=" + one.Secret
		}
	})
	cli := os.Getenv("TF_ACC_TERRAFORM_PATH")
	var text []byte
	for _, args := range [][]string{{"get", "-no-color"}, {"test", "-no-color"}} {
		run := exec.CommandContext(t.Context(), cli, args...)
		run.Dir = module
		run.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1", "TF_VAR_cli="+cli,
			"PROXMOX_VE_ENDPOINT="+w.Sim.Endpoint(), "PROXMOX_VE_CA_CERTIFICATE="+w.Sim.CAPEM(), "PROXMOX_VE_API_TOKEN="+token)
		if text, err = run.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", cli, args[0], err, text)
		}
	}
	if !strings.Contains(string(text), want) {
		t.Errorf("%s test has not said %q:\n%s", cli, want, text)
	}
	w.MustBeClean(t)
	return w
}
