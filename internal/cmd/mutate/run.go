package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verdict is what became of a mistake.
type verdict string

const (
	caught  verdict = "caught"
	escaped verdict = "NOT CAUGHT"
	unbuilt verdict = "does not compile"
)

// run tries the mistakes whose titles match, and prints how many each law caught.
func run(ctx context.Context, drawn []mistake, match *regexp.Regexp, list bool, limit time.Duration) error {
	if list {
		for n, m := range drawn {
			if match.MatchString(m.title(n)) {
				fmt.Println(m.title(n))
			}
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := compile(ctx, dir, drawn)
	if err != nil {
		return err
	}
	r := &report{by: map[string]int{}, outcomes: map[verdict]int{}}
	for _, k := range kinds() {
		var of []int
		for i, m := range drawn {
			if m.kind.name == k.name && match.MatchString(m.title(i)) {
				of = append(of, i)
			}
		}
		if err = p.sift(ctx, k, of, limit, r); err != nil {
			break
		}
	}
	r.print()
	return cmp.Or(err, ctx.Err())
}

// report is what became of the mistakes.
type report struct {
	by       map[string]int
	outcomes map[verdict]int
}

func (r *report) note(title string, v verdict, who string) {
	r.outcomes[v]++
	if v == caught {
		r.by[who]++
	}
	fmt.Printf("%s\n    %s %s\n", title, v, who)
}

func (r *report) print() {
	tried := r.outcomes[caught] + r.outcomes[escaped]
	fmt.Printf("%d tried, %d caught (%.1f %%), %d more do not compile\n", tried, r.outcomes[caught],
		100*float64(r.outcomes[caught])/float64(max(1, tried)), r.outcomes[unbuilt])
	for _, who := range sorted(r.by) {
		fmt.Printf("  %4d by %s\n", r.by[who], who)
	}
}

func (m mistake) title(n int) string {
	return fmt.Sprintf("%3d %s:%d: %s: %s", n+1, m.file, m.line, m.kind.name, m.what)
}

func sorted(by map[string]int) (all []string) {
	for who := range by {
		all = append(all, who)
	}
	slices.Sort(all)
	return all
}

// sift plays the laws of a kind, one after the other, with the mistakes that none has noticed yet.
func (p *program) sift(ctx context.Context, k *kind, mistakes []int, limit time.Duration, r *report) error {
	title := func(i int) string { return p.mistakes[i].title(i) }
	left := slices.DeleteFunc(slices.Clone(mistakes), func(i int) bool { return p.broken[i] != "" })
	for _, i := range mistakes {
		if p.broken[i] != "" {
			r.note(title(i), unbuilt, p.broken[i])
		}
	}
	for _, l := range k.laws {
		began, before := time.Now(), len(left)
		for at, size := 0, 1; at < len(left); {
			group := p.together(l, left[at:], size)
			found, err := p.search(ctx, l, group, limit)
			if err != nil {
				return err
			}
			size, at = 2*size, at+len(group)
			if len(found) > 0 {
				size, at = 1, at-len(found)
			}
			for _, i := range group {
				if found[i] != "" {
					r.note(title(i), caught, found[i])
				}
			}
			left = slices.DeleteFunc(left, func(i int) bool { return found[i] != "" })
		}
		if before > 0 {
			fmt.Printf("  %s: %d of %d by %s %s in %s\n", k.name, before-len(left), before, l.pkg,
				strings.TrimSpace(l.run+" "+l.setting), time.Since(began).Round(time.Second))
		}
	}
	for _, i := range left {
		r.note(title(i), escaped, "")
	}
	return nil
}

// together is the beginning of a list of mistakes that are made at once: as many as size, each in a function of its own.
// Most mistakes that one law passes over another passes over, too, and a law takes no longer with all of them than with
// one. A law that reads the sources gets one.
func (p *program) together(l law, mistakes []int, size int) []int {
	if l.pkg == sources {
		return mistakes[:1]
	}
	in := map[string]bool{}
	for n, i := range mistakes {
		if n == size || in[p.functions[i]] {
			return mistakes[:n]
		}
		in[p.functions[i]] = true
	}
	return mistakes
}

// search finds the mistakes of a group that a law notices, and which of its tests. That test has to pass without a
// mistake: one that fails by itself would notice everything.
func (p *program) search(ctx context.Context, l law, group []int, limit time.Duration) (map[int]string, error) {
	out, passed := p.law(ctx, l, group, limit)
	if err := ctx.Err(); err != nil || passed {
		return nil, err
	}
	if len(group) > 1 {
		found := map[int]string{}
		for _, half := range [][]int{group[:len(group)/2], group[len(group)/2:]} {
			some, err := p.search(ctx, l, half, limit)
			if err != nil {
				return nil, err
			}
			maps.Copy(found, some)
		}
		return found, nil
	}
	test := firstFailure(out)
	alone := law{l.pkg, "^" + test + "$", l.setting}
	if test == "" {
		alone.run = l.run
	}
	if !p.holds[alone] {
		if out, p.holds[alone] = p.law(ctx, alone, nil, limit); !p.holds[alone] && ctx.Err() == nil {
			return nil, fmt.Errorf("%s (%s) fails without a mistake: %s", l.pkg, alone.run, out)
		}
	}
	who := strings.TrimSpace(cmp.Or(test, l.pkg+" ("+l.run+")") + " " + l.setting)
	return map[int]string{group[0]: who}, ctx.Err()
}

// law runs a law with a group of mistakes. A law that does not end has noticed them, too.
func (p *program) law(ctx context.Context, l law, group []int, limit time.Duration) (out string, passed bool) {
	if l.pkg == sources {
		restore, err := p.inCopy(ctx, group)
		if err != nil {
			return err.Error(), false
		}
		defer restore()
	}
	for _, t := range p.tests[l.pkg] {
		r, made := lawRun{l, t}, group
		if len(group) > 0 && l.pkg != sources {
			reached, err := p.reach(ctx, r, limit)
			if err != nil {
				return err.Error(), false
			}
			made = slices.DeleteFunc(slices.Clone(group), func(i int) bool { return !slices.Contains(reached, i) })
			if len(made) == 0 {
				continue
			}
		}
		if out, passed = output(p.test(ctx, r, made, limit)); !passed {
			return out, false
		}
	}
	return "", true
}

// test is the command that plays a law with a group of mistakes.
func (p *program) test(ctx context.Context, r lawRun, group []int, limit time.Duration) *exec.Cmd {
	cmd := p.command(ctx, group, r.binary, "-test.failfast", "-test.run="+r.run, "-test.timeout="+limit.String())
	cmd.Dir = r.dir
	if r.pkg == sources {
		cmd.Dir = filepath.Join(p.dir, "copy", "internal")
	}
	if r.setting != "" {
		cmd.Env = append(cmd.Env, r.setting)
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// reach plays a law without a mistake, once, and tells the mistakes whose functions run in it: of the others it can
// notice none.
func (p *program) reach(ctx context.Context, r lawRun, limit time.Duration) ([]int, error) {
	if known, ok := p.reached[r]; ok {
		return known, nil
	}
	notes := filepath.Join(p.dir, fmt.Sprintf("reached-%d", len(p.reached)))
	cmd := p.test(ctx, r, nil, limit)
	cmd.Env = append(cmd.Env, noted+"="+notes)
	if out, passed := output(cmd); !passed && ctx.Err() == nil {
		return nil, fmt.Errorf("%s (%s) fails without a mistake: %s", r.pkg, r.run, out)
	}
	content, err := os.ReadFile(notes)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	p.reached[r] = []int{}
	for line := range strings.Lines(string(content)) {
		number, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		p.reached[r] = append(p.reached[r], number)
	}
	return p.reached[r], nil
}

// inCopy makes a mistake, or none, in a copy of the sources, for the tests that read them.
func (p *program) inCopy(ctx context.Context, group []int) (restore func(), err error) {
	to := filepath.Join(p.dir, "copy")
	if _, err := os.Stat(to); err != nil {
		if out, ok := output(exec.CommandContext(ctx, "git", "checkout-index", "-a", "--prefix="+to+"/")); !ok {
			return nil, fmt.Errorf("the copy of the sources: %s", out)
		}
	}
	restore = func() {}
	if len(group) == 0 {
		return restore, nil
	}
	m := p.mistakes[group[0]]
	content, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	put := func(text string) error { return os.WriteFile(filepath.Join(to, m.file), []byte(text), 0o600) }
	restore = func() { _ = put(string(content)) }
	return restore, put(string(content[:m.from]) + m.text + string(content[m.to:]))
}

// firstFailure is the name of the test that noticed, "" if the output names none.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
	}
	return ""
}
