package fault_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

func TestMatch(t *testing.T) {
	op := fault.Operation{Seq: 7, Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/clone", VMIDs: []int{9000, 100}}
	for name, row := range map[string]struct {
		match fault.Match
		want  bool
	}{
		"everything":    {fault.Match{}, true},
		"number":        {fault.Match{Seq: 7}, true},
		"other number":  {fault.Match{Seq: 8}, false},
		"source":        {fault.Match{VMID: 9000}, true},
		"target":        {fault.Match{VMID: 100}, true},
		"other guest":   {fault.Match{VMID: 101}, false},
		"all fields":    {fault.Match{Seq: 7, Method: "POST", Path: op.Path, VMID: 100, Nth: 1}, true},
		"one is wrong":  {fault.Match{Seq: 7, Method: "PUT", Path: op.Path, VMID: 100}, false},
		"not the first": {fault.Match{Nth: 2}, false},
	} {
		var s fault.Set
		if err := s.Put([]fault.Rule{{Match: row.match, Phase: fault.Before}}); err != nil {
			t.Fatal(err)
		}
		if got := s.Strike(op).Before != nil; got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNthAndTimes(t *testing.T) {
	for _, row := range []struct{ nth, times, first, last int }{
		{0, 0, 1, 1}, {3, 0, 3, 3}, {2, 2, 2, 3}, {0, -1, 1, 6}, {4, -1, 4, 6},
	} {
		var s fault.Set
		if err := s.Put([]fault.Rule{{Match: fault.Match{Method: "GET", Nth: row.nth}, Phase: fault.After,
			Times: row.times}}); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= 6; i++ {
			s.Strike(fault.Operation{Method: "PUT"}) // does not count
			k := s.Strike(fault.Operation{Method: "GET"}).After
			if want := i >= row.first && i <= row.last; (k != nil) != want {
				t.Errorf("nth %d, times %d: operation %d struck: %v", row.nth, row.times, i, k != nil)
			}
			if k != nil && k.Fire() {
				k.Took()
			}
		}
		if got := s.Effective(); got != row.last-row.first+1 {
			t.Errorf("nth %d, times %d: %d effective", row.nth, row.times, got)
		}
	}
}

// TestUnfiredStrikeIsNotSpent: a task fault that finds no task waits for the next operation.
func TestUnfiredStrikeIsNotSpent(t *testing.T) {
	var s fault.Set
	if err := s.Put([]fault.Rule{{Phase: fault.Task}}); err != nil {
		t.Fatal(err)
	}
	first, second := s.Strike(fault.Operation{}).Task, s.Strike(fault.Operation{}).Task
	if first == nil || second == nil {
		t.Fatal("both operations may still be the one")
	}
	if !second.Fire() || first.Fire() {
		t.Error("one of them fires")
	}
}

func TestOneStrikeOfEachKind(t *testing.T) {
	var s fault.Set
	if err := s.Put([]fault.Rule{{Phase: fault.Before, Reason: "a"}, {Phase: fault.Before, Reason: "b"},
		{Phase: fault.After}, {Phase: fault.Partial}}); err != nil {
		t.Fatal(err)
	}
	hit := s.Strike(fault.Operation{})
	if hit.Before == nil || hit.Before.Text("") != "a" || hit.After == nil || hit.Task == nil ||
		hit.Task.Text("none") != "none" {
		t.Errorf("%+v", hit)
	}
}

func TestValidate(t *testing.T) {
	for _, bad := range []fault.Rule{
		{Phase: "sometimes"}, {}, {Phase: fault.Before, Status: 200}, {Phase: fault.After, DelayMS: -1},
		{Phase: fault.Task, Match: fault.Match{Nth: -1}},
	} {
		var s fault.Set
		if err := s.Put([]fault.Rule{bad}); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
}

func TestAwayIsForNodes(t *testing.T) {
	for _, c := range []struct {
		rule fault.Rule
		ok   bool
	}{
		{fault.Rule{Phase: fault.Offline, AwayMS: 1}, true}, {fault.Rule{Phase: fault.Offline},
			true}, {fault.Rule{Phase: fault.Task, AwayMS: 1}, false}, {fault.Rule{Phase: fault.Offline, AwayMS: -1}, false},
	} {
		if err := c.rule.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.rule, err)
		}
	}
}

// TestDocumented: the documentation has a row for each phase and for each member of a rule, and no others; its examples
// are rules.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/design/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Faults\n")
	section, _, _ = strings.Cut(section, "\n## ")
	table := func(head string) (words []string) {
		_, rows, _ := strings.Cut(section, "| "+head+" |")
		rows, _, _ = strings.Cut(rows, "\n\n")
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllStringSubmatch(rows, -1) {
			words = append(words, m[1])
		}
		return words
	}
	var phases []string
	for _, p := range fault.Phases() {
		phases = append(phases, string(p))
	}
	if got := table("phase"); !slices.Equal(got, phases) {
		t.Errorf("phases documented: %v, there are %v", got, phases)
	}
	whole := fault.Rule{Match: fault.Match{Seq: 1, Method: "m", Path: "p", VMID: 1, Nth: 1}, Phase: "p", Times: 1,
		Status: 1, Reason: "r", DelayMS: 1, AwayMS: 1}
	encoded, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(encoded, &members); err != nil {
		t.Fatal(err)
	}
	match, _ := members["match"].(map[string]any)
	delete(members, "match")
	var names []string
	for name := range members {
		names = append(names, name)
	}
	for name := range match {
		names = append(names, "match."+name)
	}
	got := table("member")
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("members documented: %v, there are %v", got, names)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) == 0 {
		t.Error("no example")
	}
	for _, block := range blocks {
		if _, err := fault.Read([]byte(block[1])); err != nil {
			t.Errorf("%s: %v", block[1], err)
		}
	}
}
