package property

import "testing"

// TestPrint: a property string is printed so that it is read as it was, whatever stands without its key.
func TestPrint(t *testing.T) {
	for want, properties := range map[string]map[string]string{
		"":                        nil,
		"local:x,cache=none,ro=1": {"file": "local:x", "ro": "1", "cache": "none"},
		"cache=none":              {"cache": "none"},
		"file=a=b,ro=1":           {"file": "a=b", "ro": "1"},
		"file= ,ro=1":             {"file": " ", "ro": "1"},
		"file=\t":                 {"file": "\t"},
		"local:name with space ":  {"file": "local:name with space "},
	} {
		if printed := Print(properties, "file"); printed != want {
			t.Errorf("%v is printed as %q, want %q", properties, printed, want)
		}
		again, ok := Parse(want, "file")
		if !ok || len(again) != len(properties) {
			t.Errorf("%q is read as %v", want, again)
		}
		for key, value := range properties {
			if again[key] != value {
				t.Errorf("%q is read as %v", want, again)
			}
		}
	}
	if printed := Print(map[string]string{"file": "x", "": "y"}, ""); printed != "=y,file=x" {
		t.Errorf("without a default key: %q", printed)
	}
}
