package fastpath

import (
	"context"
	"slices"
	"testing"

	tflist "github.com/hashicorp/terraform-plugin-framework/list"
	listschema "github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// lister is the toy with a list of its resource.
type lister struct{ *toy }

func (l lister) ListResources(context.Context) []func() tflist.ListResource {
	return []func() tflist.ListResource{func() tflist.ListResource { return things{l.new()} }}
}

type things struct{ resource.Resource }

func (things) ListResourceConfigSchema(_ context.Context, _ tflist.ListResourceSchemaRequest,
	resp *tflist.ListResourceSchemaResponse) {
	resp.Schema = listschema.Schema{Attributes: map[string]listschema.Attribute{}}
}

func (things) List(ctx context.Context, req tflist.ListRequest, stream *tflist.ListResultsStream) {
	found := req.NewListResult(ctx)
	found.DisplayName = "the thing"
	found.Diagnostics.Append(found.Identity.Set(ctx, struct {
		Number int64 `tfsdk:"number"`
	}{1})...)
	stream.Results = slices.Values([]tflist.ListResult{found})
}

// TestListsPass: a provider with list resources keeps both them and the fast path.
func TestListsPass(t *testing.T) {
	r := withIdentity{newThing()}
	var p provider.Provider = lister{&toy{new: func() resource.Resource { return r }}}
	s, fast := New(p, new(Types), providerserver.NewProtocol6).(*server)
	if !fast || len(s.kinds()) != 1 {
		t.Fatal("the fast path is gone")
	}
	nothing, err := tfprotov6.NewDynamicValue(tftypes.Object{}, tftypes.NewValue(tftypes.Object{},
		map[string]tftypes.Value{}))
	if err != nil {
		t.Fatal(err)
	}
	valid, err := s.ValidateListResourceConfig(t.Context(),
		&tfprotov6.ValidateListResourceConfigRequest{TypeName: "toy_thing", Config: &nothing})
	if err != nil || len(valid.Diagnostics) > 0 {
		t.Fatalf("%v, %v", valid, err)
	}
	stream, err := s.ListResource(t.Context(), &tfprotov6.ListResourceRequest{TypeName: "toy_thing", Config: &nothing,
		Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for found := range stream.Results {
		for _, d := range found.Diagnostics {
			t.Errorf("%s: %s", d.Summary, d.Detail)
		}
		names = append(names, found.DisplayName)
	}
	if !slices.Equal(names, []string{"the thing"}) {
		t.Errorf("listed %v", names)
	}
}
