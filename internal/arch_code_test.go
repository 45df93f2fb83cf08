package internal_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// noImports makes the type checker do without the packages that a file imports: what it can say about the package's own
// names and about the universe is enough.
type noImports struct{}

func (noImports) Import(name string) (*types.Package, error) {
	return nil, errors.New("not read: " + name)
}

// packages gives the non-test files of each package with what the type checker knows about their names.
func (t tree) packages() map[string]*code {
	all := map[string]*code{}
	for _, s := range t.files {
		if s.test || ignored(s) {
			continue
		}
		if all[s.pkg] == nil {
			all[s.pkg] = &code{uses: map[*ast.Ident]types.Object{}}
		}
		all[s.pkg].sources = append(all[s.pkg].sources, s)
	}
	for name, c := range all {
		files := make([]*ast.File, len(c.sources))
		for i, s := range c.sources {
			files[i] = s.file
		}
		config := types.Config{Error: func(error) {}, Importer: noImports{}}
		c.pkg, _ = config.Check(name, t.fset, files, &types.Info{Uses: c.uses, Defs: c.uses}) // complains of every import
	}
	return all
}

// code is the product code of one package.
type code struct {
	sources []source
	pkg     *types.Package
	uses    map[*ast.Ident]types.Object
}

// constant are calls with an unchangeable result. The value of sync.OnceValue has to be read-only, too.
var constant = []string{"errors.New", "regexp.MustCompile", "strings.NewReplacer", "sync.OnceValue", "time.Date"}

// TestNoPackageState: a package-level variable is allowed if it is
//   - the blank identifier (a compile-time assertion), or embedded (go:embed), or a released program's version, which the linker sets;
//   - made by a call of constant; or
//   - a read-only table: a composite literal or a conversion, not from package sync, of which nothing in the package is
//     ever assigned, deleted, cleared or has its address taken. (That a method changes it would not be noticed.)
func TestNoPackageState(t *testing.T) { report(t, load(t).packageState()) }

func (t tree) packageState() (found []string) {
	for _, c := range t.packages() {
		touched := c.touched()
		for _, s := range c.sources {
			for _, d := range s.file.Decls {
				vars, ok := d.(*ast.GenDecl)
				if !ok || vars.Tok != token.VAR {
					continue
				}
				for _, spec := range vars.Specs {
					spec, ok := spec.(*ast.ValueSpec)
					if !ok {
						continue
					}
					embedded := strings.Contains(comments(vars.Doc)+comments(spec.Doc), "//go:embed")
					for i, name := range spec.Names {
						allowed := name.Name == "_" || embedded || (s.pkg == "." || s.pkg == "internal/cmd/pvesim") && name.Name == "version"
						if !allowed && (i >= len(spec.Values) || !fixed(spec.Values[i]) || touched[c.uses[name]]) {
							found = append(found, fmt.Sprintf("%s: var %s is package state: see the rule at TestNoPackageState",
								t.fset.Position(name.Pos()), name.Name))
						}
					}
				}
			}
		}
	}
	return found
}

func comments(group *ast.CommentGroup) string {
	if group == nil {
		return ""
	}
	text := ""
	for _, line := range group.List {
		text += line.Text + "\n"
	}
	return text
}

// fixed reports whether a value is one that TestNoPackageState allows.
func fixed(value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.CompositeLit:
		return !strings.HasPrefix(types.ExprString(v.Type), "sync.") && !strings.HasPrefix(types.ExprString(v.Type), "atomic.")
	case *ast.UnaryExpr:
		literal, ok := v.X.(*ast.CompositeLit)
		return v.Op == token.AND && ok && fixed(literal)
	case *ast.CallExpr:
		_, conversion := v.Fun.(*ast.ArrayType)
		return conversion || slices.Contains(constant, types.ExprString(v.Fun))
	}
	return false
}

// touched collects the package-level variables that something in the package writes to or takes the address of.
func (c *code) touched() map[types.Object]bool {
	touched := map[types.Object]bool{}
	mark := func(e ast.Expr) {
		if object := c.uses[root(e)]; object != nil && c.pkg != nil && object.Parent() == c.pkg.Scope() {
			touched[object] = true
		}
	}
	for _, s := range c.sources {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					mark(e)
				}
			case *ast.IncDecStmt:
				mark(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					mark(n.X)
				}
			case *ast.CallExpr:
				if name := types.ExprString(n.Fun); (name == "delete" || name == "clear") && len(n.Args) > 0 {
					mark(n.Args[0])
				}
			}
			return true
		})
	}
	return touched
}

// root is the variable that an expression such as x.f[i] is a part of, or nil.
func root(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return root(e.X)
	case *ast.IndexExpr:
		return root(e.X)
	case *ast.StarExpr:
		return root(e.X)
	case *ast.ParenExpr:
		return root(e.X)
	case *ast.SliceExpr:
		return root(e.X)
	}
	return nil
}

// TestNoAny: product code has types. A type parameter may be constrained by any: there it is no type of a value.
func TestNoAny(t *testing.T) { report(t, load(t).empties()) }

func (t tree) empties() (found []string) {
	for pkg, c := range t.packages() {
		for _, s := range c.sources {
			if support(pkg) || anyAllowed[s.path] != "" {
				continue
			}
			var constraints []ast.Node // not looked into
			ast.Inspect(s.file, func(n ast.Node) bool {
				empty := false
				switch n := n.(type) {
				case *ast.FuncType:
					constraints = append(constraints, n.TypeParams)
				case *ast.TypeSpec:
					constraints = append(constraints, n.TypeParams)
				case *ast.FieldList:
					return !slices.Contains(constraints, ast.Node(n))
				case *ast.Ident:
					empty = n.Name == "any" && c.uses[n] == types.Universe.Lookup("any")
				case *ast.InterfaceType:
					empty = n.Methods.NumFields() == 0
				}
				if empty {
					found = append(found, fmt.Sprintf("%s: the empty interface: say what it is, or use a type parameter", t.fset.Position(n.Pos())))
				}
				return true
			})
		}
	}
	return found
}

// TestNoSleep: product code waits for a context, with an injected clock, or not at all.
func TestNoSleep(t *testing.T) { report(t, load(t).sleeps()) }

func (t tree) sleeps() (found []string) {
	for _, s := range t.files {
		if s.test || support(s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if used, ok := n.(*ast.SelectorExpr); ok && types.ExprString(used) == "time.Sleep" {
				found = append(found, fmt.Sprintf("%s: time.Sleep cannot be cancelled", t.fset.Position(n.Pos())))
			}
			return true
		})
	}
	return found
}

func report(t *testing.T, found []string) {
	t.Helper()
	slices.Sort(found)
	for _, text := range found {
		t.Error(text)
	}
}

// TestOneAddress: the provider's address will change when it is published, so it stands in one place.
func TestOneAddress(t *testing.T) {
	var places []string
	for _, s := range load(t).files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && !s.test && strings.Contains(text.Value, "registry.terraform.io/terraform-proxmox") {
				places = append(places, s.path)
			}
			return true
		})
	}
	if len(places) > 1 {
		t.Errorf("the provider's address stands in %s", strings.Join(places, ", "))
	}
}

// TestRulesFind shows the rules code that breaks them, line by line: each line with BAD is found and no other.
func TestRulesFind(t *testing.T) {
	const text = `package p
import ("embed"; "errors"; "fmt"; "regexp"; "sync"; "time")
var _ fmt.Stringer = nil
var errGone = errors.New("gone")
var form = regexp.MustCompile("x")
//go:embed x
var data embed.FS
var table = map[string]int{"a": 1}
var written = map[string]int{} // BAD
var cleared = []int{1} // BAD
var shared = [2]int{} // BAD
var mu sync.Mutex // BAD
var once = sync.Once{} // BAD
var made = fmt.Sprint("x") // BAD
var text = "x" // BAD
func f() *[2]int { written["a"]++; clear(cleared); return &shared }
func g() { table := map[string]int{}; table["a"] = 1 }
func h[T any](x T) T { return x }
type list[T any] []T
type box struct { v any } // BAD
func i(v interface{}) {} // BAD
func j() { var m map[string]any; _ = m } // BAD
func k(any int) { any++ }
func l() { time.Sleep(1) } // BAD
func m() { go func(wait func(time.Duration)) {}(time.Sleep) } // BAD
`
	m := tree{fset: token.NewFileSet()}
	file, err := parser.ParseFile(m.fset, "internal/p/p.go", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	m.files = []source{{path: "internal/p/p.go", pkg: "internal/p", file: file}}
	var want []string
	for i, line := range strings.Split(text, "\n") {
		if strings.HasSuffix(line, "// BAD") {
			want = append(want, strconv.Itoa(i+1))
		}
	}
	var got []string
	for _, found := range slices.Concat(m.packageState(), m.empties(), m.sleeps()) {
		got = append(got, strings.Split(found, ":")[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q are found, want %q", got, want)
	}
}
