package guest

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawRules(t *rapid.T, label string) []map[string]string {
	rule := rapid.Custom(func(t *rapid.T) map[string]string {
		r := map[string]string{"type": "in", "action": rapid.SampledFrom([]string{"ACCEPT", "DROP"}).Draw(t, "action"), "enable": "1"}
		if rapid.Bool().Draw(t, "named") {
			r["comment"] = rapid.SampledFrom([]string{"a", "b "}).Draw(t, "comment")
		}
		return r
	})
	return rapid.SliceOfN(rule, 0, 5).Draw(t, label)
}

// Whatever rules there are, the edits lead to the wanted ones, with no more of them than rules on either side, and a position
// is one that the server has.
func TestEditsLeadToTheWantedRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		has, want := drawRules(t, "has"), drawRules(t, "want")
		now := slices.Clone(has)
		for steps := 0; ; steps++ {
			edit := nextEdit(now, want)
			if edit == nil {
				break
			}
			if steps >= len(has)+len(want) {
				t.Fatalf("%d edits from %v to %v, and no end", steps, has, want)
			}
			if edit.verb != "add" && edit.at >= len(now) {
				t.Fatalf("%+v of %v", edit, now)
			}
			switch edit.verb { // what PVE does
			case "add":
				now = slices.Insert(slices.Clone(now), 0, want[edit.rule-1])
			case "change":
				now = slices.Clone(now)
				now[edit.at] = want[edit.rule-1]
			case "delete":
				now = slices.Delete(slices.Clone(now), edit.at, edit.at+1)
			}
			if !slices.EqualFunc(now, edit.after, maps.Equal) {
				t.Fatalf("%s leads to %v, not to %v", edit.verb, now, edit.after)
			}
		}
		if !slices.EqualFunc(now, want, sameRule) {
			t.Fatalf("from %v to %v: ended with %v", has, want, now)
		}
	})
}

func TestOnlyWhatDiffersIsSent(t *testing.T) {
	before := map[string]string{"state": "started", "comment": "a", "max_restart": "3"}
	for name, tt := range map[string]struct{ after, has, want map[string]string }{
		"nothing":                {before, before, map[string]string{}},
		"one changes":            {map[string]string{"state": "started", "comment": "b", "max_restart": "3"}, before, map[string]string{"comment": "b"}},
		"one goes":               {map[string]string{"state": "started", "comment": "a"}, before, map[string]string{"delete": "max_restart"}},
		"a state is never reset": {map[string]string{"comment": "a", "max_restart": "3"}, before, map[string]string{}},
		"it is so already":       {map[string]string{"state": "ignored", "comment": "a"}, map[string]string{"state": "ignored", "comment": "a"}, map[string]string{}},
		"what somebody else changed is left alone": {map[string]string{"state": "started", "comment": "b", "max_restart": "3"},
			map[string]string{"state": "ignored", "comment": "a"}, map[string]string{"comment": "b"}},
	} {
		if got := differing(before, tt.after, tt.has); !maps.Equal(got, tt.want) {
			t.Errorf("%s: sent %v, want %v", name, got, tt.want)
		}
	}
}
