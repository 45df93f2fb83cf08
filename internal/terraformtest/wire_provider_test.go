package terraformtest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// wireProvider is a provider of one resource with every kind of attribute, written to the wire, so that it can break every rule.
// The name of a resource orders its fault. The provider has no memory: its answers follow from the request and the order,
// so that the caller and the number of calls make no difference.
type wireProvider struct {
	tfprotov6.ProviderServer // what no test calls

	mu      sync.Mutex
	orders  map[string]string   // by name
	calls   map[string][]string // by name: what was asked
	applies []string            // of all resources, in order
}

// flagged is an attribute of strings with the flags of wireAttr and z for sensitive.
func flagged(name, flags string, typ tftypes.Type) *tfprotov6.SchemaAttribute {
	a := wireAttr(name, flags)
	a.Type, a.Sensitive = typ, strings.Contains(flags, "z")
	return a
}

func wireSchema() *tfprotov6.Schema {
	parts := func() []*tfprotov6.SchemaAttribute {
		return []*tfprotov6.SchemaAttribute{wireAttr("opt", "o"), wireAttr("oc", "oc"), wireAttr("comp", "c")}
	}
	texts := tftypes.List{ElementType: tftypes.String}
	return &tfprotov6.Schema{Version: 1, Block: &tfprotov6.SchemaBlock{Attributes: []*tfprotov6.SchemaAttribute{
		wireAttr("name", "r"), wireAttr("id", "c"), wireAttr("opt", "o"), wireAttr("oc", "oc"), wireAttr("comp", "c"),
		wireAttr("force", "o"), wireAttr("force_oc", "oc"), wireAttr("secret", "ow"), flagged("hidden", "oz", tftypes.String),
		flagged("number", "o", tftypes.Number), flagged("flag", "o", tftypes.Bool), flagged("tags", "o", texts),
		flagged("labels", "oc", tftypes.Map{ElementType: tftypes.String}), flagged("members", "o", tftypes.Set{ElementType: tftypes.String}),
		nest(single, "group", "o", append(parts(), wireAttr("force", "o"))...), nest(single, "made", "oc", parts()...),
		nest(list, "items", "o", parts()...), nest(dict, "slots", "o", parts()...), nest(set, "units", "o", parts()...),
		nest(list, "report", "c", parts()...), nest(dict, "found", "oc", parts()...),
	}}}
}

func echoSchema() *tfprotov6.Schema {
	attributes := []*tfprotov6.SchemaAttribute{wireAttr("of", "r"), wireAttr("echo", "c")}
	return &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{Attributes: attributes}}
}

func schemaOf(s *tfprotov6.Schema) objchange.ResourceSchema {
	schema, err := objchange.NewResourceSchema(s)
	if err != nil {
		panic(err) // a broken test
	}
	return schema
}

// attributeAt is the attribute that a path leads to; nil if the path leads to no attribute, as that of an element.
func attributeAt(o *objchange.Object, path cty.Path) *objchange.Attribute {
	var a *objchange.Attribute
	for _, step := range path {
		name, ok := step.(cty.GetAttrStep)
		if !ok {
			a = nil
			continue
		}
		if a = o.Attrs[name.Name]; a == nil {
			return nil
		}
		if a.Nested != nil {
			o = a.Nested
		}
	}
	return a
}

func (g *wireProvider) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	return &tfprotov6.GetMetadataResponse{Resources: []tfprotov6.ResourceMetadata{{TypeName: "sample_gadget"}},
		DataSources: []tfprotov6.DataSourceMetadata{{TypeName: "sample_echo"}}}, nil
}

func (g *wireProvider) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{
		ServerCapabilities: &tfprotov6.ServerCapabilities{PlanDestroy: true}, // as the framework's
		Provider:           &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{Attributes: []*tfprotov6.SchemaAttribute{wireAttr("endpoint", "o")}}},
		ResourceSchemas:    map[string]*tfprotov6.Schema{"sample_gadget": wireSchema()},
		DataSourceSchemas:  map[string]*tfprotov6.Schema{"sample_echo": echoSchema()},
	}, nil
}

func (g *wireProvider) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest,
) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (g *wireProvider) ValidateProviderConfig(context.Context, *tfprotov6.ValidateProviderConfigRequest,
) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{}, nil
}

func (g *wireProvider) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (g *wireProvider) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

// read gives a value of a request. The sample has no other way to speak of a message it cannot read.
func open(schema *tfprotov6.Schema, dv *tfprotov6.DynamicValue) cty.Value {
	v, err := decode(dv, schemaOf(schema).Typ())
	if err != nil {
		panic(err)
	}
	return v
}

func pack(v cty.Value) *tfprotov6.DynamicValue {
	dv, err := encode(v, v.Type())
	if err != nil {
		panic(err)
	}
	return dv
}

// hear notes a call and gives the order for the resource. It notes the whole request.
func (g *wireProvider) hear(rpc string, private []byte, values map[string]cty.Value) (name, order string) {
	text := rpc
	for _, key := range sortedKeys(values) {
		v := values[key]
		text += " " + key + "=" + objchange.ShowValue(v)
		if n := Text(v, "name"); n != "" {
			name = n
		}
	}
	if len(private) > 0 {
		text += " private=" + string(private)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[name] = append(g.calls[name], text)
	if planned, isApply := values["planned"]; isApply && planned.IsNull() {
		g.applies = append(g.applies, "destroy-"+name)
	} else if isApply {
		g.applies = append(g.applies, "make-"+name)
	}
	return name, g.orders[name]
}

// said is the diagnostics of an order such as "plan-error".
func said(order, prefix string) []*tfprotov6.Diagnostic {
	path := tftypes.NewAttributePath().WithAttributeName("opt")
	switch order {
	case prefix + "-error":
		return []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityError, Summary: "Told to fail", Detail: order, Attribute: path}}
	case prefix + "-warning":
		return []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityWarning, Summary: "Told to warn", Detail: order}}
	}
	return nil
}

func (g *wireProvider) ValidateResourceConfig(_ context.Context, q *tfprotov6.ValidateResourceConfigRequest,
) (*tfprotov6.ValidateResourceConfigResponse, error) {
	_, order := g.hear("Validate", nil, map[string]cty.Value{"config": open(wireSchema(), q.Config)})
	return &tfprotov6.ValidateResourceConfigResponse{Diagnostics: said(order, "validate")}, nil
}

func (g *wireProvider) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest,
) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

func (g *wireProvider) ReadDataSource(_ context.Context, q *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	config := open(echoSchema(), q.Config)
	of := Text(config, "of")
	g.hear("Data", nil, map[string]cty.Value{"config": config})
	return &tfprotov6.ReadDataSourceResponse{State: pack(cty.ObjectVal(map[string]cty.Value{
		"of": cty.StringVal(of), "echo": cty.StringVal(of + " " + of),
	}))}, nil
}

func (g *wireProvider) UpgradeResourceState(_ context.Context, q *tfprotov6.UpgradeResourceStateRequest,
) (*tfprotov6.UpgradeResourceStateResponse, error) {
	state := open(wireSchema(), &tfprotov6.DynamicValue{JSON: q.RawState.JSON})
	_, order := g.hear(fmt.Sprintf("Upgrade from %d", q.Version), nil, map[string]cty.Value{"state": state})
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: pack(state), Diagnostics: said(order, "upgrade")}, nil
}

func (g *wireProvider) ReadResource(_ context.Context, q *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	state := open(wireSchema(), q.CurrentState)
	_, order := g.hear("Read", q.Private, map[string]cty.Value{"state": state})
	resp := &tfprotov6.ReadResourceResponse{Private: q.Private, Diagnostics: said(order, "read")}
	switch order {
	case "read-gone":
		state = cty.NullVal(state.Type())
	case "read-opt":
		state = with(state, "opt", cty.StringVal("changed outside"))
	case "read-comp":
		state = with(state, "comp", cty.StringVal("changed outside"))
	case "read-no-oc":
		state = with(state, "oc", cty.NullVal(cty.String))
	case "read-unknown":
		state = with(state, "comp", cty.UnknownVal(cty.String))
	case "read-secret":
		state = with(state, "secret", cty.StringVal("seen"))
	case "read-private":
		resp.Private = []byte(`"re-read"`)
	}
	resp.NewState = pack(state)
	return resp, nil
}

// with replaces a part of an object, by a path such as group.opt or slots.a.opt.
func with(v cty.Value, path string, to cty.Value) cty.Value {
	name, rest, nested := strings.Cut(path, ".")
	if nested {
		var of cty.Value
		if v.Type().IsMapType() {
			of = v.Index(cty.StringVal(name))
		} else {
			of = v.GetAttr(name)
		}
		to = with(of, rest, to)
	}
	parts := v.AsValueMap()
	if parts == nil {
		parts = map[string]cty.Value{}
	}
	parts[name] = to
	if v.Type().IsMapType() {
		return cty.MapVal(parts)
	}
	return cty.ObjectVal(parts)
}
