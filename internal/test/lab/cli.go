package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const mainPackage = "github.com/terraform-proxmox/terraform-provider-proxmox"

// CLI runs a Terraform or OpenTofu program with the provider built from this source.
type CLI struct {
	binary, settings string
	env              []string
}

// NewCLI builds the provider into a directory. env is added to the environment.
func NewCLI(ctx context.Context, dir, binary string, env ...string) (*CLI, error) {
	c := &CLI{binary: binary, settings: filepath.Join(dir, "cli.tfrc"), env: env}
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "terraform-provider-proxmox"), mainPackage)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the provider: %w\n%s", err, out)
	}
	settings := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"terraform-proxmox/proxmox\" = %q\n  }\n  direct {}\n}\n", dir)
	return c, os.WriteFile(c.settings, []byte(settings), 0o600)
}

// In is a working directory of it.
func (c *CLI) In(dir string) Terraform { return &workspace{c, dir} }

type workspace struct {
	*CLI
	dir string
}

// source says where the provider is from, in configurations that do not.
const source = "terraform {\n  required_providers {\n    proxmox = { source = \"terraform-proxmox/proxmox\" }\n  }\n}\n"

// The file that Generate writes, and the one that Terraform writes for it.
const importFile, generatedFile = "import.tf", "generated.tf"

func (w *workspace) Configure(config string, variables map[string]string) error {
	values, err := json.Marshal(variables)
	if err != nil {
		return err
	}
	if !strings.Contains(config, "required_providers") {
		config = source + config
	}
	for _, name := range []string{importFile, generatedFile} {
		if err := os.RemoveAll(filepath.Join(w.dir, name)); err != nil {
			return err
		}
	}
	return errors.Join(w.write("main.tf", config), w.write("terraform.tfvars.json", string(values)))
}

func (w *workspace) write(name, text string) error {
	return os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600)
}

func (w *workspace) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.binary, args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+w.settings, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1",
		"TF_CLI_ARGS=")
	cmd.Env = append(cmd.Env, w.env...)
	return cmd
}

// run returns the result of a command; with -detailed-exitcode two means that there is something to do.
func (w *workspace) run(ctx context.Context, args ...string) Outcome {
	cmd := w.command(ctx, append(args, "-no-color")...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return outcome(cmd.Run(), &out)
}

func outcome(err error, out *bytes.Buffer) Outcome {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return Outcome{OK: exit.ExitCode() == 2, Changes: exit.ExitCode() == 2, Text: unframed(out.String())}
	}
	if err != nil {
		return Outcome{Text: err.Error()}
	}
	return Outcome{OK: true, Text: unframed(out.String())}
}

func (w *workspace) Plan(ctx context.Context) Outcome {
	return w.run(ctx, "plan", "-detailed-exitcode")
}

func (w *workspace) Apply(ctx context.Context) Outcome { return w.run(ctx, "apply", "-auto-approve") }

func (w *workspace) Destroy(ctx context.Context) Outcome {
	return w.run(ctx, "destroy", "-auto-approve")
}

func (w *workspace) Replace(ctx context.Context, address string) Outcome {
	return w.run(ctx, "apply", "-auto-approve", "-replace="+address)
}

func (w *workspace) Import(ctx context.Context, address, id string) Outcome {
	return w.run(ctx, "import", address, id)
}

func (w *workspace) Forget(ctx context.Context, address string) Outcome {
	cmd := w.command(ctx, "state", "rm", address)
	text, err := cmd.CombinedOutput()
	return outcome(err, bytes.NewBuffer(text))
}

func (w *workspace) Generate(ctx context.Context, address, id string) Outcome {
	// Terraform from 1.16 on takes the provider from the import block while there is no resource, and refuses it there after.
	block := fmt.Sprintf("import {\n  to = %s\n  id = %q\n", address, id)
	if err := w.write(importFile, block+"  provider = proxmox\n}\n"); err != nil {
		return Outcome{Text: err.Error()}
	}
	if planned := w.run(ctx, "plan", "-generate-config-out="+generatedFile); !planned.OK {
		return planned
	}
	if err := w.write(importFile, block+"}\n"); err != nil {
		return Outcome{Text: err.Error()}
	}
	return w.Apply(ctx)
}

func (w *workspace) Interrupt(ctx context.Context, ready func(context.Context) error) Outcome {
	cmd := w.command(ctx, "apply", "-auto-approve", "-no-color")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return Outcome{Text: err.Error()}
	}
	waiting, done := context.WithCancel(ctx)
	defer done()
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		done()
	}()
	if err := ready(waiting); err == nil {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended meanwhile
	}
	return outcome(<-ended, &out)
}

func (w *workspace) Attributes(ctx context.Context, address string) (map[string]string, error) {
	text, err := w.command(ctx, "show", "-json").Output()
	if err != nil {
		return nil, fmt.Errorf("terraform show: %w", err)
	}
	var shown struct {
		Values struct {
			Root struct {
				Resources []struct {
					Address string          `json:"address"`
					Values  json.RawMessage `json:"values"`
				} `json:"resources"`
			} `json:"root_module"`
		} `json:"values"`
	}
	if err := json.Unmarshal(text, &shown); err != nil {
		return nil, err
	}
	for _, r := range shown.Values.Root.Resources {
		if r.Address == address {
			return flattened(r.Values)
		}
	}
	return nil, fmt.Errorf("%s is not in state", address)
}
