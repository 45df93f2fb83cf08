package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// open is a text that ends within a command for root: a program of a node, and no closing backquote since. A verb of
// fmt makes the same of the text before it.
var openCommand = regexp.MustCompile(
	"(^|[`\"(;&|] ?)(qm|pct|pvesm|pveum|pvesh|pvenode|pvesr|pvecm|ha-manager|zfs|rbd|lvremove|rm|grep|ls|cat) [^`]*$")

// TestLawCommandsAreMadeByShell: no command for root is put together from pieces except by package shell, which leaves out
// the ones with an odd word. Package ssh runs its commands itself, with a quoting of its own.
func TestLawCommandsAreMadeByShell(t *testing.T) { report(t, load(t).commands()) }

func (t tree) commands() (found []string) {
	for _, s := range t.files {
		if s.test || ignored(s) || support(s.pkg) || within(s.pkg, "internal/shell") || within(s.pkg, "internal/ssh") {
			continue
		}
		say := func(n ast.Node, text string) {
			found = append(found, fmt.Sprintf("%s: a command without shell.Command: %s", t.fset.Position(n.Pos()), text))
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op != token.ADD {
					return true
				}
				if text, ok := lastText(n.X); ok && openCommand.MatchString(text) && !isLiteral(n.Y) {
					say(n, text)
				}
			case *ast.CallExpr:
				if name, ok := n.Fun.(*ast.SelectorExpr); ok && name.Sel.Name == "Command" {
					return false
				}
				for _, arg := range n.Args {
					if text, ok := literal(arg); ok {
						for before := range beforeVerbs(text) {
							if openCommand.MatchString(before) {
								say(arg, text)
							}
						}
					}
				}
			}
			return true
		})
	}
	return found
}

// beforeVerbs are the texts before each verb of a format, but for the ones of numbers, which are never odd.
func beforeVerbs(format string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := range len(format) - 1 {
			if format[i] == '%' && format[i+1] != '%' && format[i+1] != 'd' && !yield(format[:i]) {
				return
			}
		}
	}
}

// lastText is the text at the end of a sum.
func lastText(e ast.Expr) (string, bool) {
	text, ok := literal(e)
	if sum, isSum := e.(*ast.BinaryExpr); isSum && !ok {
		return lastText(sum.Y)
	}
	return text, ok
}

func isLiteral(e ast.Expr) bool { _, ok := literal(e); return ok }

// literal is a text that stands in the program, perhaps in pieces.
func literal(e ast.Expr) (string, bool) {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		before, first := literal(sum.X)
		after, second := literal(sum.Y)
		return before + after, first && second
	}
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// TestLawCommandsFindsThem: the rule finds each way to put a command together.
func TestLawCommandsFindsThem(t *testing.T) {
	const text = `package p
func f(id string) {
	_ = "qm unlock " + id // BAD
	_ = "see ` + "`\"+\"qm unlock \"" + ` + id + "x" // BAD
	say("on the node, ` + "`\"+\"pvesm free %s" + `", id) // BAD
	say("on the node: "+ // BAD
		"` + "`\"+\"pvesm free %s" + `"+" as root", id)
	_ = shell.Command("qm unlock {}", id)
	_ = "qm unlock " + "100"
	_ = "the rm " + id
}
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", strings.ReplaceAll(text, "`\"+\"", "`"), parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	m := tree{fset: set, files: []source{{path: "internal/p/p.go", pkg: "internal/p", file: file}}}
	var lines, want []string
	for _, found := range m.commands() {
		lines = append(lines, strings.Split(found, ":")[1])
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "BAD") {
			want = append(want, strconv.Itoa(i+1))
		}
	}
	if !slices.Equal(lines, want) {
		t.Errorf("found %v, not %v", lines, want)
	}
}
