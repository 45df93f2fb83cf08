package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// The shape of `terraform providers schema -json`, format version 1.0, as far as this provider uses it.
type (
	document struct {
		FormatVersion string                    `json:"format_version"`
		Providers     map[string]providerSchema `json:"provider_schemas"`
	}
	providerSchema struct {
		Provider    schema            `json:"provider"`
		Resources   map[string]schema `json:"resource_schemas,omitempty"`
		DataSources map[string]schema `json:"data_source_schemas,omitempty"`
		Lists       map[string]schema `json:"list_resource_schemas,omitempty"`
		Actions     map[string]schema `json:"action_schemas,omitempty"`

		Functions map[string]function `json:"functions,omitempty"`
	}
	function struct {
		Description string          `json:"description,omitempty"`
		Summary     string          `json:"summary,omitempty"`
		Deprecated  string          `json:"deprecation_message,omitempty"`
		Returns     json.RawMessage `json:"return_type"`
		Parameters  []parameter     `json:"parameters,omitempty"`
		Variadic    *parameter      `json:"variadic_parameter,omitempty"`
	}
	parameter struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Nullable    bool            `json:"is_nullable,omitempty"`
		Type        json.RawMessage `json:"type"`
	}
	schema struct {
		Version int64 `json:"version"`
		Block   block `json:"block"`
	}
	block struct {
		Attributes map[string]attribute `json:"attributes,omitempty"`
		Blocks     map[string]nested    `json:"block_types,omitempty"`
		text
	}
	nested struct {
		Nesting string `json:"nesting_mode"`
		Block   block  `json:"block"`
		Min     int64  `json:"min_items,omitempty"`
		Max     int64  `json:"max_items,omitempty"`
	}
	attribute struct {
		Type      json.RawMessage `json:"type,omitempty"`
		Nested    *object         `json:"nested_type,omitempty"`
		Required  bool            `json:"required,omitempty"`
		Optional  bool            `json:"optional,omitempty"`
		Computed  bool            `json:"computed,omitempty"`
		Sensitive bool            `json:"sensitive,omitempty"`
		WriteOnly bool            `json:"write_only,omitempty"`
		text
	}
	object struct {
		Attributes map[string]attribute `json:"attributes"`
		Nesting    string               `json:"nesting_mode"`
	}
	text struct {
		Description string `json:"description,omitempty"`
		Kind        string `json:"description_kind,omitempty"`
		Deprecated  bool   `json:"deprecated,omitempty"`
	}
)

// describe asks the provider for its schema. It refuses what the shape above cannot hold, so that nothing is left out of
// the documentation silently.
func describe(ctx context.Context, server tfprotov6.ProviderServer) (document, error) {
	response, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return document{}, err
	}
	for _, d := range response.Diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			return document{}, fmt.Errorf("%s: %s", d.Summary, d.Detail)
		}
	}
	if len(response.EphemeralResourceSchemas) > 0 {
		return document{}, errors.New("ephemeral resources are not written yet: extend internal/cmd/schema")
	}
	var p providerSchema
	if p.Provider, err = schemaOf(response.Provider); err != nil {
		return document{}, fmt.Errorf("provider: %w", err)
	}
	if p.Resources, err = schemasOf(response.ResourceSchemas); err != nil {
		return document{}, err
	}
	if p.DataSources, err = schemasOf(response.DataSourceSchemas); err != nil {
		return document{}, err
	}
	if p.Lists, err = schemasOf(response.ListResourceSchemas); err != nil {
		return document{}, err
	}
	actions := map[string]*tfprotov6.Schema{}
	for name, s := range response.ActionSchemas {
		actions[name] = s.Schema
	}
	if p.Actions, err = schemasOf(actions); err != nil {
		return document{}, err
	}
	if p.Functions, err = functionsOf(response.Functions); err != nil {
		return document{}, err
	}
	return document{FormatVersion: "1.0", Providers: map[string]providerSchema{"proxmox": p}}, nil
}

func schemasOf(all map[string]*tfprotov6.Schema) (map[string]schema, error) {
	out := map[string]schema{}
	for name, s := range all {
		made, err := schemaOf(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = made
	}
	return out, nil
}

func schemaOf(s *tfprotov6.Schema) (schema, error) {
	b, err := blockOf(s.Block)
	return schema{Version: s.Version, Block: b}, err
}

func blockOf(b *tfprotov6.SchemaBlock) (block, error) {
	out := block{Blocks: map[string]nested{}, text: textOf(b.Description, b.DescriptionKind, b.Deprecated)}
	var err error
	if out.Attributes, err = attributesOf(b.Attributes); err != nil {
		return out, err
	}
	for _, n := range b.BlockTypes {
		inner, err := blockOf(n.Block)
		if err != nil {
			return out, fmt.Errorf("%s: %w", n.TypeName, err)
		}
		mode := map[tfprotov6.SchemaNestedBlockNestingMode]string{
			tfprotov6.SchemaNestedBlockNestingModeSingle: "single",
			tfprotov6.SchemaNestedBlockNestingModeList:   "list",
			tfprotov6.SchemaNestedBlockNestingModeSet:    "set",
		}[n.Nesting]
		if mode == "" {
			return out, fmt.Errorf("%s: nesting mode %s is not written yet", n.TypeName, n.Nesting)
		}
		out.Blocks[n.TypeName] = nested{Nesting: mode, Block: inner, Min: n.MinItems, Max: n.MaxItems}
	}
	return out, nil
}

func attributesOf(all []*tfprotov6.SchemaAttribute) (map[string]attribute, error) {
	out := map[string]attribute{}
	for _, a := range all {
		made := attribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive,
			WriteOnly: a.WriteOnly, text: textOf(a.Description, a.DescriptionKind, a.Deprecated)}
		var err error
		if a.NestedType != nil {
			made.Nested, err = objectOf(a.NestedType)
		} else {
			made.Type, err = json.Marshal(a.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		out[a.Name] = made
	}
	return out, nil
}

func objectOf(o *tfprotov6.SchemaObject) (*object, error) {
	mode := map[tfprotov6.SchemaObjectNestingMode]string{
		tfprotov6.SchemaObjectNestingModeSingle: "single",
		tfprotov6.SchemaObjectNestingModeList:   "list",
		tfprotov6.SchemaObjectNestingModeSet:    "set",
		tfprotov6.SchemaObjectNestingModeMap:    "map",
	}[o.Nesting]
	if mode == "" {
		return nil, fmt.Errorf("nesting mode %s is not written yet", o.Nesting)
	}
	attributes, err := attributesOf(o.Attributes)
	return &object{Attributes: attributes, Nesting: mode}, err
}

func textOf(description string, kind tfprotov6.StringKind, deprecated bool) text {
	out := text{Description: description, Deprecated: deprecated}
	if description != "" {
		out.Kind = map[tfprotov6.StringKind]string{tfprotov6.StringKindPlain: "plain", tfprotov6.StringKindMarkdown: "markdown"}[kind]
	}
	return out
}
