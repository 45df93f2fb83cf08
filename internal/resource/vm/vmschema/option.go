package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// textOption is an option of PVE that is a text.
func textOption(about string, checks ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Computed: true, Validators: checks, MarkdownDescription: about}
}

// flagOption is an option of PVE that is a yes or no.
func flagOption(about string) schema.BoolAttribute {
	return schema.BoolAttribute{Optional: true, Computed: true, MarkdownDescription: about}
}

// countOption is an option of PVE that is a whole number.
func countOption(about string, checks ...validator.Int64) schema.Int64Attribute {
	return schema.Int64Attribute{Optional: true, Computed: true, Validators: checks, MarkdownDescription: about}
}

// decimalOption is an option of PVE that is a decimal number.
func decimalOption(about string, checks ...validator.Float64) schema.Float64Attribute {
	return schema.Float64Attribute{Optional: true, Computed: true, Validators: checks, MarkdownDescription: about}
}

// optionGroup is an option of PVE that has sub-keys.
func optionGroup(about string, attributes map[string]schema.Attribute) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{Optional: true, Computed: true, MarkdownDescription: about, Attributes: attributes}
}

// slotMap is a kind of device by slot.
func slotMap(about, family, want string, attributes map[string]schema.Attribute) schema.MapNestedAttribute {
	return schema.MapNestedAttribute{Optional: true, MarkdownDescription: about,
		Validators:   []validator.Map{mapvalidator.KeysAre(slotName(want, family))},
		NestedObject: schema.NestedAttributeObject{Attributes: attributes}}
}

func oneWord(words ...string) validator.String { return stringvalidator.OneOf(words...) }

func atLeast(least int64) validator.Int64 { return int64validator.AtLeast(least) }

func between(least, most int64) validator.Int64 { return int64validator.Between(least, most) }
