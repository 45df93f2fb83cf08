// Package internal_test holds the project to its architecture: who may import whom, how long a file and a function may
// get, and what no package may have. It parses the sources itself; a test that shells out to the go command is given
// cached answers.
package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/terraform-proxmox/terraform-provider-proxmox"

// layers are the packages of the provider, outermost first. A package may import those of later rows, never those of its
// own row or of earlier ones. "." is main.
var layers = [][]string{
	{"."},
	{"internal/provider", "internal/otlp"},
	{"internal/tfvm", "internal/tfimage", "internal/tfcloudinit", "internal/tfsnippet", "internal/tfsnapshot", "internal/tfdisk", "internal/tfnode", "internal/tfdata", "internal/tffunction", "internal/tfaction", "internal/fastpath", "internal/tfaccount"},
	{"internal/tfvm/vmschema"},
	{"internal/tfkit", "internal/tfplan"},
	{"internal/provision"},
	{"internal/disk"},
	{"internal/create", "internal/change", "internal/preflight", "internal/orphan", "internal/snapshot", "internal/power", "internal/image", "internal/snippet"},
	{"internal/remove", "internal/source"},
	{"internal/guest", "internal/remove/usage"},
	{"internal/guest/agent", "internal/job"},
	{"internal/tx", "internal/vm", "internal/pve", "internal/host", "internal/tfvalue", "internal/foreign", "internal/nocloud"},
	{"internal/account"},
}

// others are the packages beside the layers, and what each may import. The simulator imports nothing of the provider:
// the oracle shares no code with the accused.
var others = map[string][]string{
	"internal": {},
	"internal/pvesim": {"internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/handle", "internal/pvesim/schema", "internal/pvesim/sshd",
		"internal/pvesim/state", "internal/pvesim/stranger"},
	"internal/pvesim/clock": {},
	"internal/pvesim/fault": {},
	"internal/pvesim/handle": {"internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/schema", "internal/pvesim/state",
		"internal/pvesim/stranger"},
	"internal/pvesim/capture":  {"internal/pvesim/release", "internal/pvesim/state"},
	"internal/pvesim/release":  {},
	"internal/pvesim/schema":   {"internal/pvesim/release"},
	"internal/pvesim/sshd":     {"internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/handle", "internal/pvesim/state"},
	"internal/pvesim/state":    {"internal/pvesim/release"},
	"internal/pvesim/stranger": {"internal/pvesim/fault"},
	"internal/drive":           {},
	"internal/acctest/lab":     {"internal/drive"}, // no simulator: its cases are about any cluster
	"internal/acctest": {"internal/acctest/lab", "internal/drive", "internal/provider", "internal/fastpath", "internal/tfvm", "internal/provision", "internal/create",
		"internal/change", "internal/remove", "internal/source", "internal/guest", "internal/job", "internal/tx", "internal/vm", "internal/pve", "internal/host", "internal/nocloud", "internal/otlp", "internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state", "internal/pvesim/stranger"},
	"internal/cmd/pvesim": {"internal/pvesim", "internal/pvesim/capture", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state"},
	"internal/cmd/sbom":   {},
	"internal/cmd/schema": {"internal/provider"},
	"internal/cmd/bench":  {"internal/pvesim", "internal/pvesim/clock", "internal/pvesim/state"},
	"internal/cmd/demo":   {"internal/acctest", "internal/drive", "internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state"},
}

// testEdges are imports that only the tests of a package may have.
var testEdges = map[string][]string{
	"internal/create":         simulator(),
	"internal/remove":         simulator(),
	"internal/remove/usage":   simulator(),
	"internal/change":         simulator(),
	"internal/preflight":      simulator(),
	"internal/orphan":         simulator(),
	"internal/snapshot":       simulator(),
	"internal/image":          simulator(),
	"internal/tfdata":         simulator(),
	"internal/guest":          simulator(),
	"internal/guest/agent":    simulator(),
	"internal/job":            simulator(),
	"internal/pvesim/sshd":    {"internal/pvesim/schema"},
	"internal/pvesim/capture": simulator(),
	"internal/acctest":        {"internal/pvesim/capture"},
}

func simulator() []string {
	return []string{"internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state", "internal/pvesim/stranger"}
}

// modules are the modules of others that are used, and the packages that may. "tests" stands for the tests of every
// package, "x tests" for those of x, "tf*" for the packages of Terraform: main, provider, tf<noun>, tfkit, drive, acctest,
// cmd/schema.
var modules = map[string][]string{
	"golang.org/x/crypto/ssh":                {"internal/host", "internal/pvesim/sshd"},
	"github.com/pkg/sftp":                    {"internal/host", "internal/pvesim/sshd"},
	"go.opentelemetry.io/otel":               {"internal/otlp"},
	"go.opentelemetry.io/proto/otlp":         {"internal/otlp tests", "internal/acctest tests"}, // reads what was sent
	"google.golang.org/protobuf":             {"internal/otlp tests", "internal/acctest tests"},
	"google.golang.org/grpc":                 {"internal/pvesim", "internal/acctest"}, // a network in memory, test/bufconn
	"github.com/hashicorp/terraform-plugin-": {"tf*", "internal/fastpath"},
	"github.com/hashicorp/hcl/v2":            {"internal/drive", "internal/acctest tests"},
	"github.com/zclconf/go-cty":              {"internal/drive", "internal/acctest tests"},
	"github.com/hashicorp/go-plugin":         {"internal/drive tests"}, // what a CLI attaches to
	"github.com/hashicorp/go-hclog":          {"internal/drive tests"},
	"github.com/hashicorp/hc-install":        {"internal/cmd/demo"},
	"go.yaml.in/yaml/v3":                     {"internal/pvesim/state", "internal/nocloud", "internal/acctest tests"}, // the YAML library that is still maintained
	"github.com/kdomanski/iso9660":           {"internal/nocloud tests"},                                              // reads what we write
	"github.com/google/go-cmp":               {"tests", "internal/acctest"},
	"pgregory.net/rapid":                     {"tests"},
	"go.uber.org/goleak":                     {"tests"},
}

// anyAllowed are files in which the empty interface cannot be avoided, and why.
var anyAllowed = map[string]string{
	"internal/tfkit/trace.go": "terraform-plugin-log takes its fields as map[string]any",
}

// The hard limits, in lines.
const (
	maxFile           = 400
	maxTestFile       = 600
	maxFunction       = 80
	maxSchemaFunction = 120
	maxTestFunction   = 120
)

// maxFiles is how many files of product code a package has: more than one can keep in mind want a seam. PVE's API, a VM's options and
// the attributes of proxmox_vm are wide by nature, with files that know nothing of each other.
const maxFiles = 20

func isWide(pkg string) bool {
	return slices.Contains([]string{"internal/pve", "internal/vm", "internal/tfvm"}, pkg)
}

// source is one parsed file.
type source struct {
	path      string // relative to the top: "internal/vm/spec.go"
	pkg       string // its directory: "internal/vm"
	test      bool
	generated bool
	lines     int
	file      *ast.File
}

// tree is the whole module.
type tree struct {
	fset  *token.FileSet
	files []source
}

func load(t *testing.T) tree {
	t.Helper()
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	m := tree{fset: token.NewFileSet()}
	err = filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			_, other := os.Stat(filepath.Join(name, "go.mod"))
			hidden := strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_")
			if rel != "." && (hidden || entry.Name() == "testdata" || other == nil) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(m.fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		m.files = append(m.files, source{path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"),
			generated: ast.IsGenerated(file), lines: strings.Count(string(text), "\n"), file: file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.files) < 10 {
		t.Fatalf("only %d files found below %s", len(m.files), top)
	}
	return m
}

// support reports whether a package is there for tests only, so that the rules for product code do not hold.
func support(pkg string) bool {
	return within(pkg, "internal/pvesim") || within(pkg, "internal/acctest") || pkg == "internal/drive" || within(pkg, "internal/cmd")
}

func within(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }

// terraform reports whether a package belongs to the layers that know Terraform.
func terraform(pkg string) bool {
	return pkg == "." || pkg == "internal/provider" || pkg == "internal/drive" || pkg == "internal/acctest" ||
		strings.HasPrefix(pkg, "internal/tf") || pkg == "internal/cmd/schema"
}

// layer gives the row of a package in layers, or -1.
func layer(pkg string) int {
	return slices.IndexFunc(layers, func(row []string) bool { return slices.Contains(row, pkg) })
}

// mayImport is the rule for imports inside the module.
func mayImport(from, to string, test bool) bool {
	if from == to || test && slices.Contains(testEdges[from], to) {
		return true
	}
	if row := layer(from); row >= 0 {
		return layer(to) > row
	}
	return slices.Contains(others[from], to)
}

// mayUse is the rule for imports of other modules. It does not ask about the standard library.
func mayUse(from, to string, test bool) bool {
	for prefix, users := range modules {
		if belongs(to, prefix) {
			return slices.ContainsFunc(users, func(user string) bool { return isUser(user, from, test) })
		}
	}
	return false
}

// belongs reports whether an import is of a module of the table.
func belongs(to, prefix string) bool {
	return to == prefix || strings.HasPrefix(to, prefix+"/") || strings.HasSuffix(prefix, "-") && strings.HasPrefix(to, prefix)
}

// isUser reports whether an entry of modules speaks of a package, or of its tests.
func isUser(user, pkg string, test bool) bool {
	switch user {
	case "tests":
		return test
	case "tf*":
		return terraform(pkg)
	}
	return user == pkg || test && user == pkg+" tests"
}

func TestPackagesAreListed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range load(t).files {
		_, listed := others[s.pkg]
		if !seen[s.pkg] && layer(s.pkg) < 0 && !listed {
			t.Errorf("package %s stands in no list of internal/arch_test.go: give it its place there", s.pkg)
		}
		seen[s.pkg] = true
	}
}

func TestImports(t *testing.T) {
	for _, s := range load(t).files {
		for _, spec := range s.file.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			inside, ours := strings.CutPrefix(to, module)
			inside = strings.TrimPrefix(inside, "/")
			if inside == "" {
				inside = "."
			}
			first, _, _ := strings.Cut(to, "/")
			switch {
			case ours && !mayImport(s.pkg, inside, s.test):
				t.Errorf("%s imports %s: %s may not import it", s.path, inside, s.pkg)
			case !ours && strings.Contains(first, ".") && !mayUse(s.pkg, to, s.test):
				t.Errorf("%s imports %s, which stands in no list for %s", s.path, to, s.pkg)
			}
		}
	}
}

// TestRightsAreUsed: a right that nobody uses any longer is taken back.
func TestRightsAreUsed(t *testing.T) {
	used := map[string]bool{}
	for _, s := range load(t).files {
		for _, spec := range s.file.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if inside, ours := strings.CutPrefix(to, module+"/"); ours {
				used[s.pkg+" "+inside] = true
				continue
			}
			for prefix, users := range modules {
				for _, user := range users {
					if belongs(to, prefix) && isUser(user, s.pkg, s.test) {
						used[user+" "+prefix] = true
					}
				}
			}
		}
	}
	for pkg, rights := range others {
		for _, right := range rights {
			if !used[pkg+" "+right] {
				t.Errorf("%s does not import %s and needs no right to", pkg, right)
			}
		}
	}
	for prefix, users := range modules {
		for _, user := range users {
			if !used[user+" "+prefix] {
				t.Errorf("%s does not import %s and needs no right to", user, prefix)
			}
		}
	}
}

// TestEdgeRules tries the rules themselves, so that a slip in a table does not let everything pass.
func TestEdgeRules(t *testing.T) {
	for _, c := range []struct {
		from, to   string
		test, want bool
	}{
		{".", "internal/provider", false, true},
		{"internal/provider", ".", false, false},
		{"internal/tfvm", "internal/pve", false, true},
		{"internal/tfvm", "internal/tfnode", false, false},
		{"internal/tfkit", "internal/tfvm", false, false},
		{"internal/pve", "internal/tx", false, false},
		{"internal/vm", "internal/pve", true, false},
		{"internal/create", "internal/remove", false, true},
		{"internal/create", "internal/change", false, false},
		{"internal/remove", "internal/change", false, false},
		{"internal/remove", "internal/create", true, false},
		{"internal/guest", "internal/guest/agent", false, true},
		{"internal/job", "internal/guest", false, false},
		{"internal/job", "internal/guest/agent", false, false},
		{"internal/remove", "internal/pvesim", false, false},
		{"internal/remove", "internal/pvesim", true, true},
		{"internal/pvesim/state", "internal/vm", false, false},
		{"internal/pvesim/state", "internal/vm", true, false},
		{"internal/new", "internal/vm", false, false},
	} {
		if got := mayImport(c.from, c.to, c.test); got != c.want {
			t.Errorf("mayImport(%s, %s, test %t) = %t", c.from, c.to, c.test, got)
		}
	}
	for _, c := range []struct {
		from, to   string
		test, want bool
	}{
		{"internal/host", "golang.org/x/crypto/ssh/agent", false, true},
		{"internal/remove", "golang.org/x/crypto/ssh", true, false},
		{"internal/tfimage", "github.com/hashicorp/terraform-plugin-framework/types", false, true},
		{"internal/change", "github.com/hashicorp/terraform-plugin-log/tflog", false, false},
		{"internal/tx", "pgregory.net/rapid", true, true},
		{"internal/tx", "pgregory.net/rapid", false, false},
		{"internal/acctest", "github.com/hashicorp/hcl/v2/hclsyntax", true, true},
		{"internal/acctest", "github.com/hashicorp/hcl/v2/hclsyntax", false, false},
		{"internal/drive", "github.com/hashicorp/hcl/v2/hclsyntax", false, true},
		{"internal/tx", "example.org/other", true, false},
	} {
		if got := mayUse(c.from, c.to, c.test); got != c.want {
			t.Errorf("mayUse(%s, %s, test %t) = %t", c.from, c.to, c.test, got)
		}
	}
}

func TestLengths(t *testing.T) {
	m := load(t)
	schema := regexp.MustCompile(`(?i)schema`)
	for _, s := range m.files {
		if s.generated {
			continue
		}
		limit := maxFile
		if s.test {
			limit = maxTestFile
		}
		if s.lines > limit {
			t.Errorf("%s has %d lines, %d are allowed", s.path, s.lines, limit)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			limit := maxFunction
			switch {
			case s.test:
				limit = maxTestFunction
			case schema.MatchString(f.Name.Name):
				limit = maxSchemaFunction
			}
			if lines := m.fset.Position(f.End()).Line - m.fset.Position(f.Pos()).Line + 1; lines > limit {
				t.Errorf("%s: func %s has %d lines, %d are allowed (a table may be a package-level variable)", m.fset.Position(f.Pos()), f.Name.Name, lines, limit)
			}
		}
	}
}

func TestPackagesAreSmall(t *testing.T) { report(t, load(t).crowded()) }

func (m tree) crowded() (found []string) {
	count := map[string]int{}
	for _, s := range m.files {
		if !s.test && !support(s.pkg) {
			count[s.pkg]++
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(count)) {
		if count[pkg] > maxFiles && !isWide(pkg) {
			found = append(found, fmt.Sprintf("%s has %d files, %d are allowed: cut it where there is a seam", pkg, count[pkg], maxFiles))
		}
	}
	return found
}

// TestCrowdedPackagesAreFound shows the rule a package with one file too many, one that is wide, and one of tests.
func TestCrowdedPackagesAreFound(t *testing.T) {
	var m tree
	for _, pkg := range []string{"internal/remove", "internal/pve", "internal/pvesim/handle"} {
		for range maxFiles + 1 {
			m.files = append(m.files, source{pkg: pkg})
		}
		m.files = append(m.files, source{pkg: "internal/job"}, source{pkg: "internal/job", test: true})
	}
	if found := m.crowded(); len(found) != 1 || !strings.HasPrefix(found[0], "internal/remove has 21 files") {
		t.Errorf("found %q", found)
	}
}

func TestNoInit(t *testing.T) {
	m := load(t)
	for _, s := range m.files {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: func init: let the caller say when", m.fset.Position(f.Pos()))
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range load(t).files {
		if !s.test && !ignored(s) {
			documented[s.pkg] = documented[s.pkg] || s.file.Doc != nil
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(documented)) {
		if !documented[pkg] {
			t.Errorf("package %s has no comment that says what it is for", pkg)
		}
	}
}

func ignored(s source) bool {
	for _, group := range s.file.Comments {
		for _, line := range group.List {
			if group.Pos() < s.file.Package && line.Text == "//go:build ignore" {
				return true
			}
		}
	}
	return false
}
