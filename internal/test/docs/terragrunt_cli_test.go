package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// grunt is the Terragrunt example in a directory of its own, with the real program, Terraform and provider processes.
type grunt struct {
	program, dir string // dir: live
	env          []string
}

// newGrunt copies the example, gives its clusters the addresses of simulated ones, and puts the provider into a mirror: terragrunt runs
// terraform init, which takes nothing from an override of a developer.
func newGrunt(t *testing.T, worlds map[string]*rig.World) grunt {
	t.Helper()
	program, err := exec.LookPath("terragrunt")
	if err != nil {
		t.Skip("terragrunt is not on PATH; TestTerragrunt and TestTerragruntStacks apply the units of the example without it")
	}
	dir := t.TempDir()
	rig.Must(t, os.CopyFS(filepath.Join(dir, "terragrunt"), os.DirFS(filepath.Join(rig.ExamplesDir, "terragrunt"))))
	live := filepath.Join(dir, "terragrunt", "live")
	for cluster, w := range worlds {
		name := filepath.Join(live, cluster, "cluster.hcl")
		text := regexp.MustCompile(`endpoint = "[^"]*"`).ReplaceAllString(rig.ReadFile(t, name), fmt.Sprintf("endpoint = %q", w.Sim.Endpoint()))
		rig.Must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	host := "registry.terraform.io"
	if other := os.Getenv("TF_ACC_PROVIDER_HOST"); other != "" {
		host = other
	}
	mirror := filepath.Join(dir, "mirror")
	plugins := filepath.Join(mirror, host, "terraform-proxmox", "proxmox", "0.0.1", releasePlatform())
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(plugins, "terraform-provider-proxmox_v0.0.1"), "../../..")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the provider: %v\n%s", err, text)
	}
	settings := filepath.Join(dir, "mirror.tfrc")
	rig.Must(t, os.WriteFile(settings, fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror), 0o600))
	return grunt{program: program, dir: live, env: append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TG_TF_PATH="+os.Getenv("TF_ACC_TERRAFORM_PATH"),
		"TG_NON_INTERACTIVE=true", "TG_NO_COLOR=true", "TF_CLI_ARGS=-no-color", "CHECKPOINT_DISABLE=1")}
}

// run calls terragrunt for all units of a cluster, wants an exit status, and says how long it took.
func (g grunt) run(t *testing.T, w *rig.World, cluster string, status int, args ...string) {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), g.program, append([]string{"run", "--all"}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join(g.dir, cluster), g.env
	for name, v := range w.Environment() {
		if name != "PROXMOX_VE_ENDPOINT" { // cluster.hcl says it
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	out, err := cmd.CombinedOutput()
	if is := cmd.ProcessState.ExitCode(); is != status {
		t.Fatalf("terragrunt run --all %s: %v (status %d, want %d)\n%s", strings.Join(args, " "), err, is, status, out)
	}
	t.Logf("%s: terragrunt run --all %s took %s", cluster, strings.Join(args, " "), time.Since(began).Round(100*time.Millisecond))
}

// multiply makes so many units of a cluster as there are to be, like its first.
func (g grunt) multiply(t *testing.T, cluster string, total int) {
	t.Helper()
	units, err := filepath.Glob(filepath.Join(g.dir, cluster, "*", "terragrunt.hcl"))
	if err != nil || len(units) == 0 {
		t.Fatalf("no units in %s: %v", cluster, err)
	}
	text := rig.ReadFile(t, filepath.Join(g.dir, cluster, "web-1", "terragrunt.hcl"))
	for n := len(units); n < total; n++ {
		name := fmt.Sprintf("copy-%d", n)
		rig.Must(t, os.MkdirAll(filepath.Join(g.dir, cluster, name), 0o700))
		unit := strings.ReplaceAll(strings.ReplaceAll(text, "web-1", name), "10.0.0.51/", fmt.Sprintf("10.0.1.%d/", n))
		rig.Must(t, os.WriteFile(filepath.Join(g.dir, cluster, name, "terragrunt.hcl"), []byte(unit), 0o600))
	}
}

// states are the units' states that hold a VM.
func (g grunt) states(t *testing.T) (names []string) {
	t.Helper()
	rig.Must(t, filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "terraform.tfstate" && strings.Contains(path, ".state") && strings.Contains(rig.ReadFile(t, path), `"vmid"`) {
			names = append(names, path)
		}
		return err
	}))
	return names
}

// TestAccTerragruntProgram plans, applies, plans and destroys all units of the example's clusters with Terragrunt itself, those of the stacks
// among them: twenty at once in the first cluster in the whole.
func TestAccTerragruntProgram(t *testing.T) {
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	worlds := map[string]*rig.World{"lab": processWorld(t), "edge": processWorld(t)}
	g := newGrunt(t, worlds)
	total := map[string]int{"lab": 3 + 2, "edge": 2}
	if share.IsWhole() {
		g.multiply(t, "lab", 18)
		total["lab"] = 18 + 2
	}
	for cluster, w := range worlds {
		before := rig.GuestCount(w)
		g.run(t, w, cluster, 2, "plan", "--", "-detailed-exitcode")
		g.run(t, w, cluster, 0, "apply")
		if is := rig.GuestCount(w) - before; is != total[cluster] {
			t.Errorf("%s: %d VMs, want %d", cluster, is, total[cluster])
		}
	}
	if n := len(g.states(t)); n != total["lab"]+total["edge"] {
		t.Errorf("%d states with a VM, want %d", n, total["lab"]+total["edge"])
	}
	for cluster, w := range worlds {
		g.run(t, w, cluster, 0, "plan", "--", "-detailed-exitcode")
		g.run(t, w, cluster, 0, "destroy")
		w.MustBeClean(t)
	}
	if left := g.states(t); len(left) > 0 {
		t.Errorf("states that still hold a VM: %v", left)
	}
}
