package fastpath

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// talker is the toy with a function.
type talker struct{ *toy }

func (talker) Functions(context.Context) []func() function.Function {
	return []func() function.Function{func() function.Function { return hello{} }}
}

type hello struct{}

func (hello) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "hello"
}
func (hello) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{Return: function.StringReturn{}}
}
func (hello) Run(ctx context.Context, _ function.RunRequest, resp *function.RunResponse) {
	resp.Error = resp.Result.Set(ctx, "hello")
}

// TestFunctionsPass: a provider with functions keeps both them and the fast path.
func TestFunctionsPass(t *testing.T) {
	r := newThing()
	var p provider.Provider = talker{&toy{new: func() resource.Resource { return r }}}
	s := New(p, new(Types), providerserver.NewProtocol6)
	if _, fast := s.(*server); !fast {
		t.Errorf("%T serves it", s)
	}
	all, err := s.GetFunctions(t.Context(), &tfprotov6.GetFunctionsRequest{})
	if err != nil || all.Functions["hello"] == nil {
		t.Fatalf("its functions are %v, %v", all.Functions, err)
	}
	resp, err := s.CallFunction(t.Context(), &tfprotov6.CallFunctionRequest{Name: "hello"})
	if err != nil || resp.Error != nil || resp.Result == nil {
		t.Errorf("%v, %v", resp, err)
	}
	none := New(&toy{new: func() resource.Resource { return r }}, new(Types), providerserver.NewProtocol6)
	if all, err = none.GetFunctions(t.Context(), &tfprotov6.GetFunctionsRequest{}); err != nil || len(all.Functions) > 0 {
		t.Errorf("a provider without functions has %v, %v", all.Functions, err)
	}
}
