package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestWithout: what is left out is the smallest part that can be, and neither what was there before nor what a default
// would stand for.
func TestWithout(t *testing.T) {
	text := schema.StringAttribute{Optional: true, Computed: true}
	device := schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{"a": text,
		"must": schema.StringAttribute{Required: true},
		"vol":  schema.StringAttribute{Computed: true}}}
	s := schema.Schema{Attributes: map[string]schema.Attribute{"name": text, "size": text,
		"whole": schema.SingleNestedAttribute{Optional: true, Computed: true,
			Attributes: map[string]schema.Attribute{"a": text, "b": text}},
		"group": schema.SingleNestedAttribute{Optional: true, Computed: true,
			Attributes: map[string]schema.Attribute{"a": text, "size": text}},
		"devs": schema.MapNestedAttribute{Optional: true, NestedObject: device}}}
	shape := NewShape(t.Context(), s, map[string]Rule{"size": {Default: tftypes.NewValue(tftypes.String, "512")},
		"group.size": {Default: tftypes.NewValue(tftypes.String, "512")}})
	typ, _ := s.Type().TerraformType(t.Context()).(tftypes.Object)
	value := func(text string) tftypes.Value { return build(typ, "", strings.Fields(text)) }
	const all = "name=n size=1 group.a=x group.size=1 devs.d0.a=x devs.d0.must=y devs.d0.vol=v whole.a=x"
	root := tftypes.NewAttributePath()
	d0 := root.WithAttributeName("devs").WithElementKeyString("d0")
	for what, c := range map[string]struct {
		at    *tftypes.AttributePath
		prior string
		want  string
	}{
		"an attribute": {root.WithAttributeName("name"), "", strings.Replace(all, "name=n ", "", 1)},
		"an element of one": {root.WithAttributeName("name").WithElementKeyInt(0), "", strings.Replace(all,
			"name=n ", "", 1)},
		"one of a group": {root.WithAttributeName("group").WithAttributeName("a"), "", strings.Replace(all,
			"group.a=x ", "", 1)},
		"a group with a default in it": {root.WithAttributeName("group"), "", all},
		"a group":                      {root.WithAttributeName("whole"), "", strings.Replace(all, " whole.a=x", "", 1)},
		"one of a device":              {d0.WithAttributeName("a"), "", strings.Replace(all, "devs.d0.a=x ", "", 1)},
		"one that a device cannot lack": {d0.WithAttributeName("must"), "", "name=n size=1 group.a=x group.size=1 " +
			"whole.a=x"},
		"a device":                      {d0, "", "name=n size=1 group.a=x group.size=1 whole.a=x"},
		"one with a default":            {root.WithAttributeName("size"), "", all},
		"one with a default in a group": {root.WithAttributeName("group").WithAttributeName("size"), "", all},
		"one that was there":            {root.WithAttributeName("name"), "name=other", all},
		"a device that was there":       {d0.WithAttributeName("must"), "devs.d0.must=y", all},
		"what a group lacks": {root.WithAttributeName("whole").WithAttributeName("b"), "", strings.Replace(all,
			" whole.a=x", "", 1)},
		"nothing that the schema knows":   {root.WithAttributeName("else"), "", all},
		"nothing in particular":           {root, "", all},
		"a diagnostic without attributes": {nil, "", all},
	} {
		state := value(all)
		got, left := shape.Without(state, value(c.prior), c.at)
		if is, want := lines("", got), slices.Sorted(slices.Values(strings.Fields(c.want))); !slices.Equal(is, want) ||
			left != (c.want != all) {
			t.Errorf("%s: left out %t\ngot  %v\nwant %v", what, left, is, want)
		}
		if !state.Equal(value(all)) {
			t.Errorf("%s: the state was changed", what)
		}
	}
	if got, want := lines("", shape.Configuration(value(all))), lines("",
		value(strings.Replace(all, " devs.d0.vol=v", "", 1))); !slices.Equal(got, want) {
		t.Errorf("the configuration is %v, want %v", got, want)
	}
	for prior, appears := range map[string]bool{"": true, all: false, strings.Replace(all, "group.a=x ", "", 1): true,
		strings.Replace(all, " devs.d0.vol=v", "", 1): false, strings.Replace(all, "name=n", "name=other", 1): false} {
		if shape.Appears(value(prior), value(all)) != appears {
			t.Errorf("after %q something appears: %t", prior, !appears)
		}
	}
}
