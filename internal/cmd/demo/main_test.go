package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// quick is the cluster of the demonstration, on a clock that runs fast.
func quick() pvesim.Options {
	return pvesim.Options{RealNetwork: true, Clock: rig.NewFastClock()}
}

// TestStoryInProcess tells the story without any Terraform, so that it stays true where there is none.
func TestStoryInProcess(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), &out, options{inProcess: true, cluster: quick()}); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestStoryByCLI tells it with the Terraform or OpenTofu that is there.
func TestStoryByCLI(t *testing.T) {
	path, err := findCLI()
	switch {
	case err != nil:
		t.Fatal(err)
	case path == "" || testing.Short():
		t.Skip("runs a CLI, which TF_CLI or PATH must have")
	}
	var out bytes.Buffer
	if err := run(context.Background(), &out, options{cluster: quick()}); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), path) {
		t.Errorf("%s was not used:\n%s", path, out.String())
	}
}

// TestUntrueClaims: a cluster that does not behave makes the demonstration fail.
func TestUntrueClaims(t *testing.T) {
	var out bytes.Buffer
	s := &story{out: &out}
	s.claim("water is dry", false, result{output: "it is wet"})
	s.claim("water is wet", true, result{output: "unseen"})
	if len(s.untrue) != 1 || s.claims != 2 || !strings.Contains(out.String(), "UNTRUE water is dry\n          | it is wet") || strings.Contains(out.String(), "unseen") {
		t.Errorf("untrue %v of %d:\n%s", s.untrue, s.claims, out.String())
	}
}

func TestFindCLI(t *testing.T) {
	t.Setenv("TF_CLI", "no-such-program")
	if path, err := findCLI(); err == nil {
		t.Errorf("a TF_CLI that does not exist gave %q", path)
	}
	t.Setenv("TF_CLI", "")
	t.Setenv("PATH", t.TempDir())
	if path, err := findCLI(); err != nil || path != "" {
		t.Errorf("an empty PATH gave %q, %v", path, err)
	}
}
