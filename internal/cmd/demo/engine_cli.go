package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// cli runs a Terraform or OpenTofu binary in a directory of its own, with a provider built from this source. The CLI
// configuration points at the built binary, so that no registry is asked.
type cli struct {
	binary, dir, config string
}

const mainPackage = "github.com/terraform-proxmox/terraform-provider-proxmox"

func newCLI(ctx context.Context, out io.Writer, world *rig.World, binary, dir string) (*cli, error) {
	c := &cli{binary: binary, dir: filepath.Join(dir, "work"), config: filepath.Join(dir, "cli.tfrc")}
	plugins := filepath.Join(dir, "plugins")
	for _, d := range []string{c.dir, plugins} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	rc := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"terraform-proxmox/proxmox\" = %q\n  }\n"+
		"  direct {}\n}\ndisable_checkpoint = true\n", plugins)
	if err := os.WriteFile(c.config, []byte(rc), 0o600); err != nil {
		return nil, err
	}
	version, err := c.command(ctx, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s version: %w", binary, err)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	fmt.Fprintf(out, "Driven by %s (%s). Building the provider ...\n", first, binary)
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(plugins, "terraform-provider-proxmox"), mainPackage)
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the provider: %w\n%s", err, text)
	}
	vars, err := variables(world)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(vars)
	if err != nil {
		return nil, err
	}
	return c, os.WriteFile(filepath.Join(c.dir, "terraform.tfvars.json"), text, 0o600)
}

func (c *cli) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+c.config, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=")
	return cmd
}

// run gives the exit status and everything printed.
func (c *cli) run(ctx context.Context, args ...string) (int, string) {
	cmd := c.command(ctx, args...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, text.String()
	case errors.As(err, &exit):
		return exit.ExitCode(), text.String()
	}
	return -1, err.Error()
}

func (c *cli) configure(files []string, replace map[string]string) error {
	old, err := filepath.Glob(filepath.Join(c.dir, "*.tf"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for _, name := range files {
		text, err := configText(name, replace)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// configText reads one of configs and replaces pieces of it.
func configText(name string, replace map[string]string) (string, error) {
	text, err := configs.ReadFile("configs/" + name)
	if err != nil {
		return "", err
	}
	return strings.NewReplacer(pairs(replace)...).Replace(string(text)), nil
}

func pairs(m map[string]string) []string {
	var out []string
	for k, v := range m {
		out = append(out, k, v)
	}
	return out
}

func (c *cli) plan(ctx context.Context) result {
	code, text := c.run(ctx, "plan", "-no-color", "-detailed-exitcode")
	return result{ok: code == 0 || code == 2, changes: code == 2, output: text}
}

func (c *cli) apply(ctx context.Context) result {
	return c.simple(ctx, "apply", "-no-color", "-auto-approve")
}

func (c *cli) destroy(ctx context.Context) result {
	return c.simple(ctx, "destroy", "-no-color", "-auto-approve")
}

func (c *cli) importID(ctx context.Context, address, id string) result {
	return c.simple(ctx, "import", "-no-color", address, id)
}

func (c *cli) forget(ctx context.Context, address string) result {
	return c.simple(ctx, "state", "rm", address)
}

func (c *cli) simple(ctx context.Context, args ...string) result {
	code, text := c.run(ctx, args...)
	return result{ok: code == 0, output: text}
}

func (c *cli) addresses(ctx context.Context) []string {
	code, text := c.run(ctx, "state", "list")
	if code != 0 {
		return nil // no state file yet
	}
	return strings.Fields(text)
}
