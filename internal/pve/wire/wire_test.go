package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestFlexTypes(t *testing.T) {
	for _, tt := range []struct {
		json  string
		text  string
		whole int64
		float float64
		yes   bool
		fails string // letters of the types that must refuse: i f b
	}{
		{`"7"`, "7", 7, 7, true, ""},
		{`7`, "7", 7, 7, true, ""},
		{`0`, "0", 0, 0, false, ""},
		{`"0"`, "0", 0, 0, false, ""},
		{`1`, "1", 1, 1, true, ""},
		{`true`, "1", 1, 1, true, ""},
		{`false`, "0", 0, 0, false, ""},
		{`null`, "", 0, 0, false, ""},
		{`""`, "", 0, 0, false, ""},
		{`"yes"`, "yes", 0, 0, true, "if"},
		{`"Off"`, "Off", 0, 0, false, "if"},
		{`1.5`, "1.5", 1, 1.5, true, ""},
		{`"2300.000"`, "2300.000", 2300, 2300, true, ""},
		{`2.5e3`, "2500", 2500, 2500, true, ""},
		{`1E+18`, "1000000000000000000", 1e18, 1e18, true, ""},
		{`7.09e-05`, "0.0000709", 0, 7.09e-05, true, ""},
		{`9007199254740993`, "9007199254740993", 9007199254740993, 9007199254740993, true, ""},
		{`"x"`, "x", 0, 0, false, "ifb"},
		{`1e40`, "10000000000000000000000000000000000000000", 0, 1e40, true, "i"},
		{`"NaN"`, "NaN", 0, math.NaN(), true, "i"},
	} {
		var s String
		var i Int
		var f Float
		var b Bool
		if err := json.Unmarshal([]byte(tt.json), &s); err != nil || string(s) != tt.text {
			t.Errorf("string of %s: %q, %v", tt.json, s, err)
		}
		check := func(letter string, err error, ok bool) {
			t.Helper()
			wantFail := false
			for _, l := range tt.fails {
				wantFail = wantFail || string(l) == letter
			}
			if (err != nil) != wantFail || err == nil && !ok {
				t.Errorf("%s of %s: %d %v %v, %v", letter, tt.json, i, f, b, err)
			}
		}
		check("i", json.Unmarshal([]byte(tt.json), &i), int64(i) == tt.whole)
		check("f", json.Unmarshal([]byte(tt.json), &f), float64(f) == tt.float || math.IsNaN(tt.float) && math.IsNaN(float64(f)))
		check("b", json.Unmarshal([]byte(tt.json), &b), bool(b) == tt.yes)
	}
	for _, nested := range []string{`{}`, `[1]`} {
		var s String
		if json.Unmarshal([]byte(nested), &s) == nil {
			t.Errorf("%s was taken as a string", nested)
		}
	}
}

// Perl may print a number in either form; both mean the same.
func TestFlexIntProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64().Draw(t, "n")
		text := strconv.FormatInt(want, 10)
		for _, form := range []string{text, strconv.Quote(text)} {
			var i Int
			var s String
			if err := json.Unmarshal([]byte(form), &i); err != nil || int64(i) != want {
				t.Fatalf("%s: %d, %v", form, i, err)
			}
			if err := json.Unmarshal([]byte(form), &s); err != nil || string(s) != text {
				t.Fatalf("%s: %s, %v", form, s, err)
			}
		}
	})
}

// TestTextReadsStringsLikeTheParser: of whatever stands between quotes, escapes, control characters and broken UTF-8 included, a text
// is what the JSON parser makes of it.
func TestTextReadsStringsLikeTheParser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		within := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("aä\"\\\nu0041 ")), 0, 12, -1),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) })).Draw(t, "within")
		raw := []byte(`"` + within + rapid.SampledFrom([]string{`"`, ``, `" `, `"x`}).Draw(t, "end"))
		var want string
		failed := json.Unmarshal(raw, &want)
		if got, err := Text(raw); (err != nil) != (failed != nil) || got != want {
			t.Errorf("%q: %q, %v, want %q, %v", raw, got, err, want, failed)
		}
	})
}
