package terraformtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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

// settled compares the notes that an apply has left with those of the next refresh, where that finds no other values.
// Terraform counts a note as a change: a refresh-only plan with -detailed-exitcode would not end with 0. Two notes
// are left out: the count of refreshes since an import, and that another object in state has the same file.
func settled(applied, refreshed map[string]*instance) (all Diagnostics) {
	for address, now := range refreshed {
		was := applied[address]
		if was == nil || !bytes.Equal(was.json, now.json) || maps.Equal(notesOf(was), notesOf(now)) {
			continue
		}
		all = append(all, Diagnostic{Error: true, Violation: true, Summary: "A refresh right after the apply makes notes",
			Detail: fmt.Sprintf("They are %v, and were %v", notesOf(now), notesOf(was)), Address: address, RPC: "ReadResource"})
	}
	return all
}

// notesOf are the notes in a private state, by their keys (terraform-plugin-framework internal/privatestate Data).
func notesOf(i *instance) map[string]string {
	encoded, notes := map[string][]byte{}, map[string]string{}
	if err := json.Unmarshal(i.private, &encoded); err != nil {
		return map[string]string{"": string(i.private)} // of another provider than the framework's
	}
	for key, note := range encoded {
		if key != "imported_for" && key != "found_by_another" {
			notes[key] = string(note)
		}
	}
	return notes
}
