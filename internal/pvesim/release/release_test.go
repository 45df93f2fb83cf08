package release_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
)

var (
	version = regexp.MustCompile(`^\d+(\.\d+)+(-\d+)?$`)
	commit  = regexp.MustCompile(`\b[0-9a-f]{7,8}\b`)
)

// TestFactsNameTheirSource: whatever differs between releases says which package brought it, in which version, where in its source
// and by which commit.
func TestFactsNameTheirSource(t *testing.T) {
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
			Package: field(m[2], "Package"), Since: field(m[2], "Since"), Backport: field(m[2], "Backport"), Source: field(m[2], "Source"),
		}
	}
	if len(facts) != strings.Count(string(code), "Fact{") {
		t.Errorf("%d of the facts were read", len(facts))
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
	for name, f := range facts {
		if !version.MatchString(f.Since) || f.Backport != "" && !version.MatchString(f.Backport) || !commit.MatchString(f.Source) {
			t.Errorf("%s: %+v", name, f)
		}
		if !version.MatchString(release.Package("8.4", f.Package)) {
			t.Errorf("%s: no release has package %q", name, f.Package)
		}
	}
}

func TestHas(t *testing.T) {
	for _, c := range []struct {
		fact release.Fact
		has  string
	}{
		{release.Fact{Package: "qemu-server", Since: "6.1-7"}, "7.4 8.0 8.4 9.0 9.2"},
		{release.Fact{Package: "qemu-server", Since: "8.0.8"}, "8.4 9.0 9.2"},
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
