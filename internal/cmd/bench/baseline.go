package main

import (
	"bufio"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The baselines are what was measured when they were last written, one file for each figure. Only what does not depend on the
// machine is kept: ratios to what ran beside it, and requests for each VM.
//
//go:embed baseline
var baselines embed.FS

const baselineDir = "baseline"

// kept is a figure of the provider that has a baseline.
type kept struct {
	file, what string
	noise      float64 // what two runs of the same may differ by, as a share
	of         func(r rows, op string, vms int, ours measured) (float64, bool)
}

var keptFigures = []kept{
	{file: "server-of-bare.txt", what: "time with the server, of the bare client's", noise: 0.08, of: serverOfBare},
	{file: "requests-per-vm.txt", what: "requests and polls per VM", noise: 0.04,
		of: func(_ rows, _ string, vms int, ours measured) (float64, bool) {
			n := ours.Requests + ours.Polls
			return float64(n) / float64(max(vms, 1)), n > 0
		}},
	{file: "cpu-of-terraform_data.txt", what: "CPU of both, of terraform_data's", noise: 0.25,
		of: func(r rows, op string, vms int, ours measured) (float64, bool) {
			floor, ok := r.find(op, vms, whoFloor)
			return ours.both().Seconds() / floor.both().Seconds(), ok && floor.both() > 0 && ours.both() > 0
		}},
}

// figure is one value of a baseline, or one to be compared with it.
type figure struct {
	op    string
	vms   int
	value float64
}

// figures are those of the provider that were measured.
func (k kept) figures(r rows) (all []figure) {
	for _, row := range r {
		if row.who != whoProvider {
			continue
		}
		if value, ok := k.of(r, row.op, row.vms, row.median()); ok && !math.IsNaN(value) && !math.IsInf(value, 0) {
			all = append(all, figure{row.op, row.vms, value})
		}
	}
	return all
}

// readBaseline reads "operation<tab>VMs<tab>value" lines; "#" begins a comment.
func readBaseline(in io.Reader) ([]figure, error) {
	var all []figure
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		text := lines.Text()
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Split(text, "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("%q is no line of a baseline", text)
		}
		vms, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		value, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, err
		}
		all = append(all, figure{fields[0], vms, value})
	}
	return all, lines.Err()
}

// readBaselines reads those of a directory; a figure without a file has none.
func readBaselines(dir fs.FS) (map[string][]figure, error) {
	all := map[string][]figure{}
	for _, k := range keptFigures {
		file, err := dir.Open(k.file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if all[k.file], err = readBaseline(file); err != nil {
			return nil, fmt.Errorf("%s: %w", k.file, err)
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// verdictOn compares a measurement with the baseline.
func (k kept) verdictOn(now, then float64) string {
	switch {
	case now > then*(1+k.noise):
		return "worse"
	case now < then*(1-k.noise):
		return "better"
	}
	return "within noise"
}

// compare prints what was measured beside the baselines.
func compare(out io.Writer, r rows, base map[string][]figure) error {
	for _, k := range keptFigures {
		_, _ = fmt.Fprintf(out, "\n%s (noise %.0f %%)\n", k.what, k.noise*100)
		for _, f := range k.figures(r) {
			i := slices.IndexFunc(base[k.file], func(b figure) bool { return b.op == f.op && b.vms == f.vms })
			verdict := "no baseline"
			if i >= 0 {
				then := base[k.file][i].value
				verdict = fmt.Sprintf("baseline %.2f: %s", then, k.verdictOn(f.value, then))
			}
			if _, err := fmt.Fprintf(out, "  %-34s %8.2f  %s\n", fmt.Sprintf("%s, %d VMs", f.op, f.vms), f.value, verdict); err != nil {
				return err
			}
		}
	}
	return nil
}

// write keeps what was measured as baselines in a directory; what was not measured stays as it was.
func write(dir string, r rows, base map[string][]figure) error {
	for _, k := range keptFigures {
		all := slices.Clone(base[k.file])
		for _, f := range k.figures(r) {
			i := slices.IndexFunc(all, func(b figure) bool { return b.op == f.op && b.vms == f.vms })
			if i < 0 {
				i = len(all)
				all = append(all, f)
			}
			all[i] = f
		}
		text := fmt.Sprintf("# %s: operation, VMs, value. Written by make bench-baseline.\n", k.what)
		for _, f := range all {
			text += fmt.Sprintf("%s\t%d\t%.3f\n", f.op, f.vms, f.value)
		}
		if err := os.WriteFile(filepath.Join(dir, k.file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// embedded are the baselines of the repository.
func embedded() (map[string][]figure, error) {
	dir, err := fs.Sub(baselines, path.Clean(baselineDir))
	if err != nil {
		return nil, err
	}
	return readBaselines(dir)
}
