package docs_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// unit is a configuration with a state of its own, as Terragrunt makes one of a directory with a terragrunt.hcl.
type unit struct {
	name     string
	files    map[string]string // the configuration's files, by name
	provider string            // the generated provider block
	inputs   map[string]cty.Value
}

// terragruntUnits reads the Terragrunt example as Terragrunt does, with the address of a simulated cluster in the place of
// its own.
func terragruntUnits(t *testing.T, endpoint string) []unit {
	t.Helper()
	live := filepath.Join(rig.ExamplesDir, "terragrunt", "live")
	provider, common := rootOf(t, "lab", endpoint)
	dirs, err := filepath.Glob(filepath.Join(live, "lab", "*", "terragrunt.hcl"))
	if err != nil || len(dirs) < 3 {
		t.Fatalf("%d units: %v", len(dirs), err)
	}
	var units []unit
	for _, name := range dirs {
		body := parseFile(t, name)
		if path := blockOf(t, body, "include", "root").Attributes["path"]; path == nil {
			t.Fatalf("%s does not include the root", name)
		}
		source := evaluate(t, blockOf(t, body, "terraform").Attributes["source"].Expr, nil).AsString()
		u := unit{name: filepath.Base(filepath.Dir(name)), provider: provider, files: map[string]string{}, inputs: maps.Clone(common)}
		maps.Copy(u.inputs, evaluate(t, body.Attributes["inputs"].Expr, nil).AsValueMap())
		module := filepath.Join(filepath.Dir(name), filepath.FromSlash(strings.ReplaceAll(source, "//", "/")))
		files, err := filepath.Glob(filepath.Join(module, "*.tf"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: nothing in %s (%v)", name, module, err)
		}
		for _, file := range files {
			u.files[filepath.Base(file)] = rig.ReadFile(t, file)
		}
		units = append(units, u)
	}
	return units
}

func parseFile(t *testing.T, name string) *hclsyntax.Body {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(rig.ReadFile(t, name)), name, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		t.Fatalf("%s is not native HCL", name)
	}
	return body
}

func blockOf(t *testing.T, body *hclsyntax.Body, kind string, labels ...string) *hclsyntax.Body {
	t.Helper()
	for _, b := range body.Blocks {
		if b.Type == kind && slices.Equal(b.Labels, labels) {
			return b.Body
		}
	}
	t.Fatalf("there is no block %s %v", kind, labels)
	return nil
}

func evaluate(t *testing.T, e hcl.Expression, scope *hcl.EvalContext) cty.Value {
	t.Helper()
	v, diags := e.Value(scope)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return v
}

// TestTerragrunt applies the units of the Terragrunt example, and more of the kind, all at once and each with a provider of
// its own: ids never collide, plans are empty afterwards, and a destroy of all at once leaves nothing.
func TestTerragrunt(t *testing.T) {
	const copies = 4
	w := rig.NewWorld(t)
	rig.WithoutEnvironment(t)
	for name, v := range w.Environment() {
		t.Setenv(name, v)
	}
	var sessions []*terraformtest.Session
	for _, u := range terragruntUnits(t, w.Sim.Endpoint()) {
		for n := range copies {
			s := w.NewSession()
			text := ""
			for _, name := range slices.Sorted(maps.Keys(u.files)) {
				text += u.files[name]
			}
			rig.Must(t, s.Configure(u.provider, text))
			for name, v := range u.inputs {
				s.SetVariable(name, v)
			}
			s.SetString("name", fmt.Sprintf("%s-%d", u.name, n))
			sessions = append(sessions, s)
		}
	}
	atOnce(t, sessions, func(ctx context.Context, s *terraformtest.Session) error { return s.Converge(ctx) })
	ids := map[string]bool{}
	for _, s := range sessions {
		id := terraformtest.ShowValue(s.Output("vmid"))
		if ids[id] || len(id) != 4 || !strings.HasPrefix(id, "1") {
			t.Errorf("vmid %s: taken twice, or not of the range 1000 to 1999", id)
		}
		ids[id] = true
	}
	atOnce(t, sessions, func(ctx context.Context, s *terraformtest.Session) error { return s.Destroy(ctx) })
	w.MustBeClean(t)
}

func atOnce(t *testing.T, sessions []*terraformtest.Session, do func(context.Context, *terraformtest.Session) error) {
	t.Helper()
	var wg sync.WaitGroup
	for _, s := range sessions {
		wg.Go(func() {
			if err := do(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// cycle applies, wants an empty plan, and destroys, in all workspaces at once.
func cycle(t *testing.T, workspaces []rig.Workspace) {
	t.Helper()
	for _, args := range [][]string{{"apply", "-auto-approve"}, {"plan", "-detailed-exitcode"}, {"destroy", "-auto-approve"}} {
		var wg sync.WaitGroup
		for _, ws := range workspaces {
			wg.Go(func() { ws.Run(t, args...) })
		}
		wg.Wait()
	}
}

// processWorld is a cluster for programs: on a real network and in real time.
func processWorld(t *testing.T) *rig.World {
	t.Helper()
	return rig.ExampleWorld(t, pvesim.Options{RealNetwork: true, Clock: rig.NewFastClock()})
}

// TestAccTerragrunt runs the units of the Terragrunt example at once, each with a CLI and a provider process.
func TestAccTerragrunt(t *testing.T) {
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	w := processWorld(t)
	settings := rig.DevOverride(t, t.TempDir())
	var workspaces []rig.Workspace
	for _, u := range terragruntUnits(t, w.Sim.Endpoint()) {
		inputs, err := ctyjson.SimpleJSONValue{Value: cty.ObjectVal(u.inputs)}.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		u.files["provider.tf"], u.files["terraform.tfvars.json"] = u.provider, string(inputs)
		workspaces = append(workspaces, rig.NewWorkspace(t, w, settings, u.files))
	}
	cycle(t, workspaces)
	w.MustBeClean(t)
}

// TestAccExamplesForEach applies the examples that TestAccExamples leaves out, because its library cannot read the state
// of a resource with for_each. `make test` applies one in four.
func TestAccExamplesForEach(t *testing.T) {
	atHome(t)
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	settings := rig.DevOverride(t, t.TempDir())
	examples := rig.Examples(t)
	maps.DeleteFunc(examples, func(_, config string) bool { return !hasForEach(config) })
	if len(examples) == 0 {
		t.Error("no example has for_each")
	}
	for name, config := range share.Rows(examples, 4) {
		w := rig.WorldOf(t, config, pvesim.Options{RealNetwork: true, Clock: rig.NewFastClock()})
		ws := rig.NewWorkspace(t, w, settings, map[string]string{"main.tf": config})
		t.Run(name, func(t *testing.T) {
			cycle(t, []rig.Workspace{ws})
			w.MustBeClean(t)
		})
	}
}

func hasForEach(config string) bool { return strings.Contains(config, "\n  for_each = ") }
