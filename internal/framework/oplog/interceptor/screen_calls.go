package interceptor

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// The calls of Terraform whose answers need nothing but clean diagnostics, one method each.

// GetMetadata lists what the provider has.
func (s *screen) GetMetadata(ctx context.Context,
	req *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	return screened(ctx, req, s.behind.GetMetadata,
		func(resp *tfprotov6.GetMetadataResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// GetProviderSchema describes it.
func (s *screen) GetProviderSchema(ctx context.Context,
	req *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return screened(ctx, req, s.behind.GetProviderSchema,
		func(resp *tfprotov6.GetProviderSchemaResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// GetResourceIdentitySchemas describes the identities.
func (s *screen) GetResourceIdentitySchemas(ctx context.Context,
	req *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return screened(ctx, req, s.behind.GetResourceIdentitySchemas,
		func(resp *tfprotov6.GetResourceIdentitySchemasResponse) []*tfprotov6.Diagnostic {
			return resp.Diagnostics
		})
}

// ValidateProviderConfig validates the provider's configuration.
func (s *screen) ValidateProviderConfig(ctx context.Context,
	req *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return screened(ctx, req, s.behind.ValidateProviderConfig,
		func(resp *tfprotov6.ValidateProviderConfigResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ConfigureProvider takes it.
func (s *screen) ConfigureProvider(ctx context.Context,
	req *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return screened(ctx, req, s.behind.ConfigureProvider,
		func(resp *tfprotov6.ConfigureProviderResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ValidateResourceConfig validates a resource.
func (s *screen) ValidateResourceConfig(ctx context.Context,
	req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return screened(ctx, req, s.behind.ValidateResourceConfig,
		func(resp *tfprotov6.ValidateResourceConfigResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// UpgradeResourceState reads a stored state.
func (s *screen) UpgradeResourceState(ctx context.Context,
	req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	return screened(ctx, req, s.behind.UpgradeResourceState,
		func(resp *tfprotov6.UpgradeResourceStateResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ReadResource refreshes a state.
func (s *screen) ReadResource(ctx context.Context,
	req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return screened(ctx, req, s.behind.ReadResource,
		func(resp *tfprotov6.ReadResourceResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// PlanResourceChange plans.
func (s *screen) PlanResourceChange(ctx context.Context,
	req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	return screened(ctx, req, s.behind.PlanResourceChange,
		func(resp *tfprotov6.PlanResourceChangeResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ApplyResourceChange creates, changes and destroys.
func (s *screen) ApplyResourceChange(ctx context.Context,
	req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	return screened(ctx, req, s.behind.ApplyResourceChange,
		func(resp *tfprotov6.ApplyResourceChangeResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ImportResourceState imports.
func (s *screen) ImportResourceState(ctx context.Context,
	req *tfprotov6.ImportResourceStateRequest) (*tfprotov6.ImportResourceStateResponse, error) {
	return screened(ctx, req, s.behind.ImportResourceState,
		func(resp *tfprotov6.ImportResourceStateResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// MoveResourceState takes over another provider's state.
func (s *screen) MoveResourceState(ctx context.Context,
	req *tfprotov6.MoveResourceStateRequest) (*tfprotov6.MoveResourceStateResponse, error) {
	return screened(ctx, req, s.behind.MoveResourceState,
		func(resp *tfprotov6.MoveResourceStateResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// UpgradeResourceIdentity reads a stored identity.
func (s *screen) UpgradeResourceIdentity(ctx context.Context,
	req *tfprotov6.UpgradeResourceIdentityRequest) (*tfprotov6.UpgradeResourceIdentityResponse, error) {
	return screened(ctx, req, s.behind.UpgradeResourceIdentity,
		func(resp *tfprotov6.UpgradeResourceIdentityResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// GenerateResourceConfig writes configuration for an import.
func (s *screen) GenerateResourceConfig(ctx context.Context,
	req *tfprotov6.GenerateResourceConfigRequest) (*tfprotov6.GenerateResourceConfigResponse, error) {
	return screened(ctx, req, s.behind.GenerateResourceConfig,
		func(resp *tfprotov6.GenerateResourceConfigResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ValidateDataResourceConfig validates a data source.
func (s *screen) ValidateDataResourceConfig(ctx context.Context,
	req *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return screened(ctx, req, s.behind.ValidateDataResourceConfig,
		func(resp *tfprotov6.ValidateDataResourceConfigResponse) []*tfprotov6.Diagnostic {
			return resp.Diagnostics
		})
}

// ReadDataSource reads a data source.
func (s *screen) ReadDataSource(ctx context.Context,
	req *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	return screened(ctx, req, s.behind.ReadDataSource,
		func(resp *tfprotov6.ReadDataSourceResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// GetFunctions describes the functions.
func (s *screen) GetFunctions(ctx context.Context,
	req *tfprotov6.GetFunctionsRequest) (*tfprotov6.GetFunctionsResponse, error) {
	return screened(ctx, req, s.behind.GetFunctions,
		func(resp *tfprotov6.GetFunctionsResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ValidateEphemeralResourceConfig validates an ephemeral resource.
func (s *screen) ValidateEphemeralResourceConfig(ctx context.Context,
	req *tfprotov6.ValidateEphemeralResourceConfigRequest) (*tfprotov6.ValidateEphemeralResourceConfigResponse, error) {
	return screened(ctx, req, s.behind.ValidateEphemeralResourceConfig,
		func(resp *tfprotov6.ValidateEphemeralResourceConfigResponse) []*tfprotov6.Diagnostic {
			return resp.Diagnostics
		})
}

// OpenEphemeralResource opens one.
func (s *screen) OpenEphemeralResource(ctx context.Context,
	req *tfprotov6.OpenEphemeralResourceRequest) (*tfprotov6.OpenEphemeralResourceResponse, error) {
	return screened(ctx, req, s.behind.OpenEphemeralResource,
		func(resp *tfprotov6.OpenEphemeralResourceResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// RenewEphemeralResource renews one.
func (s *screen) RenewEphemeralResource(ctx context.Context,
	req *tfprotov6.RenewEphemeralResourceRequest) (*tfprotov6.RenewEphemeralResourceResponse, error) {
	return screened(ctx, req, s.behind.RenewEphemeralResource,
		func(resp *tfprotov6.RenewEphemeralResourceResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// CloseEphemeralResource closes one.
func (s *screen) CloseEphemeralResource(ctx context.Context,
	req *tfprotov6.CloseEphemeralResourceRequest) (*tfprotov6.CloseEphemeralResourceResponse, error) {
	return screened(ctx, req, s.behind.CloseEphemeralResource,
		func(resp *tfprotov6.CloseEphemeralResourceResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// ValidateListResourceConfig validates a list.
func (s *screen) ValidateListResourceConfig(ctx context.Context,
	req *tfprotov6.ValidateListResourceConfigRequest) (*tfprotov6.ValidateListResourceConfigResponse, error) {
	return screened(ctx, req, s.behind.ValidateListResourceConfig,
		func(resp *tfprotov6.ValidateListResourceConfigResponse) []*tfprotov6.Diagnostic {
			return resp.Diagnostics
		})
}

// ValidateActionConfig validates an action.
func (s *screen) ValidateActionConfig(ctx context.Context,
	req *tfprotov6.ValidateActionConfigRequest) (*tfprotov6.ValidateActionConfigResponse, error) {
	return screened(ctx, req, s.behind.ValidateActionConfig,
		func(resp *tfprotov6.ValidateActionConfigResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}

// PlanAction plans an action.
func (s *screen) PlanAction(ctx context.Context,
	req *tfprotov6.PlanActionRequest) (*tfprotov6.PlanActionResponse, error) {
	return screened(ctx, req, s.behind.PlanAction,
		func(resp *tfprotov6.PlanActionResponse) []*tfprotov6.Diagnostic { return resp.Diagnostics })
}
