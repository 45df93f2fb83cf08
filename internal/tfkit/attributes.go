package tfkit

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// ComputedString is an attribute of a data source that the server tells.
func ComputedString(about string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: about}
}

// ComputedInt64 is an attribute of a data source that the server tells.
func ComputedInt64(about string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: about}
}

// ComputedFloat64 is an attribute of a data source that the server tells.
func ComputedFloat64(about string) schema.Float64Attribute {
	return schema.Float64Attribute{Computed: true, MarkdownDescription: about}
}

// ComputedBool is an attribute of a data source that the server tells.
func ComputedBool(about string) schema.BoolAttribute {
	return schema.BoolAttribute{Computed: true, MarkdownDescription: about}
}

// NonZero points at a value; the zero value, by which PVE's client says that the server did not tell, gives nil, which is
// Terraform's null.
func NonZero[V comparable](v V) *V {
	var zero V
	if v == zero {
		return nil
	}
	return &v
}

// Timeouts are the configured time limits of a resource.
type Timeouts struct {
	Create *string `tfsdk:"create"`
	Read   *string `tfsdk:"read"`
	Update *string `tfsdk:"update"`
	Delete *string `tfsdk:"delete"`
}

// Limits are the time limits of a group that may not be configured.
func (t *Timeouts) Limits() Timeouts {
	if t == nil {
		return Timeouts{}
	}
	return *t
}

// TimeoutsAttribute is the group of them. It refuses a time that is over before it begins.
func TimeoutsAttribute(ctx context.Context, operations timeouts.Opts) resourceschema.Attribute {
	group, ok := timeouts.Attributes(ctx, operations).(resourceschema.SingleNestedAttribute)
	if !ok { // another version of the module; the documentation says less then
		return timeouts.Attributes(ctx, operations)
	}
	group.MarkdownDescription = "Time limits of operations."
	for name, attribute := range group.Attributes {
		if limit, ok := attribute.(resourceschema.StringAttribute); ok {
			limit.Validators = []validator.String{PositiveDuration()}
			group.Attributes[name] = limit
		}
	}
	return group
}
