package plan

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// toy is a small schema with one attribute of each kind.
func toy() (Shape, tftypes.Object) {
	ctx := context.Background()
	both := schema.StringAttribute{Optional: true, Computed: true}
	s := schema.Schema{Attributes: map[string]schema.Attribute{
		"name": both,
		"made": both,
		"kept": both,
		"wish": schema.StringAttribute{Optional: true},
		"stat": schema.StringAttribute{Computed: true},
		"id":   schema.StringAttribute{Computed: true},
		"group": schema.SingleNestedAttribute{Optional: true, Computed: true,
			Attributes: map[string]schema.Attribute{"a": both, "b": both}},
		"whole": schema.SingleNestedAttribute{Optional: true, Computed: true,
			Attributes: map[string]schema.Attribute{"a": both}},
		"devs": schema.MapNestedAttribute{Optional: true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"a": both, "vol": schema.StringAttribute{Computed: true}}}},
	}}
	shape := NewShape(ctx, s, map[string]Rule{
		"name":  {Same: func(a, b tftypes.Value) bool { return strings.EqualFold(show(a), show(b)) }},
		"made":  {ServerChooses: true},
		"kept":  {KeepOnRemoval: true},
		"wish":  {OnlyInState: true},
		"stat":  {Volatile: true},
		"whole": {MayBeAbsent: true, OneObject: true},
	})
	typ, _ := s.Type().TerraformType(ctx).(tftypes.Object)
	return shape, typ
}

// build makes a value from lines like "group.a=x"; "devs.d0" alone is an empty object, "?" unknown. An absent attribute
// is null, but objects exist as soon as one of their children is said.
func build(typ tftypes.Type, prefix string, lines []string) tftypes.Value {
	var own []string
	for _, line := range lines {
		if line == prefix || strings.HasPrefix(line, prefix+".") || strings.HasPrefix(line, prefix+"=") || prefix == "" {
			own = append(own, line)
		}
	}
	if len(own) == 0 {
		return tftypes.NewValue(typ, nil)
	}
	if own[0] == prefix+"=?" {
		return tftypes.NewValue(typ, tftypes.UnknownValue)
	}
	switch typ := typ.(type) {
	case tftypes.Object:
		values := map[string]tftypes.Value{}
		for name, t := range typ.AttributeTypes {
			values[name] = build(t, join(prefix, name), own)
		}
		return tftypes.NewValue(typ, values)
	case tftypes.Map:
		values := map[string]tftypes.Value{}
		for _, line := range own {
			rest := strings.TrimPrefix(line, prefix+".")
			key, _, _ := strings.Cut(strings.Split(rest, "=")[0], ".")
			values[key] = build(typ.ElementType, join(prefix, key), own)
		}
		return tftypes.NewValue(typ, values)
	}
	_, value, _ := strings.Cut(own[0], "=")
	return tftypes.NewValue(typ, value)
}

// lines is the inverse of build.
func lines(prefix string, v tftypes.Value) []string {
	if !v.IsKnown() {
		return []string{prefix + "=?"}
	}
	if v.IsNull() {
		return nil
	}
	if v.Type().Is(tftypes.String) {
		return []string{prefix + "=" + show(v)}
	}
	var all []string
	for name, child := range fields(v) {
		all = append(all, lines(join(prefix, name), child)...)
	}
	if len(all) == 0 {
		all = []string{prefix}
	}
	slices.Sort(all)
	return all
}

func show(v tftypes.Value) string {
	var s string
	_ = v.As(&s)
	return s
}

type planCase struct {
	name                   string
	config, prior, managed string
	inherits               bool
	want, forgotten        string
	unchanged              bool
}

func planCases() []planCase {
	return []planCase{
		{name: "a create sets the configured values, leaves the rest null, and leaves computed values to the server",
			config: "name=n group.a=1 devs.d0.a=x", want: "name=n made=? group.a=1 devs.d0.a=x devs.d0.vol=? id=? stat=?"},
		{name: "a create without anything",
			want: "made=? id=? stat=? group"},
		{name: "a copy leaves everything open that is not configured",
			config: "group.a=1 devs.d0.a=x", inherits: true,
			want: "name=? made=? kept=? group.a=1 group.b=? whole=? devs.d0.a=x devs.d0.vol=? id=? stat=?"},
		{name: "never configured is left alone",
			prior: "name=server id=1 stat=up group.a=2", want: "name=server id=1 stat=up group.a=2", unchanged: true},
		{name: "configured before and now absent is reset",
			prior: "name=n id=1 stat=up group.a=2 group.b=3", managed: "name group group.a", want: "id=1 stat=? group.b=3"},
		{name: "what cannot be reset is kept",
			prior: "kept=k id=1 stat=up", managed: "kept", want: "kept=k id=1 stat=up", unchanged: true},
		{name: "a change makes the volatile unknown, not the stable",
			config: "name=new", prior: "name=old id=1 stat=up", managed: "name", want: "name=new id=1 stat=?"},
		{name: "another spelling is no change",
			config: "name=WEB", prior: "name=web id=1 stat=up", want: "name=web id=1 stat=up", unchanged: true},
		{name: "a wish alone makes nothing unknown",
			config: "wish=w", prior: "name=n id=1 stat=up", want: "name=n wish=w id=1 stat=up"},
		{name: "a wish that is dropped",
			prior: "wish=w id=1 stat=up", managed: "wish", want: "id=1 stat=up"},
		{name: "a whole group that was configured is removed",
			prior: "whole.a=1 id=1 stat=up", managed: "whole whole.a", want: "id=1 stat=?"},
		{name: "a whole group of the template stays",
			prior: "whole.a=1 id=1 stat=up", want: "whole.a=1 id=1 stat=up", unchanged: true},
		{name: "a managed slot is removed, another is forgotten",
			config: "devs.d0.a=x", prior: "devs.d0.a=x devs.d0.vol=v0 devs.d1.a=y devs.d1.vol=v1 devs.d2.a=z id=1 stat=up",
			managed: "devs devs.d0 devs.d1",
			want:    "devs.d0.a=x devs.d0.vol=v0 id=1 stat=?", forgotten: "devs.d2"},
		{name: "all slots are forgotten when the map is not configured",
			prior: "devs.d0.a=x id=1 stat=up", want: "id=1 stat=?", forgotten: "devs.d0"},
		{name: "a new slot beside an old one",
			config: "devs.d0.a=x devs.d1.a=y", prior: "devs.d0.a=x devs.d0.vol=v0 id=1 stat=up", managed: "devs devs.d0",
			want: "devs.d0.a=x devs.d0.vol=v0 devs.d1.a=y devs.d1.vol=? id=1 stat=?"},
		{name: "a sub-key of a slot is reset",
			config: "devs.d0", prior: "devs.d0.a=x devs.d0.vol=v0 id=1 stat=up", managed: "devs devs.d0 devs.d0.a",
			want: "devs.d0.vol=v0 id=1 stat=?"},
		{name: "an unknown stays unknown",
			config: "name=? group=? devs=?", prior: "name=n id=1 stat=up", want: "name=? group=? devs=? id=1 stat=?"},
	}
}

func TestPlan(t *testing.T) {
	shape, typ := toy()
	for _, tt := range planCases() {
		t.Run(tt.name, func(t *testing.T) {
			config := build(typ, "", strings.Fields(tt.config))
			if tt.config == "" {
				config = build(typ, "", []string{"none"})
			}
			prior := tftypes.NewValue(typ, nil)
			if tt.prior != "" {
				prior = build(typ, "", strings.Fields(tt.prior))
			}
			managed := Managed{}
			for _, path := range strings.Fields(tt.managed) {
				managed[path] = true
			}
			got := shape.Plan(Input{Config: config, Prior: prior, Managed: managed, Inherits: tt.inherits})
			want := strings.Fields(tt.want)
			slices.Sort(want)
			if now := lines("", got.Value); !slices.Equal(now, want) {
				t.Errorf("got  %v\nwant %v", now, want)
			}
			if forgotten := strings.Join(got.Forgotten, " "); forgotten != tt.forgotten {
				t.Errorf("forgotten %q, want %q", forgotten, tt.forgotten)
			}
			if got.Changed == tt.unchanged {
				t.Errorf("changed is %v", got.Changed)
			}
		})
	}
}

func TestSettleAndRefresh(t *testing.T) {
	shape, typ := toy()
	value := func(text string) tftypes.Value { return build(typ, "", strings.Fields(text)) }
	for name, tt := range map[string]struct{ got, want tftypes.Value }{
		"settle takes the plan's words and the server's answers": {
			shape.Settle(value("name=N made=? id=? stat=? devs.d0.a=x devs.d0.vol=?"),
				value("name=n made=m id=1 devs.d0.a=x devs.d0.vol=v devs.d1.a=y")),
			value("name=N made=m id=1 devs.d0.a=x devs.d0.vol=v")},
		"settle without an answer leaves no unknown": {
			shape.Settle(value("name=N made=? id=? devs.d0.vol=?"), tftypes.NewValue(typ, nil)),
			value("name=N devs.d0")},
		"refresh keeps words that mean the same, wishes and the slots in state": {
			shape.Refresh(value("name=WEB wish=w kept=k devs.d0.a=x devs.d9.a=gone"), value("name=web kept=other devs.d0.a=y "+
				"devs.d1.a=z")),
			value("name=WEB wish=w kept=other devs.d0.a=y")},
		"fill takes every slot": {
			shape.Fill(value("wish=w devs.d0.a=x"), value("name=n devs.d0.a=y devs.d1.a=z")),
			value("name=n wish=w devs.d0.a=y devs.d1.a=z")},
		"between keeps the slots of before and after that are there": {
			shape.Between(value("name=a wish=old devs.d0.a=x devs.d1.a=y"), value("name=b wish=new devs.d0.a=x2 devs.d2.a=z"),
				value("name=b devs.d0.a=x devs.d1.a=y devs.d3.a=w")),
			value("name=b wish=old devs.d0.a=x devs.d1.a=y")},
	} {
		if !slices.Equal(lines("", tt.got), lines("", tt.want)) {
			t.Errorf("%s:\ngot  %v\nwant %v", name, lines("", tt.got), lines("", tt.want))
		}
		if !tt.got.IsFullyKnown() {
			t.Errorf("%s: unknown values are left", name)
		}
	}
}

// TestNothingIsChangedInPlace: Terraform's prior state, which an error may have to give back, is what it was after
// every computation.
func TestNothingIsChangedInPlace(t *testing.T) {
	shape, typ := toy()
	texts := map[string]string{
		"config":  "name=WEB group.a=3 devs.d0.a=x2 devs.d2.a=z",
		"prior":   "name=WEB wish=w kept=k group.a=1 devs.d0.a=x devs.d1.a=y stat=s id=1",
		"planned": "name=web wish=new made=? group.a=3 devs.d0.a=x2 devs.d0.vol=? devs.d2.a=z stat=? id=1",
		"server":  "name=web kept=other made=m group.a=2 group.b=3 devs.d0.a=y devs.d0.vol=v devs.d1.a=w stat=t id=1",
	}
	is := map[string]tftypes.Value{}
	for name, text := range texts {
		is[name] = build(typ, "", strings.Fields(text))
	}
	for name, compute := range map[string]func(){
		"Plan": func() {
			shape.Plan(Input{Config: is["config"], Prior: is["prior"], Managed: shape.Managed(is["config"])})
		},
		"Settle":       func() { shape.Settle(is["planned"], is["server"]) },
		"Refresh":      func() { shape.Refresh(is["prior"], is["server"]) },
		"Fill":         func() { shape.Fill(is["prior"], is["server"]) },
		"Between":      func() { shape.Between(is["prior"], is["planned"], is["server"]) },
		"Defaults":     func() { shape.Defaults(is["prior"]) },
		"Said":         func() { shape.Said(is["config"]) },
		"Essence":      func() { shape.Essence(is["planned"], is["prior"]) },
		"ManagedAfter": func() { shape.ManagedAfter(nil, is["config"], is["prior"], is["planned"]) },
		"Known":        func() { Known(is["planned"]) },
		"Edit":         func() { Edit(is["prior"], map[string]bool{"name": true}, map[string]bool{"group.a": true}) },
		"Replace":      func() { Replace(is["prior"], "name", tftypes.NewValue(tftypes.String, "other")) },
	} {
		compute()
		for what, v := range is {
			if was := build(typ, "", strings.Fields(texts[what])); !v.Equal(was) {
				t.Errorf("%s changed its %s:\nis  %v\nwas %v", name, what, lines("", v), lines("", was))
				is[what] = was
			}
		}
	}
}

func TestManagedSurvivesPrivateState(t *testing.T) {
	shape, typ := toy()
	m := shape.Managed(build(typ, "", strings.Fields("name=n group.a=1 devs.d0.a=x devs.d1")))
	again, err := ParseManaged(m.JSON())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"devs", "devs.d0", "devs.d0.a", "devs.d1", "group", "group.a", "name"}
	if string(again.JSON()) != `["`+strings.Join(want, `","`)+`"]` {
		t.Errorf("%s", again.JSON())
	}
	if none, err := ParseManaged(nil); err != nil || len(none) != 0 {
		t.Errorf("nothing is %v, %v", none, err)
	}
	if _, err := ParseManaged([]byte("{")); err == nil {
		t.Error("damaged private state is accepted")
	}
}

func TestAt(t *testing.T) {
	_, typ := toy()
	v := build(typ, "", strings.Fields("group=? devs.d0.a=x"))
	if At(v, "group", "a").IsKnown() || show(At(v, "devs", "d0", "a")) != "x" || !At(v, "devs", "d7", "a").IsNull() ||
		!At(v, "devs", "d7", "a").IsKnown() {
		t.Error("At is wrong")
	}
}

// TestDoubtful: what stays only because it is not known to have been configured; not what would stay anyway, nor what
// is configured.
func TestDoubtful(t *testing.T) {
	shape, typ := toy()
	words := func(text string) tftypes.Value { return build(typ, "", strings.Fields(text)) }
	prior := words("name=n made=m kept=k id=1 stat=up group.a=2 group.b=3 whole.a=4")
	for config, want := range map[string]string{
		"":                        "group.a group.b made name whole",
		"name=n group.a=2":        "group.b made whole",
		"name=x made=y whole.a=4": "group.a group.b",
		"name=n made=m group.a=2 group.b=3 whole.a=4": "",
	} {
		c := words(config)
		if config == "" {
			c = tftypes.NewValue(typ, nullsOf(typ))
		}
		got := strings.Join(shape.Doubtful(Input{Config: c, Prior: prior, Managed: shape.Managed(c)}), " ")
		if got != want {
			t.Errorf("configured %q: %q, want %q", config, got, want)
		}
	}
}

func nullsOf(typ tftypes.Object) map[string]tftypes.Value {
	values := map[string]tftypes.Value{}
	for name, t := range typ.AttributeTypes {
		values[name] = tftypes.NewValue(t, nil)
	}
	return values
}
