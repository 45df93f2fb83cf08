package fastpath

import (
	"math/big"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestMisplacedNumbers: a number that an attribute cannot hold is an error on that attribute, in words for its user.
func TestMisplacedNumbers(t *testing.T) {
	r := newThing()
	s := serve(t, r, r)
	size := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"size": tftypes.Number}}
	slots := func(n tftypes.Value) tftypes.Value {
		return tftypes.NewValue(tftypes.Map{ElementType: size}, map[string]tftypes.Value{"a": tftypes.NewValue(size, map[string]tftypes.Value{"size": n})})
	}
	third := tftypes.NewValue(tftypes.Number, new(big.Float).Quo(big.NewFloat(1), big.NewFloat(3)))
	huge, _ := new(big.Float).SetString("9223372036854775808")
	for what, c := range map[string]struct {
		attribute string
		value     tftypes.Value
		at, says  string
	}{
		"a fraction":        {"count", third, `AttributeName("count")`, "whole number: floor()"},
		"65 bits":           {"count", tftypes.NewValue(tftypes.Number, huge), `AttributeName("count")`, "64 bits"},
		"a nested fraction": {"slots", slots(third), `AttributeName("slots").ElementKeyString("a").AttributeName("size")`, "whole number"},
	} {
		resp, err := s.ValidateResourceConfig(t.Context(), &tfprotov6.ValidateResourceConfigRequest{TypeName: "toy_thing",
			Config: packed(t, r.schema, map[string]tftypes.Value{c.attribute: c.value})})
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Diagnostics) != 1 || resp.Diagnostics[0].Attribute.String() != c.at || !strings.Contains(resp.Diagnostics[0].Detail, c.says) {
			t.Errorf("%s: %+v", what, resp.Diagnostics)
		}
	}
}
