package rig

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// UseCLI makes terraform-plugin-testing run the CLI of TF_CLI or PATH, and skips the test if there is none.
func UseCLI(t *testing.T) {
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
		// Nothing is installed, so no settings of the user are needed; a warning about a missing file
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

// WithoutEnvironment hides the provider's environment variables, which a simulated cluster must not see.
func WithoutEnvironment(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "PROXMOX_VE_") {
			t.Setenv(name, "")
		}
	}
}

// OnRealCluster tells whether the tests are to run on the cluster of the environment. An environment that is there for other reasons is
// not enough.
func OnRealCluster() bool { return os.Getenv("PROXMOX_VE_ENDPOINT") != "" && os.Getenv("TF_ACC") != "" }

// Environment gives the provider a token of the cluster through the environment, as the example wants it.
func (w *World) Environment() map[string]string {
	return map[string]string{"PROXMOX_VE_ENDPOINT": w.Sim.Endpoint(), "PROXMOX_VE_CA_CERTIFICATE": w.Sim.CAPEM(), "PROXMOX_VE_API_TOKEN": w.Sim.Credentials().Token}
}

// projectDir is the top of the project, as each package of tests sees it.
const projectDir = "../../.."

// builtProvider returns the path of the provider built from this source. All packages of tests share one program: `go build`
// takes half a second if the source has not changed.
func builtProvider() (string, error) {
	top, err := filepath.Abs(projectDir)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("terraform-provider-proxmox-%d-%.8x", os.Getuid(), sha256.Sum256([]byte(top)))
	dir := filepath.Join(os.TempDir(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "terraform-provider-proxmox")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", path, projectDir)
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the provider: %w\n%s", err, text)
	}
	return path, nil
}

// Workspace is a directory in which a CLI works with the provider built from this source.
type Workspace struct {
	Dir string
	env []string
}

// DevOverride puts the provider into dir and gives the CLI's settings that make it use that.
func DevOverride(t *testing.T, dir string) (settings string) {
	t.Helper()
	built, err := builtProvider()
	if err == nil {
		err = os.Link(built, filepath.Join(dir, "terraform-provider-proxmox"))
	}
	if err != nil {
		t.Fatal(err)
	}
	settings = filepath.Join(dir, "dev.tfrc")
	text := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"terraform-proxmox/proxmox\" = %q\n  }\n  direct {}\n}\n", dir)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return settings
}

// NewWorkspace returns a new directory with the files, and the environment for the cluster.
func NewWorkspace(t *testing.T, w *World, settings string, files map[string]string) Workspace {
	t.Helper()
	ws := Workspace{Dir: t.TempDir(), env: append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1", "TF_INPUT=0")}
	for name, v := range w.Environment() {
		ws.env = append(ws.env, name+"="+v)
	}
	for name, text := range files {
		ws.Write(t, name, text)
	}
	return ws
}

// Write writes a file into the directory.
func (ws Workspace) Write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(ws.Dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Run calls the CLI, which must succeed.
func (ws Workspace) Run(t *testing.T, args ...string) {
	t.Helper()
	ws.Says(t, args...)
}

// Says is run, with what the CLI has to say.
func (ws Workspace) Says(t *testing.T, args ...string) string {
	t.Helper()
	text, err := ws.Try(t, args...)
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return text
}

// Try calls the CLI, which may fail.
func (ws Workspace) Try(t *testing.T, args ...string) (text string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv("TF_ACC_TERRAFORM_PATH"), append(args, "-no-color")...)
	cmd.Dir, cmd.Env = ws.Dir, ws.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// GuestsNamed gives the VMIDs of the cluster's guests by name.
func GuestsNamed(w *World) map[string]int {
	named := map[string]int{}
	w.Change(func(world *state.World) {
		for id, g := range world.Guests {
			named[g.Config["name"]] = id
		}
	})
	return named
}
