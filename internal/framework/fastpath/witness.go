package fastpath

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Witness is a resource that wants to know the objects in state. Terraform plans the replacement of a tainted object
// like the creation of a new one, and with -refresh=false the provider has seen nothing of the old one by then but its
// stored state.
type Witness interface {
	resource.ResourceWithConfigure
	// InState notes an object as a state file has it.
	InState(stored []byte)
}

// witnesses are the constructors of witnesses, by name.
func (w *watched) witnesses(ctx context.Context) map[string]func() resource.Resource {
	var of provider.MetadataResponse
	w.Metadata(ctx, provider.MetadataRequest{}, &of)
	all := map[string]func() resource.Resource{}
	for _, construct := range w.Provider.Resources(ctx) {
		r := construct()
		if _, ok := r.(Witness); ok {
			var named resource.MetadataResponse
			r.Metadata(ctx, resource.MetadataRequest{ProviderTypeName: of.TypeName}, &named)
			all[named.TypeName] = construct
		}
	}
	return all
}

// tell shows a stored state to the resource, if it wants to know.
func (s *server) tell(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) {
	configuration, construct := s.watched.configuration.Load(), s.witnesses()[req.TypeName]
	if configuration == nil || construct == nil || req.RawState == nil {
		return
	}
	var resp resource.ConfigureResponse
	if r, ok := construct().(Witness); ok {
		if r.Configure(ctx, *configuration, &resp); !resp.Diagnostics.HasError() {
			r.InState(req.RawState.JSON)
		}
	}
}
