package schema_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
)

// request is a recorded call: errors is PVE's errors{}, unknown a 501.
type request struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Params  map[string]string `json:"params"`
	Errors  map[string]string `json:"errors"`
	Unknown bool              `json:"unknown"`
}

// value is one option value sent to PUT config of a stopped VM. error is PVE's errors{option}; stored is what GET config
// showed afterwards.
type value struct {
	Option string  `json:"option"`
	Sent   string  `json:"sent"`
	Error  string  `json:"error"`
	Stored *string `json:"stored"`
}

// rows reads one JSON value a line.
func rows[T any](t testing.TB, name string) []T {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	for scan := bufio.NewScanner(bytes.NewReader(raw)); scan.Scan(); {
		var row T
		if err := json.Unmarshal(scan.Bytes(), &row); err != nil {
			t.Fatalf("%s: %q: %v", name, scan.Text(), err)
		}
		out = append(out, row)
	}
	return out
}

// fromCode reports whether the text of a parameter error comes from the code behind the schema, which raises parameter
// errors as well: those requests are right for the schema.
func fromCode(text string) bool {
	for _, known := range []string{
		"VM 100 already exists", "VM 310 already exists", "unknown option 'foo'", "you can't use '-memory'", "Only root may",
		"'import-from' requires special syntax", "has wrong type 'iso'", "hotplug problem - ", "no such task",
		"unable to parse worker upid", "Token already exists.", "No such storage.",
	} {
		if strings.Contains(text, known) {
			return true
		}
	}
	return false
}

func TestRecordedRequests(t *testing.T) {
	set := schema.Load()
	refused, unknown := 0, 0
	for _, r := range rows[request](t, "testdata/requests.jsonl") {
		route, vars, known := set.Route(r.Method, r.Path)
		if known == r.Unknown {
			t.Errorf("%s %s: known = %v", r.Method, r.Path, known)
		}
		if !known {
			unknown++
			continue
		}
		want := map[string]string{}
		for param, text := range r.Errors {
			if !fromCode(text) {
				want[param] = text
				refused++
			}
		}
		got := route.Validate(r.Params, vars)
		if len(want) == 0 && got == nil {
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s %v: errors (-PVE +ours):\n%s", r.Method, r.Path, r.Params, diff)
		}
	}
	if refused < 20 || unknown < 4 {
		t.Errorf("only %d refused parameters and %d unknown routes: the records are not all there", refused, unknown)
	}
}

const unparsable = "unable to parse drive options"

func TestRecordedValues(t *testing.T) {
	set := schema.Load()
	route, vars, known := set.Route("PUT", "/nodes/pve1/qemu/800/config")
	if !known {
		t.Fatal("no route for PUT config")
	}
	refused, accepted, drives := 0, 0, 0
	for _, v := range rows[value](t, "testdata/values.jsonl") {
		errs := route.Validate(map[string]string{v.Option: v.Sent}, vars)
		if v.Error == "" || v.Error == unparsable {
			accepted++
			if errs != nil {
				t.Errorf("%s=%q: PVE's schema accepts it, ours says %q", v.Option, v.Sent, errs)
			}
		} else {
			refused++
			if diff := cmp.Diff(map[string]string{v.Option: v.Error}, errs); diff != "" {
				t.Errorf("%s=%q: errors (-PVE +ours):\n%s", v.Option, v.Sent, diff)
			}
			continue
		}
		if base, _, _ := schema.OptionIndex(v.Option); strings.Contains("ide sata scsi virtio", base) && base != "" {
			drives++
			_, err := set.ParseDrive(v.Option, v.Sent)
			if (err != nil) != (v.Error == unparsable) {
				t.Errorf("ParseDrive(%s, %q) = %v, PVE said %q", v.Option, v.Sent, err, v.Error)
			}
		}
	}
	if refused < 140 || accepted < 500 || drives < 300 {
		t.Errorf("only %d refused, %d accepted, %d drives: the records are not all there", refused, accepted, drives)
	}
}

// TestRecordedPrint: drives and networks are stored as Print writes them. PVE knows the size of the disk, and makes up
// a MAC where none was sent, so these two are put in first.
func TestRecordedPrint(t *testing.T) {
	set := schema.Load()
	printed := 0
	for _, v := range rows[value](t, "testdata/values.jsonl") {
		base, _, _ := schema.OptionIndex(v.Option)
		if v.Stored == nil || !strings.Contains("ide sata scsi virtio net", base) || base == "" {
			continue
		}
		format, ok := set.Format(v.Option)
		if !ok {
			t.Fatalf("no format for %s", v.Option)
		}
		var parsed map[string]string
		var err error
		if base == "net" {
			if parsed, err = format.Parse(v.Sent); err == nil && parsed["macaddr"] == "" {
				continue
			}
		} else if parsed, err = set.ParseDrive(v.Option, v.Sent); err == nil {
			parsed["size"] = "1073741824"
		}
		if err != nil {
			t.Errorf("%s=%q: %v", v.Option, v.Sent, err)
			continue
		}
		printed++
		if got := format.Print(parsed); got != *v.Stored {
			t.Errorf("%s=%q: printed %q, PVE stored %q", v.Option, v.Sent, got, *v.Stored)
		}
	}
	if printed < 250 {
		t.Errorf("only %d values printed: the records are not all there", printed)
	}
}
