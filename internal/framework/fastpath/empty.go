package fastpath

import (
	"context"
	"fmt"
	"math/big"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// withUnset are the errors about a configuration. Those about an empty text, a zero or a negative number, which modules
// use for "not set", end with the way to leave the attribute unset.
func (s *server) withUnset(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest,
	said []*tfprotov6.Diagnostic) []*tfprotov6.Diagnostic {
	of, ok := s.schemas()[req.TypeName]
	if !ok || req.Config == nil || len(said) == 0 {
		return said
	}
	config, err := req.Config.Unmarshal(of.Type().TerraformType(ctx))
	if err != nil {
		return said
	}
	for _, d := range said {
		if d.Severity != tfprotov6.DiagnosticSeverityError || d.Attribute == nil {
			continue
		}
		a, err := of.AttributeAtTerraformPath(ctx, d.Attribute)
		if err != nil || !a.IsOptional() {
			continue
		}
		name, isName := d.Attribute.LastStep().(tftypes.AttributeName)
		if value := emptyAt(config, d.Attribute); value != "" && isName {
			d.Detail = fmt.Sprintf("%s. To leave it unset write null, as in %[2]s = var.%[2]s == %[3]s ? null : var.%[2]s",
				strings.TrimSuffix(strings.TrimSuffix(d.Detail, ", got: "), "."), name, value)
		}
	}
	return said
}

// emptyAt is the value at a path as it is written, if it is an empty text, or a number of at most zero; else "".
func emptyAt(config tftypes.Value, at *tftypes.AttributePath) string {
	found, _, err := tftypes.WalkAttributePath(config, at)
	v, ok := found.(tftypes.Value)
	if err != nil || !ok || !v.IsKnown() || v.IsNull() {
		return ""
	}
	text, number := "-", new(big.Float)
	switch {
	case v.Type().Is(tftypes.String) && v.As(&text) == nil && text == "":
		return `""`
	case v.Type().Is(tftypes.Number) && v.As(&number) == nil && number.Sign() <= 0:
		return number.Text('g', 10)
	}
	return ""
}
