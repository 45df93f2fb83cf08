package objchange

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Problem is a rule of Terraform core that the provider broke at one place of a value.
type Problem struct {
	Path cty.Path
	Text string
}

// String is the place and the rule.
func (p Problem) String() string {
	if len(p.Path) == 0 {
		return p.Text
	}
	return PathString(p.Path) + ": " + p.Text
}

// Problems collects the broken rules.
type Problems []Problem

// Broken is one broken rule about a value as a whole.
func Broken(rule string) Problems { return Problems{{Text: rule}} }

// Add records a problem; each %s of the format stands for one argument.
func (p *Problems) Add(path cty.Path, format string, args ...string) {
	parts := strings.Split(format, "%s")
	var b strings.Builder
	b.WriteString(parts[0])
	for i, part := range parts[1:] {
		b.WriteString(args[i] + part)
	}
	*p = append(*p, Problem{path.Copy(), b.String()})
}

// CheckPlanned reports where a planned state breaks the rules of a plan: a configured value is planned as
// configured, or kept as it was before; a value that is not configured may only be planned where the schema says
// computed.
func CheckPlanned(o *Object, prior, config, planned cty.Value) Problems {
	var ps Problems
	if planned.IsNull() != config.IsNull() {
		ps.Add(nil, "planned for %s, configured for %s", presence(planned), presence(config))
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

func checkPlannedAttrs(ps *Problems, o *Object, prior, config, planned cty.Value, path cty.Path) {
	for _, name := range o.Names {
		a := o.Attrs[name]
		checkPlannedAttr(ps, a, member(prior, name, a), member(config, name, a), member(planned, name, a), path.GetAttr(name))
	}
}

// member is an attribute of an object that may be null.
func member(obj cty.Value, name string, a *Attribute) cty.Value {
	if obj.IsNull() {
		return cty.NullVal(a.Typ)
	}
	if !obj.IsKnown() {
		return cty.UnknownVal(a.Typ)
	}
	return obj.GetAttr(name)
}

func checkPlannedAttr(ps *Problems, a *Attribute, prior, config, planned cty.Value, path cty.Path) {
	switch {
	case a.WriteOnly:
		if !planned.IsNull() {
			ps.Add(path, "a write-only attribute is planned with a value")
		}
	case sameValue(planned, config):
	case sameValue(planned, prior) && !prior.IsNull() && !config.IsNull(): // kept: the provider calls it equivalent
	case a.Computed && (!a.Optional || config.IsNull()):
	case config.IsNull():
		ps.Add(path, "planned %s for an attribute that is neither configured nor computed", a.show(planned))
	case a.Nested != nil:
		checkPlannedNested(ps, a, prior, config, planned, path)
	case prior.IsNull():
		ps.Add(path, "planned %s, configured %s", a.show(planned), a.show(config))
	default:
		ps.Add(path, "planned %s, configured %s, and before it was %s", a.show(planned), a.show(config), a.show(prior))
	}
}

func checkPlannedNested(ps *Problems, a *Attribute, prior, config, planned cty.Value, path cty.Path) {
	switch {
	case planned.IsNull():
		ps.Add(path, "planned for absence although it is configured")
		return
	case !planned.IsKnown():
		ps.Add(path, "planned as unknown although it is configured")
		return
	case !config.IsKnown():
		ps.Add(path, "planned as known although its configuration is unknown")
		return
	case a.Nesting == tfprotov6.SchemaObjectNestingModeSingle:
		checkPlannedAttrs(ps, a.Nested, prior, config, planned, path)
		return
	}
	if p, c := planned.LengthInt(), config.LengthInt(); p != c {
		ps.Add(path, "planned with %s elements, configured with %s", fmt.Sprint(p), fmt.Sprint(c))
		return
	}
	if a.Nesting == tfprotov6.SchemaObjectNestingModeSet {
		checkPlannedSet(ps, a, config, planned, path)
		return
	}
	null := cty.NullVal(a.Nested.Typ())
	for it := planned.ElementIterator(); it.Next(); {
		k, p := it.Element()
		at := path.Index(k)
		if !config.HasIndex(k).True() {
			ps.Add(at, "planned although it is not configured")
			continue
		}
		old := null
		if !prior.IsNull() && prior.HasIndex(k).True() {
			old = prior.Index(k)
		}
		if !p.IsKnown() && config.Index(k).IsKnown() {
			ps.Add(at, "an element is planned as unknown although it is configured")
			continue
		}
		checkPlannedAttrs(ps, a.Nested, old, config.Index(k), p, at)
	}
}

// checkPlannedSet wants a configured element for each planned one. Terraform core is laxer here: it cannot pair
// elements of sets and trusts the provider.
func checkPlannedSet(ps *Problems, a *Attribute, config, planned cty.Value, path cty.Path) {
	null := cty.NullVal(a.Nested.Typ())
	for _, p := range planned.AsValueSlice() {
		found := false
		for _, c := range config.AsValueSlice() {
			var sub Problems
			checkPlannedAttrs(&sub, a.Nested, null, c, p, nil)
			found = found || len(sub) == 0
		}
		if !found {
			ps.Add(path, "planned element %s matches no configured one", a.show(p))
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

// unrefined is a value without what is known of its unknown parts, such as the beginning of a text: the protocol's
// other side need not send that back.
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
func (a *Attribute) show(v cty.Value) string {
	if a.Sensitive || a.WriteOnly {
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

// PathString prints a path as a reference: disks["scsi0"].size.
func PathString(p cty.Path) string {
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
