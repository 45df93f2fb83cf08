package fastpath

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Generator is a resource that says what is worth writing down of the configuration that is generated for an object
// which was imported. Terraform asks for that since 1.14; the framework has no word for it yet.
type Generator interface {
	// GeneratedConfig is a configuration of everything that is in a state, less what need not be said.
	GeneratedConfig(all tftypes.Value) tftypes.Value
}

// GenerateResourceConfig makes a configuration of a state.
func (s *server) GenerateResourceConfig(ctx context.Context, req *tfprotov6.GenerateResourceConfigRequest) (
	*tfprotov6.GenerateResourceConfigResponse, error) {
	resp, err := s.backend.GenerateResourceConfig(ctx, req)
	k := s.kinds()[req.TypeName]
	if err != nil || k == nil || resp.Config == nil || len(resp.Diagnostics) > 0 {
		return resp, err
	}
	g, ok := k.make().(Generator)
	if !ok {
		return resp, nil
	}
	all, ok := k.unpack(resp.Config, false)
	if !ok || all.IsNull() {
		return resp, nil
	}
	if packed, ok := k.pack(g.GeneratedConfig(all), false); ok {
		resp.Config = packed
	}
	return resp, nil
}

// GetProviderSchema also says that the provider generates configurations, which the framework can do and does not tell.
func (s *server) GetProviderSchema(ctx context.Context, req *tfprotov6.GetProviderSchemaRequest) (
	*tfprotov6.GetProviderSchemaResponse, error) {
	resp, err := s.backend.GetProviderSchema(ctx, req)
	if err == nil && resp.ServerCapabilities != nil {
		resp.ServerCapabilities.GenerateResourceConfig = true
	}
	return resp, err
}
