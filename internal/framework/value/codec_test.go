package value

import (
	"context"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"pgregory.net/rapid"
)

type thing struct {
	Name  *string           `tfsdk:"name"`
	Count *int64            `tfsdk:"count"`
	Share *float64          `tfsdk:"share"`
	On    *bool             `tfsdk:"on"`
	List  []string          `tfsdk:"list"`
	Set   []string          `tfsdk:"set"`
	Words map[string]string `tfsdk:"words"`
	Group *group            `tfsdk:"group"`
	Slots map[string]group  `tfsdk:"slots"`
	Rules []group           `tfsdk:"rules"`
	Rest  []byte            `tfsdk:"-"`
}

type group struct {
	Size *int64 `tfsdk:"size"`
	Remark
}

// Remark is embedded: its fields count as the outer struct's.
type Remark struct {
	Note *string `tfsdk:"note"`
}

func thingSchema() schema.Schema {
	g := map[string]schema.Attribute{"size": schema.Int64Attribute{Optional: true},
		"note": schema.StringAttribute{Optional: true}}
	return schema.Schema{Attributes: map[string]schema.Attribute{
		"name": schema.StringAttribute{Optional: true}, "count": schema.Int64Attribute{Optional: true},
		"share": schema.Float64Attribute{Optional: true}, "on": schema.BoolAttribute{Optional: true},
		"list":  schema.ListAttribute{Optional: true, ElementType: types.StringType},
		"set":   schema.SetAttribute{Optional: true, ElementType: types.StringType},
		"words": schema.MapAttribute{Optional: true, ElementType: types.StringType},
		"group": schema.SingleNestedAttribute{Optional: true, Attributes: g},
		"slots": schema.MapNestedAttribute{Optional: true, NestedObject: schema.NestedAttributeObject{Attributes: g}},
		"rules": schema.ListNestedAttribute{Optional: true, NestedObject: schema.NestedAttributeObject{Attributes: g}},
	}}
}

func thingCodec(t testing.TB) (Codec[thing], schema.Schema) {
	t.Helper()
	s := thingSchema()
	c, err := NewCodec[thing](s.Type().TerraformType(context.Background()))
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func maybe[V any](t *rapid.T, label string, g *rapid.Generator[V]) *V {
	return rapid.Ptr(g, true).Draw(t, label)
}

func drawGroup(t *rapid.T, label string) group {
	return group{Size: maybe(t, label+" size", rapid.Int64()),
		Remark: Remark{Note: maybe(t, label+" note", rapid.String())}}
}

func drawList[V any](t *rapid.T, label string, g *rapid.Generator[V]) []V {
	if rapid.Bool().Draw(t, label+" is null") {
		return nil
	}
	return rapid.SliceOfN(g, 0, 3).Draw(t, label)
}

func drawThing(t *rapid.T) thing {
	groups := rapid.Custom(func(t *rapid.T) group { return drawGroup(t, "group") })
	decimals := rapid.OneOf(rapid.SampledFrom([]float64{0.1, 1.5, 2, 1e300, 5e-324, math.Pi}), rapid.Float64Range(-1e9,
		1e9))
	m := thing{Name: maybe(t, "name", rapid.String()), Count: maybe(t, "count", rapid.Int64()), Share: maybe(t, "share",
		decimals),
		On: maybe(t, "on", rapid.Bool()), List: drawList(t, "list", rapid.String()), Rules: drawList(t, "rules", groups),
		Set: drawList(t, "set", rapid.SampledFrom([]string{"a", "b", "c", ""}))}
	if rapid.Bool().Draw(t, "has words") {
		m.Words = rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "words")
	}
	if rapid.Bool().Draw(t, "has slots") {
		m.Slots = rapid.MapOfN(rapid.String(), groups, 0, 3).Draw(t, "slots")
	}
	if rapid.Bool().Draw(t, "has group") {
		g := drawGroup(t, "the group")
		m.Group = &g
	}
	return m
}

// TestCodecAgreesWithTheFramework: whatever the framework makes of a model the codec makes of it too, in both
// directions, or it refuses.
func TestCodecAgreesWithTheFramework(t *testing.T) {
	ctx := context.Background()
	c, s := thingCodec(t)
	refused, drawn := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := drawThing(t)
		state := tfsdk.State{Raw: tftypes.NewValue(s.Type().TerraformType(ctx), nil), Schema: s}
		theirs := state.Set(ctx, &m)
		drawn++
		ours, err := c.Encode(m)
		if err != nil {
			refused++
			return
		}
		if theirs.HasError() {
			t.Fatalf("the framework refuses %+v: %v", m, theirs)
		}
		if !ours.Equal(state.Raw) || !Equal(ours, state.Raw) {
			t.Fatalf("%s\nwant %s", ours, state.Raw)
		}
		var want thing
		if diags := state.Get(ctx, &want); diags.HasError() {
			t.Fatal(diags)
		}
		back, err := c.Decode(state.Raw)
		if err != nil {
			t.Fatalf("the framework reads it: %v", err)
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Fatal(diff)
		}
	})
	if refused*2 > drawn {
		t.Errorf("refused %d of %d", refused, drawn)
	}
}

// with is a thing with another value in one place.
func with(t *testing.T, c Codec[thing], name string, v tftypes.Value) tftypes.Value {
	t.Helper()
	empty, err := c.Encode(thing{})
	values := map[string]tftypes.Value{}
	if err != nil || empty.As(&values) != nil {
		t.Fatal(err)
	}
	values[name] = v
	return tftypes.NewValue(empty.Type(), values)
}

func TestDecodeRefuses(t *testing.T) {
	c, s := thingCodec(t)
	decimal := func(text string) tftypes.Value {
		f, _, err := big.ParseFloat(text, 10, 512, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		return tftypes.NewValue(tftypes.Number, f)
	}
	words := tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, []tftypes.Value{
		tftypes.NewValue(tftypes.String, "a"), tftypes.NewValue(tftypes.String, "a")})
	hole := tftypes.NewValue(tftypes.List{ElementType: tftypes.String},
		[]tftypes.Value{tftypes.NewValue(tftypes.String, nil)})
	for what, v := range map[string]tftypes.Value{
		"unknown":              tftypes.NewValue(s.Type().TerraformType(t.Context()), tftypes.UnknownValue),
		"null":                 tftypes.NewValue(s.Type().TerraformType(t.Context()), nil),
		"an unknown attribute": with(t, c, "name", tftypes.NewValue(tftypes.String, tftypes.UnknownValue)),
		"a fraction":           with(t, c, "count", decimal("1.5")),
		"more than 64 bits":    with(t, c, "count", decimal("9223372036854775808")),
		"no float64":           with(t, c, "share", decimal("1e400")),
		"a set with a repeat":  with(t, c, "set", words),
		"a null in a list":     with(t, c, "list", hole),
		"something else":       tftypes.NewValue(tftypes.String, "x"),
		"an object without name": tftypes.NewValue(tftypes.Object{AttributeTypes: map[string]tftypes.Type{}},
			map[string]tftypes.Value{}),
	} {
		if m, err := c.Decode(v); err == nil {
			t.Errorf("%s: %+v", what, m)
		}
	}
	for text, want := range map[string]float64{"0.1": 0.1, "0.12345678901234567890123": 0.12345678901234568} {
		if m, err := c.Decode(with(t, c, "share", decimal(text))); err != nil || *m.Share != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if v, err := c.Encode(thing{Set: []string{"a", "a"}}); err == nil {
		t.Errorf("a set with a repeat became %s", v)
	}
	inf := math.Inf(1)
	if v, err := c.Encode(thing{Share: &inf}); err == nil {
		t.Errorf("infinity became %s", v)
	}
}

func TestCodecsThatDoNotFit(t *testing.T) {
	text := map[string]tftypes.Type{"name": tftypes.String}
	for what, err := range map[string]error{
		"a missing field": second(NewCodec[struct{}](tftypes.Object{AttributeTypes: text})),
		"a missing attribute": second(NewCodec[struct {
			Name *string `tfsdk:"nome"`
		}](tftypes.Object{AttributeTypes: text})),
		"another type": second(NewCodec[struct {
			Name *int64 `tfsdk:"name"`
		}](tftypes.Object{AttributeTypes: text})),
		"no field can hold it": second(NewCodec[struct {
			Name []string `tfsdk:"name"`
		}](tftypes.Object{AttributeTypes: text})),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second[A any](_ A, err error) error { return err }

// TestEqual: Equal says what the library says, also of sets in another order, nulls and unknowns.
func TestEqual(t *testing.T) {
	c, _ := thingCodec(t)
	rapid.Check(t, func(t *rapid.T) {
		a, errA := c.Encode(drawThing(t))
		b, errB := c.Encode(drawThing(t))
		if errA != nil || errB != nil {
			t.Skip()
		}
		if Equal(a, b) != a.Equal(b) {
			t.Fatalf("%s\n%s", a, b)
		}
	})
	text := func(s ...string) []tftypes.Value {
		var all []tftypes.Value
		for _, each := range s {
			all = append(all, tftypes.NewValue(tftypes.String, each))
		}
		return all
	}
	set, list := tftypes.Set{ElementType: tftypes.String}, tftypes.List{ElementType: tftypes.String}
	values := []tftypes.Value{tftypes.NewValue(set, text("a", "b")), tftypes.NewValue(set, text("b", "a")),
		tftypes.NewValue(set, text("a", "c")),
		tftypes.NewValue(set, nil), tftypes.NewValue(set, tftypes.UnknownValue), tftypes.NewValue(set, text())}
	for _, a := range values {
		for _, b := range values {
			if Equal(a, b) != a.Equal(b) {
				t.Errorf("%s and %s: %t", a, b, Equal(a, b))
			}
		}
	}
	if Equal(tftypes.NewValue(list, text("a", "b")), tftypes.NewValue(list, text("b", "a"))) {
		t.Error("the order of a list does not count")
	}
	if !Equal(tftypes.Value{}, tftypes.Value{}) || Equal(tftypes.Value{}, values[0]) {
		t.Error("values without a type")
	}
}
