package fastpath

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// identities are the identities of a type of resource; nil for a type that has none. Terraform knows them since 1.12;
// an older one sends none and reads none, and the framework answers it all the same.
type identities struct {
	schema identityschema.Schema
	wire   tftypes.Type
}

// newIdentities describes them. ok is false if the resource cannot.
func newIdentities(ctx context.Context, r resource.Resource) (of *identities, ok bool) {
	identified, ok := r.(resource.ResourceWithIdentity)
	if !ok {
		return nil, true
	}
	var resp resource.IdentitySchemaResponse
	identified.IdentitySchema(ctx, resource.IdentitySchemaRequest{}, &resp)
	if len(resp.Diagnostics) > 0 {
		return nil, false
	}
	return &identities{schema: resp.IdentitySchema, wire: resp.IdentitySchema.Type().TerraformType(ctx)}, true
}

// unpack reads the identity in a message, twice: to be told to the resource and to be answered by it. No identity is
// null.
func (i *identities) unpack(came *tfprotov6.ResourceIdentityData) (told, answer *tfsdk.ResourceIdentity, ok bool) {
	switch {
	case i == nil:
		return nil, nil, came == nil
	case came == nil:
		null := tftypes.NewValue(i.wire, nil)
		return &tfsdk.ResourceIdentity{Schema: i.schema, Raw: null}, &tfsdk.ResourceIdentity{Schema: i.schema, Raw: null},
			true
	case came.IdentityData == nil:
		return nil, nil, false
	}
	raw, err := came.IdentityData.Unmarshal(i.wire)
	if err != nil || !raw.IsFullyKnown() {
		return nil, nil, false
	}
	return &tfsdk.ResourceIdentity{Schema: i.schema, Raw: raw}, &tfsdk.ResourceIdentity{Schema: i.schema, Raw: raw.Copy()},
		true
}

// pack writes an identity. ok is false where the framework has a word to say about it: it has changed, or is missing
// although it must be there by then.
func (i *identities) pack(was, is *tfsdk.ResourceIdentity, must bool) (packed *tfprotov6.ResourceIdentityData,
	ok bool) {
	switch {
	case i == nil:
		return nil, is == nil
	case is == nil, must && is.Raw.IsFullyNull(), !was.Raw.IsFullyNull() && !was.Raw.Equal(is.Raw):
		return nil, false
	}
	data, err := tfprotov6.NewDynamicValue(i.wire, is.Raw)
	return &tfprotov6.ResourceIdentityData{IdentityData: &data}, err == nil
}

// none is the identity of an object that is gone.
func (i *identities) none() *tfprotov6.ResourceIdentityData {
	none, _, _ := i.unpack(nil)
	packed, _ := i.pack(none, none, false)
	return packed
}
