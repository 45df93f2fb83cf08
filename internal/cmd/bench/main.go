// Bench measures what the provider costs on a simulated cluster, driven by the Terraform or OpenTofu from PATH (TF_CLI names
// another), and prints it beside what the same number of terraform_data resources cost and beside the project's targets. With
// BENCH_PEER naming a binary of terraform-provider-proxmox made from bpg's source it measures that one on the same work.
//
// The first part is about CPU and memory: a server that answers at once, and VMs that do not change. The second is about
// requests and time: a server as slow as a real one, and a bare client that does the same work without Terraform (see bare.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	if isWrapper(os.Args[0]) {
		os.Exit(wrap(os.Args[0]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options say what is measured.
type options struct {
	runs      int
	unchanged []int // how many VMs are planned, refreshed and applied without a change
	created   []int // how many are created on the quick server
	slow      []int // how many are created, cloned and destroyed on the slow one
	provider  string
	peer      string
	offline   []int // how many are refreshed while half of them are on a node that is away
	json      bool
	explain   bool
	baseline  string // the directory to keep what is measured in
}

func parse(args []string, help io.Writer) (options, error) {
	o := options{unchanged: []int{10, 100, 1000}, created: []int{50, 200}, slow: []int{1, 10, 50, 100}, offline: []int{1000},
		peer: os.Getenv("BENCH_PEER")}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.IntVar(&o.runs, "n", 3, "`runs` of each measurement, of which the median is printed")
	flags.Func("unchanged", "comma-separated `counts` of VMs to plan, refresh and apply without a change (default 10,100,1000)",
		counts(&o.unchanged))
	flags.Func("created", "comma-separated `counts` of VMs to create on a server that answers at once (default 50,200)", counts(&o.created))
	flags.Func("slow", "comma-separated `counts` of VMs to create, update, clone and destroy on a slow server (default 1,10,50,100)",
		counts(&o.slow))
	flags.Func("offline", "comma-separated `counts` of VMs to refresh while half of them are on a node that is away (default 1000)",
		counts(&o.offline))
	flags.StringVar(&o.baseline, "baseline", "", "`directory` to keep the figures in as the new baselines, in place of comparing with them")
	flags.StringVar(&o.provider, "provider", "", "`file` of the provider to measure; default is to build this source")
	flags.BoolVar(&o.explain, "explain", false, "print every request of the provider's with its times, and what each command's time went into")
	flags.BoolVar(&o.json, "json", false, "print one line of JSON per row")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.runs < 1 {
		return o, errors.New("-n: at least one run")
	}
	return o, nil
}

// counts reads "10,100"; "" is none.
func counts(into *[]int) func(string) error {
	return func(text string) error {
		*into = nil
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no count of VMs", word)
			}
			*into = append(*into, n)
		}
		return nil
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "proxmox-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cli, err := newTerraform(ctx)
	if err != nil {
		return err
	}
	sides, err := prepare(ctx, dir, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "Driven by %s (%s).\n", cli.version, cli.binary)
	b := &bench{terraform: cli, sides: sides, progress: progress, runs: o.runs, explain: o.explain}
	report := writeTable
	if o.json {
		report = writeJSON
	}
	// The results before a failure are worth seeing, too.
	err = errors.Join(b.quickPart(ctx, o), b.slowPart(ctx, o.slow))
	if err != nil && o.baseline != "" { // half of it is no baseline
		return errors.Join(err, report(out, b.rows))
	}
	return errors.Join(err, report(out, b.rows), b.compare(o, out))
}

// compare sets what was measured beside the baselines, or keeps it as the new ones.
func (b *bench) compare(o options, out io.Writer) error {
	base, err := embedded()
	if err != nil {
		return err
	}
	if o.baseline != "" {
		return write(o.baseline, b.rows, base)
	}
	if o.json {
		out = b.progress
	}
	return compare(out, b.rows, base)
}

// prepare makes a directory for each of the sides that are compared.
func prepare(ctx context.Context, dir string, o options) ([]*side, error) {
	binary := filepath.Join(dir, pluginName)
	if o.provider != "" {
		var err error
		if binary, err = filepath.Abs(o.provider); err != nil {
			return nil, err
		}
	} else if err := build(ctx, binary); err != nil {
		return nil, err
	}
	floor, err := newSide(dir, whoFloor, "", "")
	if err != nil {
		return nil, err
	}
	ours, err := newSide(dir, whoProvider, "terraform-proxmox/proxmox", binary)
	if err != nil {
		return nil, err
	}
	sides := []*side{floor, ours}
	if o.peer != "" {
		peer, err := newSide(dir, whoPeer, "bpg/proxmox", o.peer)
		if err != nil {
			return nil, fmt.Errorf("BENCH_PEER: %w", err)
		}
		sides = append(sides, peer)
	}
	return sides, nil
}
