package release_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
)

var (
	version = regexp.MustCompile(`^\d+(\.\d+)+(-\d+)?$`)
	commit  = regexp.MustCompile(`\b[0-9a-f]{7,8}\b`)
)

// readProduct is the simulator's code without its tests.
func readProduct(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(filepath.Join("..", path))
		all.Write(code)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestNothingElseTellsReleasesApart: what differs between releases is a fact, never a comparison with a release's name.
func TestNothingElseTellsReleasesApart(t *testing.T) {
	compares := regexp.MustCompile(`(?i)(?:[^.]\bversion|\bs\.version|profile|release)\s*(?:[<>]=?|[!=]=)\s*"\d[^"]*"`)
	code := readProduct(t)
	if len(code) < 400_000 {
		t.Fatalf("%d bytes of code were read", len(code))
	}
	for _, found := range compares.FindAllString(code, -1) {
		t.Errorf("a release is compared by its name: %s", found)
	}
}

// simulatorsFacts are the simulator's, by name or place.
func simulatorsFacts(t *testing.T) map[string]release.Fact {
	t.Helper()
	facts := map[string]release.Fact{}
	code, err := os.ReadFile("../state/release_facts.go")
	if err != nil {
		t.Fatal(err)
	}
	field := func(text, name string) string {
		m := regexp.MustCompile(name + `: "([^"]*)"`).FindStringSubmatch(text)
		if m == nil {
			return ""
		}
		return m[1]
	}
	for _, m := range regexp.MustCompile(`(?m)^\s*(\w+)\s*= Fact\{([^}]*)\}$`).FindAllStringSubmatch(string(code), -1) {
		facts[m[1]] = release.Fact{
			Package: field(m[2], "Package"), Since: field(m[2], "Since"), Backport: field(m[2], "Backport"), Source: field(m[2],
				"Source"),
		}
	}
	if len(facts) != strings.Count(string(code), "Fact{") {
		t.Errorf("%d of the facts were read", len(facts))
	}
	for _, m := range regexp.MustCompile(`\bFact\{(Package: [^}]*)\}`).FindAllStringSubmatch(readProduct(t), -1) {
		facts[m[1]] = release.Fact{Package: field(m[1], "Package"), Since: field(m[1], "Since"),
			Source: field(m[1], "Source")}
	}
	rules, err := os.ReadFile("../schema/profiles.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		release.Fact
		Where []string `json:"where"`
	}
	if err := json.Unmarshal(rules, &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		facts[strings.Join(r.Where, ", ")] = r.Fact
	}
	return facts
}

// TestFactsNameTheirSource: whatever differs between releases says which package brought it, in which version, where in
// its source and by which commit.
func TestFactsNameTheirSource(t *testing.T) {
	facts := simulatorsFacts(t)
	for _, f := range providersFacts(t) {
		facts["the provider's "+f.name] = f.Fact
	}
	for name, f := range facts {
		if !version.MatchString(f.Since) || f.Backport != "" && !version.MatchString(f.Backport) ||
			!commit.MatchString(f.Source) {
			t.Errorf("%s: %+v", name, f)
		}
		if !version.MatchString(release.Package("8.4", f.Package)) {
			t.Errorf("%s: no release has package %q", name, f.Package)
		}
	}
}

// providersFact is a row of a table of the provider: what it says of a release, and by which source.
type providersFact struct {
	name, manager, release string // manager: the oldest pve-manager that may have it
	older                  string // that of an older line, to which it was backported; "" for none
	release.Fact
}

// providersFacts reads the tables of the provider that tell releases apart: the options of a VM, the restrictions of other
// attributes, and the capabilities of a node. The simulator shares no code with them.
func providersFacts(t *testing.T) []providersFact {
	t.Helper()
	const source = `"([\w-]+) ([\d.-]+): ([^"]*)"`
	var facts []providersFact
	for _, table := range []struct {
		folder string
		begin  *regexp.Regexp // of each row
		row    *regexp.Regexp // manager's three numbers, release, source
		named  bool           // the row begins with the name, and "manager" is a release of two numbers
		least  int            // rows
	}{
		{folder: "../../vm", least: 14, begin: regexp.MustCompile(`\bsince\(\d`),
			row: regexp.MustCompile(`()\bsince\((\d+), (\d+), (\d+), "([^"]*)",\s*` + source +
				`\)(?:, backported\((\d+), (\d+), (\d+)\))?`)},
		{folder: "../../resource/vm/planning", least: 3, begin: regexp.MustCompile(`Since\{Manager`),
			row: regexp.MustCompile(`()Since\{Manager: \[3\]int\{(\d+), (\d+), (\d+)\}, Release: "([^"]*)",\s*Source: ` +
				source + `\}`)},
		{folder: "../../datasource", least: 3, named: true, begin: regexp.MustCompile(`(?m)^\t+\{"\w+", \d+, \d+`),
			row: regexp.MustCompile(`\{"(\w+)", (\d+), (\d+)(), ("[^"]*"),\s+` + source + `\}`)},
	} {
		code := productCode(t, table.folder)
		found := table.row.FindAllStringSubmatch(code, -1)
		if rows := len(table.begin.FindAllString(code, -1)); len(found) != rows || rows < table.least {
			t.Errorf("%s: %d of %d rows were read", table.folder, len(found), rows)
		}
		for _, m := range found {
			f := providersFact{name: m[1], release: m[5], Fact: release.Fact{Package: m[6], Since: m[7], Source: m[8]}}
			if table.named {
				f.release = m[2] + "." + m[3]
			} else {
				f.name, f.manager = m[8], strings.Join(m[2:5], ".")
			}
			if len(m) > 9 && m[9] != "" {
				f.older = strings.Join(m[9:12], ".")
			}
			facts = append(facts, f)
		}
	}
	return facts
}

// productCode is the text of all product files below a folder.
func productCode(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestProvidersFacts: what the provider says of releases has a source, too, and is what the simulator knows by the same
// commit. A release that it names has it, and so may every one whose pve-manager it does not refuse.
func TestProvidersFacts(t *testing.T) {
	known := map[string]release.Fact{} // by commit
	for _, f := range simulatorsFacts(t) {
		for _, c := range commit.FindAllString(f.Source, -1) {
			known[c] = f
		}
	}
	shared := 0
	for _, f := range providersFacts(t) {
		fact := f.Fact
		if same, ok := known[commit.FindString(f.Source)]; ok {
			if shared++; same.Package != f.Package || same.Since != f.Since && same.Backport != f.Since {
				t.Errorf("%s: the simulator has %+v, the provider %+v", f.name, same, f.Fact)
			}
			fact = same
		}
		first := ""
		for _, v := range release.Versions() {
			has := fact.Has(v)
			if has && first == "" && release.Newer(v+".99", f.release) {
				first = v
			}
			manager := f.manager
			if line, _, _ := strings.Cut(f.older, "."); line != "" && strings.HasPrefix(v, line+".") {
				manager = f.older
			}
			if has && manager != "" && release.Newer(manager, release.Package(v, "pve-manager")) {
				t.Errorf("%s: %s has it, and the provider refuses it before pve-manager %s", f.name, v, manager)
			}
			if has && f.manager == "" && release.Newer(f.release, v+".99") {
				t.Errorf("%s: %s has it, and the provider says from %s on", f.name, v, f.release)
			}
		}
		if first == "" {
			t.Errorf("%s: no release from %s on has it", f.name, f.release)
		}
	}
	if shared < 15 {
		t.Errorf("%d facts are the simulator's, too", shared)
	}
}

func TestHas(t *testing.T) {
	for _, c := range []struct {
		fact release.Fact
		has  string
	}{
		{release.Fact{Package: "qemu-server", Since: "6.1-7"}, "7.4 8.0 8.2 8.4 9.0 9.2"},
		{release.Fact{Package: "qemu-server", Since: "8.0.8"}, "8.2 8.4 9.0 9.2"},
		{release.Fact{Package: "qemu-server", Since: "8.4.10"}, "8.4 9.0 9.2"},
		{release.Fact{Package: "qemu-server", Since: "8.4.11"}, "9.0 9.2"},
		{release.Fact{Package: "qemu-server", Since: "9.0.27", Backport: "8.4.6"}, "8.4 9.2"},
		{release.Fact{Package: "qemu-server", Since: "9.0.27", Backport: "8.4.11"}, "9.2"},
		{release.Fact{Package: "pve-manager", Since: "9.1.5", Backport: "8.4.17"}, "8.4 9.2"},
	} {
		var has []string
		for _, v := range release.Versions() {
			if c.fact.Has(v) {
				has = append(has, v)
			}
		}
		if got := strings.Join(has, " "); got != c.has {
			t.Errorf("%+v: %q, want %q", c.fact, got, c.has)
		}
	}
}

// TestPrivileges: a release has the privileges of its package, and no other.
func TestPrivileges(t *testing.T) {
	for version, want := range map[string]string{
		"8.0": "VM.Monitor", "8.2": "VM.Monitor Sys.AccessNetwork", "8.4": "VM.Monitor Sys.AccessNetwork",
		"9.0": "VM.Replicate VM.GuestAgent.Audit Sys.AccessNetwork", "9.2": "VM.Replicate VM.GuestAgent.Audit Sys.AccessNetwork",
	} {
		for _, name := range []string{"VM.Monitor", "VM.Replicate", "VM.GuestAgent.Audit", "Sys.AccessNetwork", "VM.Audit", "VM.Odd", ""} {
			has := name == "VM.Audit" || name != "" && strings.Contains(want, name)
			if release.HasPrivilege(version, name) != has || slices.Contains(release.Privileges(version), name) != has {
				t.Errorf("%s, %q: want %t", version, name, has)
			}
		}
	}
}
