package kit

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// ComputedString returns a computed text attribute of a data source.
func ComputedString(about string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: about}
}

// ComputedInt64 returns a computed whole number of a data source.
func ComputedInt64(about string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: about}
}

// ComputedFloat64 returns a computed number of a data source.
func ComputedFloat64(about string) schema.Float64Attribute {
	return schema.Float64Attribute{Computed: true, MarkdownDescription: about}
}

// ComputedBool returns a computed truth value of a data source.
func ComputedBool(about string) schema.BoolAttribute {
	return schema.BoolAttribute{Computed: true, MarkdownDescription: about}
}

// NonZero returns a pointer to a value. The zero value, which the API client has for an absent field, gives nil, which
// is null in Terraform.
func NonZero[V comparable](v V) *V {
	var zero V
	if v == zero {
		return nil
	}
	return &v
}

// Timeouts are the configured time limits of a resource, such as "30m"; nil is the default.
type Timeouts struct {
	Create *string `tfsdk:"create"`
	Read   *string `tfsdk:"read"`
	Update *string `tfsdk:"update"`
	Delete *string `tfsdk:"delete"`
}

// Limits returns the time limits; a group without configuration has none.
func (t *Timeouts) Limits() Timeouts {
	if t == nil {
		return Timeouts{}
	}
	return *t
}

// TimeoutsAttribute returns the group of time limits. It refuses a limit of zero or less.
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
