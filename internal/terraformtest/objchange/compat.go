package objchange

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// CheckCompletes reports where actual is not planned with its unknowns filled in: Terraform's "provider produced
// inconsistent result after apply", and "inconsistent final plan" when a plan is compared with its repetition.
func CheckCompletes(o *Object, planned, actual cty.Value) Problems {
	var ps Problems
	if planned.IsNull() != actual.IsNull() {
		if actual.IsNull() {
			ps.Add(nil, "the object was planned and is absent now")
		} else {
			ps.Add(nil, "the object was planned for absence and is present now")
		}
		return ps
	}
	if planned.IsNull() {
		return ps
	}
	for _, name := range o.Names {
		a := o.Attrs[name]
		var sub Problems
		completes(&sub, planned.GetAttr(name), actual.GetAttr(name), cty.GetAttrPath(name))
		if len(sub) > 0 && (a.Sensitive || a.WriteOnly) {
			sub = Problems{{cty.GetAttrPath(name), "inconsistent values of a sensitive attribute"}}
		}
		ps = append(ps, sub...)
	}
	return ps
}

func completes(ps *Problems, planned, actual cty.Value, path cty.Path) {
	if planned.Type() == cty.DynamicPseudoType {
		return
	}
	if errs := actual.Type().TestConformance(planned.Type()); len(errs) > 0 {
		ps.Add(path, "has the wrong type: %s", errs[0].Error())
		return
	}
	switch ty := planned.Type(); {
	case !planned.IsKnown():
		if in := planned.Range().Includes(actual); in.IsKnown() && in.False() {
			ps.Add(path, "%s does not fit what was promised of the unknown value", ShowValue(actual))
		}
	case planned.IsNull() && actual.IsNull():
	case planned.IsNull() || actual.IsNull() || ty.IsPrimitiveType():
		if !planned.RawEquals(actual) {
			ps.Add(path, "was planned as %s and is now %s", ShowValue(planned), ShowValue(actual))
		}
	case !actual.IsKnown():
		ps.Add(path, "was planned as known and is now unknown")
	case ty.IsObjectType():
		for name := range ty.AttributeTypes() {
			completes(ps, planned.GetAttr(name), actual.GetAttr(name), path.GetAttr(name))
		}
	case ty.IsSetType():
		completesSet(ps, planned, actual, path)
	default:
		completesKeyed(ps, planned, actual, path)
	}
}

func completesKeyed(ps *Problems, planned, actual cty.Value, path cty.Path) {
	for it := planned.ElementIterator(); it.Next(); {
		k, p := it.Element()
		if !actual.HasIndex(k).True() {
			ps.Add(path.Index(k), "was planned and has vanished")
			continue
		}
		completes(ps, p, actual.Index(k), path.Index(k))
	}
	for it := actual.ElementIterator(); it.Next(); {
		if k, _ := it.Element(); !planned.HasIndex(k).True() {
			ps.Add(path.Index(k), "has appeared although it was not planned")
		}
	}
}

// completesSet wants a partner for each element in both directions. A set may shrink, because unknown elements may turn
// out to be equal; it may not grow.
func completesSet(ps *Problems, planned, actual cty.Value, path cty.Path) {
	wanted, found := planned.AsValueSlice(), actual.AsValueSlice()
	if len(found) > len(wanted) {
		ps.Add(path, "was planned with %s elements and has now %s", fmt.Sprint(len(wanted)), fmt.Sprint(len(found)))
		return
	}
	fits := func(p, a cty.Value) bool {
		var sub Problems
		completes(&sub, p, a, nil)
		return len(sub) == 0
	}
	for _, p := range wanted {
		if !slices.ContainsFunc(found, func(a cty.Value) bool { return fits(p, a) }) {
			ps.Add(path, "planned element %s has no counterpart", ShowValue(p))
			return // the other direction would say the same
		}
	}
	for _, a := range found {
		if !slices.ContainsFunc(wanted, func(p cty.Value) bool { return fits(p, a) }) {
			ps.Add(path, "element %s was not planned", ShowValue(a))
		}
	}
}

// CheckWriteOnly reports write-only attributes that found their way into a state.
func CheckWriteOnly(o *Object, v cty.Value) Problems {
	var ps Problems
	if v.IsNull() || !v.IsKnown() {
		return ps
	}
	for _, name := range o.Names {
		a := o.Attrs[name]
		av := v.GetAttr(name)
		if a.WriteOnly && !av.IsNull() {
			ps.Add(cty.GetAttrPath(name), "a write-only attribute is in the state")
		}
		if a.Nested == nil || av.IsNull() || !av.IsKnown() {
			continue
		}
		for _, e := range elements(a.Nesting, av) {
			for _, p := range CheckWriteOnly(a.Nested, e) {
				ps = append(ps, Problem{append(cty.GetAttrPath(name), p.Path...), p.Text})
			}
		}
	}
	return ps
}

// UnknownPaths lists where a value is unknown.
func UnknownPaths(v cty.Value) []cty.Path {
	var paths []cty.Path
	_ = cty.Walk(v, func(p cty.Path, v cty.Value) (bool, error) {
		if !v.IsKnown() {
			paths = append(paths, p.Copy())
			return false, nil
		}
		return true, nil
	})
	return paths
}

// UnknownAsNull replaces what is unknown by null, as Terraform core does before it saves a broken result.
func UnknownAsNull(v cty.Value) cty.Value {
	out, err := cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if !v.IsKnown() {
			return cty.NullVal(v.Type()), nil
		}
		return v, nil
	})
	if err != nil {
		return v
	}
	return out
}
