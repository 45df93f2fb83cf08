package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// nouns are the methods of pve.Client that give what a request is about.
var nouns = map[string]string{"QEMU": "QEMUClient", "Node": "NodeClient", "Storage": "StorageClient", "Volume": "VolumeClient",
	"Pools": "PoolClient", "Access": "AccessClient", "HA": "HAClient", "Firewall": "FirewallClient", "Tasks": "TaskClient"}

// boundByPVE are the writes that come to nothing which is another's by the time that PVE has them, and why. Each other one
// names an id alone, which another guest, volume or rule may have by then: it is sent while the look before it is recent.
var boundByPVE = map[string]string{
	"NodeClient.CreateVM":         "PVE refuses an id that is taken",
	"QEMUClient.Clone":            "likewise, and it only reads the source",
	"HAClient.CreateRule":         "likewise",
	"HAClient.UpdateRule":         "the digest",
	"QEMUClient.UpdateConfig":     "the digest",
	"QEMUClient.UpdateConfigTask": "the digest",
	"QEMUClient.ResizeDisk":       "the digest",
	"QEMUClient.MoveDiskAndFree":  "the digest",
	"QEMUClient.DeleteUnused":     "the digest",
	"QEMUClient.RemoveLock":       "the digest",
	"StorageClient.Download":      "PVE writes over no file",
	"StorageClient.Upload":        "it looks again before the last byte",
	"TaskClient.Stop":             "a task's id is never used again",
}

// inTime are the functions that send a request only while the look before it is recent, by the package that calls them.
var inTime = map[string][]string{
	"":                {"Soon", "SoonAfter"},
	"internal/guest":  {"contend", "send", "perform"}, // the firewall's, HA's, and who asks for a start
	"internal/guard":  {"drop"},
	"internal/create": {"perform", "view.Act"},
	"internal/update": {"view.Perform", "view.Power", "view.Contend"},
	"internal/power":  {"perform"},
}

// sentFor are functions that leave this to all that call them.
var sentFor = map[string]string{"internal/guest.do": "carryOut sends it by send"}

// TestNoLateRequest: whatever PVE binds to nothing is sent while a look is recent, however long the machine has slept.
func TestNoLateRequest(t *testing.T) {
	m := load(t)
	writes := m.writes()
	if len(writes) < 30 {
		t.Errorf("only %d writes: the rule does not see them", len(writes))
	}
	for name := range boundByPVE {
		if !writes[name] {
			t.Errorf("package pve has no write %s any more", name)
		}
	}
	report(t, m.late(writes))
}

// writes are the exported methods of package pve that change something.
func (t tree) writes() map[string]bool {
	found := map[string]bool{}
	for _, s := range t.files {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.pkg != "internal/pve" || s.test || f.Recv == nil || !f.Name.IsExported() {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				e, ok := n.(*ast.SelectorExpr)
				if ok && slices.Contains([]string{"change", "start", "startOrFinish", "power", "update", "RemoveEntry", "MethodPost"}, e.Sel.Name) {
					found[receiver(f)+"."+f.Name.Name] = true
				}
				return true
			})
		}
	}
	return found
}

// late are the writes that nothing keeps from being sent late.
func (t tree) late(writes map[string]bool) (found []string) {
	for _, s := range t.files {
		if s.test || support(s.pkg) || s.pkg == "internal/pve" {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || sentFor[s.pkg+"."+f.Name.Name] != "" {
				continue
			}
			var sends []*ast.SelectorExpr
			bound := false
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					bound = bound || slices.Contains(inTime[s.pkg], n.Name) && n != f.Name || slices.Contains(inTime[""], n.Name)
				case *ast.SelectorExpr:
					bound = bound || slices.Contains(inTime[s.pkg], lastName(n.X)+"."+n.Sel.Name)
					if call := callOf(n); writes[call] && boundByPVE[call] == "" {
						sends = append(sends, n)
					}
				}
				return true
			})
			for _, n := range sends {
				if !bound {
					found = append(found, fmt.Sprintf("%s: %s may come late, when another has the id: send it in guest.Soon", t.fset.Position(n.Pos()), callOf(n)))
				}
			}
		}
	}
	return found
}

// callOf is the method of package pve that an expression names: "QEMUClient.Start" of c.QEMU("pve1", 100).Start.
func callOf(n *ast.SelectorExpr) string {
	call, ok := n.X.(*ast.CallExpr)
	if !ok {
		return ""
	}
	return nouns[lastName(call.Fun)] + "." + n.Sel.Name
}

// lastName is the name that an expression ends with.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestLateRequestsAreSeen shows the rule code that sends too late, line by line.
func TestLateRequestsAreSeen(t *testing.T) {
	const text = `package update
func f(c *pve.Client) { c.QEMU("pve1", 100).Start(ctx, nil) } // BAD
func g(c *pve.Client) { send(c.Pools().AddMember) } // BAD
func h(c *pve.Client) { jobs.Perform(ctx, c.QEMU("pve1", 100).Reboot) } // BAD
func i(u *update) { u.view.Perform(ctx, c.QEMU("pve1", 100).Reboot) }
func j(c *pve.Client) { c.HA().RemoveRule(guest.Soon(ctx, clock, since), "apart") }
func k(c *pve.Client) { c.QEMU("pve1", 100).UpdateConfig(ctx, params); c.QEMU("pve1", 100).Status(ctx) }
`
	m := tree{fset: token.NewFileSet()}
	file, err := parser.ParseFile(m.fset, "internal/update/p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	m.files = []source{{path: "internal/update/p.go", pkg: "internal/update", file: file}}
	var want, got []string
	for i, line := range strings.Split(text, "\n") {
		if strings.HasSuffix(line, "// BAD") {
			want = append(want, strconv.Itoa(i+1))
		}
	}
	for _, found := range m.late(load(t).writes()) {
		got = append(got, strings.Split(found, ":")[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q are found, want %q", got, want)
	}
}
