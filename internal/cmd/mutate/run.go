package main

import (
	"cmp"
	"context"
	"fmt"
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
	by, outcomes := map[string]int{}, map[verdict]int{}
	for n, m := range drawn {
		if !match.MatchString(m.title(n)) {
			continue
		}
		v, who, err := p.try(ctx, n, limit)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		outcomes[v]++
		if v == caught {
			by[who]++
		}
		fmt.Printf("%s\n    %s %s\n", m.title(n), v, who)
	}
	tried := outcomes[caught] + outcomes[escaped]
	fmt.Printf("%d tried, %d caught (%.1f %%), %d more do not compile\n", tried, outcomes[caught],
		100*float64(outcomes[caught])/float64(max(1, tried)), outcomes[unbuilt])
	for _, who := range sorted(by) {
		fmt.Printf("  %4d by %s\n", by[who], who)
	}
	return ctx.Err()
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

// try runs the laws of a mistake until one notices it, and says which. That test has to pass without the mistake: one that
// fails by itself would notice everything.
func (p *program) try(ctx context.Context, index int, limit time.Duration) (v verdict, who string, err error) {
	if said := p.broken[index]; said != "" {
		return unbuilt, said, nil
	}
	for _, l := range p.mistakes[index].kind.laws {
		out, passed := p.law(ctx, l, index, limit)
		if passed {
			continue
		}
		test := firstFailure(out)
		alone := law{l.pkg, "^" + test + "$", l.setting}
		if test == "" {
			alone.run = l.run
		}
		if !p.holds[alone] {
			if out, p.holds[alone] = p.law(ctx, alone, -1, limit); !p.holds[alone] && ctx.Err() == nil {
				return "", "", fmt.Errorf("%s (%s) fails without a mistake: %s", l.pkg, alone.run, out)
			}
		}
		return caught, strings.TrimSpace(cmp.Or(test, l.pkg+" ("+l.run+")") + " " + l.setting), nil
	}
	return escaped, "", nil
}

// law runs a law with the mistake that has the index. A law that does not end has noticed it, too.
func (p *program) law(ctx context.Context, l law, index int, limit time.Duration) (out string, passed bool) {
	if l.pkg == sources {
		restore, err := p.inCopy(ctx, index)
		if err != nil {
			return err.Error(), false
		}
		defer restore()
	}
	for _, t := range p.tests[l.pkg] {
		r := lawRun{l, t}
		if index >= 0 && l.pkg != sources {
			reached, err := p.reach(ctx, r, limit)
			if err != nil {
				return err.Error(), false
			}
			if !slices.Contains(reached, index) {
				continue
			}
		}
		if out, passed = output(p.test(ctx, r, index, limit)); !passed {
			return out, false
		}
	}
	return "", true
}

// test is the command that plays a law with the mistake that has the index.
func (p *program) test(ctx context.Context, r lawRun, index int, limit time.Duration) *exec.Cmd {
	cmd := p.command(ctx, index, r.binary, "-test.failfast", "-test.run="+r.run, "-test.timeout="+limit.String())
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
	cmd := p.test(ctx, r, -1, limit)
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

// inCopy makes the mistake with the index in a copy of the sources, for the tests that read them.
func (p *program) inCopy(ctx context.Context, index int) (restore func(), err error) {
	to := filepath.Join(p.dir, "copy")
	if _, err := os.Stat(to); err != nil {
		if out, ok := output(exec.CommandContext(ctx, "git", "checkout-index", "-a", "--prefix="+to+"/")); !ok {
			return nil, fmt.Errorf("the copy of the sources: %s", out)
		}
	}
	restore = func() {}
	if index < 0 {
		return restore, nil
	}
	m := p.mistakes[index]
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
