package docs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// stackUnit is a unit that a stack names: the catalog's file, with the stack's values, where the stack puts it.
type stackUnit struct {
	name, cluster string
	body          *hclsyntax.Body
	scope         *hcl.EvalContext
}

// stackOf reads the stack of a cluster of the Terragrunt example as Terragrunt does.
func stackOf(t *testing.T, cluster string) []stackUnit {
	t.Helper()
	live := filepath.Join(rig.ExamplesDir, "terragrunt", "live")
	stack := filepath.Join(live, cluster, "blue")
	var units []stackUnit
	for _, b := range parseFile(t, filepath.Join(stack, "terragrunt.stack.hcl")).Blocks {
		source := evaluate(t, b.Body.Attributes["source"].Expr, nil).AsString()
		dir := filepath.Join(stack, ".terragrunt-stack", evaluate(t, b.Body.Attributes["path"].Expr, nil).AsString())
		units = append(units, stackUnit{name: b.Labels[0], cluster: cluster,
			body: parseFile(t, filepath.Join(stack, filepath.FromSlash(source), "terragrunt.hcl")),
			scope: &hcl.EvalContext{Variables: map[string]cty.Value{"values": evaluate(t, b.Body.Attributes["values"].Expr, nil)},
				Functions: map[string]function.Function{"find_in_parent_folders": pathFunction(foundAbove(dir)), "dirname": pathFunction(dirname)}}})
	}
	return units
}

func pathFunction(of func(string) (string, error)) function.Function {
	return function.New(&function.Spec{Params: []function.Parameter{{Name: "path", Type: cty.String}}, Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			path, err := of(args[0].AsString())
			return cty.StringVal(path), err
		}})
}

func dirname(path string) (string, error) { return filepath.ToSlash(filepath.Dir(path)), nil }

// foundAbove is find_in_parent_folders in a directory, which need not be there yet.
func foundAbove(dir string) func(string) (string, error) {
	return func(name string) (string, error) {
		for range 6 {
			dir = filepath.Dir(dir)
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return filepath.ToSlash(filepath.Join(dir, name)), nil
			}
		}
		return "", fmt.Errorf("no %s above", name)
	}
}

// session is a working directory of the unit on a cluster.
func (u stackUnit) session(t *testing.T, w *rig.World) *terraformtest.Session {
	t.Helper()
	source := evaluate(t, blockOf(t, u.body, "terraform").Attributes["source"].Expr, u.scope).AsString()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(strings.ReplaceAll(source, "//", "/")), "*.tf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: nothing in %s (%v)", u.name, source, err)
	}
	text := ""
	for _, file := range files {
		text += rig.ReadFile(t, file)
	}
	provider, common := rootOf(t, u.cluster, w.Sim.Endpoint())
	provider = strings.Replace(provider, "{", fmt.Sprintf("{\n  api_token = %q\n  ca_certificate = %q", w.Sim.Credentials().Token, w.Sim.CAPEM()), 1)
	s := w.NewSession()
	rig.Must(t, s.Configure(provider, text))
	for name, v := range common {
		s.SetVariable(name, v)
	}
	return s
}

// rootOf is what the units of a cluster have in common: the provider block, with another address, and inputs.
func rootOf(t *testing.T, cluster, endpoint string) (provider string, inputs map[string]cty.Value) {
	t.Helper()
	live, locals := filepath.Join(rig.ExamplesDir, "terragrunt", "live"), map[string]cty.Value{}
	for _, b := range parseFile(t, filepath.Join(live, cluster, "cluster.hcl")).Blocks {
		for name, a := range b.Body.Attributes {
			locals[name] = evaluate(t, a.Expr, nil)
		}
	}
	if locals["endpoint"] == cty.NilVal {
		t.Fatal("cluster.hcl says no endpoint")
	}
	locals["endpoint"] = cty.StringVal(endpoint)
	scope := &hcl.EvalContext{Variables: map[string]cty.Value{"local": cty.ObjectVal(map[string]cty.Value{"cluster": cty.ObjectVal(locals)})}}
	root := parseFile(t, filepath.Join(live, "root.hcl"))
	return evaluate(t, blockOf(t, root, "generate", "provider").Attributes["contents"].Expr, scope).AsString(),
		evaluate(t, root.Attributes["inputs"].Expr, scope).AsValueMap()
}

// input gives a session the unit's inputs, with the outputs of its dependencies, or with the mocks if there are none yet.
func (u stackUnit) input(t *testing.T, s *terraformtest.Session, outputs map[string]cty.Value) {
	t.Helper()
	dependencies := map[string]cty.Value{}
	for _, b := range u.body.Blocks {
		if b.Type != "dependency" {
			continue
		}
		of := strings.TrimPrefix(evaluate(t, b.Body.Attributes["config_path"].Expr, u.scope).AsString(), "../")
		made, there := outputs[of]
		if !there {
			made = evaluate(t, b.Body.Attributes["mock_outputs"].Expr, u.scope)
		}
		dependencies[b.Labels[0]] = cty.ObjectVal(map[string]cty.Value{"outputs": made})
	}
	scope := *u.scope
	scope.Variables = maps.Clone(scope.Variables)
	scope.Variables["dependency"] = cty.ObjectVal(dependencies)
	for name, v := range evaluate(t, u.body.Attributes["inputs"].Expr, &scope).AsValueMap() {
		s.SetVariable(name, v)
	}
}

// TestTerragruntStacks plans the stacks of two clusters while nothing exists, with mocks, applies them in the order of their dependencies, with
// what is there by then, and destroys them. Neither cluster notices the other.
func TestTerragruntStacks(t *testing.T) {
	t.Parallel()
	worlds := map[string]*rig.World{"lab": rig.NewWorld(t), "edge": rig.NewWorld(t)}
	var sessions []*terraformtest.Session
	for cluster, w := range worlds {
		outputs := map[string]cty.Value{}
		units := stackOf(t, cluster)
		if len(units) != 2 {
			t.Fatalf("%s has %d units", cluster, len(units))
		}
		for _, u := range units {
			s := u.session(t, w)
			u.input(t, s, nil)
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			if !strings.Contains(plan.String(), "create proxmox_vm.this") {
				t.Errorf("%s of %s: the plan is\n%s", u.name, cluster, plan)
			}
			if leaks := w.Leaks(); u.name == units[0].name && len(leaks) > 0 {
				t.Errorf("a plan has changed something: %v", leaks)
			}
			u.input(t, s, outputs)
			rig.Must(t, s.Converge(t.Context()))
			outputs[u.name] = cty.ObjectVal(map[string]cty.Value{"vmid": s.Output("vmid"), "address": s.Output("address")})
			sessions = append(sessions, s)
		}
		balancer := sessions[len(sessions)-1]
		want := fmt.Sprintf("Balances VM %s at %s", terraformtest.Text(outputs["web"], "vmid"), terraformtest.Text(outputs["web"], "address"))
		if is := terraformtest.ShowValue(balancer.Attr("proxmox_vm.this", "description")); is != fmt.Sprintf("%q", want) {
			t.Errorf("%s: %s, want %s", cluster, is, want)
		}
	}
	for i := len(sessions) - 1; i >= 0; i-- {
		rig.Must(t, sessions[i].Destroy(t.Context()))
	}
	for _, w := range worlds {
		w.MustBeClean(t)
	}
}
