package terraformtest

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	dschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	pschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// sample is a provider of things kept in a map, with switches for every rule it can break.
type sample struct {
	mu     sync.Mutex
	things map[string]sampleThing
	serial int
	// misbehave: "", "unknown", "inconsistent", "plan", "fail", "fail-tainted", "drift", "noid", "import-gone"
	misbehave  string
	configured []string
}

type sampleThing struct{ name, secret string }

type sampleModel struct {
	ID     types.String               `tfsdk:"id"`
	Name   types.String               `tfsdk:"name"`
	Kind   types.String               `tfsdk:"kind"`
	Secret types.String               `tfsdk:"secret"`
	Disks  map[string]sampleDiskModel `tfsdk:"disks"`
}

type sampleDiskModel struct {
	Size   types.String `tfsdk:"size"`
	Volume types.String `tfsdk:"volume"`
}

func (t *sample) factory() Factory {
	return ServerOf(func() provider.Provider { return &sampleProvider{t} })
}

type sampleProvider struct{ *sample }

func (t *sampleProvider) Metadata(_ context.Context, _ provider.MetadataRequest, r *provider.MetadataResponse) {
	r.TypeName = "sample"
}

func (t *sampleProvider) Schema(_ context.Context, _ provider.SchemaRequest, r *provider.SchemaResponse) {
	r.Schema = pschema.Schema{Attributes: map[string]pschema.Attribute{"endpoint": pschema.StringAttribute{Optional: true}}}
}

func (t *sampleProvider) Configure(ctx context.Context, q provider.ConfigureRequest, r *provider.ConfigureResponse) {
	var endpoint types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("endpoint"), &endpoint)...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.configured = append(t.configured, endpoint.String())
	r.ResourceData = t.sample
}

func (t *sampleProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &sampleResource{t.sample} }}
}

func (t *sampleProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return sampleData{} }}
}

type sampleData struct{}

func (sampleData) Metadata(_ context.Context, _ datasource.MetadataRequest, r *datasource.MetadataResponse) {
	r.TypeName = "sample_length"
}

func (sampleData) Schema(_ context.Context, _ datasource.SchemaRequest, r *datasource.SchemaResponse) {
	r.Schema = dschema.Schema{Attributes: map[string]dschema.Attribute{
		"of": dschema.StringAttribute{Required: true}, "length": dschema.Int64Attribute{Computed: true},
	}}
}

func (sampleData) Read(ctx context.Context, q datasource.ReadRequest, r *datasource.ReadResponse) {
	var of types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("of"), &of)...)
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("of"), of)...)
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("length"), int64(len(of.ValueString())))...)
}

type sampleResource struct{ *sample }

func (t *sampleResource) Metadata(_ context.Context, _ resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = "sample_thing"
}

func (t *sampleResource) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	keep := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	r.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"id":     schema.StringAttribute{Computed: true, PlanModifiers: keep},
		"name":   schema.StringAttribute{Required: true},
		"kind":   schema.StringAttribute{Optional: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
		"secret": schema.StringAttribute{Optional: true, WriteOnly: true},
		"disks": schema.MapNestedAttribute{Optional: true, NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"size":   schema.StringAttribute{Optional: true},
			"volume": schema.StringAttribute{Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseNonNullStateForUnknown()}},
		}}},
	}}
}

func (t *sampleResource) ModifyPlan(ctx context.Context, q resource.ModifyPlanRequest, r *resource.ModifyPlanResponse) {
	if t.misbehave == "plan" && !q.Plan.Raw.IsNull() {
		r.Diagnostics.Append(r.Plan.SetAttribute(ctx, path.Root("name"), "something else")...)
	}
}

func (t *sampleResource) Create(ctx context.Context, q resource.CreateRequest, r *resource.CreateResponse) {
	var m sampleModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	var secret types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("secret"), &secret)...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.misbehave == "fail" {
		r.Diagnostics.AddError("Cannot create", "told to fail")
		return
	}
	t.serial++
	m.ID = types.StringValue(strconv.Itoa(t.serial))
	t.fill(&m)
	t.things[m.ID.ValueString()] = sampleThing{name: m.Name.ValueString(), secret: secret.ValueString()}
	r.Diagnostics.Append(r.Private.SetKey(ctx, "serial", []byte(m.ID.String()))...)
	switch t.misbehave {
	case "unknown":
		m.ID = types.StringUnknown()
	case "inconsistent":
		m.Name = types.StringValue(m.Name.ValueString() + "!")
	case "fail-tainted":
		r.Diagnostics.AddAttributeError(path.Root("disks").AtMapKey("scsi0").AtName("size"), "Half made", "told to fail")
	}
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

func (t *sampleResource) fill(m *sampleModel) {
	for slot, d := range m.Disks {
		if d.Volume.IsUnknown() {
			d.Volume = types.StringValue(fmt.Sprintf("vm-%s-%s", m.ID.ValueString(), slot))
		}
		m.Disks[slot] = d
	}
}

func (t *sampleResource) Read(ctx context.Context, q resource.ReadRequest, r *resource.ReadResponse) {
	var m sampleModel
	r.Diagnostics.Append(q.State.Get(ctx, &m)...)
	t.mu.Lock()
	defer t.mu.Unlock()
	thing, ok := t.things[m.ID.ValueString()]
	if !ok {
		r.State.RemoveResource(ctx)
		return
	}
	m.Name = types.StringValue(thing.name)
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

func (t *sampleResource) Update(ctx context.Context, q resource.UpdateRequest, r *resource.UpdateResponse) {
	var m sampleModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.misbehave == "fail" {
		r.Diagnostics.AddError("Cannot update", "told to fail")
		return
	}
	t.fill(&m)
	thing := t.things[m.ID.ValueString()]
	thing.name = m.Name.ValueString()
	if t.misbehave != "drift" {
		t.things[m.ID.ValueString()] = thing
	}
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

func (t *sampleResource) Delete(ctx context.Context, q resource.DeleteRequest, r *resource.DeleteResponse) {
	var m sampleModel
	r.Diagnostics.Append(q.State.Get(ctx, &m)...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.misbehave == "fail" {
		r.Diagnostics.AddError("Cannot delete", "told to fail")
		return
	}
	delete(t.things, m.ID.ValueString())
}

func (t *sampleResource) ImportState(ctx context.Context, q resource.ImportStateRequest, r *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), q, r)
}
