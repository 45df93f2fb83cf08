package capture

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// row is an object of an answer. PVE writes numbers as numbers or as texts, as they came out of Perl.
type row map[string]any

func (r row) text(key string) string { return text(r[key]) }

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "1"
		}
		return "0"
	}
	return ""
}

func (r row) number(key string) int64 {
	n, err := strconv.ParseInt(r.text(key), 10, 64)
	if err != nil {
		f, _ := strconv.ParseFloat(r.text(key), 64) // not a number either: zero
		return int64(f)
	}
	return n
}

func (r row) flag(key string) bool { return r.text(key) == "1" }

// words splits a list that PVE writes as one text.
func (r row) words(key string) []string {
	return strings.FieldsFunc(r.text(key), func(c rune) bool { return c == ',' || c == ';' || c == ' ' })
}

// texts are the members that are no lists or objects, but for some.
func (r row) texts(but ...string) map[string]string {
	out := map[string]string{}
	for key, v := range r {
		switch v.(type) {
		case string, json.Number, bool:
			if !slices.Contains(but, key) {
				out[key] = text(v)
			}
		}
	}
	return out
}

// rows are the objects of a list.
func rows(v any) []row {
	list, _ := v.([]any)
	out := make([]row, 0, len(list))
	for _, item := range list {
		if r, ok := item.(map[string]any); ok {
			out = append(out, r)
		}
	}
	return out
}

// by sorts a list by one of its texts.
func by(key string, list []row) []row {
	slices.SortStableFunc(list, func(a, b row) int { return strings.Compare(a.text(key), b.text(key)) })
	return list
}

// none is nil for an empty map, so that it is left out of the file.
func none(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}
