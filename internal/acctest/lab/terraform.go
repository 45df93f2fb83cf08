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
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
)

// Outcome is what a command of Terraform came to.
type Outcome struct {
	OK      bool
	Changes bool // of a plan: there is something to do
	Text    string
}

// Terraform is a working directory, of a program or of what stands for it.
type Terraform interface {
	// Configure replaces the configuration and the values of its variables.
	Configure(config string, variables map[string]string) error
	Plan(ctx context.Context) Outcome
	Apply(ctx context.Context) Outcome
	Destroy(ctx context.Context) Outcome
	Replace(ctx context.Context, address string) Outcome
	Import(ctx context.Context, address, id string) Outcome
	Forget(ctx context.Context, address string) Outcome
	// Generate imports by a block and lets Terraform write the configuration, which is that of the directory from then on.
	Generate(ctx context.Context, address, id string) Outcome
	// Interrupt applies, and interrupts that once as soon as ready returns.
	Interrupt(ctx context.Context, ready func(context.Context) error) Outcome
	// Attributes are those of a resource in state, by path: disks.scsi0.size. Null ones are not among them.
	Attributes(ctx context.Context, address string) (map[string]string, error)
}

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

func (w *workspace) Configure(config string, variables map[string]string) error {
	values, err := json.Marshal(variables)
	if err != nil {
		return err
	}
	if !strings.Contains(config, "required_providers") {
		config = source + config
	}
	return errors.Join(w.write("main.tf", config), w.write("terraform.tfvars.json", string(values)))
}

func (w *workspace) write(name, text string) error {
	return os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600)
}

func (w *workspace) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.binary, args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+w.settings, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=")
	cmd.Env = append(cmd.Env, w.env...)
	return cmd
}

// run gives what a command came to; with -detailed-exitcode two means that there is something to do.
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

// unframed takes away the frame that Terraform draws around what it says, and its line breaks.
func unframed(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(text)), " ")
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
	block := fmt.Sprintf("import {\n  to = %s\n  id = %q\n}\n", address, id)
	if err := w.write("import.tf", block); err != nil {
		return Outcome{Text: err.Error()}
	}
	if planned := w.run(ctx, "plan", "-generate-config-out=generated.tf"); !planned.OK {
		return planned
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

// flattened takes a value apart: disks.scsi0.size, tags.0.
func flattened(raw []byte) (map[string]string, error) {
	var value any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	all := map[string]string{}
	flatten(all, "", value)
	return all, nil
}

func flatten(all map[string]string, at string, value any) {
	below := func(name string) string {
		if at == "" {
			return name
		}
		return at + "." + name
	}
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for name, member := range value {
			flatten(all, below(name), member)
		}
	case []any:
		all[below("#")] = strconv.Itoa(len(value))
		for i, member := range value {
			flatten(all, below(strconv.Itoa(i)), member)
		}
	default:
		all[at] = fmt.Sprint(value)
	}
}

// Protocol plays Terraform in this process. Provider is the block that each configuration is completed by.
type Protocol struct {
	Session  *drive.Session
	Provider string
}

// Configure replaces the configuration and the values of its variables.
func (p *Protocol) Configure(config string, variables map[string]string) error {
	for name, value := range variables {
		p.Session.SetString(name, value)
	}
	return p.Session.Configure(p.Provider, strings.Replace(config, emptyProvider, "", 1))
}

func (p *Protocol) said(err error) Outcome {
	all := p.Session.Diagnostics().String()
	if err != nil {
		all += "\n" + err.Error()
	}
	return Outcome{OK: err == nil, Text: unframed(all)}
}

// Plan is terraform plan.
func (p *Protocol) Plan(ctx context.Context) Outcome {
	plan, err := p.Session.Plan(ctx)
	out := p.said(err)
	if err == nil {
		out.Changes, out.Text = !plan.Empty(), unframed(plan.String()+"\n"+out.Text)
	}
	return out
}

// Apply is terraform apply.
func (p *Protocol) Apply(ctx context.Context) Outcome { return p.said(p.Session.Run(ctx)) }

// Destroy is terraform destroy.
func (p *Protocol) Destroy(ctx context.Context) Outcome { return p.said(p.Session.Destroy(ctx)) }

// Replace is terraform apply -replace.
func (p *Protocol) Replace(ctx context.Context, address string) Outcome {
	p.Session.Taint(address)
	return p.Apply(ctx)
}

// Import is terraform import.
func (p *Protocol) Import(ctx context.Context, address, id string) Outcome {
	return p.said(p.Session.Import(ctx, address, id))
}

// Forget is terraform state rm.
func (p *Protocol) Forget(_ context.Context, address string) Outcome {
	p.Session.Forget(address)
	return Outcome{OK: true}
}

// Generate is for a program only: cases with it need one.
func (p *Protocol) Generate(context.Context, string, string) Outcome {
	return Outcome{Text: "only a program writes a configuration"}
}

// Interrupt is for a program only.
func (p *Protocol) Interrupt(context.Context, func(context.Context) error) Outcome {
	return Outcome{Text: "only a program is interrupted by a signal"}
}

// Attributes are those of a resource in state.
func (p *Protocol) Attributes(_ context.Context, address string) (map[string]string, error) {
	i, err := p.Session.Instance(address)
	if err != nil {
		return nil, err
	}
	return flattened([]byte(drive.ShowValue(i.Value)))
}
