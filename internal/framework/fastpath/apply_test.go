package fastpath

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// noting is a thing that says what it notes.
type noting struct{ *thing }

func (noting) PrivateKeys() []string { return []string{"mark", "other"} }

// marks sets a note.
type marks interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// outcome is what a resource does in an apply.
type outcome struct {
	state func(context.Context, *tfsdk.State) diag.Diagnostics
	note  string
	value string
	says  diag.Diagnostics
}

func (o outcome) happen(ctx context.Context, state *tfsdk.State, store marks) diag.Diagnostics {
	var diags diag.Diagnostics
	if o.state != nil {
		diags.Append(o.state(ctx, state)...)
	}
	if o.note != "" {
		diags.Append(store.SetKey(ctx, o.note, []byte(o.value))...)
	}
	return append(diags, o.says...)
}

func setting(name string, value any) func(context.Context, *tfsdk.State) diag.Diagnostics {
	return func(ctx context.Context, state *tfsdk.State) diag.Diagnostics {
		return state.SetAttribute(ctx, path.Root(name), value)
	}
}

// TestApplyIsDoneOnce: whatever a create, an update and a destroy end with, the resource is asked once, and Terraform
// gets what a framework without the fast path answers.
func TestApplyIsDoneOnce(t *testing.T) {
	warning, failure := diag.NewWarningDiagnostic("look", "here"), diag.NewErrorDiagnostic("no", "such luck")
	null := &tfprotov6.DynamicValue{MsgPack: []byte{packNil}}
	for what, c := range map[string]struct {
		outcome
		framework bool // after the resource
	}{
		"a state":          {outcome{state: setting("name", "new")}, false},
		"a note":           {outcome{state: setting("name", "new"), note: "mark", value: `2`}, false},
		"another note":     {outcome{state: setting("name", "new"), note: "other", value: `{"a": 1}`}, false},
		"a note of no key": {outcome{state: setting("name", "new"), note: "unheard", value: `1`}, true},
		"a warning":        {outcome{state: setting("name", "new"), says: diag.Diagnostics{warning}}, false},
		"a failure":        {outcome{says: diag.Diagnostics{failure}}, false},
		"a failure, half made": {outcome{state: setting("name", "half"), note: "mark", value: `3`,
			says: diag.Diagnostics{failure, warning}}, false},
		"a failure of a slot": {outcome{state: setting("name", "half"), says: diag.Diagnostics{diag.WithPath(
			path.Root("slots").AtMapKey("a").AtListIndex(2).AtName("size"), failure)}}, false},
		"a failure of an element": {outcome{state: setting("name", "half"), says: diag.Diagnostics{diag.WithPath(
			path.Root("slots").AtSetValue(types.StringValue("a")), failure)}}, true},
		"a secret in state": {outcome{state: setting("secret", "x")}, true},
		"another spelling":  {outcome{state: setting("share", 0.1)}, true},
		"nothing at all": {outcome{state: func(ctx context.Context, state *tfsdk.State) diag.Diagnostics {
			state.RemoveResource(ctx)
			return nil
		}}, true},
	} {
		for _, verb := range []string{"create", "update", "delete"} {
			var answers [2]*tfprotov6.ApplyResourceChangeResponse
			for i := range answers { // with the fast path, and without since it does not know what is noted
				r := newThing()
				r.create = func(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
					resp.State.Raw = req.Plan.Raw
					resp.Diagnostics = c.happen(ctx, &resp.State, resp.Private)
				}
				r.update = func(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
					resp.State.Raw = req.Plan.Raw
					resp.Diagnostics = c.happen(ctx, &resp.State, resp.Private)
				}
				r.remove = func(ctx context.Context, _ resource.DeleteRequest, resp *resource.DeleteResponse) {
					resp.Diagnostics = c.happen(ctx, &resp.State, resp.Private)
				}
				as, want := resource.Resource(noting{r}), []string{verb}
				if c.framework && (verb != "delete" || c.says.HasError()) {
					want = append(want, "framework")
				}
				if i == 1 {
					as, want = r, []string{"framework", verb}
				}
				s := serve(t, r, as)
				share := tftypes.NewValue(tftypes.Number, decimalOf("0.1"))
				state := packed(t, r.schema, map[string]tftypes.Value{"name": str("it"), "share": share})
				req := &tfprotov6.ApplyResourceChangeRequest{TypeName: "toy_thing", PriorState: state, PlannedState: state,
					Config:         state,
					PlannedPrivate: private(t, map[string][]byte{"mark": []byte(`1`)})}
				switch verb {
				case "create":
					req.PriorState, req.PlannedPrivate = null, nil
				case "delete":
					req.PlannedState, req.Config = null, null
				}
				*r.asked = nil
				resp, err := s.ApplyResourceChange(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(*r.asked, want) {
					t.Errorf("%s, %s: asked %s, want %s", verb, what, *r.asked, want)
				}
				answers[i] = resp
			}
			fast, plain := answers[0], answers[1]
			if !bytes.Equal(fast.NewState.MsgPack, plain.NewState.MsgPack) || !bytes.Equal(fast.Private, plain.Private) ||
				!reflect.DeepEqual(fast.Diagnostics, plain.Diagnostics) {
				t.Errorf("%s, %s: %x %s %v, want %x %s %v", verb, what, fast.NewState.MsgPack, fast.Private, fast.Diagnostics,
					plain.NewState.MsgPack, plain.Private, plain.Diagnostics)
			}
		}
	}
}

// TestApplyThatTheFrameworkRefuses: what the framework refuses before it asks a resource, the fast path does not ask it
// either.
func TestApplyThatTheFrameworkRefuses(t *testing.T) {
	r := newThing()
	s := serve(t, r, noting{r})
	state := packed(t, r.schema, map[string]tftypes.Value{"name": str("it")})
	foreign, err := tfprotov6.NewDynamicValue(tftypes.String, str("it"))
	if err != nil {
		t.Fatal(err)
	}
	for what, req := range map[string]*tfprotov6.ApplyResourceChangeRequest{
		"a state of another type":  {PriorState: &foreign, PlannedState: state, Config: state},
		"a plan of another type":   {PriorState: state, PlannedState: &foreign, Config: state},
		"private state of no form": {PriorState: state, PlannedState: state, Config: state, PlannedPrivate: []byte("{")},
	} {
		req.TypeName, *r.asked = "toy_thing", nil
		resp, err := s.ApplyResourceChange(t.Context(), req)
		if err != nil || len(resp.Diagnostics) == 0 || !slices.Equal(*r.asked, []string{"framework"}) {
			t.Errorf("%s: asked %s: %v, %v", what, *r.asked, resp, err)
		}
	}
}
