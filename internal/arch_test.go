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
	"sync"
	"testing"
)

const module = "github.com/terraform-proxmox/terraform-provider-proxmox"

// layers are the packages of the provider, outermost first. A package may import those of later rows, never those of its
// own row or of earlier ones. "." is main.
var layers = [][]string{
	{"."},
	{"internal/provider", "internal/framework/oplog/otlp", "internal/lint"},
	{"internal/resource/vm", "internal/resource/file", "internal/resource/snapshot", "internal/resource/disk", "internal/resource/harule", "internal/datasource", "internal/function", "internal/action", "internal/framework/fastpath"},
	{"internal/resource/vm/planning"},
	{"internal/resource/vm/change", "internal/resource/vm/run"},
	{"internal/resource/vm/source", "internal/resource/vm/validation"},
	{"internal/resource/vm/model"},
	{"internal/resource/vm/vmschema"},
	{"internal/resource/kit", "internal/framework/plan"},
	{"internal/service"},
	{"internal/disk"},
	{"internal/create", "internal/update", "internal/preflight", "internal/orphan", "internal/snapshot", "internal/harule", "internal/power", "internal/file"},
	{"internal/destroy", "internal/diskimport"},
	{"internal/guard"},
	{"internal/guest", "internal/volumeuse"},
	{"internal/guest/agent", "internal/pve/request", "internal/ownership"},
	{"internal/saga", "internal/vm", "internal/pve", "internal/ssh", "internal/framework/value", "internal/otherstate", "internal/file/nocloud"},
	{"internal/pve/transport", "internal/vm/volid", "internal/vm/cloudinit", "internal/vm/firewall"},
	{"internal/vm/property"},
	{"internal/pve/fault", "internal/pve/backoff", "internal/pve/wire", "internal/shell", "internal/nearest"},
	{"internal/pve/task"},
	{"internal/framework/oplog/interceptor"},
	{"internal/framework/oplog"},
}

// inner are packages that one package alone may import: a request that is made by hand would get past package guard.
var inner = map[string]string{
	"internal/pve/transport": "internal/pve",
	"internal/pve/wire":      "internal/pve",
}

// pure are packages that judge facts and ask nothing, and all that each may import of the module.
var pure = map[string][]string{"internal/ownership": {"internal/vm"}}

// others are the packages beside the layers, and what each may import. The simulator has rows of its own, see rooms.
var others = map[string][]string{
	"internal":                         {},
	"internal/terraformtest":           {"internal/terraformtest/objchange", "internal/test/printed"},
	"internal/terraformtest/objchange": {},
	"internal/test/printed":            {}, // judges what is printed, and so knows nothing of how it is made
	"internal/test/action": {"internal/pve", "internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault",
		"internal/pvesim/state", "internal/pvesim/thirdparty", "internal/terraformtest", "internal/test/engine", "internal/test/rig"},
	"internal/test/adoption": {"internal/provider", "internal/pvesim", "internal/pvesim/fault",
		"internal/pvesim/state", "internal/terraformtest", "internal/test/rig"},
	"internal/test/combination": {"internal/provider", "internal/pve", "internal/pvesim", "internal/pvesim/fault",
		"internal/pvesim/state", "internal/pvesim/thirdparty", "internal/ssh", "internal/terraformtest",
		"internal/test/engine", "internal/test/foretold", "internal/test/kinds", "internal/test/rig"},
	"internal/test/conformance": {"internal/guest", "internal/pve", "internal/pvesim", "internal/pvesim/capture",
		"internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state", "internal/service", "internal/test/lab",
		"internal/test/rig", "internal/update", "internal/vm"},
	"internal/test/contention": {"internal/create", "internal/destroy", "internal/guard", "internal/guest", "internal/provider", "internal/pve",
		"internal/vm/firewall",
		"internal/pve/request", "internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state",
		"internal/pvesim/thirdparty", "internal/pvesim/world", "internal/saga", "internal/ssh", "internal/terraformtest",
		"internal/test/engine", "internal/test/kinds", "internal/test/rig", "internal/update", "internal/vm"},
	"internal/test/cost": {"internal/pvesim", "internal/pvesim/fault", "internal/pvesim/state", "internal/terraformtest",
		"internal/test/rig"},
	"internal/test/destroy": {"internal/destroy", "internal/pvesim", "internal/pvesim/fault", "internal/pvesim/state",
		"internal/pvesim/thirdparty", "internal/saga", "internal/terraformtest", "internal/test/engine", "internal/test/rig"},
	"internal/test/docs": {"internal/lint", "internal/nearest", "internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state",
		"internal/terraformtest", "internal/test/rig"},
	"internal/test/engine": {"internal/create", "internal/guest", "internal/ownership", "internal/pve", "internal/pvesim",
		"internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state", "internal/service", "internal/ssh",
		"internal/terraformtest", "internal/test/lab", "internal/test/rig", "internal/test/share", "internal/update", "internal/vm",
		"internal/vm/property"},
	"internal/test/faults": {"internal/create", "internal/guest", "internal/pvesim", "internal/pvesim/fault", "internal/vm/firewall",
		"internal/pvesim/state", "internal/saga", "internal/terraformtest", "internal/test/engine", "internal/test/kinds", "internal/test/rig",
		"internal/vm"},
	"internal/test/foretold": {"internal/pvesim", "internal/pvesim/state", "internal/terraformtest", "internal/terraformtest/objchange",
		"internal/test/engine", "internal/test/kinds", "internal/test/rig", "internal/vm"},
	"internal/test/kinds": {"internal/guest", "internal/pvesim/state", "internal/vm"}, // no create: its tests play them, too
	"internal/test/kill": {"internal/provider", "internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault",
		"internal/pvesim/state", "internal/terraformtest", "internal/test/engine", "internal/test/rig"},
	"internal/test/lab": {"internal/terraformtest"}, // no simulator: its cases are about any cluster
	"internal/test/lifecycle": {"internal/provider", "internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/thirdparty",
		"internal/pvesim/state", "internal/terraformtest", "internal/test/engine", "internal/test/rig"},
	"internal/test/oplog": {"internal/framework/oplog/otlp", "internal/provider", "internal/pvesim", "internal/pvesim/clock",
		"internal/pvesim/fault", "internal/pvesim/state", "internal/test/engine", "internal/test/rig"},
	"internal/test/permissions": {"internal/pvesim", "internal/pvesim/fault", "internal/pvesim/state", "internal/ssh",
		"internal/terraformtest", "internal/test/rig"},
	"internal/test/plan": {"internal/framework/fastpath", "internal/guest", "internal/ownership", "internal/provider",
		"internal/pvesim", "internal/pvesim/fault", "internal/pvesim/state", "internal/pvesim/thirdparty",
		"internal/resource/vm", "internal/resource/vm/model", "internal/terraformtest", "internal/test/engine", "internal/test/printed",
		"internal/test/rig", "internal/vm"},
	"internal/test/rig": {"internal/framework/oplog", "internal/guest", "internal/ownership", "internal/provider", "internal/pve",
		"internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state", "internal/terraformtest",
		"internal/vm"},
	"internal/test/share": {},
	"internal/test/story": {"internal/pvesim", "internal/pvesim/fault", "internal/pvesim/state", "internal/pvesim/thirdparty",
		"internal/terraformtest", "internal/test/rig"},
	"internal/test/storage": {"internal/diskimport", "internal/file/nocloud", "internal/pvesim", "internal/pvesim/clock",
		"internal/pvesim/fault", "internal/pvesim/state", "internal/terraformtest", "internal/test/engine", "internal/test/rig"},
	"internal/cmd/pvesim": {"internal/pvesim", "internal/pvesim/capture", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state"},
	"internal/cmd/sbom":   {},
	"internal/cmd/mutate": {},
	"internal/cmd/schema": {"internal/provider"},
	"internal/cmd/bench":  {"internal/pvesim", "internal/pvesim/clock", "internal/pvesim/state"},
	"internal/cmd/demo":   {"internal/test/rig", "internal/terraformtest", "internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state"},
}

// testEdges are imports that only the tests of a package may have.
var testEdges = map[string][]string{
	"internal/create":         append(simulator(), "internal/test/kinds"),
	"internal/destroy":        simulator(),
	"internal/shell":          {"internal/test/printed"},
	"internal/resource/kit":   {"internal/test/printed"},
	"internal/volumeuse":      simulator(),
	"internal/resource/vm":    {"internal/framework/fastpath"},
	"internal/update":         append(simulator(), "internal/test/printed"),
	"internal/preflight":      simulator(),
	"internal/orphan":         append(simulator(), "internal/test/printed"),
	"internal/service":        simulator(),
	"internal/snapshot":       simulator(),
	"internal/file":           append(simulator(), "internal/test/printed"),
	"internal/action":         simulator(),
	"internal/datasource":     simulator(),
	"internal/guest":          simulator(),
	"internal/guest/agent":    simulator(),
	"internal/pve/request":    simulator(),
	"internal/pvesim/sshd":    {"internal/pvesim/schema", "internal/pvesim/server"},
	"internal/pvesim/capture": simulator(),
}

func simulator() []string {
	return []string{"internal/pvesim", "internal/pvesim/clock", "internal/pvesim/fault", "internal/pvesim/state", "internal/pvesim/thirdparty"}
}

// modules are the modules of others that are used, and the packages that may. "tests" stands for the tests of every
// package, "x tests" for those of x, "terraform" for the packages that know Terraform.
var modules = map[string][]string{
	"golang.org/x/crypto/ssh":                {"internal/ssh", "internal/pvesim/sshd"},
	"github.com/pkg/sftp":                    {"internal/ssh", "internal/pvesim/sshd"},
	"go.opentelemetry.io/otel":               {"internal/framework/oplog/otlp"},
	"go.opentelemetry.io/proto/otlp":         {"internal/framework/oplog/otlp tests", "internal/test/oplog tests"}, // reads what was sent
	"google.golang.org/protobuf":             {"internal/framework/oplog/otlp tests", "internal/test/oplog tests"},
	"google.golang.org/grpc":                 {"internal/pvesim", "internal/test/rig"}, // a network in memory, test/bufconn
	"github.com/hashicorp/terraform-plugin-": {"terraform", "internal/framework/fastpath"},
	"github.com/hashicorp/hcl/v2":            {"internal/lint", "internal/terraformtest", "internal/test/docs tests"},
	"github.com/zclconf/go-cty":              {"internal/lint", "internal/resource/file", "internal/snapshot", "internal/terraformtest", "internal/terraformtest/objchange", "internal/test/adoption tests", "internal/test/contention tests", "internal/test/destroy tests", "internal/test/docs tests", "internal/test/faults tests", "internal/test/foretold", "internal/test/lifecycle tests", "internal/test/plan tests", "internal/test/rig tests", "internal/test/storage tests", "internal/update"},
	"github.com/hashicorp/go-plugin":         {"internal/terraformtest tests"}, // what a CLI attaches to
	"github.com/hashicorp/go-hclog":          {"internal/terraformtest tests"},
	"github.com/hashicorp/hc-install":        {"internal/cmd/demo"},
	"go.yaml.in/yaml/v3":                     {"internal/pvesim/state", "internal/file/nocloud", "internal/test/docs tests", "internal/test/oplog tests"}, // the YAML library that is still maintained
	"github.com/kdomanski/iso9660":           {"internal/file/nocloud tests"},                                                                             // reads what we write
	"github.com/google/go-cmp":               {"tests", "internal/test/engine", "internal/test/rig"},
	"pgregory.net/rapid":                     {"tests"},
	"go.uber.org/goleak":                     {"tests"},
	"mvdan.cc/sh/v3":                         {"internal/test/printed", "internal/pvesim/sshd"}, // a shell's own reading of the commands that are printed
}

// anyAllowed are files in which the empty interface cannot be avoided, and why.
var anyAllowed = map[string]string{
	"internal/resource/kit/open_timeouts.go":      "tftypes.ValueCreator, by which a model keeps an unknown group",
	"internal/framework/oplog/interceptor/log.go": "terraform-plugin-log takes its fields as map[string]any",
}

// The hard limits, in lines.
const (
	maxFile           = 350
	maxTestFile       = 600
	maxFunction       = 80
	maxSchemaFunction = 120
	maxTestFunction   = 120
)

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
	m, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// parsed parses the project once: most tests here read all of it.
var parsed = sync.OnceValues(func() (tree, error) {
	top, err := filepath.Abs("..")
	if err != nil {
		return tree{}, err
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
	if err == nil && len(m.files) < 10 {
		err = fmt.Errorf("only %d files found below %s", len(m.files), top)
	}
	return m, err
})

// support reports whether a package is there for tests only, so that the rules for product code do not hold.
func support(pkg string) bool {
	return within(pkg, "internal/pvesim") || within(pkg, "internal/test") || within(pkg, "internal/terraformtest") || within(pkg, "internal/cmd")
}

func within(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }

// terraform reports whether a package belongs to the layers that know Terraform.
func terraform(pkg string) bool {
	return pkg == "." || pkg == "internal/provider" || within(pkg, "internal/terraformtest") || within(pkg, "internal/test") ||
		within(pkg, "internal/resource") || pkg == "internal/datasource" || pkg == "internal/action" || pkg == "internal/function" ||
		pkg == "internal/resource/kit" || pkg == "internal/framework/plan" || pkg == "internal/framework/value" ||
		pkg == "internal/framework/oplog/interceptor" || pkg == "internal/lint" ||
		pkg == "internal/cmd/schema"
}

// layer gives the row of a package in layers, or -1.
func layer(pkg string) int {
	return slices.IndexFunc(layers, func(row []string) bool { return slices.Contains(row, pkg) })
}

// mayImport is the rule for imports inside the module.
func mayImport(from, to string, test bool) bool {
	if from == to || test && (to == "internal/test/share" || slices.Contains(testEdges[from], to)) {
		return true
	}
	if owner, ok := inner[to]; ok && from != owner && inner[from] != owner {
		return false
	}
	if allowed, ok := pure[from]; ok {
		return slices.Contains(allowed, to)
	}
	if row := layer(from); row >= 0 {
		return layer(to) > row
	}
	if row := room(from); row >= 0 {
		return room(to) > row
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
	case "terraform":
		return terraform(pkg)
	}
	return user == pkg || test && user == pkg+" tests"
}

func TestPackagesAreListed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range load(t).files {
		_, listed := others[s.pkg]
		if !seen[s.pkg] && layer(s.pkg) < 0 && room(s.pkg) < 0 && !listed {
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

// TestRightsAreUsed: an unused right is taken back.
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
		{"internal/resource/vm", "internal/pve", false, true},
		{"internal/resource/vm", "internal/datasource", false, false},
		{"internal/resource/kit", "internal/resource/vm", false, false},
		{"internal/pve", "internal/saga", false, false},
		{"internal/pve", "internal/pve/transport", false, true},
		{"internal/pve/transport", "internal/pve/wire", false, true},
		{"internal/pve/transport", "internal/pve", false, false},
		{"internal/pve/request", "internal/pve/transport", false, false},
		{"internal/destroy", "internal/pve/transport", true, false},
		{"internal/destroy", "internal/pve/fault", false, true},
		{"internal/ownership", "internal/vm", false, true},
		{"internal/ownership", "internal/vm/property", false, false},
		{"internal/ownership", "internal/pve", false, false},
		{"internal/ownership", "internal/pve", true, false},
		{"internal/guest", "internal/ownership", false, true},
		{"internal/vm", "internal/pve", true, false},
		{"internal/create", "internal/destroy", false, true},
		{"internal/create", "internal/update", false, false},
		{"internal/destroy", "internal/update", false, false},
		{"internal/destroy", "internal/create", true, false},
		{"internal/guest", "internal/guest/agent", false, true},
		{"internal/pve/request", "internal/guest", false, false},
		{"internal/pve/request", "internal/guest/agent", false, false},
		{"internal/destroy", "internal/pvesim", false, false},
		{"internal/destroy", "internal/pvesim", true, true},
		{"internal/pvesim/state", "internal/vm", false, false},
		{"internal/pvesim/state", "internal/vm", true, false},
		{"internal/test/engine", "internal/test/rig", false, true},
		{"internal/test/rig", "internal/test/engine", true, false},
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
		{"internal/ssh", "golang.org/x/crypto/ssh/agent", false, true},
		{"internal/destroy", "golang.org/x/crypto/ssh", true, false},
		{"internal/resource/file", "github.com/hashicorp/terraform-plugin-framework/types", false, true},
		{"internal/update", "github.com/hashicorp/terraform-plugin-log/tflog", false, false},
		{"internal/saga", "pgregory.net/rapid", true, true},
		{"internal/saga", "pgregory.net/rapid", false, false},
		{"internal/test/docs", "github.com/hashicorp/hcl/v2/hclsyntax", true, true},
		{"internal/test/docs", "github.com/hashicorp/hcl/v2/hclsyntax", false, false},
		{"internal/terraformtest", "github.com/hashicorp/hcl/v2/hclsyntax", false, true},
		{"internal/saga", "example.org/other", true, false},
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
		if s.test || within(s.pkg, "internal/test") {
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
