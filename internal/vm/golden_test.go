package vm

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// readLines decodes a file of JSON lines.
func readLines[V []string | map[string]string](t *testing.T, path string) []V {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []V
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var v V
		if err := json.Unmarshal(scan.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, v)
	}
	return out
}

// TestValuesMeanTheSame: what was sent to a PVE 8.4 and what it stored decode to the same Spec. A row is [option, sent,
// stored].
func TestValuesMeanTheSame(t *testing.T) {
	rows := readLines[[]string](t, "testdata/values.jsonl")
	if len(rows) < 440 {
		t.Fatalf("only %d rows", len(rows))
	}
	excluded := excludedOptions()
	for _, row := range rows {
		option, sent, stored := row[0], row[1], row[2]
		from, to := Decode(map[string]string{option: sent}), Decode(map[string]string{option: stored})
		if _, raw := to.Rest[option]; raw {
			if _, meant := excluded[option]; !meant && option+"="+sent != "boot=cdn" {
				t.Errorf("%s=%q cannot be read", option, stored)
			}
			if sent != stored {
				t.Errorf("%s=%q is stored as %q, which Decode cannot read", option, sent, stored)
			}
			continue
		}
		if c := Diff(to, from); !c.Empty() && !strings.Contains(sent, ",bps") {
			t.Errorf("%s: %q is wanted, %q is there: %+v", option, sent, stored, c)
		}
		switch {
		case option == "cpuunits" && sent == "1": // PVE raises it to its minimum of 2
			from.CPU.Units = new(int64(2))
		case strings.Contains(sent, ",bps"): // PVE's conversion to mbps loses the value
			continue
		case option == "net0" && from.Networks[option].MACAddr == nil: // PVE makes one
			n := from.Networks[option]
			n.MACAddr = to.Networks[option].MACAddr
			from.Networks[option] = n
		case option == "tags" && from.Tags != nil: // PVE lower-cases them, unless the datacenter's tag style says otherwise
			from.Tags = lowerTags(from.Tags)
		case option == "vmgenid" && sent == "1": // PVE makes one
			from.VMGenID = to.VMGenID
		}
		for slot, d := range from.Disks { // PVE adds the size
			if d.Size == nil {
				d.Size = to.Disks[slot].Size
				from.Disks[slot] = d
			}
		}
		if d := cmp.Diff(to, from); d != "" {
			t.Errorf("%s: %q was stored as %q (-stored +sent):\n%s", option, sent, stored, d)
		}
		if c := Diff(from, to); !c.Empty() {
			t.Errorf("%s: %q against %q: %+v", option, sent, stored, c)
		}
		canonical := strings.HasPrefix(option, "net0") || len(to.Disks) > 0
		if printed := Encode(to)[option]; canonical && printed != stored {
			t.Errorf("%s: stored as %q, printed as %q", option, stored, printed)
		}
	}
}

// TestConfigsSurvive: whole configurations of a real node decode completely and print as they were, but for the password.
func TestConfigsSurvive(t *testing.T) {
	configs := readLines[map[string]string](t, "testdata/configs.jsonl")
	if len(configs) < 20 {
		t.Fatalf("only %d configurations", len(configs))
	}
	for _, config := range configs {
		s := Decode(config)
		for key := range s.Rest {
			_, isDrive := slotRank(key)
			if isDrive || key != "digest" && key != "meta" && key != "lock" && !strings.HasPrefix(key, "unused") &&
				!strings.HasPrefix(key, "snap") && key != "parent" {
				t.Errorf("%s=%q could not be read", key, config[key])
			}
		}
		delete(config, passwordOption)
		if tags, ok := config["tags"]; ok { // a create stores them as sent
			config["tags"] = property.ShowTags([]string{tags})
		}
		if ip, ok := config["ipconfig0"]; ok { // stored in the order it was sent in
			properties, _ := property.Parse(ip, "")
			config["ipconfig0"] = property.Print(properties, "")
		}
		if d := cmp.Diff(config, Encode(s)); d != "" {
			t.Errorf("-stored +printed:\n%s", d)
		}
		if UUID(config) == "" || CTime(config) == "" {
			t.Errorf("no uuid or ctime in %v", config)
		}
		for _, slot := range Slots(config) {
			if slot == "" || config[slot] == "" {
				t.Errorf("slot %q of %v", slot, config)
			}
		}
	}
}
