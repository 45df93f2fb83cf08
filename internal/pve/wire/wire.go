// Package wire decodes the JSON of Proxmox VE, in which Perl's values have no fixed types.
package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Perl has no types, so PVE's JSON may carry a number as a string and the reverse, and a boolean as 0, 1, "0", "1",
// true or not at all. These types take all of them; they are used for decoding only.
type (
	// String is a text.
	String string
	// Int is an integer.
	Int int64
	// Float is a number.
	Float float64
	// Bool is a truth value.
	Bool bool
)

// Text is a JSON scalar as PVE would print it: numbers without exponent, booleans as 1 and 0, null as "".
func Text(b []byte) (string, error) {
	text := strings.TrimSpace(string(b))
	switch {
	case text == "null" || text == "":
		return "", nil
	case text == "true":
		return "1", nil
	case text == "false":
		return "0", nil
	case text[0] == '"':
		if within, ok := plain(text); ok {
			return within, nil
		}
		var s string
		err := json.Unmarshal(b, &s)
		return s, err
	case text[0] == '{' || text[0] == '[':
		return "", fmt.Errorf("a %.20q… where a single value belongs", text)
	}
	if !strings.ContainsAny(text, "eE") {
		return text, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", err
	}
	return strconv.FormatFloat(f, 'f', -1, 64), nil
}

// plain is what stands between the quotes of a JSON string that spells all its characters as they are. Nearly every
// text of PVE does, and a parser takes ten times as long.
func plain(text string) (within string, ok bool) {
	end := len(text) - 1
	if end < 1 || text[end] != '"' {
		return "", false
	}
	within = text[1:end]
	for i := range len(within) {
		if c := within[i]; c < ' ' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return within, utf8.ValidString(within)
}

// UnmarshalJSON takes any scalar.
func (f *String) UnmarshalJSON(b []byte) error {
	s, err := Text(b)
	*f = String(s)
	return err
}

// UnmarshalJSON takes numbers, numbers in strings, booleans, "" and null; fractions are cut off.
func (v *Int) UnmarshalJSON(b []byte) error {
	s, err := Text(b)
	if err != nil {
		return err
	}
	if s = strings.TrimSpace(s); s == "" {
		*v = 0
		return nil
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		*v = Int(i)
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) > math.MaxInt64/2 {
		return fmt.Errorf("%.40q is not a whole number", s)
	}
	*v = Int(f)
	return nil
}

// UnmarshalJSON takes numbers, numbers in strings, "" and null.
func (v *Float) UnmarshalJSON(b []byte) error {
	s, err := Text(b)
	if err != nil {
		return err
	}
	if s = strings.TrimSpace(s); s == "" {
		*v = 0
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fmt.Errorf("%.40q is not a number", s)
	}
	*v = Float(f)
	return nil
}

// UnmarshalJSON takes everything that PVE's own parse_boolean takes (pve-common JSONSchema.pm), and numbers: all but
// 0 is true.
func (v *Bool) UnmarshalJSON(b []byte) error {
	s, err := Text(b)
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "0", "no", "off", "false":
		*v = false
		return nil
	case "1", "yes", "on", "true":
		*v = true
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fmt.Errorf("%.40q is not a boolean", s)
	}
	*v = f != 0
	return nil
}
