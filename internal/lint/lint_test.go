package lint

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// described is a provider with each form of an attribute.
func described() *tfprotov6.GetProviderSchemaResponse {
	text := func(name string) *tfprotov6.SchemaAttribute {
		return &tfprotov6.SchemaAttribute{Name: name, Type: tftypes.String}
	}
	nested := func(name string, mode tfprotov6.SchemaObjectNestingMode, in ...*tfprotov6.SchemaAttribute) *tfprotov6.SchemaAttribute {
		return &tfprotov6.SchemaAttribute{Name: name, NestedType: &tfprotov6.SchemaObject{Nesting: mode, Attributes: in}}
	}
	old := text("model_name")
	old.Deprecated, old.DeprecationMessage = true, "use model."
	block := func(in ...*tfprotov6.SchemaAttribute) *tfprotov6.Schema {
		return &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{Attributes: in}}
	}
	vm := block(text("name"),
		nested("cpu", tfprotov6.SchemaObjectNestingModeSingle, text("cores"), text("type")),
		nested("networks", tfprotov6.SchemaObjectNestingModeMap, text("bridge"), text("tag"), old),
		nested("rules", tfprotov6.SchemaObjectNestingModeList, text("action")),
		&tfprotov6.SchemaAttribute{Name: "labels", Type: tftypes.Map{ElementType: tftypes.String}},
		&tfprotov6.SchemaAttribute{Name: "plain", Type: tftypes.Object{AttributeTypes: map[string]tftypes.Type{"size": tftypes.String}}})
	vm.Block.BlockTypes = []*tfprotov6.SchemaNestedBlock{{TypeName: "timeouts", Block: &tfprotov6.SchemaBlock{
		Attributes: []*tfprotov6.SchemaAttribute{text("create")}}}}
	return &tfprotov6.GetProviderSchemaResponse{
		Provider:            block(text("endpoint"), nested("ssh", tfprotov6.SchemaObjectNestingModeSingle, text("username"))),
		ResourceSchemas:     map[string]*tfprotov6.Schema{"proxmox_vm": vm},
		DataSourceSchemas:   map[string]*tfprotov6.Schema{"proxmox_vms": block(nested("filter", tfprotov6.SchemaObjectNestingModeSingle, text("node")))},
		ListResourceSchemas: map[string]*tfprotov6.Schema{"proxmox_vm": block(text("node"))},
		ActionSchemas:       map[string]*tfprotov6.ActionSchema{"proxmox_vm_power": {Schema: block(text("vmid"))}},
	}
}

// write writes a configuration: "-- NAME" begins a file; what comes before is main.tf.
func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	name, lines := "main.tf", map[string][]string{}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSpace(rest)
			continue
		}
		lines[name] = append(lines[name], line)
	}
	for name, text := range lines {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(text, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func found(t *testing.T, config string) ([]string, Result) {
	t.Helper()
	s, err := NewSchema("registry.terraform.io/terraform-proxmox/proxmox", described())
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, config)
	r, err := s.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, f := range r.Findings {
		file, err := filepath.Rel(dir, f.Range.Filename)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Join([]string{filepath.ToSlash(file), f.Path, f.Suggestion}, " "))
	}
	return lines, r
}

// TestLintFinds: one wrong key in each way of writing it.
func TestLintFinds(t *testing.T) {
	t.Parallel()
	const vm = `resource "proxmox_vm" "a" {`
	for name, c := range map[string]struct{ config, want string }{
		"in the resource":       {vm + "\n cpu = { corse = 2 }\n}", "main.tf cpu.corse cores"},
		"quoted":                {vm + "\n cpu = { \"corse\" = 2 }\n}", "main.tf cpu.corse cores"},
		"in a map":              {vm + "\n networks = { net0 = { bridge = \"b\", vlan_id = 20 } }\n}", "main.tf networks.net0.vlan_id tag"},
		"in a list":             {vm + "\n rules = [{ acton = \"b\" }]\n}", "main.tf rules.*.acton action"},
		"of an object type":     {vm + "\n plain = { sizes = 1 }\n}", "main.tf plain.sizes size"},
		"an argument":           {vm + "\n namee = \"b\"\n}", "main.tf namee name"},
		"in a nested block":     {vm + "\n timeouts {\n craete = 1\n }\n}", "main.tf timeouts.craete create"},
		"deprecated":            {vm + "\n networks = { net0 = { model_name = 1 } }\n}", "main.tf networks.net0.model_name "},
		"in a condition":        {vm + "\n cpu = var.big ? { cores = 1 } : { corse = 2 }\n}", "main.tf cpu.corse cores"},
		"in parentheses":        {vm + "\n cpu = ({ corse = 2 })\n}", "main.tf cpu.corse cores"},
		"in merge":              {vm + "\n cpu = merge({ cores = 2 }, { tipe = 2 })\n}", "main.tf cpu.tipe type"},
		"in merge of a list":    {vm + "\n networks = merge([for n in [1] : { \"net${n}\" = { tga = 1 } }]...)\n}", "main.tf networks.*.tga tag"},
		"in merge of maps":      {vm + "\n networks = merge([{ net0 = { tga = 2 } }]...)\n}", "main.tf networks.net0.tga tag"},
		"in a for expression":   {vm + "\n networks = { for i in [0] : \"net${i}\" => { tga = i } }\n}", "main.tf networks.*.tga tag"},
		"in for over a literal": {vm + "\n networks = { for k, v in { net0 = { tga = 1 } } : k => v }\n}", "main.tf networks.*.tga tag"},
		"in a tuple for":        {vm + "\n rules = [for a in [1] : { acton = a }]\n}", "main.tf rules.*.acton action"},
		"in try":                {vm + "\n cpu = try(var.x, { corse = 1 })\n}", "main.tf cpu.corse cores"},
		"in a local":            {vm + "\n cpu = local.c\n}\nlocals {\n c = { corse = 1 }\n}", "main.tf cpu.corse cores"},
		"below a local":         {vm + "\n cpu = local.all[\"c\"].cpu\n}\nlocals {\n all = { c = { cpu = { corse = 1 } } }\n}", "main.tf cpu.corse cores"},
		"in a local of locals":  {vm + "\n networks = local.a\n}\nlocals {\n a = { net0 = merge(local.b, {}) }\n b = { tga = 1 }\n}", "main.tf networks.net0.tga tag"},
		"in a chosen local":     {vm + "\n cpu = local.all[var.which]\n}\nlocals {\n all = { c = { corse = 1 } }\n}", "main.tf cpu.corse cores"},
		"in a default":          {vm + "\n cpu = var.c\n}\nvariable \"c\" {\n default = { corse = 1 }\n}", "main.tf cpu.corse cores"},
		"in values":             {vm + "\n cpu = var.c\n}\nvariable \"c\" {}\n-- terraform.tfvars\nc = { corse = 1 }\n", "terraform.tfvars cpu.corse cores"},
		"in a type":             {vm + "\n networks = var.n\n}\nvariable \"n\" {\n type = map(object({ tag = number, vlan = optional(number) }))\n}", "main.tf networks.*.vlan "},
		"in a map of any":       {vm + "\n networks = var.n\n}\nvariable \"n\" {\n type = map(any)\n default = { net0 = { tga = 1 } }\n}", "main.tf networks.*.tga tag"},
		"in a map for an object": {vm + "\n cpu = var.n\n}\nvariable \"n\" {\n type = map(string)\n default = { corse = 1 }\n}",
			"main.tf cpu.corse cores"},
		"in for_each": {vm + "\n for_each = local.vms\n cpu = each.value.cpu\n}\nlocals {\n vms = { a = { cpu = { corse = 1 } }, b = { cpu = { cores = 1 } } }\n}",
			"main.tf cpu.corse cores"},
		"in a module's argument": {"module \"m\" {\n source = \"./m\"\n c = { corse = 1 }\n}\n-- m/main.tf\n" + vm + "\n cpu = var.c\n}\nvariable \"c\" {\n type = any\n}",
			"main.tf cpu.corse cores"},
		"in a module": {"module \"m\" {\n source = \"./m\"\n}\n-- m/main.tf\n" + vm + "\n cpu = { corse = 1 }\n}", "m/main.tf cpu.corse cores"},
		"in a module's for_each": {"module \"m\" {\n source = \"./m\"\n for_each = { a = { corse = 1 } }\n c = each.value\n}\n-- m/main.tf\n" + vm +
			"\n cpu = var.c\n}\nvariable \"c\" {}", "main.tf cpu.corse cores"},
		"two modules deep": {"module \"m\" {\n source = \"./m\"\n n = { net0 = { tga = 1 } }\n}\n-- m/main.tf\nmodule \"o\" {\n source = \"../o\"\n n = var.n\n}\n" +
			"variable \"n\" {}\n-- o/main.tf\n" + vm + "\n networks = { for k, v in var.n : k => v }\n}\nvariable \"n\" {}", "main.tf networks.*.tga tag"},
		"compared with null": {vm + "\n cpu = var.c == null ? null : var.c\n}\nvariable \"c\" {\n default = { corse = 1 }\n}", "main.tf cpu.corse cores"},
		"an element that is": {vm + "\n for_each = local.vms\n cpu = null != each.value ? each.value.cpu : null\n}\nlocals {\n vms = { a = { cpu = { corse = 1 } } }\n}",
			"main.tf cpu.corse cores"},
		"tried":            {vm + "\n cpu = can(local.c) ? local.c : null\n}\nlocals {\n c = { corse = 1 }\n}", "main.tf cpu.corse cores"},
		"in the provider":  {"provider \"proxmox\" {\n ssh = { user = 1, usrename = 2 }\n}", "main.tf ssh.user |main.tf ssh.usrename username"},
		"in a data source": {"data \"proxmox_vms\" \"a\" {\n filter = { nod = 1 }\n}", "main.tf filter.nod node"},
		"in an action":     {"action \"proxmox_vm_power\" \"a\" {\n config {\n vmdi = 1\n }\n}", "main.tf vmdi vmid"},
		"in a query":       {"-- a.tfquery.hcl\nlist \"proxmox_vm\" \"a\" {\n provider = proxmox\n config {\n nod = 1\n }\n}", "a.tfquery.hcl nod node"},
		"under another name": {"terraform {\n required_providers {\n pve = { source = \"terraform-proxmox/proxmox\" }\n }\n}\n" + vm +
			"\n provider = pve.lab\n cpu = { corse = 1 }\n}", "main.tf cpu.corse cores"},
		"in JSON":             {"-- a.tf.json\n" + `{"resource": {"proxmox_vm": {"a": {"//": "x", "cpu": {"//": "y", "corse": 2}, "depends_on": []}}}}`, "a.tf.json cpu.corse cores"},
		"in JSON's strings":   {"-- a.tf.json\n" + `{"resource": {"proxmox_vm": {"a": {"cpu": "${local.c}"}}}, "locals": {"c": {"corse": 2}}}`, "a.tf.json cpu.corse cores"},
		"in JSON's action":    {"-- a.tf.json\n" + `{"action": {"proxmox_vm_power": {"a": {"config": {"vmdi": 2}}}}}`, "a.tf.json vmdi vmid"},
		"in an OpenTofu file": {vm + "\n cpu = { corse = 2 }\n}\n-- main.tofu\n" + vm + "\n cpu = { tipe = 2 }\n}", "main.tofu cpu.tipe type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, _ := found(t, c.config)
			if got := strings.Join(lines, "|"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestLintLeavesAlone: what is right, what is read elsewhere, and what cannot be followed.
func TestLintLeavesAlone(t *testing.T) {
	t.Parallel()
	const vm = `resource "proxmox_vm" "a" {`
	for name, config := range map[string]string{
		"a map's keys":                vm + "\n labels = { anything = 1 }\n}",
		"a slot":                      vm + "\n networks = { anything = { tag = 1 } }\n}",
		"Terraform's arguments":       vm + "\n count = 1\n lifecycle {\n ignore_changes = [cpu]\n }\n depends_on = []\n}",
		"computed keys":               vm + "\n cpu = { (var.k) = 1 }\n}",
		"a function's value":          vm + "\n cpu = jsondecode(\"{}\")\n}",
		"a key that is read":          vm + "\n networks = local.n\n}\nlocals {\n n = { net0 = { tag = 1, label = \"x\" } }\n}\noutput \"l\" {\n value = local.n.net0.label\n}",
		"a key that is looked up":     vm + "\n networks = local.n\n}\nlocals {\n n = { net0 = { tag = 1, label = \"x\" } }\n}\noutput \"l\" {\n value = [for n in local.n : lookup(n, \"label\", 0)]\n}",
		"a local that is written out": vm + "\n networks = local.n\n}\nlocals {\n n = { net0 = { tag = 1, label = \"x\" } }\n}\noutput \"l\" {\n value = jsonencode(local.n)\n}",
		"elements that are":           vm + "\n networks = local.n\n}\nlocals {\n n = { net0 = { tag = 1, label = \"x\" } }\n}\noutput \"l\" {\n value = [for n in local.n : jsonencode(n)]\n}",
		"a for that reads it":         vm + "\n networks = { for k, v in { net0 = { vlan = 1 } } : k => merge(v, { tag = v.vlan }) }\n}",
		"a key of another attribute":  vm + "\n cpu = local.c\n plain = local.c\n}\nlocals {\n c = { cores = 1, size = 2 }\n}",
		"an argument for others": "module \"m\" {\n source = \"./m\"\n c = local.c\n}\nlocals {\n c = { cores = 1, label = 2 }\n}\n" + vm +
			"\n cpu = local.c\n}\n-- m/main.tf\nvariable \"c\" {}\noutput \"x\" {\n value = var.c\n}",
		"a converted argument": "module \"m\" {\n source = \"./m\"\n c = { cores = 1, label = 2 }\n}\n-- m/main.tf\n" + vm +
			"\n cpu = var.c\n}\nvariable \"c\" {\n type = object({ cores = number })\n}",
		"another provider's": "terraform {\n required_providers {\n proxmox = { source = \"bpg/proxmox\" }\n }\n}\n" + vm + "\n cpu = { corse = 1 }\n}",
		"of another name":    vm + "\n provider = bpg\n cpu = { corse = 1 }\n}",
		"an unknown type":    "resource \"proxmox_virtual_environment_vm\" \"a\" {\n cpu {\n corse = 1\n }\n}",
		"a circle":           vm + "\n cpu = local.a\n}\nlocals {\n a = merge(local.b, local.b)\n b = merge(local.a, local.a.x)\n}",
		"nothing":            vm + "\n cpu = null\n}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if lines, _ := found(t, config); len(lines) > 0 {
				t.Errorf("found %q", lines)
			}
		})
	}
}

// TestLintCounts: what was not judged is counted.
func TestLintCounts(t *testing.T) {
	t.Parallel()
	_, r := found(t, `resource "proxmox_vm" "a" {
  name = var.n
  cpu = jsondecode("{}")
  networks = data.x.y
  rules = [{ action = upper("x") }]
}
data "other" "x" {}
`)
	if r.Blocks != 1 || len(r.Unjudged) != 2 {
		t.Errorf("%d blocks, not judged: %v", r.Blocks, r.Unjudged)
	}
}

// TestLintCountsKeysThatAreReadElsewhere: a key of a value that an output has as a whole is not judged, and counted. One
// that the configuration reads by name is meant.
func TestLintCountsKeysThatAreReadElsewhere(t *testing.T) {
	t.Parallel()
	const typed = "variable \"n\" {\n type = map(object({ vlan = optional(number), tag = number }))\n}\n" +
		"resource \"proxmox_vm\" \"a\" {\n networks = var.n\n}\n"
	for config, want := range map[string]int{
		typed + "output \"n\" {\n value = var.n\n}":                            1,
		typed + "output \"n\" {\n value = [for n in var.n : n.vlan]\n}":        0,
		typed + "output \"n\" {\n value = length(var.n)\n}":                    0,
		typed + "output \"n\" {\n value = [for n in var.n : jsonencode(n)]\n}": 1,
	} {
		lines, r := found(t, config)
		if length := strings.Contains(config, "length"); len(r.Unjudged) != want || (len(lines) == 1) != length {
			t.Errorf("%s\nfound %q, not judged %v, want %d", config, lines, r.Unjudged, want)
		}
	}
	_, r := found(t, typed+"output \"n\" {\n value = var.n\n}")
	if at := r.Unjudged[0]; at.Start.Line != 2 || at.Start.Column != 22 {
		t.Errorf("not judged at %v, not at the key", at)
	}
}

// server answers with the schema alone.
type server struct{ tfprotov6.ProviderServer }

func (server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return described(), nil
}

// TestLintProgram: exit codes, and both forms of output.
func TestLintProgram(t *testing.T) {
	t.Parallel()
	wrong := write(t, "resource \"proxmox_vm\" \"a\" {\n  cpu = { corse = 2 }\n}\n-- sub/main.tf\nresource \"proxmox_vm\" \"b\" {\n  namee = 1\n}\n-- .terraform/x/main.tf\nwrong")
	right := write(t, "resource \"proxmox_vm\" \"a\" {\n  cpu = { cores = 2 }\n}\n")
	missing := write(t, "module \"m\" {\n  source = \"./m\"\n}\n")
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{wrong}, 1, []string{filepath.Join(wrong, "main.tf") + ":2:11: proxmox_vm.a: cpu.corse: proxmox has no such key here, " +
			"so Terraform drops it; did you mean \"cores\"?\n", "blocks of the provider: 1, findings: 1, not judged: 0"}},
		{[]string{"-recursive", wrong, wrong}, 1, []string{"sub/main.tf:2:3: proxmox_vm.b: namee: proxmox has no such argument", "findings: 2,"}},
		{[]string{"-json", wrong}, 1, []string{`"line": 2`, `"column": 11`, `"kind": "unknown"`, `"suggestion": "cores"`, `"not_judged": []`}},
		{[]string{"-json", right}, 0, []string{`"findings": []`}},
		{[]string{right}, 0, []string{"findings: 0"}},
		{[]string{right, wrong}, 1, []string{"blocks of the provider: 2"}},
		{[]string{"-h"}, 0, []string{"usage:"}},
		{[]string{"-x"}, 2, []string{"usage:"}},
		{[]string{filepath.Join(right, "none")}, 2, []string{"none"}},
		{[]string{t.TempDir()}, 2, []string{"no .tf file"}},
		{[]string{"-recursive", t.TempDir()}, 2, []string{"no .tf file"}},
		{[]string{missing}, 2, []string{`module "m"`, "main.tf:1,1"}},
		{[]string{write(t, "resource \"proxmox_vm\" {{\n")}, 2, []string{"main.tf:1"}},
		{[]string{write(t, "-- a.tf.json\n{")}, 2, []string{"a.tf.json:"}},
	} {
		var out bytes.Buffer
		p := Program{Address: "registry.terraform.io/terraform-proxmox/proxmox", Server: server{}, Out: &out, Err: &out}
		code := p.Run(t.Context(), c.args)
		if code != c.code || slices.ContainsFunc(c.says, func(text string) bool { return !strings.Contains(out.String(), text) }) {
			t.Errorf("%q: %d, want %d and %q:\n%s", c.args, code, c.code, c.says, out.String())
		}
	}
}
