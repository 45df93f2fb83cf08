package terraformtest

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// problem is a rule of Terraform core that the provider broke at one place of a value.
type problem struct {
	path cty.Path
	text string
}

func (p problem) String() string {
	if len(p.path) == 0 {
		return p.text
	}
	return pathString(p.path) + ": " + p.text
}

// problems collects the broken rules.
type problems []problem

// add records a problem; each %s of the format stands for one argument.
func (p *problems) add(path cty.Path, format string, args ...string) {
	parts := strings.Split(format, "%s")
	var b strings.Builder
	b.WriteString(parts[0])
	for i, part := range parts[1:] {
		b.WriteString(args[i] + part)
	}
	*p = append(*p, problem{path.Copy(), b.String()})
}

// checkPlanned reports where a planned state breaks the rules of a plan: a configured value is planned as configured, or
// kept as it was before; a value that is not configured may only be planned where the schema says computed.
func checkPlanned(o *object, prior, config, planned cty.Value) problems {
	var ps problems
	if planned.IsNull() != config.IsNull() {
		ps.add(nil, "planned for %s, configured for %s", presence(planned), presence(config))
		return ps
	}
	if !planned.IsNull() {
		checkPlannedAttrs(&ps, o, prior, config, planned, nil)
	}
	return ps
}

func presence(v cty.Value) string {
	if v.IsNull() {
		return "absence"
	}
	return "existence"
}

func checkPlannedAttrs(ps *problems, o *object, prior, config, planned cty.Value, path cty.Path) {
	for _, name := range o.names {
		a := o.attrs[name]
		checkPlannedAttr(ps, a, member(prior, name, a), member(config, name, a), member(planned, name, a), path.GetAttr(name))
	}
}

// member is an attribute of an object that may be null.
func member(obj cty.Value, name string, a *attribute) cty.Value {
	if obj.IsNull() {
		return cty.NullVal(a.typ)
	}
	if !obj.IsKnown() {
		return cty.UnknownVal(a.typ)
	}
	return obj.GetAttr(name)
}

func checkPlannedAttr(ps *problems, a *attribute, prior, config, planned cty.Value, path cty.Path) {
	switch {
	case a.writeOnly:
		if !planned.IsNull() {
			ps.add(path, "a write-only attribute is planned with a value")
		}
	case sameValue(planned, config):
	case sameValue(planned, prior) && !prior.IsNull() && !config.IsNull(): // kept: the provider calls it equivalent
	case a.computed && (!a.optional || config.IsNull()):
	case config.IsNull():
		ps.add(path, "planned %s for an attribute that is neither configured nor computed", a.show(planned))
	case a.nested != nil:
		checkPlannedNested(ps, a, prior, config, planned, path)
	case prior.IsNull():
		ps.add(path, "planned %s, configured %s", a.show(planned), a.show(config))
	default:
		ps.add(path, "planned %s, configured %s, and before it was %s", a.show(planned), a.show(config), a.show(prior))
	}
}

func checkPlannedNested(ps *problems, a *attribute, prior, config, planned cty.Value, path cty.Path) {
	switch {
	case planned.IsNull():
		ps.add(path, "planned for absence although it is configured")
		return
	case !planned.IsKnown():
		ps.add(path, "planned as unknown although it is configured")
		return
	case !config.IsKnown():
		ps.add(path, "planned as known although its configuration is unknown")
		return
	case a.nesting == tfprotov6.SchemaObjectNestingModeSingle:
		checkPlannedAttrs(ps, a.nested, prior, config, planned, path)
		return
	}
	if p, c := planned.LengthInt(), config.LengthInt(); p != c {
		ps.add(path, "planned with %s elements, configured with %s", fmt.Sprint(p), fmt.Sprint(c))
		return
	}
	if a.nesting == tfprotov6.SchemaObjectNestingModeSet {
		checkPlannedSet(ps, a, config, planned, path)
		return
	}
	null := cty.NullVal(a.nested.typ())
	for it := planned.ElementIterator(); it.Next(); {
		k, p := it.Element()
		at := path.Index(k)
		if !config.HasIndex(k).True() {
			ps.add(at, "planned although it is not configured")
			continue
		}
		old := null
		if !prior.IsNull() && prior.HasIndex(k).True() {
			old = prior.Index(k)
		}
		if !p.IsKnown() && config.Index(k).IsKnown() {
			ps.add(at, "an element is planned as unknown although it is configured")
			continue
		}
		checkPlannedAttrs(ps, a.nested, old, config.Index(k), p, at)
	}
}

// checkPlannedSet wants a configured element for each planned one. Terraform core is laxer here: it cannot pair elements
// of sets and trusts the provider.
func checkPlannedSet(ps *problems, a *attribute, config, planned cty.Value, path cty.Path) {
	null := cty.NullVal(a.nested.typ())
	for _, p := range planned.AsValueSlice() {
		found := false
		for _, c := range config.AsValueSlice() {
			var sub problems
			checkPlannedAttrs(&sub, a.nested, null, c, p, nil)
			found = found || len(sub) == 0
		}
		if !found {
			ps.add(path, "planned element %s matches no configured one", a.show(p))
		}
	}
}

// sameValue compares exactly, unknown refinements aside.
func sameValue(a, b cty.Value) bool {
	if !a.IsKnown() || !b.IsKnown() {
		return !a.IsKnown() && !b.IsKnown() && a.Type().Equals(b.Type())
	}
	return unrefined(a).RawEquals(unrefined(b))
}

// unrefined is a value without what is known of its unknown parts, such as the beginning of a text: the protocol's other
// side need not send that back.
func unrefined(v cty.Value) cty.Value {
	plain, err := cty.Transform(v, func(_ cty.Path, part cty.Value) (cty.Value, error) {
		if !part.IsKnown() {
			return cty.UnknownVal(part.Type()), nil
		}
		return part, nil
	})
	if err != nil { // the function gives none
		return v
	}
	return plain
}

// show prints a value for a person; secrets stay hidden.
func (a *attribute) show(v cty.Value) string {
	if a.sensitive || a.writeOnly {
		return "(sensitive)"
	}
	return ShowValue(v)
}

// ShowValue prints a value as JSON, unknown parts as (unknown). It does not hide secrets.
func ShowValue(v cty.Value) string {
	switch {
	case v.IsNull():
		return "null"
	case !v.IsKnown():
		return "(unknown)"
	case v.IsWhollyKnown():
		b, err := ctyjson.Marshal(v, v.Type())
		if err != nil {
			return v.GoString()
		}
		return string(b)
	}
	var parts []string
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if v.Type().IsSetType() || k.Type() == cty.Number {
			parts = append(parts, ShowValue(e))
			continue
		}
		parts = append(parts, k.AsString()+": "+ShowValue(e))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// pathString prints a path as a reference: disks["scsi0"].size.
func pathString(p cty.Path) string {
	var b strings.Builder
	for _, step := range p {
		switch s := step.(type) {
		case cty.GetAttrStep:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Name)
		case cty.IndexStep:
			b.WriteString("[" + ShowValue(s.Key) + "]")
		}
	}
	return b.String()
}
