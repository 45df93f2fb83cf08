package fastpath

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// The framework reports a number that an attribute cannot hold, such as a third where a whole number is wanted, as an
// error of the provider, mostly on the group around it. So the server looks at the numbers itself.

// blamesProvider stands in those errors of the framework (internal/fwserver attribute_validation.go).
const blamesProvider = "This is always an error in the provider"

// withNumbers are the errors about a configuration, with those about its numbers in words for its user.
func (s *server) withNumbers(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest,
	said []*tfprotov6.Diagnostic) []*tfprotov6.Diagnostic {
	blames := func(d *tfprotov6.Diagnostic) bool { return strings.Contains(d.Detail, blamesProvider) }
	if !slices.ContainsFunc(said, blames) {
		return said
	}
	wrong := s.misplacedNumbers(ctx, req)
	if len(wrong) == 0 {
		return said
	}
	return append(slices.DeleteFunc(said, blames), wrong...)
}

// misplacedNumbers are the errors about the numbers in a configuration, each on its attribute.
func (s *server) misplacedNumbers(ctx context.Context,
	req *tfprotov6.ValidateResourceConfigRequest) []*tfprotov6.Diagnostic {
	of, ok := s.schemas()[req.TypeName]
	if !ok || req.Config == nil {
		return nil
	}
	config, err := req.Config.Unmarshal(of.Type().TerraformType(ctx))
	if err != nil {
		return nil
	}
	return numbersIn(of.Attributes, config, tftypes.NewAttributePath())
}

// schemas are those of the provider's resources, by name.
func (w *watched) schemas(ctx context.Context) map[string]schema.Schema {
	var of provider.MetadataResponse
	w.Metadata(ctx, provider.MetadataRequest{}, &of)
	all := map[string]schema.Schema{}
	for _, construct := range w.Provider.Resources(ctx) {
		var named resource.MetadataResponse
		var described resource.SchemaResponse
		r := construct()
		r.Metadata(ctx, resource.MetadataRequest{ProviderTypeName: of.TypeName}, &named)
		r.Schema(ctx, resource.SchemaRequest{}, &described)
		all[named.TypeName] = described.Schema
	}
	return all
}

func numbersIn(attributes map[string]schema.Attribute, object tftypes.Value,
	at *tftypes.AttributePath) (all []*tfprotov6.Diagnostic) {
	values := map[string]tftypes.Value{}
	if !object.IsKnown() || object.IsNull() || object.As(&values) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		v, here := values[name], at.WithAttributeName(name)
		if v.Type() == nil || !v.IsKnown() || v.IsNull() {
			continue
		}
		switch a := attributes[name].(type) {
		case schema.Int64Attribute:
			all = append(all, misplaced(v, here, wholeFault)...)
		case schema.Float64Attribute:
			all = append(all, misplaced(v, here, decimalFault)...)
		case schema.SingleNestedAttribute:
			all = append(all, numbersIn(a.Attributes, v, here)...)
		case schema.MapNestedAttribute:
			elements := map[string]tftypes.Value{}
			_ = v.As(&elements) // stays empty if it is none
			for _, key := range slices.Sorted(maps.Keys(elements)) {
				all = append(all, numbersIn(a.NestedObject.Attributes, elements[key], here.WithElementKeyString(key))...)
			}
		case schema.ListNestedAttribute:
			var elements []tftypes.Value
			_ = v.As(&elements)
			for i, element := range elements {
				all = append(all, numbersIn(a.NestedObject.Attributes, element, here.WithElementKeyInt(i))...)
			}
		}
	}
	return all
}

func misplaced(v tftypes.Value, at *tftypes.AttributePath, fault func(*big.Float) string) []*tfprotov6.Diagnostic {
	number := new(big.Float)
	if v.As(&number) != nil {
		return nil
	}
	why := fault(number)
	if why == "" {
		return nil
	}
	return []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityError, Attribute: at,
		Summary: "Invalid Attribute Value", Detail: fmt.Sprintf("%s, got: %s.", why, number.Text('g', 10))}}
}

func wholeFault(number *big.Float) string {
	switch _, accuracy := number.Int64(); {
	case !number.IsInt():
		return "The value must be a whole number: floor(), ceil() and format() make one of another"
	case accuracy != big.Exact:
		return "The value must be a whole number of at most 64 bits"
	}
	return ""
}

func decimalFault(number *big.Float) string {
	switch f, _ := number.Float64(); {
	case math.IsInf(f, 0):
		return "The value must be a number below 1.8e308"
	case f == 0 && number.Sign() != 0:
		return "The value must be 0 or at least 4.9e-324"
	}
	return ""
}
