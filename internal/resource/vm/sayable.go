package vm

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// PVE stores more than a configuration may say: a burst without its limit, a display on a serial port that is not
// there, an address for a network device that has gone, what a later version has brought. In state such a value would
// stand in the configuration that is generated of the state, which is then refused. So it stays out of the state of a
// VM that was taken over, as everything does that is left alone.

// sayable is a state without those values which it did not have before and which no configuration can say, and what
// they are.
func (r *Resource) sayable(ctx context.Context, prior, state tftypes.Value) (tftypes.Value, []string) {
	v := model.SchemaValues()
	if !v.Shape.Appears(prior, state) {
		return state, nil
	}
	var left []string
	for { // what is left out makes another value refused, or none
		problems := r.problemsOf(ctx, v.Shape.Configuration(state))
		out := state
		for _, p := range problems {
			without, ok := v.Shape.Without(out, prior, p.Attribute)
			if !ok {
				continue
			}
			out = without
			left = append(left, dottedPath(p.Attribute)+": "+p.Detail)
		}
		if len(problems) == 0 || out.Equal(state) {
			return out, left
		}
		state = out
	}
}

// leftAlone is the warning that a VM has values which are in no state.
func leftAlone(thing string, left []string) diag.Diagnostics {
	var diags diag.Diagnostics
	if len(left) > 0 {
		slices.Sort(left)
		diags.AddWarning("Some of "+thing+" is left alone",
			"PVE has values of it that no configuration can say. They are not in the state and stay on the server as they "+
				"are:\n  "+
				strings.Join(left, "\n  "))
	}
	return diags
}

// problemsOf are the errors that Terraform would show of a configuration, as the framework finds them.
func (r *Resource) problemsOf(ctx context.Context, config tftypes.Value) []*tfprotov6.Diagnostic {
	packed, err := tfprotov6.NewDynamicValue(model.SchemaValues().Typ, config)
	if err != nil {
		return nil
	}
	resp, err := providerserver.NewProtocol6(alone{r})().ValidateResourceConfig(ctx,
		&tfprotov6.ValidateResourceConfigRequest{TypeName: "proxmox_vm", Config: &packed})
	if err != nil {
		return nil
	}
	var errors []*tfprotov6.Diagnostic
	for _, d := range resp.Diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			errors = append(errors, d)
		}
	}
	return errors
}

// dottedPath is a path as people read it.
func dottedPath(at *tftypes.AttributePath) string {
	var steps []string
	for _, step := range at.Steps() {
		switch s := step.(type) {
		case tftypes.AttributeName:
			steps = append(steps, string(s))
		case tftypes.ElementKeyString:
			steps = append(steps, string(s))
		}
	}
	return strings.Join(steps, ".")
}

// alone is a provider that has nothing but this resource.
type alone struct{ r *Resource }

var _ provider.Provider = alone{}

// Metadata names the provider.
func (alone) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "proxmox"
}

// Schema is empty.
func (alone) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

// Configure does nothing: the configuration of a resource is looked at without a server.
func (alone) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

// DataSources are none.
func (alone) DataSources(context.Context) []func() datasource.DataSource { return nil }

// Resources are this one.
func (a alone) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &Resource{run: a.r.run} }}
}

// GeneratedConfig is what is written down of an imported VM: not PVE's defaults, not the generation id, which is
// root's to set and which PVE gives every VM, and not the power state, which every apply would enforce (package
// fastpath).
func (r *Resource) GeneratedConfig(all tftypes.Value) tftypes.Value {
	said := plan.Edit(model.SchemaValues().Shape.Said(all), nil, map[string]bool{"vmgenid": true, "power_state": true})
	keep := func(group, key string) {
		said = plan.Replace(said, group, plan.Replace(plan.At(said, group), key, plan.At(all, group, key)))
	}
	if c := (model.Configuration{Raw: said}); c.IsSet("agent") { // PVE takes the rest only together with these
		keep("agent", "enabled")
	}
	if c := (model.Configuration{Raw: said}); c.HasCPUDetails() {
		keep("cpu", "type")
	}
	return said
}
