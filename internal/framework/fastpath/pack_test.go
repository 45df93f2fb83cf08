package fastpath

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"pgregory.net/rapid"
)

// everything is a type with all forms in it.
func everything() attr.Type {
	inner := types.ObjectType{AttrTypes: map[string]attr.Type{"size": types.Int64Type, "note": types.StringType}}
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"name": types.StringType, "on": types.BoolType, "count": types.Int64Type, "share": types.Float64Type,
		"list": types.ListType{ElemType: types.StringType}, "set": types.SetType{ElemType: types.StringType},
		"map": types.MapType{ElemType: types.Int64Type}, "group": inner, "slots": types.MapType{ElemType: inner},
		"rules": types.ListType{ElemType: inner},
	}}
}

func everyPlace(t testing.TB) *place {
	t.Helper()
	p := newPlace(context.Background(), everything())
	if p == nil {
		t.Fatal("a type that is known is not")
	}
	return p
}

// drawValue draws a value with at most one key in each map, since the library draws the order of more.
func drawValue(t *rapid.T, p *place, label string) tftypes.Value {
	if label != "it" && rapid.IntRange(0, 3).Draw(t, label+" null") == 0 {
		return tftypes.NewValue(p.wire, nil)
	}
	switch p.form {
	case text:
		return tftypes.NewValue(p.wire, rapid.OneOf(rapid.String(),
			rapid.SampledFrom([]string{strings.Repeat("x", 31), strings.Repeat("x", 32),
				strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 65536), "\"\\/\b\f\n\r\t\u2028<>&",
				"é\U0001F600"})).Draw(t, label))
	case truth:
		return tftypes.NewValue(p.wire, rapid.Bool().Draw(t, label))
	case whole:
		return tftypes.NewValue(p.wire, rapid.OneOf(rapid.Int64(),
			rapid.SampledFrom([]int64{0, -1, -32, -33, 127, 128, -128, -129, 255, 256, 32767,
				32768, -32768, -32769, 65535, 65536, 1<<31 - 1, 1 << 31, -1 << 31, -1<<31 - 1, 1<<32 - 1, 1 << 32, math.MaxInt64,
				math.MinInt64})).Draw(t, label))
	case decimal:
		return tftypes.NewValue(p.wire, decimalOf(rapid.SampledFrom([]string{"0.1", "1.5", "-2.25", "3", "1e300", "5e-324",
			"0.30000000000000004",
			"123456789012345678901234567890", "18446744073709551616", "0"}).Draw(t, label)))
	case object:
		values := map[string]tftypes.Value{}
		for i, name := range p.names {
			values[name] = drawValue(t, p.children[i], label+"."+name)
		}
		return tftypes.NewValue(p.wire, values)
	case dictionary:
		values := map[string]tftypes.Value{}
		for range rapid.IntRange(0, 1).Draw(t, label+" length") {
			values[rapid.String().Draw(t, label+" key")] = drawValue(t, p.element, label+".*")
		}
		return tftypes.NewValue(p.wire, values)
	case list, set:
	}
	values := []tftypes.Value{}
	for range rapid.SampledFrom([]int{0, 1, 2, 15, 16, 17}).Draw(t, label+" length") {
		values = append(values, drawValue(t, p.element, label+".#"))
	}
	return tftypes.NewValue(p.wire, values)
}

func decimalOf(digits string) *big.Float {
	f, _, err := big.ParseFloat(digits, 10, 512, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return f
}

// toJSON writes a value as Terraform writes it into its state.
func toJSON(p *place, v tftypes.Value) json.RawMessage {
	if v.IsNull() {
		return json.RawMessage("null")
	}
	must := func(raw []byte, err error) json.RawMessage {
		if err != nil {
			panic(err)
		}
		return raw
	}
	elements := func() []tftypes.Value { var all []tftypes.Value; _ = v.As(&all); return all }
	fields := func() map[string]tftypes.Value { all := map[string]tftypes.Value{}; _ = v.As(&all); return all }
	switch p.form {
	case text:
		var s string
		_ = v.As(&s)
		return must(json.Marshal(s))
	case truth:
		var is bool
		_ = v.As(&is)
		return must(json.Marshal(is))
	case whole, decimal:
		number := new(big.Float)
		_ = v.As(&number)
		return json.RawMessage(number.Text('f', -1))
	case object:
		all := map[string]json.RawMessage{}
		for i, name := range p.names {
			all[name] = toJSON(p.children[i], fields()[name])
		}
		return must(json.Marshal(all))
	case dictionary:
		all := map[string]json.RawMessage{}
		for name, value := range fields() {
			all[name] = toJSON(p.element, value)
		}
		return must(json.Marshal(all))
	case list, set:
	}
	all := []json.RawMessage{}
	for _, value := range elements() {
		all = append(all, toJSON(p.element, value))
	}
	return must(json.Marshal(all))
}

// TestPack: values and stored states become byte for byte what terraform-plugin-go makes of them.
func TestPack(t *testing.T) {
	p := everyPlace(t)
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, p, "it")
		want, err := tfprotov6.NewDynamicValue(p.wire, v)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.pack(nil, v); !bytes.Equal(got, want.MsgPack) {
			t.Fatalf("%s: packed %x, want %x", v, got, want.MsgPack)
		}
		stored := toJSON(p, v)
		if got, ok := p.repack(stored); !ok || !bytes.Equal(got, want.MsgPack) {
			t.Fatalf("%s: repacked %x, %t, want %x", stored, got, ok, want.MsgPack)
		}
	})
}

// TestRepack: what Terraform does not write itself is refused or comes out as the library has it, whatever it is.
func TestRepack(t *testing.T) {
	p := everyPlace(t)
	for state, accepted := range map[string]bool{
		`{}`: true,
		` { "count" : 7 , "on" :true,"set":[ ] } `:           true,
		`{"count":7,"unheard":{"of":["}",1]},"zzz":null}`:    true,
		`{"aaa":"\u0041","name":"\u00e9\ud83d\ude00\ud800"}`: true,
		`{"count":-0}`: true, `{"share":1e3}`: true, `{"share":0.10}`: true,
		`{"map":{"a":1,"b":null,"c":3}}`: true, `{"rules":[null,{"note":"x"},{}]}`: true,
		`{"set":["a","a"]}`: true,

		`null`: true, // a null state is left to the server that asks
		``:     false, `[]`: false, `{`: false, `{"name"}`: false, `{"name":}`: false, `{"name":"x"`: false,
		`{"name":"x",}`:  false,
		`{"name":"x"} x`: false, `{"name":"x}`: false, `{"name":"\x"}`: false, "{\"name\":\"\n\"}": false, "{\"name\":\"\xff\"}": false,
		`{"name":7}`: false, `{"name":true}`: false, `{"on":"true"}`: false, `{"on":1}`: false, `{"count":"7"}`: false,
		`{"count":+7}`: false, `{"count":07}`: false, `{"count":.5}`: false, `{"count":1e}`: false, `{"count":nil}`: false,
		`{"on":true,"count":7}`: false, `{"on":true,"on":true}`: false, `{"list":{}}`: false, `{"map":[]}`: false, `{"list":["a" "b"]}`: false,
		`{"map":{"b":1,"a":2}}`: false, `{"zzz":}`: false, `nul`: false, `{"on":truer}`: false,
	} {
		packed, ok := p.repack([]byte(state))
		if ok != accepted {
			t.Errorf("%s: accepted %t", state, ok)
		}
		if !ok {
			continue
		}
		raw := tfprotov6.RawState{JSON: []byte(state)}
		v, err := raw.UnmarshalWithOpts(p.wire, tfprotov6.UnmarshalOpts{ValueFromJSONOpts: tftypes.ValueFromJSONOpts{IgnoreUndefinedAttributes: true}})
		if err != nil {
			t.Errorf("%s: the library refuses it: %v", state, err)
			continue
		}
		if again, err := (tfprotov6.DynamicValue{MsgPack: packed}).Unmarshal(p.wire); err != nil || !again.Equal(v) {
			t.Errorf("%s: %v (%v), want %s", state, again, err, v)
		}
	}
}

// FuzzRepack: no bytes make it panic or differ from the library.
func FuzzRepack(f *testing.F) {
	p := everyPlace(f)
	for _, seed := range []string{`{"count":7,"map":{"a":1},"rules":[{"note":"x","size":1.5}]}`, `{"name":"\ud83d"}`, `{"share":1e400}`, `{"list":[[]]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		packed, ok := p.repack(state)
		if !ok {
			return
		}
		raw := tfprotov6.RawState{JSON: state}
		v, err := raw.UnmarshalWithOpts(p.wire, tfprotov6.UnmarshalOpts{ValueFromJSONOpts: tftypes.ValueFromJSONOpts{IgnoreUndefinedAttributes: true}})
		if err != nil {
			t.Fatalf("%q: the library refuses it: %v", state, err)
		}
		if again, err := (tfprotov6.DynamicValue{MsgPack: packed}).Unmarshal(p.wire); err != nil || !again.Equal(v) {
			t.Fatalf("%q: %v (%v), want %s", state, again, err, v)
		}
	})
}

func TestFits(t *testing.T) {
	p := everyPlace(t)
	with := func(name string, v tftypes.Value) tftypes.Value {
		values := map[string]tftypes.Value{}
		for i, each := range p.names {
			values[each] = tftypes.NewValue(p.children[i].wire, nil)
		}
		values[name] = v
		return tftypes.NewValue(p.wire, values)
	}
	words := func(typ tftypes.Type, all ...string) tftypes.Value {
		values := []tftypes.Value{}
		for _, word := range all {
			values = append(values, tftypes.NewValue(tftypes.String, word))
		}
		return tftypes.NewValue(typ, values)
	}
	list, set := tftypes.List{ElementType: tftypes.String}, tftypes.Set{ElementType: tftypes.String}
	for what, c := range map[string]struct {
		v    tftypes.Value
		fits bool
	}{
		"null":                {tftypes.NewValue(p.wire, nil), true},
		"unknown":             {tftypes.NewValue(p.wire, tftypes.UnknownValue), false},
		"nulls":               {with("name", tftypes.NewValue(tftypes.String, nil)), true},
		"an unknown":          {with("name", tftypes.NewValue(tftypes.String, tftypes.UnknownValue)), false},
		"a fraction":          {with("count", tftypes.NewValue(tftypes.Number, 1.5)), false},
		"a large number":      {with("count", tftypes.NewValue(tftypes.Number, decimalOf("9223372036854775808"))), false},
		"no float":            {with("share", tftypes.NewValue(tftypes.Number, decimalOf("1e400"))), false},
		"next to nothing":     {with("share", tftypes.NewValue(tftypes.Number, decimalOf("1e-400"))), false},
		"a decimal":           {with("share", tftypes.NewValue(tftypes.Number, decimalOf("0.1"))), true},
		"a list with repeats": {with("list", words(list, "a", "a")), true},
		"a set with repeats":  {with("set", words(set, "a", "b", "a")), false},
		"a set":               {with("set", words(set, "a", "b")), true},
		"an unknown element":  {with("list", tftypes.NewValue(list, []tftypes.Value{tftypes.NewValue(tftypes.String, tftypes.UnknownValue)})), false},
		"something else":      {tftypes.NewValue(tftypes.String, "x"), false},
	} {
		if p.fits(c.v, false) != c.fits {
			t.Errorf("%s: fits %t", what, !c.fits)
		}
	}
	for what, typ := range map[string]attr.Type{
		"dynamic": types.DynamicType, "a tuple": types.TupleType{}, "a number of any size": types.NumberType,
		"a list of them": types.ListType{ElemType: types.DynamicType}, "an object with one": types.ObjectType{AttrTypes: map[string]attr.Type{"a": types.NumberType}},
	} {
		if newPlace(t.Context(), typ) != nil {
			t.Errorf("%s is known", what)
		}
	}
}
