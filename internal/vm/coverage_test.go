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

// laterVersions are sub-keys of PVE 9, and a parameter of one route, that neither the recorded schema of 8.4 has nor a row "vm:" of the
// simulator's profiles.json.
func laterVersions() []string {
	return []string{
		"agent.guest-fsfreeze", "cpu.guest-phys-bits", "cpu.level", "ha-managed", "hostpci[n].driver", "startup.order", "startup.up",
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

// schemaNames are the parameters and sub-keys of both routes ("net[n]", "net[n].rate"), in every version of PVE.
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
	for _, fact := range readJSON[[]struct {
		Where []string
		Rule  parameter
	}](t, "../pvesim/schema/profiles.json") {
		for _, where := range fact.Where {
			if name, ok := strings.CutPrefix(where, "vm:"); ok {
				names[name] = true
				for key := range fact.Rule.Properties {
					names[name+"."+key] = true
				}
			}
		}
	}
	for _, name := range laterVersions() {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// tally is a count of names.
type tally struct{ total, expressed int }

func (t *tally) add(expressed bool) {
	t.total++
	if expressed {
		t.expressed++
	}
}

func (t *tally) share() float64 { return 100 * float64(t.expressed) / float64(t.total) }

// once is a name without its bus: the buses of disks share their sub-keys.
func once(name string) string {
	for _, b := range buses() {
		if rest, ok := strings.CutPrefix(name, b.name+"[n]"); ok {
			return "drive[n]" + rest
		}
	}
	return name
}

// TestCoverage: every parameter and sub-key of the two routes that write a configuration is expressed, an alias of one that
// is, an argument of the request, or excluded for a reason, and only one of these. The share that counts is that of the
// options of a VM: each counted once, under one name and for one bus. The other counts are printed beside it.
func TestCoverage(t *testing.T) {
	expressed, excluded, arguments, aliases, recorded := map[string]bool{}, excludedOptions(), requestArguments(), aliasNames(),
		recordedOptions()
	for _, name := range expressedOptions() {
		expressed[name] = true
	}
	var raw, everything, options tally
	counted := map[string]bool{}
	for _, name := range schemaNames(t) {
		option, _, _ := strings.Cut(name, ".")
		_, left := excluded[name]
		_, whole := excluded[option]
		argument, isArgument := arguments[name]
		target, isAlias := aliases[name]
		reached := expressed[name] || expressed[target] || argument.Attribute != "" || recorded[name] != "" || recorded[target] != ""
		switch left = left || whole; {
		case left && reached, left && isArgument, isArgument && expressed[name], isArgument && isAlias:
			t.Errorf("%s is in two of the tables", name)
		case !left && !isArgument && !reached:
			t.Errorf("%s is neither expressed nor excluded", name)
		}
		raw.add(reached)
		if counted[once(name)] || isAlias {
			continue
		}
		counted[once(name)] = true
		everything.add(reached)
		if !isArgument {
			options.add(reached)
		}
		switch {
		case left:
			reason := excluded[name]
			if whole {
				reason = excluded[option]
			}
			t.Logf("excluded: %-22s %s", once(name), reason)
		case isArgument && !reached:
			t.Logf("argument: %-22s %s", name, argument.Use)
		case recorded[name] != "":
			t.Logf("recorded: %-22s is the computed attribute %s", name, recorded[name])
		case isArgument:
			t.Logf("argument: %-22s is the attribute %s", name, argument.Attribute)
		}
	}
	for _, count := range []struct {
		what string
		of   tally
	}{
		{"parameters and sub-keys, each for every bus, with aliases and arguments of the request", raw},
		{"the same, each once", everything},
		{"options of a VM and their sub-keys, each once", options},
	} {
		t.Logf("%s: total %d, expressed %d, not expressed %d, %.1f %%", count.what, count.of.total, count.of.expressed,
			count.of.total-count.of.expressed, count.of.share())
	}
	if options.share() < 97 {
		t.Errorf("%.1f %% of the options are expressed, want 97 %%", options.share())
	}
}

// TestCoverageTables: the tables name only what PVE has, with reasons.
func TestCoverageTables(t *testing.T) {
	names := schemaNames(t)
	check := func(name, text string) {
		if !slices.Contains(names, name) {
			t.Errorf("%s is in a table and does not exist", name)
		}
		if text == "" {
			t.Errorf("%s has no reason", name)
		}
	}
	for name, reason := range excludedOptions() {
		check(name, reason)
	}
	for name, argument := range requestArguments() {
		check(name, argument.Use)
	}
	for name, attribute := range recordedOptions() {
		check(name, attribute)
	}
	for name, target := range aliasNames() {
		check(name, target)
		check(target, target)
	}
}

// TestCoverageIsTrue: what is listed as expressed exists, and testdata/options.txt, from which the tests of other packages
// know it, lists the same. UPDATE=1 writes that file.
func TestCoverageIsTrue(t *testing.T) {
	invented := []string{}
	names := schemaNames(t)
	for _, name := range expressedOptions() {
		if !slices.Contains(names, name) {
			invented = append(invented, name)
		}
	}
	if len(invented) > 0 {
		t.Errorf("expressed and unknown to PVE: %v", invented)
	}
	const list = "testdata/options.txt"
	text := strings.Join(expressedOptions(), "\n") + "\n"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if listed, err := os.ReadFile(list); err != nil || string(listed) != text {
		t.Errorf("%s does not list what the tables express (%v): run UPDATE=1 go test ./internal/vm -run Coverage", list, err)
	}
}

func TestHasKey(t *testing.T) {
	for slot, want := range map[string]bool{"scsi0": true, "sata5": true, "ide1": true, "virtio0": false, "net0": false, "scsi31": false} {
		if hasKey(slot, "ssd") != want {
			t.Errorf("%s: %t", slot, !want)
		}
	}
	if !hasKey("virtio0", "iops_max") || hasKey("scsi0", "bps") {
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
	for name, reason := range excludedOptions() {
		row := "| `" + name + "` | " + reason + " |"
		if slot, key, isKey := strings.Cut(name, "."); isKey && strings.HasSuffix(slot, "[n]") {
			row = "| `" + key + "` of disks | " + reason + " |"
		}
		rows[row] = true
	}
	for name, argument := range requestArguments() {
		attribute := "none"
		if argument.Attribute != "" {
			attribute = "`" + argument.Attribute + "`"
		}
		rows["| `"+name+"` | "+attribute+" | "+argument.Use+" |"] = true
	}
	rows["| `unused[n]` | `"+recordedOptions()["unused[n]"]+"` | volumes that PVE detached: the record of what happened, to be read |"] = true
	for row := range rows {
		if !strings.Contains(table, row+"\n") {
			t.Errorf("not in the table: %s", row)
		}
	}
	if listed := strings.Count(table, "\n| `"); listed != len(rows) {
		t.Errorf("the table has %d rows, the code %d", listed, len(rows))
	}
}
