// Command mutate makes mistakes in product code, one at a time, and tells which tests notice. The sources stay as they
// are: the compiler is handed each mistake by an overlay.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	seed := flag.Uint64("seed", 20261127, "of the draw of mistakes")
	count := flag.Int("n", 200, "`number` of mistakes")
	only := flag.String("kind", "", "only kinds with this `text` in their names")
	list := flag.Bool("list", false, "print the mistakes, and try none")
	limit := flag.Duration("limit", 10*time.Minute, "for the tests of one mistake")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	drawn, err := draw(*seed, *count, *only)
	if err == nil {
		fmt.Printf("%d mistakes, seed %d\n", len(drawn), *seed)
		err = run(ctx, drawn, *list, *limit)
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
				of = append(of, k.find(s)...)
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

// verdict is what became of a mistake.
type verdict string

const (
	caught    verdict = "caught"
	escaped   verdict = "NOT CAUGHT"
	unbuilt   verdict = "does not compile"
	leftAlone verdict = "not tried"
)

// run tries the mistakes, and prints how many each law caught.
func run(ctx context.Context, drawn []mistake, list bool, limit time.Duration) error {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	by, outcomes := map[string]int{}, map[verdict]int{}
	for n, m := range drawn {
		head := fmt.Sprintf("%3d %s:%d: %s: %s", n+1, m.file, m.line, m.kind.name, m.what)
		if list {
			fmt.Println(head)
			continue
		}
		within, cancel := context.WithTimeout(ctx, limit)
		v, who, err := m.try(within, dir)
		cancel()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
		outcomes[v]++
		if who != "" {
			by[who]++
		}
		fmt.Printf("%s\n    %s %s\n", head, v, who)
	}
	if list {
		return nil
	}
	tried := outcomes[caught] + outcomes[escaped]
	fmt.Printf("%d tried, %d caught (%.0f %%), %d more do not compile, %d not tried\n", tried, outcomes[caught],
		100*float64(outcomes[caught])/float64(max(1, tried)), outcomes[unbuilt], outcomes[leftAlone])
	for _, who := range sorted(by) {
		fmt.Printf("  %4d by %s\n", by[who], who)
	}
	return ctx.Err()
}

func sorted(by map[string]int) (all []string) {
	for who := range by {
		all = append(all, who)
	}
	slices.Sort(all)
	return all
}

// try runs the tests of a mistake until one notices it, and says which.
func (m mistake) try(ctx context.Context, dir string) (verdict, string, error) {
	content, err := os.ReadFile(m.file)
	if err != nil {
		return "", "", err
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", "", err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	text := string(content[:m.from]) + m.text + string(content[m.to:])
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", "", err
	}
	places, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(overlay, places, 0o600); err != nil {
		return "", "", err
	}
	if out, passed := goTool(ctx, "build", "-overlay", overlay, "./"+filepath.Dir(m.file)); !passed {
		if isOver(ctx) {
			return leftAlone, "", nil
		}
		return unbuilt, lastLine(out), nil
	}
	for _, l := range m.kind.laws {
		out, passed := goTool(ctx, "test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast", "-run", l.run, l.pkg)
		switch {
		case isOver(ctx):
			return leftAlone, "", nil
		case !passed:
			return caught, firstFailure(out, l), nil
		}
	}
	return escaped, "", nil
}

// isOver reports whether the time for a mistake, or for all of them, is over.
func isOver(ctx context.Context) bool { return ctx.Err() != nil }

// goTool runs the go command.
func goTool(ctx context.Context, args ...string) (out string, passed bool) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "NODRIFT_CONFIGS=20", "ADOPT=10")
	cmd.WaitDelay = 10 * time.Second
	all, err := cmd.CombinedOutput()
	return string(all), err == nil
}

// firstFailure is the name of the test that noticed.
func firstFailure(out string, l law) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
	}
	return l.pkg + " (" + l.run + ")"
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}
