//go:build ignore

// Gen turns a dump of PVE's API description (a map "METHOD /path" -> rules) into routes.json, the compact form that
// package schema embeds: every distinct parameter and permission once, routes that refer to them by number, Perl
// patterns as Go patterns, and none of the prose.
//
//	go run gen.go path/to/api-schema.json > routes.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"regexp"
	"sort"
	"strings"
)

type rule struct {
	AllowToken  json.RawMessage `json:"allowtoken"`
	Permissions any             `json:"permissions"`
	Protected   json.RawMessage `json:"protected"`
	ProxyTo     string          `json:"proxyto"`
	Parameters  struct {
		Additional json.RawMessage           `json:"additionalProperties"`
		Properties map[string]map[string]any `json:"properties"`
	} `json:"parameters"`
}

type route struct {
	Method   string `json:"method"`
	Template string `json:"path"`
	// p protected, n proxied to {node}, t tokens allowed, x unknown parameters allowed
	Flags       string         `json:"flags,omitempty"`
	Permissions *int           `json:"permissions,omitempty"`
	Params      map[string]int `json:"params,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: go run gen.go api-schema.json > routes.json")
	}
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var rules map[string]rule
	if err := json.Unmarshal(raw, &rules); err != nil {
		log.Fatal(err)
	}
	os.Stdout.Write(compact(rules))
}

// compact writes one parameter and one route a line, so that a new version of the description gives a readable diff.
func compact(rules map[string]rule) []byte {
	var params, permissions table
	var routes []string
	var out bytes.Buffer
	for _, key := range sortedKeys(rules) {
		r := rules[key]
		method, template, _ := strings.Cut(key, " ")
		entry := route{Method: method, Template: template, Flags: flags(r), Params: map[string]int{}}
		if r.Permissions != nil {
			n := permissions.add(r.Permissions)
			entry.Permissions = &n
		}
		for _, name := range sortedKeys(r.Parameters.Properties) {
			entry.Params[name] = params.add(param(r.Parameters.Properties[name]))
		}
		routes = append(routes, encode(entry))
	}
	fmt.Fprintf(&out, "{\"params\":[\n%s\n],\"permissions\":[\n%s\n],\"routes\":[\n%s\n]}\n",
		strings.Join(params.lines, ",\n"), strings.Join(permissions.lines, ",\n"), strings.Join(routes, ",\n"))
	return out.Bytes()
}

// table numbers distinct values in the order of their first use.
type table struct {
	lines []string
	index map[string]int
}

func (t *table) add(v any) int {
	line := encode(v)
	n, seen := t.index[line]
	if !seen {
		if t.index == nil {
			t.index = map[string]int{}
		}
		n = len(t.lines)
		t.index[line] = n
		t.lines = append(t.lines, line)
	}
	return n
}

func flags(r rule) string {
	var f string
	for _, flag := range []struct {
		on   bool
		char string
	}{
		{truth(r.Protected), "p"}, {r.ProxyTo == "node", "n"}, {truth(r.AllowToken), "t"}, {truth(r.Parameters.Additional),
			"x"},
	} {
		if flag.on {
			f += flag.char
		}
	}
	return f
}

// param keeps the validating keys of one parameter and brings numbers, booleans and patterns into one form:
// Perl hands them out as numbers or strings as it last used them.
func param(in map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range in {
		switch key {
		case "type", "requires", "alias", "keyAlias":
			out[key] = value
		case "optional", "default_key":
			if value = fmt.Sprint(value); value != "0" {
				out[key] = true
			}
		case "minimum", "maximum", "minLength", "maxLength":
			out[key] = json.Number(number(value))
		case "default":
			if value != nil {
				out[key] = number(value)
			}
		case "enum":
			if list, ok := value.([]any); ok {
				out[key] = list
			}
		case "pattern":
			pattern, maxLength := goPattern(value.(string))
			out[key] = pattern
			if maxLength != "" {
				out["maxLength"] = json.Number(maxLength)
			}
		case "items":
			out[key] = param(value.(map[string]any))
		case "format":
			nested, ok := value.(map[string]any)
			if !ok {
				out[key] = value
				continue
			}
			properties := map[string]any{}
			for name, property := range nested {
				properties[name] = param(property.(map[string]any))
			}
			out["properties"] = properties
		}
	}
	return out
}

// goPattern converts a Perl pattern: (?^:…) and (?^i:…) are Perl's print of compiled patterns, {,n} means {0,n}, and a
// repetition beyond the 1000 that Go allows becomes * with a maximum length.
func goPattern(perl string) (pattern, maxLength string) {
	pattern = strings.NewReplacer("(?^:", "(?:", "(?^i:", "(?i:", "{,", "{0,").Replace(perl)
	long := regexp.MustCompile(`\{0,(\d{4,})\}$`)
	if m := long.FindStringSubmatch(pattern); m != nil {
		pattern, maxLength = long.ReplaceAllString(pattern, "*"), m[1]
	}
	if _, err := regexp.Compile(pattern); err != nil {
		log.Fatalf("pattern %q: %v", perl, err)
	}
	return pattern, maxLength
}

func number(v any) string {
	if f, ok := v.(float64); ok {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0")
	}
	return fmt.Sprint(v)
}

func truth(v json.RawMessage) bool {
	s := strings.Trim(string(v), `"`)
	return s != "" && s != "0" && s != "null" && s != "false"
}

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		log.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
