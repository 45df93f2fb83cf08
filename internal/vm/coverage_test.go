package vm

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// parameter is what the schema facts say of a parameter: its sub-keys stand under the name of a format, or here.
type parameter struct {
	Format     string                     `json:"format"`
	Properties map[string]json.RawMessage `json:"properties"`
}

// laterVersions are parameters and sub-keys of PVE 9 that the recorded schema of 8.4 has not.
func laterVersions() []string {
	return []string{
		"agent.freeze-fs", "allow-ksm", "cpu.guest-phys-bits", "cpu.level", "efidisk0.ms-cert", "ha-managed", "hostpci[n].driver", "intel-tdx",
		"machine.aw-bits", "machine.enable-s3", "machine.enable-s4", "machine.viommu", "net[n].host-tunnel", "startup.order", "startup.up",
		"startup.down",
	}
}

func readJSON[V any](t *testing.T, path string) V {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v V
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// schemaNames are the parameters and sub-keys of both routes ("net[n]", "net[n].rate").
func schemaNames(t *testing.T) []string {
	t.Helper()
	routes := readJSON[struct {
		Params []parameter `json:"params"`
		Routes []struct {
			Method, Path string
			Params       map[string]int
		} `json:"routes"`
	}](t, "../pvesim/schema/routes.json")
	formats := readJSON[map[string]map[string]json.RawMessage](t, "../pvesim/schema/formats.json")
	names, found := map[string]bool{}, 0
	for _, route := range routes.Routes {
		switch route.Method + " " + route.Path {
		case "POST /nodes/{node}/qemu", "PUT /nodes/{node}/qemu/{vmid}/config", "POST /nodes/{node}/qemu/{vmid}/config":
			found++
		default:
			continue
		}
		for name, index := range route.Params {
			names[name] = true
			keys := routes.Params[index].Properties
			if keys == nil {
				keys = formats[routes.Params[index].Format]
			}
			for key := range keys {
				names[name+"."+key] = true
			}
		}
	}
	if found != 3 || len(names) < 300 {
		t.Fatalf("%d routes, %d names: the schema facts are not what they were", found, len(names))
	}
	for _, name := range laterVersions() {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// TestCoverage: every parameter and sub-key of the two routes that write a configuration is expressed, or excluded for a
// reason, and not both.
func TestCoverage(t *testing.T) {
	expressed, excluded := map[string]bool{}, Excluded()
	for _, name := range Options() {
		expressed[name] = true
	}
	names := schemaNames(t)
	counts := map[string]int{}
	reasons := map[string]int{}
	for _, name := range names {
		option, _, _ := strings.Cut(name, ".")
		reason, left := excluded[name]
		if whole, ok := excluded[option]; ok {
			reason, left = whole, true
		}
		switch {
		case left && expressed[name]:
			t.Errorf("%s is expressed and excluded", name)
		case left:
			counts["excluded"]++
			reasons[reason]++
		case expressed[name]:
			counts["expressed"]++
		default:
			t.Errorf("%s is neither expressed nor excluded", name)
		}
	}
	for name := range excluded {
		if !slices.Contains(names, name) {
			t.Errorf("%s is excluded and does not exist", name)
		}
		if excluded[name] == "" {
			t.Errorf("%s is excluded without a reason", name)
		}
	}
	t.Logf("total %d, expressed %d, excluded %d", len(names), counts["expressed"], counts["excluded"])
	for _, name := range slices.Sorted(maps.Keys(excluded)) {
		t.Logf("excluded: %-24s %s", name, excluded[name])
	}
	share := 100 * float64(counts["expressed"]) / float64(len(names)-counts["excluded"])
	t.Logf("expressed of what is not excluded: %.1f %%; of everything: %.1f %%", share, 100*float64(counts["expressed"])/float64(len(names)))
	if share < 97 {
		t.Errorf("%.1f %% are expressed, want 97 %%", share)
	}
	for _, name := range RootOnly() {
		if !expressed[name] {
			t.Errorf("%s is for root only and not expressed", name)
		}
	}
}

// TestCoverageIsTrue: what Options lists is really read and printed, and does not end in Rest.
func TestCoverageIsTrue(t *testing.T) {
	invented := []string{}
	names := schemaNames(t)
	for _, name := range Options() {
		if !slices.Contains(names, name) && !strings.HasPrefix(name, "intel-tdx.") {
			invented = append(invented, name)
		}
	}
	if len(invented) > 0 {
		t.Errorf("expressed and unknown to PVE: %v", invented)
	}
}

func TestHasKey(t *testing.T) {
	for slot, want := range map[string]bool{"scsi0": true, "sata5": true, "ide1": true, "virtio0": false, "net0": false, "scsi31": false} {
		if HasKey(slot, "ssd") != want {
			t.Errorf("%s: %t", slot, !want)
		}
	}
	if !HasKey("virtio0", "iops_max") || HasKey("scsi0", "bps") {
		t.Error("iops_max, bps")
	}
}

// TestExcludedIsDocumented: the table in docs/design/values.md is the table of the code.
func TestExcludedIsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/design/values.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "## What is left out")
	rows := map[string]bool{}
	for name, reason := range Excluded() {
		row := "| `" + name + "` | " + reason + " |"
		if slot, key, isKey := strings.Cut(name, "."); isKey && strings.HasSuffix(slot, "[n]") {
			row = "| `" + key + "` of disks | " + reason + " |"
		}
		rows[row] = true
		if !strings.Contains(table, row+"\n") {
			t.Errorf("not in the table: %s", row)
		}
	}
	if listed := strings.Count(table, "\n| `"); listed != len(rows) {
		t.Errorf("the table has %d rows, the code %d", listed, len(rows))
	}
}
