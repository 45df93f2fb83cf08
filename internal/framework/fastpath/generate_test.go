package fastpath

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// TestGeneratesConfigurations: Terraform asks a provider for a configuration only where that says it can make one.
func TestGeneratesConfigurations(t *testing.T) {
	server := New(&toy{new: func() resource.Resource { return newThing() }}, new(Types), providerserver.NewProtocol6)
	resp, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if can := resp.ServerCapabilities; can == nil || !can.GenerateResourceConfig {
		t.Errorf("it says %+v", can)
	}
}
