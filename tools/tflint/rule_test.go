package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/terraform-linters/tflint-plugin-sdk/helper"
	"github.com/terraform-linters/tflint-plugin-sdk/tflint"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
)

// issues are those that the ruleset reports of files, as "rule message".
func issues(t *testing.T, files map[string]string) []string {
	t.Helper()
	runner := helper.TestRunner(t, files)
	for _, rule := range ruleset().Rules {
		if err := rule.Check(runner); err != nil {
			t.Fatal(err)
		}
	}
	var found []string
	for _, issue := range runner.Issues {
		found = append(found, issue.Rule.Name()+" "+issue.Message)
	}
	return found
}

// misspelt writes a wrong key for each attribute of an object and of those below it, each in a block of its own.
func misspelt(attributes []*tfprotov6.SchemaAttribute, around func(inner string) string) (blocks []string) {
	for _, a := range attributes {
		blocks = append(blocks, around(a.Name[:1]+a.Name+" = null"))
		if a.NestedType == nil {
			continue
		}
		open, end := a.Name+" = {", "}"
		switch a.NestedType.Nesting {
		case tfprotov6.SchemaObjectNestingModeMap:
			open, end = a.Name+" = { net0 = {", "} }"
		case tfprotov6.SchemaObjectNestingModeList, tfprotov6.SchemaObjectNestingModeSet:
			open, end = a.Name+" = [{", "}]"
		default:
		}
		blocks = append(blocks, misspelt(a.NestedType.Attributes, func(inner string) string {
			return around(open + " " + inner + " " + end)
		})...)
	}
	return blocks
}

// TestLintRulesetFindsEveryMisspeltAttribute misspells every attribute of the provider in turn. The ruleset reports each
// of them, and the same as the provider's own command.
func TestLintRulesetFindsEveryMisspeltAttribute(t *testing.T) {
	t.Parallel()
	server := provider.NewServer(provider.New("test"))()
	all, err := server.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]*tfprotov6.Schema{"provider \"proxmox\"": all.Provider}
	for name, s := range all.ResourceSchemas {
		types[fmt.Sprintf("resource %q \"x\"", name)] = s
	}
	for name, s := range all.DataSourceSchemas {
		types[fmt.Sprintf("data %q \"x\"", name)] = s
	}
	for name, s := range all.ActionSchemas {
		types[fmt.Sprintf("action %q \"x\"", name)] = s.Schema
	}
	var blocks []string
	for _, header := range slices.Sorted(maps.Keys(types)) {
		open, end := header+" {\n", "\n}\n"
		if strings.HasPrefix(header, "action") {
			open, end = header+" {\nconfig {\n", "\n}\n}\n"
		}
		blocks = append(blocks, misspelt(types[header].Block.Attributes, func(inner string) string { return open + inner + end })...)
	}
	text := strings.Join(blocks, "")
	found := issues(t, map[string]string{"main.tf": text})
	file, diags := hclsyntax.ParseConfig([]byte(text), "main.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	rules, err := schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, finding := range rules.Files(map[string]*hcl.File{"main.tf": file}).Findings {
		want = append(want, "proxmox_unknown_key "+finding.Message())
	}
	t.Logf("%d attributes misspelt, %d found by the ruleset, %d by the command", len(blocks), len(found), len(want))
	if len(blocks) < 500 || len(found) != len(blocks) {
		t.Errorf("%d of %d are found", len(found), len(blocks))
	}
	slices.Sort(found)
	if slices.Sort(want); !slices.Equal(found, want) {
		t.Errorf("the ruleset and the command differ: %v", slices.Compact(append(found, want...)))
	}
}

// TestLintRulesetIsSilentOnExamples: no example of the documentation has an issue.
func TestLintRulesetIsSilentOnExamples(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../../examples/*/*/*.tf")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d examples: %v", len(names), err)
	}
	byDir := map[string]map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(name)
		if byDir[dir] == nil {
			byDir[dir] = map[string]string{}
		}
		byDir[dir][filepath.Base(name)] = string(text)
	}
	for dir, files := range byDir {
		if found := issues(t, files); len(found) > 0 {
			t.Errorf("%s: %v", dir, found)
		}
	}
}

// TestLintRulesetSays: an issue has the place and the words of the command, its rule the severity.
func TestLintRulesetSays(t *testing.T) {
	t.Parallel()
	runner := helper.TestRunner(t, map[string]string{"main.tf": "resource \"proxmox_vm\" \"a\" {\n" +
		"  networks = { net0 = { bridge = \"vmbr0\", vlan_id = 20 } }\n}\nresource \"other_vm\" \"a\" {\n  networks = { net0 = { vlan_id = 1 } }\n}\n"})
	rule := unknownKey()
	if err := rule.Check(runner); err != nil {
		t.Fatal(err)
	}
	helper.AssertIssues(t, helper.Issues{{Rule: rule,
		Message: "proxmox_vm.a: networks.net0.vlan_id: proxmox has no such key here, so Terraform drops it; did you mean \"tag\"?",
		Range:   hcl.Range{Filename: "main.tf", Start: hcl.Pos{Line: 2, Column: 43}, End: hcl.Pos{Line: 2, Column: 50}}}}, runner.Issues)
	if !rule.Enabled() || rule.Severity() != tflint.ERROR || deprecatedKey().Severity() != tflint.WARNING {
		t.Error("a rule is off, or of another severity")
	}
	if r := ruleset(); r.RuleSetName() != "proxmox" || r.RuleSetVersion() == "" || len(r.RuleNames()) != 2 {
		t.Errorf("ruleset %s %s with %v", r.RuleSetName(), r.RuleSetVersion(), r.RuleNames())
	}
}
