// Command mutate makes mistakes in product code and tells which tests notice each. The sources stay as they
// are. An overlay hands the compiler all mistakes at once, each in a copy of its function, and the environment chooses
// one: so the tests are compiled once.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	seed := flag.Uint64("seed", 20261127, "of the draw of mistakes")
	count := flag.Int("n", 200, "`number` of mistakes")
	only := flag.String("kind", "", "only kinds with this `text` in their names")
	match := flag.String("match", "", "of those drawn, try only the ones whose line matches this `regexp`")
	list := flag.Bool("list", false, "print the mistakes, and try none")
	limit := flag.Duration("limit", 10*time.Minute, "for the tests of one mistake")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	drawn, err := draw(*seed, *count, *only)
	if err == nil {
		fmt.Printf("%d mistakes, seed %d\n", len(drawn), *seed)
		var some *regexp.Regexp
		if some, err = regexp.Compile(*match); err == nil {
			err = run(ctx, drawn, some, *list, *limit)
		}
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// source is a product file.
type source struct {
	file  string
	bytes []byte
	fset  *token.FileSet
	tree  *ast.File
	kind  *kind
}

func read(file string, k *kind) (*source, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &source{file: file, bytes: content, fset: token.NewFileSet(), kind: k}
	s.tree, err = parser.ParseFile(s.fset, file, content, parser.ParseComments)
	return s, err
}

func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }

func (s *source) text(n ast.Node) string {
	return string(s.bytes[s.offset(n.Pos()):s.offset(n.End())])
}

func (s *source) mistake(n ast.Node, from, to int, text, what string) mistake {
	return mistake{kind: s.kind, file: s.file, line: s.fset.Position(n.Pos()).Line, what: what, from: from, to: to,
		text: text}
}

func (s *source) replace(n ast.Node, text, what string) mistake {
	return s.mistake(n, s.offset(n.Pos()), s.offset(n.End()), text, what)
}

func (s *source) insert(at int, text string, n ast.Node, what string) mistake {
	return s.mistake(n, at, at, text, what)
}

// drop takes a statement away, or an element with its comma.
func (s *source) drop(n ast.Node, element bool, what string) mistake {
	from, to := s.offset(n.Pos()), s.offset(n.End())
	if element {
		rest := s.bytes[to:]
		if trimmed := bytes.TrimLeft(rest, " \t"); bytes.HasPrefix(trimmed, []byte(",")) {
			to += len(rest) - len(trimmed) + 1
		}
	}
	return s.mistake(n, from, to, "", what)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 90)]
}

// draw chooses mistakes, of each kind as many.
func draw(seed uint64, count int, only string) ([]mistake, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	var all [][]mistake
	for _, k := range kinds() {
		if !strings.Contains(k.name, only) {
			continue
		}
		var of []mistake
		for _, glob := range k.files {
			files, err := filepath.Glob(glob)
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				if strings.HasSuffix(file, "_test.go") {
					continue
				}
				s, err := read(file, k)
				if err != nil {
					return nil, err
				}
				for _, m := range k.find(s) {
					if s.function(m.from) != nil {
						of = append(of, m)
					}
				}
			}
		}
		if len(of) == 0 {
			return nil, fmt.Errorf("no place for %s", k.name)
		}
		r.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		all = append(all, of)
	}
	var drawn []mistake
	for round := 0; len(drawn) < count; round++ {
		before := len(drawn)
		for _, of := range all {
			if round < len(of) && len(drawn) < count {
				drawn = append(drawn, of[round])
			}
		}
		if len(drawn) == before {
			break
		}
	}
	return drawn, nil
}

// function is the function around a place, nil outside of functions.
func (s *source) function(at int) *ast.FuncDecl {
	for _, d := range s.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && s.offset(f.Body.Lbrace) < at && at < s.offset(f.End()) {
			return f
		}
	}
	return nil
}
