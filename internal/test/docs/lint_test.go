package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/lint"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const ourSource = "registry.terraform.io/terraform-proxmox/proxmox"

func described(t *testing.T) *tfprotov6.GetProviderSchemaResponse {
	t.Helper()
	server, err := rig.NewWorld(t).Factory()()
	rig.Must(t, err)
	schema, err := server.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
	rig.Must(t, err)
	return schema
}

func linter(t *testing.T, of *tfprotov6.GetProviderSchemaResponse) *lint.Schema {
	t.Helper()
	s, err := lint.NewSchema(ourSource, of)
	rig.Must(t, err)
	return s
}

// nested is an object of the schema: the way to it, as keys with "0" for an element of a list, and its attributes.
type nested struct {
	path  []string
	names []string
}

// objects are the objects below attributes.
func objects(attributes []*tfprotov6.SchemaAttribute, path []string) []nested {
	one := nested{path: path}
	var all []nested
	for _, a := range attributes {
		one.names = append(one.names, a.Name)
		if a.NestedType == nil {
			continue
		}
		below := append(slices.Clone(path), a.Name)
		switch a.NestedType.Nesting {
		case tfprotov6.SchemaObjectNestingModeMap:
			below = append(below, "net0")
		case tfprotov6.SchemaObjectNestingModeList, tfprotov6.SchemaObjectNestingModeSet:
			below = append(below, "0")
		}
		all = append(all, objects(a.NestedType.Attributes, below)...)
	}
	return append(all, one)
}

// misspellings are three of a name: a letter dropped, doubled, swapped with the next one.
func misspellings(name string, at int) []string {
	at %= max(1, len(name)-1)
	swapped := []byte(name)
	if len(name) > 1 {
		swapped[at], swapped[at+1] = swapped[at+1], swapped[at]
	}
	return []string{name[:at] + name[at+1:], name[:at+1] + name[at:], string(swapped)}
}

// value is the text of an object at a path, in HCL or, which HCL reads as well, in JSON.
func value(path []string, key string) string {
	if len(path) == 0 {
		return `{"` + key + `": null}`
	}
	if path[0] == "0" {
		return "[" + value(path[1:], key) + "]"
	}
	return `{"` + path[0] + `": ` + value(path[1:], key) + "}"
}

// written are the ways to write one wrong key of a block, by name.
func written(kind, typ string, path []string, key string) map[string]string {
	header := fmt.Sprintf("%s %q %q", kind, typ, "x")
	if kind == "provider" {
		header = fmt.Sprintf("%s %q", kind, typ)
	}
	body := func(value string) string {
		argument := path[0] + " = " + value
		if kind == "action" || kind == "list" {
			argument = "config {\n" + argument + "\n}"
		}
		return header + " {\n" + argument + "\n}\n"
	}
	inner := value(path[1:], key)
	labels := `{"` + typ + `": {"x": `
	if kind == "provider" {
		labels = `{"` + typ + `": {"//": `
	}
	content := value(path, key)
	if kind == "action" || kind == "list" {
		content = `{"config": ` + content + "}"
	}
	ways := map[string]string{
		"main.tf":   body(inner),
		"local.tf":  body("local.all.one") + "locals {\n  all = { one = " + inner + " }\n}\n",
		"input.tf":  body("var.one") + "variable \"one\" {\n  type    = any\n  default = " + inner + "\n}\n",
		"merged.tf": body("merge(var.more, "+inner+")") + "variable \"more\" {}\n",
		"turns.tf":  body("[for v in [" + inner + "] : v][0]"),
	}
	if kind != "provider" {
		ways["main.tf.json"] = `{"` + kind + `": ` + labels + content + `}}}`
	} else {
		ways["main.tf.json"] = `{"provider": {"` + typ + `": ` + content + `}}`
	}
	return ways
}

func parsed(t *testing.T, name, text string) map[string]*hcl.File {
	t.Helper()
	parser := hclparse.NewParser()
	parse := parser.ParseHCL
	if strings.HasSuffix(name, ".json") {
		parse = parser.ParseJSON
	}
	file, diags := parse([]byte(text), name)
	if diags.HasErrors() {
		t.Fatalf("%v in:\n%s", diags, text)
	}
	return map[string]*hcl.File{name: file}
}

// TestLintMisspelling: each key of each object in the schema, misspelt in each of three ways and written in each of six,
// is found where it stands, and the right name is suggested.
func TestLintMisspelling(t *testing.T) {
	t.Parallel()
	schema := described(t)
	s := linter(t, schema)
	keys, found := 0, 0
	each := func(kind, typ string, block *tfprotov6.SchemaBlock) {
		for _, o := range objects(block.Attributes, nil) {
			if len(o.path) == 0 {
				continue // Terraform itself refuses an unknown argument
			}
			for n, name := range o.names {
				keys++
				for _, wrong := range misspellings(name, n) {
					if wrong == "" || slices.Contains(o.names, wrong) {
						continue
					}
					for file, text := range written(kind, typ, o.path, wrong) {
						r := s.Files(parsed(t, file, text))
						if len(r.Findings) != 1 || r.Findings[0].Key != wrong || !at(text, r.Findings[0].Range, wrong) {
							t.Errorf("%s, %s for %s: %v in:\n%s", typ, wrong, name, r.Findings, text)
							continue
						}
						found++
						if hint := r.Findings[0].Suggestion; hint == "" ||
							nearest.Distance(wrong, hint) > nearest.Distance(wrong, name) {
							t.Errorf("%s: %s for %s in %v: suggested %q", typ, wrong, name, o.path, hint)
						}
					}
				}
			}
		}
	}
	each("provider", "proxmox", schema.Provider.Block)
	for typ, one := range schema.ResourceSchemas {
		each("resource", typ, one.Block)
	}
	for typ, one := range schema.DataSourceSchemas {
		each("data", typ, one.Block)
	}
	for typ, one := range schema.ListResourceSchemas {
		each("list", typ, one.Block)
	}
	for typ, one := range schema.ActionSchemas {
		each("action", typ, one.Schema.Block)
	}
	if keys < 200 || found < 6*2*keys {
		t.Errorf("only %d of %d keys were misspelt", found, keys)
	}
	t.Logf("%d nested keys, %d misspellings found", keys, found)
}

// at reports whether a key stands at a place of a text.
func at(text string, place hcl.Range, key string) bool {
	return strings.Trim(string(place.SliceBytes([]byte(text))), `"`) == key
}

// TestLintOwnConfigurations: the project's own configurations and those that its pages show have no finding.
func TestLintOwnConfigurations(t *testing.T) {
	t.Parallel()
	s := linter(t, described(t))
	blocks := 0
	note := func(where string, r lint.Result) {
		blocks += r.Blocks
		for _, f := range r.Findings {
			t.Errorf("%s: %v: %s", where, f.Range, f.Message())
		}
	}
	const top = "../../.."
	for _, dir := range []string{"examples", "internal/cmd", "internal/test/adoption/testdata/move"} {
		dirs, err := lint.Configurations(filepath.Join(top, dir))
		rig.Must(t, err)
		for _, one := range dirs {
			r, err := s.Dir(one)
			rig.Must(t, err)
			note(one, r)
		}
	}
	pages := []string{filepath.Join(top, "README.md")}
	rig.Must(t, filepath.WalkDir(filepath.Join(top, "docs"), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".md") {
			pages = append(pages, name)
		}
		return err
	}))
	shown := 0
	fence := regexp.MustCompile("(?s)```(?:hcl|terraform)\n(.*?)```")
	for _, page := range pages {
		for _, block := range fence.FindAllStringSubmatch(rig.ReadFile(t, page), -1) {
			if strings.HasPrefix(block[1], "provider_installation") { // a CLI's own settings
				continue
			}
			shown++
			note(page, s.Files(parsed(t, "main.tf", block[1])))
		}
	}
	if blocks < 200 || shown < 60 {
		t.Errorf("only %d blocks, %d texts on pages", blocks, shown)
	}
	t.Logf("%d blocks of the provider, %d texts on pages", blocks, shown)
}

// TestLintJSONPlaces: the place of a key in JSON is that of its text.
func TestLintJSONPlaces(t *testing.T) {
	t.Parallel()
	const text = `{"resource": {"proxmox_vm": {"x": {"networks": "${local.n}"}}},` + "\n" +
		` "locals": {"n": {"net0": {"vlan_id": 20}}}}`
	if !json.Valid([]byte(text)) {
		t.Fatal("not JSON")
	}
	r := linter(t, described(t)).Files(parsed(t, "main.tf.json", text))
	if len(r.Findings) != 1 || r.Findings[0].Range.Start.Line != 2 || !at(text, r.Findings[0].Range, "vlan_id") {
		t.Errorf("%v", r.Findings)
	}
}

// TestLintInCI runs the guides' line for CI where an init has put the program.
func TestLintInCI(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile("(?s)```sh\n(.*?)\n *```")
	built := filepath.Join(t.TempDir(), "bin")
	rig.Must(t, os.Mkdir(built, 0o700))
	rig.DevOverride(t, built)
	for _, guide := range []string{"lint", "migrate-from-bpg", "migrate-from-telmate"} {
		command := line.FindStringSubmatch(rig.ReadFile(t, "../../../templates/guides/"+guide+".md.tmpl"))
		if command == nil {
			t.Fatalf("%s shows no command", guide)
		}
		for config, want := range map[string]string{
			"networks = { net0 = { vlan_id = 20 } }": `main.tf:2:23: proxmox_vm.a: networks.net0.vlan_id: proxmox has no such key here, so Terraform drops it; did you mean "tag"?`,
			"networks = { net0 = { tag = 20 } }":     "findings: 0",
		} {
			dir := t.TempDir()
			at := filepath.Join(dir, filepath.FromSlash(".terraform/providers/registry.terraform.io/terraform-proxmox/proxmox/0.1.0/linux_amd64"))
			rig.Must(t, os.MkdirAll(at, 0o700))
			rig.Must(t, os.Symlink(filepath.Join(built, "terraform-provider-proxmox"), filepath.Join(at, "terraform-provider-proxmox_v0.1.0")))
			rig.Must(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte("resource \"proxmox_vm\" \"a\" {\n"+config+"\n}\n"), 0o600))
			run := exec.CommandContext(t.Context(), "sh", "-c", strings.TrimSpace(command[1]))
			run.Dir = dir
			said, err := run.CombinedOutput()
			if (err != nil) != strings.Contains(config, "vlan_id") || !strings.Contains(string(said), want) {
				t.Errorf("%s: %v, says %s", guide, err, said)
			}
		}
	}
}
