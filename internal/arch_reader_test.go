package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// clients are the packages that may name pve.Client, which can write. All others get a pve.Reader, or ask one of these.
var clients = []string{"internal/create", "internal/destroy", "internal/disk", "internal/file", "internal/guard", "internal/guest",
	"internal/harule", "internal/power", "internal/provider", "internal/pve/request", "internal/service", "internal/snapshot", "internal/update"}

// TestReadersOnly: a plan, a refresh, an import, a list and a data source read through pve.Reader, so the compiler keeps
// them from writing. Only the packages of the table name the client itself.
func TestReadersOnly(t *testing.T) {
	found, used := load(t).clients()
	report(t, found)
	for _, pkg := range clients {
		if !used[pkg] {
			t.Errorf("%s does not name pve.Client and needs no right to", pkg)
		}
	}
}

// clients returns each place that names pve.Client without the right to. A package that knows Terraform must not reach it
// through the embedded runner of its session either (Session.VMs.API).
func (t tree) clients() (found []string, used map[string]bool) {
	used = map[string]bool{}
	for _, s := range t.files {
		if s.test || support(s.pkg) || within(s.pkg, "internal/cmd") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := selector.X.(*ast.Ident); ok && x.Name == "pve" && selector.Sel.Name == "Client" {
				used[s.pkg] = true
				if !slices.Contains(clients, s.pkg) {
					found = append(found, fmt.Sprintf("%s: %s names pve.Client, which can write: take a pve.Reader",
						t.fset.Position(n.Pos()), s.pkg))
				}
			}
			if x, ok := selector.X.(*ast.SelectorExpr); ok && selector.Sel.Name == "API" && x.Sel.Name == "VMs" && terraform(s.pkg) {
				found = append(found, fmt.Sprintf("%s: VMs.API can write: use the session's Reader", t.fset.Position(n.Pos())))
			}
			return true
		})
	}
	return found, used
}

// TestReaderRule tries the rule itself.
func TestReaderRule(t *testing.T) {
	m := tree{fset: token.NewFileSet()}
	for pkg, body := range map[string]string{
		"internal/datasource": "func f(api *pve.Client) {}", "internal/action": "func f(s S) { s.Session.VMs.API.QEMU() }",
		"internal/guest": "func f(api *pve.Client) {}", "internal/list": "func f(api pve.Reader, s S) { s.Session.API.Nodes() }",
	} {
		file, err := parser.ParseFile(m.fset, pkg+"/a.go", "package a\n"+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		m.files = append(m.files, source{path: pkg + "/a.go", pkg: pkg, file: file})
	}
	found, used := m.clients()
	if len(found) != 2 || !slices.Equal(slices.Sorted(maps.Keys(used)), []string{"internal/datasource", "internal/guest"}) {
		t.Errorf("found %q, used %v", found, used)
	}
}
