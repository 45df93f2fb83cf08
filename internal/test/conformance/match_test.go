package conformance_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The forms of the tables: a value that differs by nature is written ~form~, alone or inside a longer text.
var conformanceForms = map[string]string{
	"~uuid~": `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "~mac~": `(?i:[0-9a-f]{2}(?::[0-9a-f]{2}){5})`,
	"~digest~": `[0-9a-f]{40}`, "~int~": `\d+`, "~version~": `[\d.]+`, "~hex~": `[0-9a-f]+`, "~text~": `(?s:.*)`,
	"~archive time~": `\d{4}(?:_\d\d){2}-\d\d(?:_\d\d){2}`, "~clock~": `\d\d:\d\d:\d\d`,
	"~address~": `[0-9a-f.:]+`, "~time~": `[\d-]+ [\d:]+`,
	"~fingerprint~": `[0-9A-F]{2}(?::[0-9A-F]{2}){31}`,
}

var conformanceForm = regexp.MustCompile(`~[a-z]+( [^~]*)?~`)

// conformanceText compares a text with one that may contain forms.
func conformanceText(want, got string) bool {
	if !strings.Contains(want, "~") {
		return want == got
	}
	pattern, last := "", 0 // a form holds no role: those were named before
	for _, at := range conformanceForm.FindAllStringIndex(want, -1) {
		pattern += regexp.QuoteMeta(want[last:at[0]])
		form := want[at[0]:at[1]]
		if task, ok := strings.CutPrefix(form, "~upid "); ok {
			pattern += `UPID:[\w-]+:[0-9A-F]{8}:[0-9A-F]{8,9}:[0-9A-F]{8}:` + regexp.QuoteMeta(strings.TrimSuffix(task, "~")) + `:`
		} else {
			pattern += conformanceForms[form]
		}
		last = at[1]
	}
	return regexp.MustCompile("^(?:" + pattern + regexp.QuoteMeta(want[last:]) + ")$").MatchString(got)
}

// conformanceDiff says where a value is not as the table has it; nothing if it is.
func conformanceDiff(where string, want, got any) []string {
	differs := func() []string {
		return []string{fmt.Sprintf("%s: want %s, got %s", where, compactJSON(want), compactJSON(got))}
	}
	switch want := want.(type) {
	case string:
		switch want {
		case "~any~":
			return nil
		case "~number~":
			if number(got) {
				return nil
			}
			return differs()
		case "~list~":
			if _, ok := got.([]any); ok {
				return nil
			}
			return differs()
		}
		text, ok := got.(string)
		if !ok {
			return differs()
		}
		if strings.HasSuffix(where, ".content") || strings.HasSuffix(where, ".privs") { // sets, printed in the order of a hash
			want, text = sortedList(want), sortedList(text)
		}
		if !conformanceText(want, text) {
			return differs()
		}
	case []any:
		list, ok := got.([]any)
		if !ok {
			return differs()
		}
		return listDiff(where, want, list)
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return differs()
		}
		return objectDiff(where, want, object)
	default:
		if compactJSON(want) != compactJSON(got) {
			return differs()
		}
	}
	return nil
}

// number accepts numbers, and strings of digits: PVE prints what Perl last used as a string in quotes.
func number(v any) bool {
	switch v := v.(type) {
	case float64:
		return true
	case string:
		_, err := strconv.ParseFloat(v, 64)
		return err == nil
	}
	return false
}

func sortedList(s string) string {
	parts := strings.Split(s, ",")
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func objectDiff(where string, want, got map[string]any) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		v, ok := got[k]
		if !ok {
			out = append(out, fmt.Sprintf("%s.%s is missing, want %s", where, k, compactJSON(want[k])))
			continue
		}
		out = append(out, conformanceDiff(where+"."+k, want[k], v)...)
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			out = append(out, fmt.Sprintf("%s.%s is %s, which PVE does not send", where, k, compactJSON(got[k])))
		}
	}
	return out
}

// ordered tells the lists of objects that PVE sends in an order: lines of a log, tasks (the newest first), firewall rules.
func ordered(where string, first any) bool {
	object, isObject := first.(map[string]any)
	line := object["n"] != nil && object["t"] != nil
	return !isObject || line || object["upid"] != nil || object["pos"] != nil || strings.HasSuffix(where, "log")
}

// listDiff compares lists of objects that come out of hashes in any order, and others in theirs.
func listDiff(where string, want, got []any) []string {
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%s has %d items, want %d: got %s, want %s", where, len(got), len(want), compactJSON(got), compactJSON(want))}
	}
	if len(want) == 0 {
		return nil
	}
	if ordered(where, want[0]) {
		var out []string
		for i := range want {
			out = append(out, conformanceDiff(fmt.Sprintf("%s[%d]", where, i), want[i], got[i])...)
		}
		return out
	}
	rest := slices.Clone(got)
	var out []string
	for i, item := range want {
		best, diff := -1, []string(nil)
		for j, candidate := range rest {
			d := conformanceDiff(fmt.Sprintf("%s[%d]", where, i), item, candidate)
			if best < 0 || len(d) < len(diff) {
				best, diff = j, d
			}
			if len(d) == 0 {
				break
			}
		}
		out = append(out, diff...)
		if best >= 0 {
			rest = slices.Delete(rest, best, best+1)
		}
	}
	return out
}

func compactJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(raw) > 1500 {
		return string(raw[:1500]) + "…"
	}
	return string(raw)
}
