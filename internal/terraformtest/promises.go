package terraformtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// BrokenPromises are the values that a plan knows and that a state has differently, by their paths.
func BrokenPromises(planned, state cty.Value) []string {
	all := broken("", planned, state)
	slices.Sort(all)
	return all
}

func broken(at string, planned, state cty.Value) (all []string) {
	switch {
	case !planned.IsKnown(), planned.RawEquals(state):
		return nil
	case planned.IsNull() || state.IsNull() || !planned.Type().IsObjectType() && !planned.Type().IsMapType():
		if planned.IsWhollyKnown() {
			all = append(all, fmt.Sprintf("%s was planned as %#v and is %#v", at, planned, state))
		}
		return all
	}
	for name, value := range planned.AsValueMap() {
		has, ok := state.AsValueMap()[name]
		if !ok {
			has = cty.NullVal(value.Type())
		}
		all = append(all, broken(strings.TrimPrefix(at+"."+name, "."), value, has)...)
	}
	return all
}

// promises compares what a plan said with what the refresh of the next plan finds. Terraform compares the plan with the
// state that the provider returns, which may repeat the plan.
func promises(made, next *Plan) (all Diagnostics) {
	for _, c := range made.Changes {
		now := next.Change(c.Address)
		if now == nil || c.Action == NoOp || c.Planned == cty.NilVal || c.Planned.IsNull() {
			continue
		}
		for _, text := range BrokenPromises(c.Planned, now.Prior) {
			all = append(all, Diagnostic{Error: true, Violation: true, Summary: "The plan promised another value", Detail: text,
				Address: c.Address, RPC: "PlanResourceChange"})
		}
	}
	return all
}
