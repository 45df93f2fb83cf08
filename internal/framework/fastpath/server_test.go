package fastpath

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// toy is a provider with one resource.
type toy struct {
	new func() resource.Resource
}

func (t *toy) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "toy"
}
func (t *toy) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}
func (t *toy) Configure(_ context.Context, _ provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	resp.ResourceData = "configured"
}
func (t *toy) DataSources(context.Context) []func() datasource.DataSource { return nil }
func (t *toy) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{t.new}
}

// thing is a resource that does what it is told and notes what it was asked.
type thing struct {
	asked  *[]string
	read   func(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse)
	plan   func(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse)
	create func(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse)
	update func(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse)
	remove func(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse)
	schema schema.Schema
}

func newThing() *thing {
	return &thing{asked: &[]string{}, schema: schema.Schema{Version: 3, Attributes: map[string]schema.Attribute{
		"name": schema.StringAttribute{Optional: true, Computed: true,
			Validators: []validator.String{stringvalidator.LengthAtMost(5)}},
		"count": schema.Int64Attribute{Optional: true},
		"slots": schema.MapNestedAttribute{Optional: true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"size": schema.Int64Attribute{Required: true},
			}}},
		"old":    schema.StringAttribute{Optional: true, DeprecationMessage: "It is old."},
		"secret": schema.StringAttribute{Optional: true, WriteOnly: true},
		"uuid":   schema.StringAttribute{Computed: true},
		"share":  schema.Float64Attribute{Optional: true},
	}}}
}

func (t *thing) note(what string) { *t.asked = append(*t.asked, what) }

func (t *thing) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_thing"
}
func (t *thing) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = t.schema
}
func (t *thing) Configure(context.Context, resource.ConfigureRequest, *resource.ConfigureResponse) {}
func (t *thing) ImportState(context.Context, resource.ImportStateRequest, *resource.ImportStateResponse) {
}
func (t *thing) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	if t.note("create"); t.create != nil {
		t.create(ctx, req, resp)
	}
}
func (t *thing) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if t.note("update"); t.update != nil {
		t.update(ctx, req, resp)
	}
}
func (t *thing) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	if t.note("delete"); t.remove != nil {
		t.remove(ctx, req, resp)
	}
}
func (t *thing) ValidateConfig(context.Context, resource.ValidateConfigRequest, *resource.ValidateConfigResponse) {
	t.note("validate")
}
func (t *thing) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	if t.note("read"); t.read != nil {
		t.read(ctx, req, resp)
	}
}
func (t *thing) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if t.note("plan"); t.plan != nil {
		t.plan(ctx, req, resp)
	}
}

// behind is the framework's server that notes that it was asked.
type behind struct {
	backend
	asked *[]string
}

func (b behind) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse,
	error) {
	*b.asked = append(*b.asked, "framework")
	return b.backend.ReadResource(ctx, req)
}

func (b behind) ApplyResourceChange(ctx context.Context,
	req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	*b.asked = append(*b.asked, "framework")
	return b.backend.ApplyResourceChange(ctx, req)
}

func (b behind) PlanResourceChange(ctx context.Context,
	req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	*b.asked = append(*b.asked, "framework")
	return b.backend.PlanResourceChange(ctx, req)
}

func (b behind) ValidateResourceConfig(ctx context.Context,
	req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	*b.asked = append(*b.asked, "framework")
	return b.backend.ValidateResourceConfig(ctx, req)
}

// framework is the framework's own server.
func framework(p provider.Provider) backend {
	s, _ := providerserver.NewProtocol6(p)().(backend)
	return s
}

func serve(t *testing.T, r *thing, as resource.Resource) tfprotov6.ProviderServer {
	t.Helper()
	s := New(&toy{func() resource.Resource { return as }}, new(Types),
		func(p provider.Provider) func() tfprotov6.ProviderServer {
			return func() tfprotov6.ProviderServer { return behind{framework(p), r.asked} }
		})
	empty, err := tfprotov6.NewDynamicValue(tftypes.Object{}, tftypes.NewValue(tftypes.Object{},
		map[string]tftypes.Value{}))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{Config: &empty})
	if err != nil || len(resp.Diagnostics) > 0 {
		t.Fatal(err, resp)
	}
	return s
}

// packed is an object with some attributes.
func packed(t *testing.T, s schema.Schema, attributes map[string]tftypes.Value) *tfprotov6.DynamicValue {
	t.Helper()
	typ := s.Type().TerraformType(t.Context())
	values := map[string]tftypes.Value{}
	for name, attribute := range typ.(tftypes.Object).AttributeTypes { //nolint:forcetypeassert // a schema's is one
		values[name] = tftypes.NewValue(attribute, nil)
		if v, ok := attributes[name]; ok {
			values[name] = v
		}
	}
	v, err := tfprotov6.NewDynamicValue(typ, tftypes.NewValue(typ, values))
	if err != nil {
		t.Fatal(err)
	}
	return &v
}

func str(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

func private(t *testing.T, noted map[string][]byte) []byte {
	t.Helper()
	raw, err := json.Marshal(noted)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestNothingIsDoneTwice: a resource is asked once, whether the framework has to go on from its answer or not, and
// Terraform gets its answer.
func TestNothingIsDoneTwice(t *testing.T) {
	r := newThing()
	s := serve(t, r, r)
	share := tftypes.NewValue(tftypes.Number, decimalOf("0.1"))
	state := packed(t, r.schema, map[string]tftypes.Value{"name": str("it"), "share": share})
	noted := private(t, map[string][]byte{"mark": []byte(`1`)})
	setName := func(name string) func(context.Context, resource.ReadRequest, *resource.ReadResponse) {
		return func(ctx context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
			resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), name)...)
		}
	}
	for what, c := range map[string]struct {
		read      func(context.Context, resource.ReadRequest, *resource.ReadResponse)
		framework bool
		state     *tfprotov6.DynamicValue
		private   []byte
		warnings  int
	}{
		"nothing":       {nil, false, state, noted, 0},
		"the same name": {setName("it"), false, state, noted, 0},
		"another name": {setName("new"), false, packed(t, r.schema, map[string]tftypes.Value{"name": str("new"),
			"share": share}), noted, 0},
		"another spelling of a decimal, which the framework does not take": {func(ctx context.Context, _ resource.ReadRequest,
			resp *resource.ReadResponse) {
			resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("share"), 0.1)...)
		}, true, state, noted, 0},
		"no resource any more": {func(ctx context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
			resp.State.RemoveResource(ctx)
		}, true, &tfprotov6.DynamicValue{MsgPack: []byte{packNil}}, noted, 0},
		"a warning": {func(_ context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
			resp.Diagnostics.AddWarning("look", "here")
		}, false, state, noted, 1},
		"an error": {func(_ context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
			resp.Diagnostics.AddAttributeError(path.Root("name"), "no", "such luck")
		}, false, state, noted, 1},
		"a note": {func(ctx context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
			resp.Diagnostics.Append(resp.Private.SetKey(ctx, "mark", []byte(`2`))...)
		}, true, state, private(t, map[string][]byte{"mark": []byte(`2`)}), 0},
		"a note less": {func(ctx context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
			resp.Diagnostics.Append(resp.Private.SetKey(ctx, "mark", nil)...)
		}, true, state, nil, 0},
		"the same note": {func(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
			mark, diags := req.Private.GetKey(ctx, "mark")
			resp.Diagnostics.Append(diags...)
			resp.Diagnostics.Append(resp.Private.SetKey(ctx, "mark", mark)...)
		}, false, state, noted, 0},
	} {
		*r.asked, r.read = nil, c.read
		resp, err := s.ReadResource(t.Context(), &tfprotov6.ReadResourceRequest{TypeName: "toy_thing", CurrentState: state,
			Private: noted})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"read"}
		if c.framework {
			want = []string{"read", "framework"}
		}
		same := bytes.Equal(resp.NewState.MsgPack, c.state.MsgPack) && bytes.Equal(resp.Private, c.private) &&
			len(resp.Diagnostics) == c.warnings
		if !same || !slices.Equal(*r.asked, want) {
			t.Errorf("%s: asked %s, want %s; %x %s %v", what, *r.asked, want, resp.NewState.MsgPack, resp.Private,
				resp.Diagnostics)
		}
	}
}

// TestPlanIsAskedOnce is the same for plans. Whatever Terraform proposes to change is the framework's from the start.
func TestPlanIsAskedOnce(t *testing.T) {
	r := newThing()
	s := serve(t, r, r)
	state, other := packed(t, r.schema, map[string]tftypes.Value{"name": str("it")}), packed(t, r.schema,
		map[string]tftypes.Value{"name": str("new")})
	null := &tfprotov6.DynamicValue{MsgPack: []byte{packNil}}
	replace := func(_ context.Context, _ resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
		resp.RequiresReplace = path.Paths{path.Root("slots"), path.Root("name"), path.Root("slots")}
	}
	for what, c := range map[string]struct {
		prior, proposed *tfprotov6.DynamicValue
		plan            func(context.Context, resource.ModifyPlanRequest, *resource.ModifyPlanResponse)
		asked           []string
		replaced        int
	}{
		"nothing": {state, state, nil, []string{"plan"}, 0},
		"a secret": {state, packed(t, r.schema, map[string]tftypes.Value{"name": str("it"), "secret": str("x")}), nil,
			[]string{"plan"}, 0},
		"a replacement": {state, state, replace, []string{"plan"}, 2},
		"a change":      {state, other, nil, []string{"framework", "plan"}, 0},
		"a create":      {null, other, nil, []string{"framework", "plan"}, 0},
		"a destroy":     {state, null, nil, []string{"framework", "plan"}, 0},
	} {
		*r.asked, r.plan = nil, c.plan
		resp, err := s.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{TypeName: "toy_thing",
			PriorState: c.prior, ProposedNewState: c.proposed, Config: state})
		if err != nil || len(resp.Diagnostics) > 0 {
			t.Fatal(err, resp.Diagnostics)
		}
		if !slices.Equal(*r.asked, c.asked) || len(resp.RequiresReplace) != c.replaced {
			t.Errorf("%s: asked %s, want %s; replaces %v", what, *r.asked, c.asked, resp.RequiresReplace)
		}
	}
}

// planner plans by itself.
type planner struct{ *thing }

func (planner) PlansAlone() {}

// TestPlanner: what a resource plans by itself is answered as it is, unless there is more to say.
func TestPlanner(t *testing.T) {
	r := newThing()
	s := serve(t, r, planner{r})
	name := func(v tftypes.Value) *tfprotov6.DynamicValue {
		return packed(t, r.schema, map[string]tftypes.Value{"name": v})
	}
	open := name(tftypes.NewValue(tftypes.String, tftypes.UnknownValue))
	null, it := &tfprotov6.DynamicValue{MsgPack: []byte{packNil}}, name(str("it"))
	planOpen := func(ctx context.Context, _ resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("name"), types.StringUnknown())...)
	}
	for what, c := range map[string]struct {
		prior, proposed, config *tfprotov6.DynamicValue
		plan                    func(context.Context, resource.ModifyPlanRequest, *resource.ModifyPlanResponse)
		asked                   []string
		planned                 *tfprotov6.DynamicValue
	}{
		"a create":                 {null, it, it, nil, []string{"plan"}, it},
		"a create with an unknown": {null, it, it, planOpen, []string{"plan"}, open},
		"an unknown configuration": {null, open, open, nil, []string{"plan"}, open},
		"a change":                 {it, name(str("new")), it, nil, []string{"plan"}, name(str("new"))},
		"a destroy":                {it, null, null, nil, []string{"plan"}, null},
		"a warning": {null, it, it, func(_ context.Context, _ resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
			resp.Diagnostics.AddWarning("look", "here")
		}, []string{"plan"}, it},
		"a warning of an element": {null, it, it, func(_ context.Context, _ resource.ModifyPlanRequest,
			resp *resource.ModifyPlanResponse) {
			resp.Diagnostics.AddAttributeWarning(path.Root("slots").AtSetValue(types.StringValue("a")), "look", "here")
		}, []string{"plan", "framework"}, it},
		"a note": {null, it, it, func(ctx context.Context, _ resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
			resp.Diagnostics.Append(resp.Private.SetKey(ctx, "mark", []byte(`2`))...)
		}, []string{"plan", "framework"}, it},
		"an error before anything was planned": {null, it, it, func(_ context.Context, _ resource.ModifyPlanRequest,
			resp *resource.ModifyPlanResponse) {
			resp.Diagnostics.AddError("no", "no")
		}, []string{"plan", "framework", "plan"}, nil},
	} {
		*r.asked, r.plan = nil, c.plan
		resp, err := s.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{TypeName: "toy_thing",
			PriorState: c.prior, ProposedNewState: c.proposed, Config: c.config})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(*r.asked, c.asked) || c.planned != nil && !bytes.Equal(resp.PlannedState.MsgPack,
			c.planned.MsgPack) {
			t.Errorf("%s: asked %s, want %s; planned %x, want %x", what, *r.asked, c.asked, resp.PlannedState.MsgPack,
				c.planned.MsgPack)
		}
	}
}

// TestAccepts: the fast path takes just what the framework takes without a word.
func TestAccepts(t *testing.T) {
	r := newThing()
	s := serve(t, r, r)
	plain := providerserver.NewProtocol6(&toy{func() resource.Resource { return r }})()
	slots := func(sizes map[string]tftypes.Value) tftypes.Value {
		typ := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"size": tftypes.Number}}
		all := map[string]tftypes.Value{}
		for slot, size := range sizes {
			all[slot] = tftypes.NewValue(typ, map[string]tftypes.Value{"size": size})
			if size.IsNull() && slot == "none" {
				all[slot] = tftypes.NewValue(typ, nil)
			}
		}
		return tftypes.NewValue(tftypes.Map{ElementType: typ}, all)
	}
	one, nothing := tftypes.NewValue(tftypes.Number, 1), tftypes.NewValue(tftypes.Number, nil)
	type attributes = map[string]tftypes.Value
	for what, c := range map[string]struct {
		config attributes
		quick  bool
	}{
		"nothing":          {nil, true},
		"what it may":      {attributes{"name": str("it"), "slots": slots(attributes{"a": one})}, true},
		"too long a name":  {attributes{"name": str("too long")}, false},
		"a required one":   {attributes{"slots": slots(attributes{"a": nothing})}, false},
		"a null element":   {attributes{"slots": slots(attributes{"none": nothing})}, false},
		"what is computed": {attributes{"uuid": str("x")}, false},
		"what is old":      {attributes{"old": str("x")}, false},
		"a secret":         {attributes{"secret": str("x")}, false},
		"an unknown":       {attributes{"name": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)}, true},
		"an unknown map":   {attributes{"slots": tftypes.NewValue(slots(nil).Type(), tftypes.UnknownValue)}, true},
		"an unknown inside": {attributes{"slots": slots(attributes{"a": tftypes.NewValue(tftypes.Number,
			tftypes.UnknownValue)})}, true},
	} {
		*r.asked = nil
		req := &tfprotov6.ValidateResourceConfigRequest{TypeName: "toy_thing", Config: packed(t, r.schema, c.config)}
		resp, err := s.ValidateResourceConfig(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if quick := !slices.Contains(*r.asked, "framework"); quick != c.quick {
			t.Errorf("%s: quick %t", what, quick)
		}
		want, err := plain.ValidateResourceConfig(t.Context(), req)
		if err != nil || len(want.Diagnostics) != len(resp.Diagnostics) || c.quick && len(want.Diagnostics) > 0 {
			t.Errorf("%s: %v, the framework says %v, %v", what, resp.Diagnostics, want.Diagnostics, err)
		}
	}
}

type withUpgrade struct{ *thing }

// UpgradeState reads states of version 2, as they are.
func (w withUpgrade) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	upgrade := func(_ context.Context, req resource.UpgradeStateRequest, resp *resource.UpgradeStateResponse) {
		w.note("upgrade")
		resp.DynamicValue = &tfprotov6.DynamicValue{JSON: req.RawState.JSON}
	}
	return map[int64]resource.StateUpgrader{2: {StateUpgrader: upgrade}}
}

// TestUpgrade: a resource that upgrades old states is served; the framework has them upgraded, and no state of the
// present version.
func TestUpgrade(t *testing.T) {
	r := withUpgrade{newThing()}
	s := serve(t, r.thing, r)
	for version, asked := range map[int64][]string{3: {}, 2: {"upgrade"}} {
		*r.asked = []string{}
		resp, err := s.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{TypeName: "toy_thing",
			Version:  version,
			RawState: &tfprotov6.RawState{JSON: []byte(`{}`)}})
		if err != nil || len(resp.Diagnostics) > 0 || resp.UpgradedState == nil || !slices.Equal(*r.asked, asked) {
			t.Errorf("version %d: asked %v: %v, %v", version, *r.asked, resp, err)
		}
	}
	*r.asked = nil
	req := &tfprotov6.ReadResourceRequest{TypeName: "toy_thing", CurrentState: packed(t, r.schema,
		map[string]tftypes.Value{"name": str("it")})}
	if _, err := s.ReadResource(t.Context(), req); err != nil || !slices.Equal(*r.asked, []string{"read"}) {
		t.Errorf("a read asked %v: %v", *r.asked, err)
	}
}

type withIdentity struct{ *thing }

func (withIdentity) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest,
	resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"number": identityschema.Int64Attribute{RequiredForImport: true}}}
}

type withUpgradeOfIdentity struct{ withIdentity }

func (withUpgradeOfIdentity) UpgradeIdentity(context.Context) map[int64]resource.IdentityUpgrader {
	return nil
}

// TestOthersAreTheFrameworks: a resource for which the framework does more is not served.
func TestOthersAreTheFrameworks(t *testing.T) {
	with := func(a schema.Attribute) schema.Schema {
		return schema.Schema{Attributes: map[string]schema.Attribute{"a": a}}
	}
	nested := func(a schema.Attribute) schema.Schema {
		return with(schema.MapNestedAttribute{Optional: true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{"b": a}}})
	}
	byDefault := schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString("x")}
	for what, c := range map[string]struct {
		schema schema.Schema
		served bool
	}{
		"a plain one":      {with(schema.StringAttribute{Optional: true}), true},
		"a default":        {with(byDefault), false},
		"a nested default": {nested(byDefault), false},
		"a plan modifier": {with(schema.StringAttribute{Optional: true, PlanModifiers: []planmodifier.String{
			stringplanmodifier.RequiresReplace()}}), false},
		"a dynamic":              {with(schema.DynamicAttribute{Optional: true}), false},
		"a nested secret":        {nested(schema.StringAttribute{Optional: true, WriteOnly: true}), false},
		"neither in nor out":     {with(schema.StringAttribute{}), false},
		"a block":                {schema.Schema{Blocks: map[string]schema.Block{"b": schema.SingleNestedBlock{}}}, false},
		"an old resource":        {schema.Schema{DeprecationMessage: "old"}, false},
		"a set of objects":       {with(schema.SetNestedAttribute{Optional: true}), false},
		"a list of any number":   {with(schema.ListAttribute{Optional: true, ElementType: types.NumberType}), false},
		"a nested object, plain": {nested(schema.StringAttribute{Optional: true}), true},
		"an object's own default": {with(schema.SingleNestedAttribute{Optional: true,
			Attributes: map[string]schema.Attribute{"b": byDefault}}), false},
	} {
		served := newType(t.Context(), &thing{asked: &[]string{}, schema: c.schema}) != nil
		if served != c.served {
			t.Errorf("%s: served %t", what, served)
		}
	}
	r := withUpgradeOfIdentity{withIdentity{newThing()}}
	if newType(t.Context(), r) != nil {
		t.Error("upgrades of an identity: served")
	}
}

// TestStop: StopProvider ends the request that a resource is at.
func TestStop(t *testing.T) {
	r := newThing()
	s := serve(t, r, r)
	reading := make(chan struct{})
	r.read = func(ctx context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
		close(reading)
		<-ctx.Done()
		resp.Diagnostics = diag.Diagnostics{diag.NewErrorDiagnostic("stopped", ctx.Err().Error())}
	}
	done := make(chan *tfprotov6.ReadResourceResponse)
	go func() {
		resp, _ := s.ReadResource(context.Background(), &tfprotov6.ReadResourceRequest{TypeName: "toy_thing",
			CurrentState: packed(t, r.schema, nil)})
		done <- resp
	}()
	<-reading
	if _, err := s.StopProvider(t.Context(), &tfprotov6.StopProviderRequest{}); err != nil {
		t.Fatal(err)
	}
	if resp := <-done; len(resp.Diagnostics) != 1 || resp.Diagnostics[0].Summary != "stopped" {
		t.Errorf("%v", resp.Diagnostics)
	}
}
