package terraformtest

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// wireAttr makes an attribute from flags: r(equired), o(ptional), c(omputed), w(rite-only).
func wireAttr(name, flags string) *tfprotov6.SchemaAttribute {
	return &tfprotov6.SchemaAttribute{
		Name: name, Type: tftypes.String,
		Required: strings.Contains(flags, "r"), Optional: strings.Contains(flags, "o"),
		Computed: strings.Contains(flags, "c"), WriteOnly: strings.Contains(flags, "w"),
	}
}

func nest(mode tfprotov6.SchemaObjectNestingMode, name, flags string, attrs ...*tfprotov6.SchemaAttribute) *tfprotov6.SchemaAttribute {
	a := wireAttr(name, flags)
	a.Type, a.NestedType = nil, &tfprotov6.SchemaObject{Nesting: mode, Attributes: attrs}
	return a
}

const (
	single = tfprotov6.SchemaObjectNestingModeSingle
	list   = tfprotov6.SchemaObjectNestingModeList
	set    = tfprotov6.SchemaObjectNestingModeSet
	dict   = tfprotov6.SchemaObjectNestingModeMap
)

// testObject has every kind of attribute that matters to a proposal.
func testObject(t interface{ Fatal(...any) }) *objchange.Object {
	leaf := func() []*tfprotov6.SchemaAttribute {
		return []*tfprotov6.SchemaAttribute{wireAttr("opt", "o"), wireAttr("oc", "oc"), wireAttr("comp", "c")}
	}
	o, err := objchange.NewObject([]*tfprotov6.SchemaAttribute{
		wireAttr("opt", "o"), wireAttr("oc", "oc"), wireAttr("comp", "c"), wireAttr("secret", "ow"),
		nest(single, "group", "oc", wireAttr("a", "oc"), wireAttr("b", "oc")),
		nest(single, "mixed", "oc", leaf()...),
		nest(list, "list", "o", leaf()...), nest(set, "set", "o", leaf()...), nest(dict, "map", "o", leaf()...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// value reads an object of a schema from HCL.
func value(t *testing.T, o *objchange.Object, src string) cty.Value {
	t.Helper()
	if src == "" {
		return cty.NullVal(o.Typ())
	}
	// Values of a state may set computed attributes, so they are read by a schema that lets them be configured.
	m := newModule()
	if err := m.parse("value", "resource \"x\" \"y\" {\n"+src+"\n}"); err != nil {
		t.Fatal(err)
	}
	sc, err := newScope(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, ds := sc.object(settable(o), m.blocks["x.y"].attrs, map[string]cty.Value{"unknown": cty.UnknownVal(cty.String)})
	if err := ds.err(); err != nil {
		t.Fatal(err)
	}
	return v
}

func settable(o *objchange.Object) *objchange.Object {
	out := &objchange.Object{Attrs: map[string]*objchange.Attribute{}, Names: o.Names, Typed: o.Typed}
	for name, a := range o.Attrs {
		c := *a
		c.Optional = true
		if a.Nested != nil {
			c.Nested = settable(a.Nested)
		}
		out.Attrs[name] = &c
	}
	return out
}

func TestProposeNew(t *testing.T) {
	t.Parallel()
	o := testObject(t)
	for name, c := range map[string]struct{ prior, config, want string }{
		"create":                        {``, `opt = "x"`, `opt = "x"`},
		"kept":                          {`oc = "p", comp = "q"`, `opt = "x"`, `opt = "x", oc = "p", comp = "q"`},
		"optional removed":              {`opt = "p"`, `oc = "x"`, `oc = "x"`},
		"configured wins":               {`oc = "p"`, `oc = "x"`, `oc = "x"`},
		"unknown wins":                  {`oc = "p"`, `oc = unknown`, `oc = unknown`},
		"write-only is proposed":        {``, `secret = "x"`, `secret = "x"`},
		"computed group kept":           {`group = { a = "1", b = "2" }`, `opt = null`, `group = { a = "1", b = "2" }`},
		"computed group merged":         {`group = { a = "1", b = "2" }`, `group = { a = "3" }`, `group = { a = "3", b = "2" }`},
		"group with configured removed": {`mixed = { opt = "1", comp = "2" }`, `opt = null`, `opt = null`},
		"mixed group all computed kept": {`mixed = { oc = "1", comp = "2" }`, `opt = null`, `mixed = { oc = "1", comp = "2" }`},
		"map by key": {`map = { a = { comp = "1" }, b = { comp = "2" } }`, `map = { b = { opt = "x" }, c = {} }`,
			`map = { b = { opt = "x", comp = "2" }, c = {} }`},
		"list by index": {`list = [{ comp = "1" }, { comp = "2" }]`, `list = [{ opt = "x" }]`, `list = [{ opt = "x", comp = "1" }]`},
		"list longer":   {`list = [{ oc = "1" }]`, `list = [{}, {}]`, `list = [{ oc = "1" }, {}]`},
		"set by content": {`set = [{ opt = "a", comp = "1" }, { opt = "b", comp = "2" }]`,
			`set = [{ opt = "b" }, { opt = "c" }]`, `set = [{ opt = "b", comp = "2" }, { opt = "c" }]`},
		"empty map":   {`map = { a = {} }`, `map = {}`, `map = {}`},
		"map removed": {`map = { a = { comp = "1" } }`, `opt = null`, `opt = null`},
	} {
		t.Run(name, func(t *testing.T) {
			got := objchange.ProposeNew(o, value(t, o, lines(c.prior)), value(t, o, lines(c.config)))
			if want := value(t, o, lines(c.want)); !got.RawEquals(want) {
				t.Errorf("proposed %s, want %s", objchange.ShowValue(got), objchange.ShowValue(want))
			}
		})
	}
	if v := objchange.ProposeNew(o, o.AllNull(), cty.NullVal(o.Typ())); !v.RawEquals(o.AllNull()) {
		t.Error("a destroy proposes something")
	}
}

// lines puts the top-level attributes of a compact configuration on lines of their own.
func lines(s string) string {
	depth, out := 0, []rune{}
	for _, r := range s {
		switch r {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				r = '\n'
			}
		}
		out = append(out, r)
	}
	return string(out)
}

// TestProposalIsAValidPlan: a provider that plans just what is proposed, less what is write-only, never breaks a rule.
func TestProposalIsAValidPlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := testObject(t)
		prior := drawObject(t, o, false)
		config := drawObject(t, o, true)
		proposed := with(objchange.ProposeNew(o, prior, config), "secret", cty.NullVal(cty.String))
		if ps := objchange.CheckPlanned(o, prior, config, proposed); len(ps) > 0 {
			t.Fatalf("prior %s, config %s, proposed %s: %v", objchange.ShowValue(prior), objchange.ShowValue(config), objchange.ShowValue(proposed), ps)
		}
		if ps := objchange.CheckCompletes(o, proposed, objchange.UnknownAsNull(proposed)); len(ps) > 0 && proposed.IsWhollyKnown() {
			t.Fatalf("a value does not complete itself: %v", ps)
		}
		again := with(objchange.ProposeNew(o, proposed, config), "secret", cty.NullVal(cty.String))
		if proposed.IsWhollyKnown() && !again.RawEquals(proposed) {
			t.Fatalf("proposing again changes %s to %s", objchange.ShowValue(proposed), objchange.ShowValue(again))
		}
	})
}

// drawObject makes an object as a state can hold it, or as a configuration can.
func drawObject(t *rapid.T, o *objchange.Object, config bool) cty.Value {
	vals := map[string]cty.Value{}
	for _, name := range o.Names {
		a := o.Attrs[name]
		null := config && !a.Optional || !config && a.WriteOnly || rapid.Bool().Draw(t, name+" is null")
		switch {
		case null:
			vals[name] = cty.NullVal(a.Typ)
		case a.Nested == nil:
			vals[name] = cty.StringVal(rapid.SampledFrom([]string{"1", "2"}).Draw(t, name))
		default:
			vals[name] = drawNested(t, a, config)
		}
	}
	return cty.ObjectVal(vals)
}

func drawNested(t *rapid.T, a *objchange.Attribute, config bool) cty.Value {
	if a.Nesting == single {
		return drawObject(t, a.Nested, config)
	}
	n := rapid.IntRange(0, 2).Draw(t, "length")
	elems, byKey := make([]cty.Value, n), map[string]cty.Value{}
	for i := range elems {
		elems[i] = drawObject(t, a.Nested, config)
		byKey[string(rune('a'+i))] = elems[i]
	}
	switch {
	case n == 0 && a.Nesting == dict:
		return cty.MapValEmpty(a.Nested.Typ())
	case n == 0 && a.Nesting == list:
		return cty.ListValEmpty(a.Nested.Typ())
	case n == 0:
		return cty.SetValEmpty(a.Nested.Typ())
	case a.Nesting == dict:
		return cty.MapVal(byKey)
	case a.Nesting == list:
		return cty.ListVal(elems)
	}
	return cty.SetVal(elems)
}

func TestCheckPlanned(t *testing.T) {
	t.Parallel()
	o := testObject(t)
	for name, c := range map[string]struct{ prior, config, planned, want string }{
		"configured changed": {``, `opt = "x"`, `opt = "y"`, `opt: planned "y", configured "x"`},
		"configured dropped": {``, `opt = "x"`, `oc = "y"`, `opt: planned null, configured "x"`},
		"made unknown":       {``, `opt = "x"`, `opt = unknown`, `opt: planned (unknown), configured "x"`},
		"optional invented": {``, `oc = "x"`, `oc = "x", opt = "y"`,
			`opt: planned "y" for an attribute that is neither configured nor computed`},
		"equivalent kept":            {`opt = "X"`, `opt = "x"`, `opt = "X"`, ``},
		"computed filled":            {``, `opt = "x"`, `opt = "x", oc = "1", comp = unknown, group = { a = "1" }`, ``},
		"write-only leaked":          {``, `secret = "x"`, `secret = "x"`, `secret: a write-only`},
		"nested configured changed":  {``, `map = { a = { opt = "x" } }`, `map = { a = { opt = "y" } }`, `map["a"].opt: planned "y"`},
		"key invented":               {``, `map = { a = {} }`, `map = { b = {} }`, `map["b"]: planned although it is not configured`},
		"key added":                  {``, `map = { a = {} }`, `map = { a = {}, b = {} }`, `map: planned with 2 elements`},
		"nested computed filled":     {``, `map = { a = {} }`, `map = { a = { comp = "1", oc = unknown } }`, ``},
		"list element changed":       {``, `list = [{ opt = "x" }]`, `list = [{ opt = "y" }]`, `list[0].opt`},
		"set element changed":        {``, `set = [{ opt = "x" }]`, `set = [{ opt = "y" }]`, `set: planned element`},
		"group unknown":              {``, `group = { a = "x" }`, `group = { a = "x", b = unknown }`, ``},
		"configured group dissolved": {``, `group = { a = "x" }`, `opt = null`, `group: planned for absence`},
	} {
		t.Run(name, func(t *testing.T) {
			ps := objchange.CheckPlanned(o, value(t, o, lines(c.prior)), value(t, o, lines(c.config)), value(t, o, lines(c.planned)))
			wantProblem(t, ps, c.want)
		})
	}
}

func TestCheckCompletes(t *testing.T) {
	t.Parallel()
	o := testObject(t)
	for name, c := range map[string]struct{ planned, actual, want string }{
		"same":            {`opt = "x"`, `opt = "x"`, ``},
		"unknown filled":  {`oc = unknown, map = { a = { comp = unknown } }`, `oc = "1", map = { a = { comp = "2" } }`, ``},
		"changed":         {`opt = "x"`, `opt = "y"`, `opt: was planned as "x" and is now "y"`},
		"null appeared":   {`opt = "x"`, `opt = "x", oc = "1"`, `oc: was planned as null and is now "1"`},
		"element gone":    {`map = { a = {}, b = {} }`, `map = { a = {} }`, `map["b"]: was planned and has vanished`},
		"element new":     {`map = { a = {} }`, `map = { a = {}, b = {} }`, `map["b"]: has appeared`},
		"set element":     {`set = [{ opt = "x" }]`, `set = [{ opt = "y" }]`, `set: planned element`},
		"set unknown":     {`set = [{ opt = "x", comp = unknown }]`, `set = [{ opt = "x", comp = "1" }]`, ``},
		"set grew":        {`set = [{ opt = "x" }]`, `set = [{ opt = "x" }, { opt = "y" }]`, `set: was planned with 1`},
		"secret is quiet": {`secret = "hush"`, `secret = "loud"`, `secret: inconsistent values of a sensitive attribute`},
	} {
		t.Run(name, func(t *testing.T) {
			wantProblem(t, objchange.CheckCompletes(o, value(t, o, lines(c.planned)), value(t, o, lines(c.actual))), c.want)
		})
	}
	if ps := objchange.CheckCompletes(o, o.AllNull(), cty.NullVal(o.Typ())); len(ps) != 1 {
		t.Errorf("an object that is gone: %v", ps)
	}
}

func wantProblem(t *testing.T, ps objchange.Problems, want string) {
	t.Helper()
	switch {
	case want == "" && len(ps) > 0:
		t.Errorf("complains: %v", ps)
	case want != "" && (len(ps) != 1 || !strings.HasPrefix(ps[0].String(), want)):
		t.Errorf("says %v, want %q", ps, want)
	}
}
