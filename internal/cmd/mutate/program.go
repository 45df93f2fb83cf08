package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The environment of the program: which mistakes it makes, by their numbers with commas between, and in which file it
// notes the mistakes whose functions run.
const chosen, noted = "MUTATE_MISTAKE", "MUTATE_REACHED"

// chooser goes into each package with mistakes.
const chooser = `package %s

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

var (
	mutateMistakes = strings.Split(os.Getenv("` + chosen + `"), ",")
	mutateNotes   = os.Getenv("` + noted + `")
	mutateReached sync.Map
)

// mutateIs reports whether the program makes a mistake, by its number.
func mutateIs(number int) bool {
	if mutateNotes == "" {
		return slices.Contains(mutateMistakes, strconv.Itoa(number))
	}
	if _, known := mutateReached.LoadOrStore(number, true); !known {
		f, err := os.OpenFile(mutateNotes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		_, err = f.WriteString(strconv.Itoa(number) + "\n")
		if closing := f.Close(); err != nil || closing != nil {
			panic("mutate: the note of a function that runs was not written")
		}
	}
	return false
}
`

// program is the product with all mistakes in it.
type program struct {
	dir       string // of its files
	mistakes  []mistake
	broken    map[int]string      // what the compiler says of a mistake, by its index
	functions map[int]string      // the function of a mistake, by its index
	copies    map[string][]extent // where the functions with a mistake stand, by file
	holds     map[law]bool        // the laws that pass without a mistake
	tests     map[string][]suite  // the compiled tests of a law's packages
	reached   map[lawRun][]int    // the mistakes whose functions run in the tests
}

// extent is where the copy of a function with a mistake stands.
type extent struct{ mistake, from, to int }

// suite is a compiled package of tests.
type suite struct{ binary, dir string }

// lawRun is a law in one package of tests.
type lawRun struct {
	law
	suite
}

// compile compiles the product with all mistakes that the compiler takes, and the tests of their laws.
func compile(ctx context.Context, dir string, mistakes []mistake) (*program, error) {
	p := &program{dir: dir, mistakes: mistakes, broken: map[int]string{}, functions: map[int]string{}, holds: map[law]bool{},
		tests: map[string][]suite{}, reached: map[lawRun][]int{}}
	for {
		packages, err := p.write()
		if err != nil {
			return nil, err
		}
		out, passed := p.goTool(ctx, append([]string{"build", "-gcflags=-e"}, packages...)...)
		if passed {
			break
		}
		before := len(p.broken)
		p.blame(out)
		if len(p.broken) == before {
			return nil, fmt.Errorf("the program does not compile: %s", out)
		}
	}
	for _, m := range mistakes {
		for _, l := range m.kind.laws {
			if err := p.compileTests(ctx, l.pkg); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func (p *program) overlay() string { return filepath.Join(p.dir, "overlay.json") }

// write writes the files with the mistakes, and the overlay that puts them in the place of the product's.
func (p *program) write() (packages []string, err error) {
	byFile := map[string][]int{}
	for i, m := range p.mistakes {
		if p.broken[i] == "" {
			byFile[m.file] = append(byFile[m.file], i)
		}
	}
	replaced := map[string]string{}
	put := func(path, text string) (at string, err error) {
		path, err = filepath.Abs(path)
		if err != nil {
			return "", err
		}
		at = filepath.Join(p.dir, fmt.Sprintf("%d.go", len(replaced)))
		replaced[path] = at
		return at, os.WriteFile(at, []byte(text), 0o600)
	}
	p.copies = map[string][]extent{}
	for file, indexes := range byFile {
		s, err := read(file, nil)
		if err != nil {
			return nil, err
		}
		text, extents := p.withCopies(s, indexes)
		at, err := put(file, text)
		if err != nil {
			return nil, err
		}
		p.copies[at] = extents
		pkg := "./" + filepath.Dir(file)
		if slices.Contains(packages, pkg) {
			continue
		}
		packages = append(packages, pkg)
		text = fmt.Sprintf(chooser, s.tree.Name.Name)
		if _, err := put(filepath.Join(filepath.Dir(file), "mutate_mistake.go"), text); err != nil {
			return nil, err
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return nil, err
	}
	return packages, os.WriteFile(p.overlay(), content, 0o600)
}

// edit is a piece of text for another.
type edit struct {
	from, to int
	text     string
}

// withCopies is the file with a copy of a function for each of its mistakes.
func (p *program) withCopies(s *source, indexes []int) (text string, extents []extent) {
	var edits []edit
	var copies strings.Builder
	named := map[*ast.FuncDecl]string{} // the call's words for receiver and parameters
	for _, i := range indexes {
		m := p.mistakes[i]
		f := s.function(m.from)
		p.functions[i] = fmt.Sprintf("%s:%d", m.file, s.offset(f.Pos()))
		if _, ok := named[f]; !ok {
			args, more := s.arguments(f)
			named[f] = args
			edits = append(edits, more...)
		}
		receiver, args, _ := strings.Cut(named[f], "|")
		copied := fmt.Sprintf("%sMistake%d", f.Name.Name, i)
		call := fmt.Sprintf("%s%s(%s)", receiver, copied, args)
		if f.Type.Results == nil {
			call += "; return"
		} else {
			call = "return " + call
		}
		edits = append(edits, edit{s.offset(f.Body.Lbrace) + 1, s.offset(f.Body.Lbrace) + 1,
			fmt.Sprintf(" if mutateIs(%d) { %s };", i, call)})
		from, name, to := s.offset(f.Pos()), s.offset(f.Name.End()), s.offset(f.End())
		start := bytes.Count(s.bytes, []byte("\n")) + strings.Count(copies.String(), "\n") + 1
		fmt.Fprintf(&copies, "\n%sMistake%d%s%s%s\n", s.bytes[from:name], i, s.bytes[name:m.from], m.text, s.bytes[m.to:to])
		end := bytes.Count(s.bytes, []byte("\n")) + strings.Count(copies.String(), "\n") + 1
		extents = append(extents, extent{i, start, end})
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	text = string(s.bytes)
	for _, e := range edits {
		text = text[:e.from] + e.text + text[e.to:]
	}
	return text + copies.String(), extents
}

// arguments are the receiver, with a point, and the parameters, as a call inside the function writes them; the edits
// name those that have no name.
func (s *source) arguments(f *ast.FuncDecl) (words string, edits []edit) {
	var receiver string
	var params []string
	name := func(field *ast.Field, nth int) []string {
		called := fmt.Sprintf("unnamed%d", nth)
		if len(field.Names) == 0 {
			at := s.offset(field.Type.Pos())
			edits = append(edits, edit{at, at, called + " "})
			return []string{called}
		}
		var all []string
		for i, ident := range field.Names {
			word := ident.Name
			if word == "_" {
				word = called + strconv.Itoa(i)
				edits = append(edits, edit{s.offset(ident.Pos()), s.offset(ident.End()), word})
			}
			all = append(all, word)
		}
		return all
	}
	if f.Recv != nil {
		receiver = name(f.Recv.List[0], 0)[0] + "."
	}
	for i, field := range f.Type.Params.List {
		names := name(field, i+1)
		if _, ok := field.Type.(*ast.Ellipsis); ok {
			names[len(names)-1] += "..."
		}
		params = append(params, names...)
	}
	return receiver + "|" + strings.Join(params, ", "), edits
}

// blame finds the mistakes of which the compiler complains.
func (p *program) blame(out string) {
	place := regexp.MustCompile(`^(\S+\.go):(\d+)(?::\d+)?: (.*)`)
	for line := range strings.Lines(out) {
		found := place.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue
		}
		number, _ := strconv.Atoi(found[2])
		for _, e := range p.copies[found[1]] {
			if e.from <= number && number <= e.to {
				p.broken[e.mistake] = found[3]
			}
		}
	}
}

// compileTests compiles the tests of a law's packages, once.
func (p *program) compileTests(ctx context.Context, pattern string) error {
	if _, ok := p.tests[pattern]; ok {
		return nil
	}
	out, passed := p.goTool(ctx, "list", "-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}`, pattern)
	if !passed {
		return fmt.Errorf("the packages of %s: %s", pattern, out)
	}
	p.tests[pattern] = nil
	for line := range strings.Lines(out) {
		pkg, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		binary := filepath.Join(p.dir, strings.ReplaceAll(pkg, "/", "_")+".test")
		if out, passed := p.goTool(ctx, "test", "-c", "-vet=off", "-o", binary, pkg); !passed {
			return fmt.Errorf("the tests of %s: %s", pkg, out)
		}
		p.tests[pattern] = append(p.tests[pattern], suite{binary, dir})
	}
	return nil
}

// goTool runs the go command with the overlay.
func (p *program) goTool(ctx context.Context, args ...string) (out string, passed bool) {
	return output(p.command(ctx, nil, "go", args...))
}

// command is a command that sees the overlay, as do the go commands that it runs, and makes a group of mistakes.
func (p *program) command(ctx context.Context, group []int, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	var numbers []string
	for _, i := range group {
		numbers = append(numbers, strconv.Itoa(i))
	}
	cmd.Env = append(os.Environ(), chosen+"="+strings.Join(numbers, ","),
		strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+p.overlay()))
	return cmd
}

func output(cmd *exec.Cmd) (out string, passed bool) {
	all, err := cmd.CombinedOutput()
	return string(all), err == nil
}
