package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if isWrapper(os.Args[0]) {
		os.Exit(wrap(os.Args[0]))
	}
	goleak.VerifyTestMain(m)
}

func TestOptions(t *testing.T) {
	o, err := parse([]string{"-n", "2", "-unchanged", "5, 7", "-slow", "", "-offline", "", "-json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.runs != 2 || !o.json || !slices.Equal(o.unchanged, []int{5, 7}) || len(o.slow) != 0 || !slices.Equal(o.created, []int{50, 200}) {
		t.Errorf("%+v", o)
	}
	for _, args := range [][]string{{"-n", "0"}, {"-slow", "1,x"}, {"-created", "0"}, {"extra"}, {"-unknown"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v accepted", args)
		}
	}
}

// TestWrapper: what runs behind the wrapper is accounted for by itself, and its exit status and output pass through.
func TestWrapper(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "provider")
	text := "#!" + shell + "\ni=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo \"$1 works\"; exit 3\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := newSide(dir, whoProvider, "example.org/some/proxmox", script)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, err := exec.Command(filepath.Join(s.plugins, pluginName), "it").Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || string(out) != "it works\n" {
			t.Fatalf("%v: %q", err, out)
		}
	}
	sum, lives, err := collect(s.plugins)
	if err != nil || lives != 2 || sum.Provider.CPU <= 0 || sum.Provider.RSS <= 0 || sum.Wrapper <= 0 {
		t.Errorf("%+v of %d lives, %v", sum, lives, err)
	}
	if _, lives, err := collect(s.plugins); lives != 0 || err != nil {
		t.Errorf("counted twice: %d, %v", lives, err)
	}
}

func TestBadProvider(t *testing.T) {
	for _, binary := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := newSide(t.TempDir(), whoPeer, "bpg/proxmox", binary); err == nil {
			t.Errorf("%s accepted", binary)
		}
	}
}

// TestRun measures a little with a real Terraform: the VMs made from one are unchanged to their provider, one listing and one
// request for each VM is what a plan costs, and both formats say so.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs Terraform")
	}
	if _, err := newTerraform(t.Context()); err != nil {
		t.Skip(err)
	}
	t.Setenv("BENCH_PEER", "")
	var out, progress bytes.Buffer
	if err := run(t.Context(), []string{"-json", "-n", "1", "-unchanged", "3", "-created", "", "-slow", "", "-offline", "4"}, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	planned, refreshed := false, false
	for text := range strings.Lines(out.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if l.Target != "" || l.Who != whoProvider {
			continue
		}
		if l.ProviderCPU <= 0 || l.TerraformCPU <= 0 || l.ProviderRSS <= 0 || l.Wall <= 0 {
			t.Errorf("not measured: %s", text)
		}
		if l.Operation == opOffline { // the two that are there, and the listing
			refreshed = true
			if l.VMs != 4 || l.Requests != 3 {
				t.Errorf("%d requests for a refresh of %d half of which are on a node that is away", l.Requests, l.VMs)
			}
		}
		if l.Operation == opPlan {
			planned = true
			if l.Requests != 4 || l.Polls != 0 {
				t.Errorf("%d requests and %d polls for a plan of three", l.Requests, l.Polls)
			}
		}
	}
	if !planned || !refreshed {
		t.Errorf("no plan or no refresh in %s", out.String())
	}
}
