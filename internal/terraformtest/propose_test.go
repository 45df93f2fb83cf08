package terraformtest

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"
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
func testObject(t interface{ Fatal(...any) }) *object {
	leaf := func() []*tfprotov6.SchemaAttribute {
		return []*tfprotov6.SchemaAttribute{wireAttr("opt", "o"), wireAttr("oc", "oc"), wireAttr("comp", "c")}
	}
	o, err := newObject([]*tfprotov6.SchemaAttribute{
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
func value(t *testing.T, o *object, src string) cty.Value {
	t.Helper()
	if src == "" {
		return cty.NullVal(o.typ())
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

func settable(o *object) *object {
	out := &object{attrs: map[string]*attribute{}, names: o.names, typed: o.typed}
	for name, a := range o.attrs {
		c := *a
		c.optional = true
		if a.nested != nil {
			c.nested = settable(a.nested)
		}
		out.attrs[name] = &c
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
			got := proposeNew(o, value(t, o, lines(c.prior)), value(t, o, lines(c.config)))
			if want := value(t, o, lines(c.want)); !got.RawEquals(want) {
				t.Errorf("proposed %s, want %s", ShowValue(got), ShowValue(want))
			}
		})
	}
	if v := proposeNew(o, o.allNull(), cty.NullVal(o.typ())); !v.RawEquals(o.allNull()) {
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
		proposed := with(proposeNew(o, prior, config), "secret", cty.NullVal(cty.String))
		if ps := checkPlanned(o, prior, config, proposed); len(ps) > 0 {
			t.Fatalf("prior %s, config %s, proposed %s: %v", ShowValue(prior), ShowValue(config), ShowValue(proposed), ps)
		}
		if ps := checkCompletes(o, proposed, unknownAsNull(proposed)); len(ps) > 0 && proposed.IsWhollyKnown() {
			t.Fatalf("a value does not complete itself: %v", ps)
		}
		again := with(proposeNew(o, proposed, config), "secret", cty.NullVal(cty.String))
		if proposed.IsWhollyKnown() && !again.RawEquals(proposed) {
			t.Fatalf("proposing again changes %s to %s", ShowValue(proposed), ShowValue(again))
		}
	})
}

// drawObject makes an object as a state can hold it, or as a configuration can.
func drawObject(t *rapid.T, o *object, config bool) cty.Value {
	vals := map[string]cty.Value{}
	for _, name := range o.names {
		a := o.attrs[name]
		null := config && !a.optional || !config && a.writeOnly || rapid.Bool().Draw(t, name+" is null")
		switch {
		case null:
			vals[name] = cty.NullVal(a.typ)
		case a.nested == nil:
			vals[name] = cty.StringVal(rapid.SampledFrom([]string{"1", "2"}).Draw(t, name))
		default:
			vals[name] = drawNested(t, a, config)
		}
	}
	return cty.ObjectVal(vals)
}

func drawNested(t *rapid.T, a *attribute, config bool) cty.Value {
	if a.nesting == single {
		return drawObject(t, a.nested, config)
	}
	n := rapid.IntRange(0, 2).Draw(t, "length")
	elems, byKey := make([]cty.Value, n), map[string]cty.Value{}
	for i := range elems {
		elems[i] = drawObject(t, a.nested, config)
		byKey[string(rune('a'+i))] = elems[i]
	}
	switch {
	case n == 0 && a.nesting == dict:
		return cty.MapValEmpty(a.nested.typ())
	case n == 0 && a.nesting == list:
		return cty.ListValEmpty(a.nested.typ())
	case n == 0:
		return cty.SetValEmpty(a.nested.typ())
	case a.nesting == dict:
		return cty.MapVal(byKey)
	case a.nesting == list:
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
			ps := checkPlanned(o, value(t, o, lines(c.prior)), value(t, o, lines(c.config)), value(t, o, lines(c.planned)))
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
			wantProblem(t, checkCompletes(o, value(t, o, lines(c.planned)), value(t, o, lines(c.actual))), c.want)
		})
	}
	if ps := checkCompletes(o, o.allNull(), cty.NullVal(o.typ())); len(ps) != 1 {
		t.Errorf("an object that is gone: %v", ps)
	}
}

func wantProblem(t *testing.T, ps problems, want string) {
	t.Helper()
	switch {
	case want == "" && len(ps) > 0:
		t.Errorf("complains: %v", ps)
	case want != "" && (len(ps) != 1 || !strings.HasPrefix(ps[0].String(), want)):
		t.Errorf("says %v, want %q", ps, want)
	}
}
