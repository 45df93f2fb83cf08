package internal_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The limits of what one reader can keep in mind.
const (
	maxFolder     = 20  // files of a folder besides tests
	maxTestFolder = 40  // test files of a folder
	maxFields     = 20  // fields of a working object
	maxMethods    = 40  // methods of a type
	maxLine       = 120 // characters of a line of product code, a tab counted as one
)

// beyond are the places that are known to be over a limit. An entry that is not needed any more fails the test, and so does a
// place that has grown.
var beyond = map[string]int{
	"fields of internal/vm.Spec":            30, // a value: what a VM is
	"fields of internal/pvesim/state.World": 28, // a value: what a cluster is
}

// narrow are working objects with a limit of their own.
var narrow = map[string]int{
	"internal/destroy.memory": 15, // all that a removal knows from one look to the next
}

// measure reports a place that is over its limit, unless beyond knows it.
func measure(t *testing.T, seen map[string]bool, place string, is, limit int) {
	t.Helper()
	if is <= limit {
		return
	}
	seen[place] = true
	if known, ok := beyond[place]; !ok || is > known {
		t.Errorf("%s: %d, %d are allowed", place, is, max(limit, known))
	}
}

// TestSizes: no object or line is larger than a reader can take in.
func TestSizes(t *testing.T) {
	m := load(t)
	seen := map[string]bool{}
	m.objects(t, seen)
	m.lines(t, seen)
	for _, place := range slices.Sorted(maps.Keys(beyond)) {
		if !seen[place] {
			t.Errorf("%s is within its limit: take it out of beyond", place)
		}
	}
}

// TestFolders: no folder has more files than a reader can keep in mind.
func TestFolders(t *testing.T) { report(t, load(t).crowded()) }

func (t tree) crowded() (found []string) {
	files := map[bool]map[string]int{false: {}, true: {}}
	for _, s := range t.files {
		files[s.test][s.pkg]++
	}
	for isTest, limit := range map[bool]int{false: maxFolder, true: maxTestFolder} {
		for folder, n := range files[isTest] {
			if n > limit {
				kind := map[bool]string{false: "files", true: "test files"}[isTest]
				found = append(found, fmt.Sprintf("%s has %d %s, %d are allowed: cut it where there is a seam", folder, n, kind, limit))
			}
		}
	}
	slices.Sort(found)
	return found
}

// TestCrowdedFoldersAreFound shows the rule a folder with one file too many, one with one test file too many, and one
// that is full.
func TestCrowdedFoldersAreFound(t *testing.T) {
	var m tree
	for range maxFolder {
		m.files = append(m.files, source{pkg: "internal/destroy"}, source{pkg: "internal/pve/request"})
	}
	m.files = append(m.files, source{pkg: "internal/destroy"}, source{pkg: "internal/destroy", test: true})
	for range maxTestFolder + 1 {
		m.files = append(m.files, source{pkg: "internal/test/plan", test: true})
	}
	if found := m.crowded(); len(found) != 2 || !strings.HasPrefix(found[0], "internal/destroy has 21 files") ||
		!strings.HasPrefix(found[1], "internal/test/plan has 41 test files") {
		t.Errorf("found %q", found)
	}
}

// objects measures types. A working object is a struct that its own methods change: one with a method on its pointer and
// without tags. The width of models, wire types and plain values is given by their subject.
func (t tree) objects(test *testing.T, seen map[string]bool) {
	fields, methods, working := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, s := range t.files {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if name, pointer := receiverOf(d); name != "" {
					methods[s.pkg+"."+name]++
					working[s.pkg+"."+name] = working[s.pkg+"."+name] || pointer
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if n, ok := widthOf(spec); ok {
						fields[s.pkg+"."+spec.(*ast.TypeSpec).Name.Name] = n
					}
				}
			}
		}
	}
	for name, n := range methods {
		measure(test, seen, "methods of "+name, n, maxMethods)
	}
	for name, n := range fields {
		if working[name] {
			measure(test, seen, "fields of "+name, n, cmp.Or(narrow[name], maxFields))
		}
	}
	for name := range narrow {
		if !working[name] {
			test.Errorf("%s has a limit of its own and is no working object", name)
		}
	}
}

// receiverOf names the type that a method belongs to, and whether it takes a pointer.
func receiverOf(d *ast.FuncDecl) (name string, pointer bool) {
	if d.Recv == nil || len(d.Recv.List) != 1 {
		return "", false
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t, pointer = star.X, true
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name, pointer
	}
	return "", false
}

// widthOf counts the fields of a struct without tags.
func widthOf(spec ast.Spec) (n int, ok bool) {
	named, ok := spec.(*ast.TypeSpec)
	if !ok {
		return 0, false
	}
	object, ok := named.Type.(*ast.StructType)
	if !ok {
		return 0, false
	}
	for _, f := range object.Fields.List {
		if f.Tag != nil {
			return 0, false
		}
		n += max(1, len(f.Names))
	}
	return n, true
}

func (t tree) lines(test *testing.T, seen map[string]bool) {
	for _, s := range t.files {
		if s.test || s.generated || support(s.pkg) && room(s.pkg) < 0 {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", s.path))
		if err != nil {
			test.Fatal(err)
		}
		wide := 0
		for line := range bytes.Lines(text) {
			if len(bytes.Runes(bytes.TrimSuffix(line, []byte("\n")))) > maxLine {
				wide++
			}
		}
		measure(test, seen, "wide lines of "+s.path, wide, 0)
	}
}

// TestSizeRules tries the measures themselves.
func TestSizeRules(t *testing.T) {
	var wide bytes.Buffer
	wide.WriteString("package p\ntype o struct {\n")
	for i := range maxFields + 1 {
		fmt.Fprintf(&wide, "\tf%d int\n", i)
	}
	wide.WriteString("}\nfunc (o *o) m() {}\ntype tagged struct {\n\ta int `json:\"a\"`\n}\nfunc (o tagged) n() {}\n")
	file, err := parser.ParseFile(token.NewFileSet(), "o.go", wide.Bytes(), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name, pointer := receiverOf(d)
			if want := map[string]bool{"o": true, "tagged": false}; pointer != want[name] {
				t.Errorf("receiver %s: pointer %t", name, pointer)
			}
		case *ast.GenDecl:
			n, ok := widthOf(d.Specs[0])
			name := d.Specs[0].(*ast.TypeSpec).Name.Name
			if name == "o" && (!ok || n != maxFields+1) || name == "tagged" && ok {
				t.Errorf("%s: %d fields, counted %t", name, n, ok)
			}
		}
	}
}
