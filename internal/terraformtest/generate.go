package terraformtest

import (
	"context"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// Generate writes the configuration of an instance in state, as terraform plan -generate-config-out does for one that was imported:
// everything that can be configured, with null for absent values. Since Terraform 1.14 the provider chooses the written values.
func (s *Session) Generate(ctx context.Context, address string, byProvider bool) (string, error) {
	i, err := s.Instance(address)
	if err != nil {
		return "", err
	}
	p, err := s.start(ctx)
	if err != nil {
		return "", err
	}
	v := i.Value
	if byProvider {
		var diags Diagnostics
		if v, diags = p.generateConfig(ctx, address, i.Type, v); diags.err() != nil {
			return "", s.finish(diags)
		}
	}
	return p.write(address, i.Type, v), nil
}

// write writes the block of a resource.
func (p *process) write(address, typ string, v cty.Value) string {
	schema := p.resources[typ]
	_, name, _ := strings.Cut(address, ".")
	file, written := hclwrite.NewEmptyFile(), configurable(schema.Object, v)
	body := file.Body().AppendNewBlock("resource", []string{typ, name}).Body()
	for _, name := range schema.Names {
		if written.Type().HasAttribute(name) {
			body.SetAttributeValue(name, written.GetAttr(name))
		}
	}
	return string(file.Bytes())
}

// generateConfig asks the provider for the configuration of a state.
func (p *process) generateConfig(ctx context.Context, address, typ string, state cty.Value) (cty.Value, Diagnostics) {
	const rpc = "GenerateResourceConfig"
	schema := p.resources[typ]
	dv, err := encode(state, schema.Typ())
	if err != nil {
		return state, failure(rpc, address, "Cannot encode the state", err)
	}
	var resp *tfprotov6.GenerateResourceConfigResponse
	err = p.call(ctx, rpc, address, func(ctx context.Context) (err error) {
		resp, err = p.server.GenerateResourceConfig(ctx, &tfprotov6.GenerateResourceConfigRequest{TypeName: typ, State: dv})
		return err
	})
	if err != nil {
		return state, failure(rpc, address, "The call failed", err)
	}
	out := wireDiagnostics(rpc, address, resp.Diagnostics)
	if out.err() != nil {
		return state, out
	}
	v, err := decode(resp.Config, schema.Typ())
	if err != nil {
		return state, append(out, failure(rpc, address, "Provider produced invalid configuration", err)...)
	}
	return v, out
}

// configurable is an object with the attributes alone that can be configured.
func configurable(o *objchange.Object, v cty.Value) cty.Value {
	if v.IsNull() {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	values := map[string]cty.Value{}
	for _, name := range o.Names {
		a := o.Attrs[name]
		if !a.Required && !a.Optional {
			continue
		}
		values[name] = configurableIn(a, v.GetAttr(name))
	}
	return cty.ObjectVal(values)
}

func configurableIn(a *objchange.Attribute, v cty.Value) cty.Value {
	switch {
	case v.IsNull(), a.Sensitive, v.Type() == cty.String && a.Optional && v.AsString() == "": // Terraform takes an empty text for none
		return cty.NullVal(cty.DynamicPseudoType)
	case a.Nested == nil:
		return v
	case a.Nesting == tfprotov6.SchemaObjectNestingModeMap:
		slots := map[string]cty.Value{}
		for slot, element := range v.AsValueMap() {
			slots[slot] = configurable(a.Nested, element)
		}
		return cty.ObjectVal(slots)
	case a.Nesting == tfprotov6.SchemaObjectNestingModeSingle:
		return configurable(a.Nested, v)
	}
	var elements []cty.Value
	for _, element := range v.AsValueSlice() {
		elements = append(elements, configurable(a.Nested, element))
	}
	return cty.TupleVal(elements)
}
