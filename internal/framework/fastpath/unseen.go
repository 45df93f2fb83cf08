package fastpath

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// missing is what the framework says of a required attribute without a value. It says so, too, of an attribute of an
// object that is not known yet, in a map or a list whose keys are known (internal/fwserver/attribute_validation.go,
// AttributeValidate: the attribute of such an object is read as null).
const missing = "Missing Configuration for Required Attribute"

// withoutUnseen are the diagnostics about a configuration without what is said missing in an object that is not known
// yet: it may be there in the apply, in which Terraform validates once more.
func withoutUnseen(config *tfprotov6.DynamicValue, typ tftypes.Type,
	diags []*tfprotov6.Diagnostic) []*tfprotov6.Diagnostic {
	isMissing := func(d *tfprotov6.Diagnostic) bool { return d.Summary == missing && d.Attribute != nil }
	if config == nil || !slices.ContainsFunc(diags, isMissing) {
		return diags
	}
	v, err := config.Unmarshal(typ)
	if err != nil {
		return diags
	}
	return slices.DeleteFunc(diags, func(d *tfprotov6.Diagnostic) bool {
		return isMissing(d) && isInUnknown(v, d.Attribute.Steps())
	})
}

// isInUnknown reports whether one of the values that a path leads through is unknown.
func isInUnknown(v tftypes.Value, steps []tftypes.AttributePathStep) bool {
	for _, step := range steps {
		if !v.IsKnown() {
			return true
		}
		next, err := v.ApplyTerraform5AttributePathStep(step)
		value, ok := next.(tftypes.Value)
		if err != nil || !ok {
			return false
		}
		v = value
	}
	return false
}
