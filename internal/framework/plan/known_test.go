package plan_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
)

// TestKnown: what is unknown becomes null, a list with an unknown element as a whole, and the value itself stays as it
// was.
func TestKnown(t *testing.T) {
	text := func(v any) tftypes.Value { return tftypes.NewValue(tftypes.String, v) }
	rule := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"source": tftypes.String}}
	texts, rules, byKey := tftypes.List{ElementType: tftypes.String}, tftypes.List{ElementType: rule},
		tftypes.Map{ElementType: rule}
	whole := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"keys": texts,
		"set":   tftypes.Set{ElementType: tftypes.String},
		"rules": rules, "nets": byKey, "plain": texts}}
	raw := func() tftypes.Value {
		return tftypes.NewValue(whole, map[string]tftypes.Value{
			"keys": tftypes.NewValue(texts, []tftypes.Value{text("a"), text(tftypes.UnknownValue)}),
			"set":  tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, []tftypes.Value{text(tftypes.UnknownValue)}),
			"rules": tftypes.NewValue(rules, []tftypes.Value{tftypes.NewValue(rule,
				map[string]tftypes.Value{"source": text(tftypes.UnknownValue)})}),
			"nets":  tftypes.NewValue(byKey, map[string]tftypes.Value{"net0": tftypes.NewValue(rule, tftypes.UnknownValue)}),
			"plain": tftypes.NewValue(texts, []tftypes.Value{text("b")}),
		})
	}
	given := raw()
	empty := tftypes.NewValue(rule, map[string]tftypes.Value{"source": text(nil)})
	want := tftypes.NewValue(whole, map[string]tftypes.Value{
		"keys":  tftypes.NewValue(texts, nil),
		"set":   tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, nil),
		"rules": tftypes.NewValue(rules, []tftypes.Value{empty}),
		"nets":  tftypes.NewValue(byKey, map[string]tftypes.Value{"net0": empty}),
		"plain": tftypes.NewValue(texts, []tftypes.Value{text("b")}),
	})
	if got := plan.Known(given); !got.Equal(want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if !given.Equal(raw()) {
		t.Errorf("the value was changed: %s", given)
	}
}
