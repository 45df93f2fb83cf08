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

// destructive are the calls that destroy something, or take away what protects it, and the packages that may name them:
// package remove, which sends each with evidence, and where a user's own plan or a lower layer needs one, that. The packages
// that define them are not asked.
var destructive = map[string][]string{
	// pve.Client
	"DeleteVM":           {"internal/remove"},
	"DeleteVolume":       {"internal/remove"},
	"DeleteUnused":       {"internal/remove"},
	"MoveDiskAndFree":    {"internal/remove"},
	"RemoveLock":         {"internal/remove"},
	"ShutdownOrStopVM":   {"internal/remove"},
	"StopVM":             {"internal/remove"},
	"ResetVM":            {"internal/remove"},
	"DeleteSnapshot":     {"internal/remove"},
	"RollBackVM":         {"internal/remove"},
	"DeleteHAResource":   {"internal/guest"},
	"DeleteFirewallRule": {"internal/guest"},
	"RemoveFromPool":     {"internal/change", "internal/remove"},
	"DeleteHAEntry":      {"internal/remove"},
	"DeleteACL":          {"internal/remove"},
	// remove.Shell
	"Unlock":     {"internal/remove"},
	"FreeVolume": {"internal/remove"},
	"RemoveFile": {"internal/remove"},
	// snippet.Shell; the file must hold what the user's plan has shown
	"ReplaceFile": {"internal/snippet"},
	// guest.Guests
	"DropHA": {"internal/guest", "internal/remove"},
}

// definers are the packages in which the calls above are written.
var definers = []string{"internal/pve", "internal/host"}

// TestOneDoorForDestruction: nobody but those of the table names a call that destroys.
func TestOneDoorForDestruction(t *testing.T) { report(t, load(t).destructions()) }

func (m tree) destructions() (found []string) {
	for _, s := range m.files {
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
				users, listed := destructive[n.Sel.Name]
				if listed && !mutex[n] && !slices.Contains(users, s.pkg) {
					found = append(found, fmt.Sprintf("%s: %s destroys: only %s may name it, see docs/design/destroy.md",
						m.fset.Position(n.Pos()), n.Sel.Name, strings.Join(users, ", ")))
				}
			}
			return true
		})
	}
	return found
}

// TestTheDoorIsWatched shows the rule code that goes around the door, line by line, and that every call of the table is one
// that is defined: a new name would leave the old one watched in vain.
func TestTheDoorIsWatched(t *testing.T) {
	const text = `package change
func f(mu *sync.Mutex) { mu.Lock(); defer mu.Unlock() }
func g(s shell) { s.Unlock(ctx, "pve1", 100) } // BAD
func h(s shell) { try(s.Unlock) } // BAD
func i(c *pve.Client) { c.StopVM(ctx, "pve1", 100, nil) } // BAD
func j(c *pve.Client) { send := c.DeleteVolume; send() } // BAD
func k(c *pve.Client) { c.RemoveFromPool(ctx, "web", 100) }
func l(s *Service) { s.guests.DropHA(ctx, 100) } // BAD
`
	m := tree{fset: token.NewFileSet()}
	file, err := parser.ParseFile(m.fset, "internal/change/p.go", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	m.files = []source{{path: "internal/change/p.go", pkg: "internal/change", file: file}}
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
	defined := map[string]bool{}
	for _, s := range load(t).files {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && !s.test {
				defined[f.Name.Name] = true
			}
		}
	}
	for name := range destructive {
		if !defined[name] {
			t.Errorf("nothing is called %s any more: name what took its place", name)
		}
	}
}
