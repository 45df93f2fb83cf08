package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Param is the rule for one parameter, or for one key of a property string.
type Param struct {
	// Type is "string", "boolean", "integer", "number", "array" or empty (anything; aliases).
	Type     string   `json:"type"`
	Optional bool     `json:"optional"`
	Enum     []string `json:"enum"`
	Minimum  *float64 `json:"minimum"`
	Maximum  *float64 `json:"maximum"`
	// MinLength and MaxLength count characters, not bytes.
	MinLength *int `json:"minLength"`
	MaxLength *int `json:"maxLength"`
	// Pattern is in Go's syntax and is anchored at both ends when used.
	Pattern string `json:"pattern"`
	// Format is PVE's id of a format, perhaps with -list or -opt; empty if there is none or if Properties spells it out.
	Format string `json:"format"`
	// Default is the documented default as text; nothing is filled in from it.
	Default string `json:"default"`
	// Requires names a parameter that must be given together with this one.
	Requires string `json:"requires"`
	// Alias is the key under which a property-string key is really stored, KeyAlias the one that gets this key's name
	// as value (virtio=MAC: macaddr=MAC, model=virtio).
	Alias    string `json:"alias"`
	KeyAlias string `json:"keyAlias"`
	// DefaultKey: the key whose value may stand bare in a property string.
	DefaultKey bool `json:"default_key"`
	// Properties are the keys of a property string.
	Properties map[string]*Param `json:"properties"`
	// Items is the rule for the elements of an array.
	Items *Param `json:"items"`

	pattern *regexp.Regexp
	nested  *Format
	verify  verifier
}

// checkObject checks all properties of one object, a request or a property string (JSONSchema.pm check_object).
func checkObject(path string, rules map[string]*Param, values map[string]string, anyKey bool, errs faults) {
	under := func(key string) string {
		if path == "" {
			return key
		}
		return path + "." + key
	}
	for key, rule := range rules {
		value, given := values[key]
		switch {
		case given:
			rule.check(under(key), value, errs)
		case !rule.Optional && rule.Alias == "":
			errs.add(under(key), "property is missing and it is not optional")
		}
	}
	for _, key := range sortedKeys(values) {
		rule, known := rules[key]
		if !known {
			if !anyKey {
				errs.add(under(key), "property is not defined in schema and the schema does not allow additional properties")
			}
			continue
		}
		if rule.Requires == "" {
			continue
		}
		if _, given := values[rule.Requires]; !given {
			errs.add(under(rule.Requires), fmt.Sprintf("missing property - '%s' requires this property", under(key)))
		}
	}
}

// check reports the first fault of a value in PVE's order: type, format, pattern, length, range, enumeration
// (JSONSchema.pm check_prop).
func (p *Param) check(path, value string, errs faults) {
	if p.Type == "array" {
		for i, element := range strings.Split(value, "\x00") {
			if p.Items != nil {
				p.Items.check(fmt.Sprintf("%s[%d]", path, i), element, errs)
			}
		}
		return
	}
	if text := p.fault(path, value); text != "" {
		errs.add(path, text)
	}
}

func (p *Param) fault(path, value string) string {
	if !hasType(p.Type, value) {
		return fmt.Sprintf("type check ('%s') failed - got '%s'", p.Type, value)
	}
	if p.nested != nil {
		if _, err := p.nested.parse(path, value); err != nil {
			return "invalid format - " + err.Error()
		}
	}
	if p.verify != nil {
		if err := p.verify(value); err != nil {
			return "invalid format - " + err.Error() + "\n"
		}
	}
	if p.pattern != nil && !p.pattern.MatchString(value) {
		return "value does not match the regex pattern"
	}
	if text := p.lengthFault(value); text != "" {
		return text
	}
	if text := p.rangeFault(value); text != "" {
		return text
	}
	if len(p.Enum) > 0 && !contains(p.Enum, value) {
		return fmt.Sprintf("value '%s' does not have a value in the enumeration '%s'", value, strings.Join(p.Enum, ", "))
	}
	return ""
}

func (p *Param) lengthFault(value string) string {
	length := utf8.RuneCountInString(value)
	if p.MaxLength != nil && length > *p.MaxLength {
		return fmt.Sprintf("value may only be %d characters long", *p.MaxLength)
	}
	if p.MinLength != nil && length < *p.MinLength {
		return fmt.Sprintf("value must be at least %d characters long", *p.MinLength)
	}
	return ""
}

// rangeFault compares whatever looks like a number, whatever its type.
func (p *Param) rangeFault(value string) string {
	if p.Minimum == nil && p.Maximum == nil || !isNumber(value) {
		return ""
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(value, "\n"), 64)
	if err != nil && n == 0 { // out of range gives ±Inf, which compares rightly
		return ""
	}
	if p.Maximum != nil && n > *p.Maximum {
		return "value must have a maximum value of " + plain(*p.Maximum)
	}
	if p.Minimum != nil && n < *p.Minimum {
		return "value must have a minimum value of " + plain(*p.Minimum)
	}
	return ""
}

// hasType: request booleans are exactly 0 or 1; in property strings other words are turned into these before.
func hasType(kind, value string) bool {
	switch kind {
	case "boolean":
		return value == "0" || value == "1"
	case "integer":
		return isInteger(value)
	case "number":
		return isNumber(value)
	}
	return true
}

// isInteger is [+-]?digits, with Perl's leave for one newline at the end.
func isInteger(value string) bool {
	value = strings.TrimSuffix(value, "\n")
	if value != "" && (value[0] == '+' || value[0] == '-') {
		value = value[1:]
	}
	return digits(value) == len(value) && value != ""
}

// isNumber is a decimal number with optional sign, fraction and exponent.
func isNumber(value string) bool {
	value = strings.TrimSuffix(value, "\n")
	if value != "" && (value[0] == '+' || value[0] == '-') {
		value = value[1:]
	}
	whole := digits(value)
	value = value[whole:]
	fraction := 0
	if strings.HasPrefix(value, ".") {
		fraction = digits(value[1:])
		value = value[1+fraction:]
	}
	if whole+fraction == 0 {
		return false
	}
	if value != "" && (value[0] == 'e' || value[0] == 'E') {
		return isInteger(value[1:])
	}
	return value == ""
}

// digits counts the decimal digits that s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// perlTrue: in Perl the empty string and "0" are false.
func perlTrue(s string) bool { return s != "" && s != "0" }

func contains(list []string, value string) bool {
	for _, item := range list {
		if item == value {
			return true
		}
	}
	return false
}
