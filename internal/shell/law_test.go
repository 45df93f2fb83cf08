package shell

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// byHand is a command that a format or a "+" puts a name into.
var byHand = regexp.MustCompile("(?:^|[^A-Za-z0-9.-])(?:qm|pvesm (?:alloc|free|list|path|set|status)|zfs|rm|pvesh|pveum|ha-manager|pvenode|pvesr|pct|grep|terraform import) " +
	"[^`]*%[sqv]")

// TestLawCommandsAreMadeInOnePlace: no other package puts names into commands that it prints.
func TestLawCommandsAreMadeInOnePlace(t *testing.T) {
	for text, isCommand := range map[string]bool{"pvesm free %s": true, "`pvesm free %v` removes it": true, "`qm unlock %d` on node %s": false,
		"algorithm %s": false} {
		if byHand.MatchString(text) != isCommand {
			t.Errorf("%q: is a command: %t", text, !isCommand)
		}
	}
	fset := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch filepath.ToSlash(path) {
		case "../pvesim", "../test", "../terraformtest", "../cmd", "../shell", "../ssh": // ssh runs commands, and quotes them itself
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if text := flat(e); ok && byHand.MatchString(text) {
				t.Errorf("%s: %q puts a name into a command; package shell does that", fset.Position(n.Pos()), text)
				return false
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// flat is the text of a string, with "%v" where it is computed; "" for any other expression.
func flat(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return ""
		}
		left, right := flat(e.X), flat(e.Y)
		if left == "" && right == "" {
			return ""
		}
		return orAny(left) + orAny(right)
	}
	return ""
}

func orAny(text string) string {
	if text == "" {
		return "%v"
	}
	return text
}
