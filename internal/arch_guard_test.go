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

// destruction is a call that destroys something, or takes away what protects it.
type destruction struct {
	types []string // that have the method, "PACKAGE.TYPE"
	users []string // the packages that may name it
}

// destructive are the names of these calls. Package guard sends each with evidence; the user's own plan or a lower layer
// needs a few elsewhere. The rule goes by the name alone, so it needs no types and misses no call: whatever else has such a
// name is refused as well. The packages that define the calls are not asked.
var destructive = map[string]destruction{
	"Destroy":            {[]string{"internal/pve.QEMUClient", "internal/pve.VolumeClient"}, []string{"internal/guard"}},
	"DeleteUnused":       {[]string{"internal/pve.QEMUClient"}, []string{"internal/guard"}},
	"MoveDiskAndFree":    {[]string{"internal/pve.QEMUClient"}, []string{"internal/guard"}},
	"RemoveLock":         {[]string{"internal/pve.QEMUClient"}, []string{"internal/guard"}},
	"ShutdownOrStop":     {[]string{"internal/pve.QEMUClient"}, []string{"internal/guard"}},
	"HardStop":           {[]string{"internal/pve.QEMUClient"}, []string{"internal/guard"}},
	"HardReset":          {[]string{"internal/pve.QEMUClient"}, []string{"internal/guard"}},
	"DeleteSnapshot":     {[]string{"internal/pve.QEMUClient"}, []string{"internal/guard"}},
	"RollBackToSnapshot": {[]string{"internal/pve.QEMUClient"}, []string{"internal/guard"}},
	"RemoveGuest":        {[]string{"internal/pve.HAClient"}, []string{"internal/guest"}},
	"RemoveEntry":        {[]string{"internal/pve.HAClient"}, []string{"internal/guard"}},
	"RemoveRule":         {[]string{"internal/pve.HAClient"}, []string{"internal/guard"}},
	"DeleteRule":         {[]string{"internal/pve.FirewallClient"}, []string{"internal/guest"}},
	"RemoveMember":       {[]string{"internal/pve.PoolClient"}, []string{"internal/update", "internal/guard"}},
	"DeleteACL":          {[]string{"internal/pve.AccessClient"}, []string{"internal/guard"}},
	"Unlock":             {[]string{"internal/ssh.Shell"}, []string{"internal/guard"}},
	"FreeVolume":         {[]string{"internal/ssh.Shell"}, []string{"internal/guard"}},
	"RemoveFile":         {[]string{"internal/ssh.Shell"}, []string{"internal/guard"}},
	// The file must hold what the user's plan has shown.
	"ReplaceFile": {[]string{"internal/ssh.Shell"}, []string{"internal/file"}},
	"DropHA":      {[]string{"internal/guest.HAEntries"}, []string{"internal/guest", "internal/guard"}},
}

// definers are the packages in which the calls above are written.
var definers = []string{"internal/pve", "internal/ssh"}

// harmlessDelete are the methods of package pve that send DELETE, or a parameter that has PVE delete something, and destroy
// nothing.
var harmlessDelete = []string{
	"TaskClient.Stop",     // a task, which cleans up after itself
	"HAClient.UpdateRule", // options of the user's own rule, bound to the digest
}

// TestOnlyTheGuardDestroys: only the packages of the table name a call that destroys.
func TestOnlyTheGuardDestroys(t *testing.T) { report(t, load(t).destructions()) }

func (t tree) destructions() (found []string) {
	for _, s := range t.files {
		if s.test || support(s.pkg) || slices.Contains(definers, s.pkg) {
			continue
		}
		mutex := map[*ast.SelectorExpr]bool{} // calls without arguments: sync.Mutex has an Unlock too
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Unlock" && len(n.Args) == 0 {
					mutex[f] = true
				}
			case *ast.SelectorExpr:
				d, listed := destructive[n.Sel.Name]
				if listed && !mutex[n] && !slices.Contains(d.users, s.pkg) {
					found = append(found, fmt.Sprintf("%s: %s destroys: only %s may name it, see docs/design/destroy.md",
						t.fset.Position(n.Pos()), n.Sel.Name, strings.Join(d.users, ", ")))
				}
			}
			return true
		})
	}
	return found
}

// TestTheGuardIsWatched shows the rule code that goes around the guard, line by line, and that every call of the table is one
// that is defined: a new name would leave the old one watched in vain.
func TestTheGuardIsWatched(t *testing.T) {
	const text = `package change
func f(mu *sync.Mutex) { mu.Lock(); defer mu.Unlock() }
func g(s shell) { s.Unlock(ctx, "pve1", 100) } // BAD
func h(s shell) { try(s.Unlock) } // BAD
func i(c *pve.Client) { c.QEMU("pve1", 100).HardStop(ctx, nil) } // BAD
func j(c *pve.Client) { send := c.Volume("pve1", "local:1").Destroy; send(ctx) } // BAD
func k(c *pve.Client) { c.Pools().RemoveMember(ctx, "web", 100) }
func l(s *Service) { s.guests.DropHA(ctx, 100) } // BAD
`
	m := tree{fset: token.NewFileSet()}
	file, err := parser.ParseFile(m.fset, "internal/update/p.go", text, parser.ParseComments|parser.SkipObjectResolution)
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
	for _, found := range m.destructions() {
		got = append(got, strings.Split(found, ":")[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q are found, want %q", got, want)
	}
}

// TestTheDoorIsComplete: every call of the table is defined where the table says, and every method of package pve that
// deletes is in the table. A new name, or a new call, would else be watched in vain.
func TestTheDoorIsComplete(t *testing.T) {
	defined := map[string]bool{}
	for _, s := range load(t).files {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || s.test {
				continue
			}
			typ := receiver(f)
			defined[s.pkg+"."+typ+"."+f.Name.Name] = true
			known := slices.Contains(destructive[f.Name.Name].types, s.pkg+"."+typ) || slices.Contains(harmlessDelete, typ+"."+f.Name.Name)
			if s.pkg == "internal/pve" && f.Name.IsExported() && deletes(f) && !known {
				t.Errorf("%s.%s deletes, and is not in the table of destructive calls", typ, f.Name.Name)
			}
		}
	}
	for name, d := range destructive {
		for _, typ := range d.types {
			if !defined[typ+"."+name] {
				t.Errorf("%s has no method %s any more: name what took its place", typ, name)
			}
		}
	}
	for _, name := range harmlessDelete {
		if !defined["internal/pve."+name] {
			t.Errorf("package pve has no %s any more", name)
		}
	}
}

// receiver is the name of the type that has a method.
func receiver(f *ast.FuncDecl) string {
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// deletes reports whether a function names the method DELETE, or writes the parameter "delete".
func deletes(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "MethodDelete"
		case *ast.KeyValueExpr:
			found = found || isDelete(n.Key)
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				index, ok := left.(*ast.IndexExpr)
				found = found || ok && isDelete(index.Index)
			}
		}
		return true
	})
	return found
}

func isDelete(e ast.Expr) bool {
	text, ok := e.(*ast.BasicLit)
	return ok && text.Value == `"delete"`
}
