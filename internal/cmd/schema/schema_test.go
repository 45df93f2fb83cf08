package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func TestSchemaOf(t *testing.T) {
	size := &tfprotov6.SchemaAttribute{Name: "size", Type: tftypes.String, Required: true, Description: "How *big*.",
		DescriptionKind: tfprotov6.StringKindMarkdown}
	made, err := schemaOf(&tfprotov6.Schema{Version: 2, Block: &tfprotov6.SchemaBlock{
		Attributes: []*tfprotov6.SchemaAttribute{
			{Name: "tags", Type: tftypes.Set{ElementType: tftypes.String}, Optional: true, Computed: true},
			{Name: "secret", Type: tftypes.Number, Optional: true, Sensitive: true, WriteOnly: true},
			{Name: "disks", Optional: true, NestedType: &tfprotov6.SchemaObject{
				Nesting: tfprotov6.SchemaObjectNestingModeMap, Attributes: []*tfprotov6.SchemaAttribute{size}}},
		},
		BlockTypes: []*tfprotov6.SchemaNestedBlock{{TypeName: "timeouts", Nesting: tfprotov6.SchemaNestedBlockNestingModeSingle,
			Block: &tfprotov6.SchemaBlock{Attributes: []*tfprotov6.SchemaAttribute{size}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	const sizeJSON = `{"type":"string","required":true,"description":"How *big*.","description_kind":"markdown"}`
	want := `{"version":2,"block":{"attributes":{` +
		`"disks":{"nested_type":{"attributes":{"size":` + sizeJSON + `},"nesting_mode":"map"},"optional":true},` +
		`"secret":{"type":"number","optional":true,"sensitive":true,"write_only":true},` +
		`"tags":{"type":["set","string"],"optional":true,"computed":true}},` +
		`"block_types":{"timeouts":{"nesting_mode":"single","block":{"attributes":{"size":` + sizeJSON + `}}}}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestUnknownNesting(t *testing.T) {
	_, err := schemaOf(&tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{BlockTypes: []*tfprotov6.SchemaNestedBlock{
		{TypeName: "x", Nesting: tfprotov6.SchemaNestedBlockNestingModeGroup, Block: &tfprotov6.SchemaBlock{}}}}})
	if err == nil {
		t.Error("a nesting mode that cannot be written is left out silently")
	}
}
