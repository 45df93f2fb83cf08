package contention_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// aliased is a configuration with three providers, each a process of its own, two of them for one cluster.
const aliased = `
terraform {
  required_providers {
    proxmox = { source = "terraform-proxmox/proxmox" }
  }
}
provider "proxmox" {}
provider "proxmox" {
  alias = "again"
}
provider "proxmox" {
  alias          = "edge"
  endpoint       = %q
  api_token      = %q
  ca_certificate = %q
}
resource "proxmox_vm" "one" {
  count = %[4]d
  name  = "one-%[5]d-${count.index}"
  node  = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
resource "proxmox_vm" "two" {
  provider = proxmox.again
  count    = %[4]d
  name     = "two-%[5]d-${count.index}"
  node     = "pve2"
  disks    = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
resource "proxmox_vm" "edge" {
  provider = proxmox.edge
  name     = "edge-%[5]d"
  node     = "pve1"
}
`

// TestScaleProcesses: many runs of Terraform at once create VMs without ids, each with three provider processes, two for one cluster and one
// for another: twenty with 10 VMs in the first cluster in the whole. Each VM has an id of its own, and nothing is left.
func TestScaleProcesses(t *testing.T) {
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	runs, each := 2, 2
	if share.IsWhole() {
		runs, each = 20, 5
	}
	world := func() *rig.World {
		return rig.ExampleWorld(t, pvesim.Options{RealNetwork: true, Clock: clock.Real{}, Latency: 20 * time.Millisecond, Workers: 3, TaskTime: 200 * time.Millisecond})
	}
	w, edge := world(), world()
	before, beforeEdge := rig.GuestCount(w), rig.GuestCount(edge)
	settings := rig.DevOverride(t, t.TempDir())
	var workspaces []rig.Workspace
	for n := range runs {
		config := fmt.Sprintf(aliased, edge.Sim.Endpoint(), edge.Sim.Credentials().Token, edge.Sim.CAPEM(), each, n)
		workspaces = append(workspaces, rig.NewWorkspace(t, w, settings, map[string]string{"main.tf": config}))
	}
	began := time.Now()
	allAtOnce(t, workspaces, "apply", "-auto-approve")
	asked, lost := creates(w.Sim.Ops())
	t.Logf("%d runs of Terraform with 3 providers each, %d VMs: %d requests, %d of them creates, of which %d met a taken id; %s on the machine",
		runs, rig.GuestCount(w)-before, len(w.Sim.Ops()), asked, lost, time.Since(began).Round(100*time.Millisecond))
	if is := rig.GuestCount(w) - before; is != runs*2*each {
		t.Errorf("%d VMs, want %d", is, runs*2*each)
	}
	if is := rig.GuestCount(edge) - beforeEdge; is != runs {
		t.Errorf("%d VMs on the other cluster, want %d", is, runs)
	}
	names := rig.GuestsNamed(w)
	for n := range runs {
		for i := range each {
			for _, name := range []string{fmt.Sprintf("one-%d-%d", n, i), fmt.Sprintf("two-%d-%d", n, i)} {
				if names[name] == 0 {
					t.Errorf("there is no VM %s", name)
				}
			}
		}
	}
	if runs > 2 {
		allAtOnce(t, workspaces, "plan", "-detailed-exitcode")
	}
	allAtOnce(t, workspaces, "destroy", "-auto-approve")
	w.MustBeClean(t)
	edge.MustBeClean(t)
}

func allAtOnce(t *testing.T, workspaces []rig.Workspace, args ...string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, ws := range workspaces {
		wg.Go(func() { ws.Run(t, args...) })
	}
	wg.Wait()
}

// TestScaleRangeUsedUp: more VMs are wanted than vmid_range has ids. As many are made as there are ids, each other one says so, and nothing
// is left of it.
func TestScaleRangeUsedUp(t *testing.T) {
	t.Parallel()
	runs, each := sizeOfCrowd()
	const tooMany = 5
	w := rig.NewWorld(t, pvesim.Options{TaskTime: 2 * time.Second})
	others, began := rig.GuestCount(w), time.Now()
	room := runs*each - tooMany
	all := newCrowd(t, w, runs, each, 3000, 3000+room-1, fromNothing)
	refused := 0
	for _, err := range all.atOnce(t.Context(), (*terraformtest.Session).Run) {
		for text := range strings.SplitSeq(err.Error(), "Error: ") {
			if strings.Contains(text, "No free VMID") && strings.Contains(text, fmt.Sprintf("from 3000 to %d", 3000+room-1)) {
				refused++
			} else if strings.TrimSpace(text) != "" {
				t.Error(text)
			}
		}
	}
	all.figures(t, "more than the range has", began)
	if refused != tooMany {
		t.Errorf("%d VMs were refused an id, want %d", refused, tooMany)
	}
	all.mustHave(t, room, others)
	for _, err := range all.atOnce(t.Context(), (*terraformtest.Session).Destroy) {
		t.Error(err)
	}
	w.MustBeClean(t)
}

// TestScaleBesideOthers: while runs create VMs, others destroy theirs, and a third party without this provider makes some under whatever id is the
// next free one. No VM of theirs is touched, and no run fails.
func TestScaleBesideOthers(t *testing.T) {
	t.Parallel()
	runs, each := sizeOfCrowd()
	w := rig.NewWorld(t, pvesim.Options{TaskTime: 2 * time.Second})
	others := rig.GuestCount(w)
	leaving := newCrowd(t, w, runs/2, each, 0, 0, fromNothing)
	rig.Must(t, errors.Join(leaving.atOnce(t.Context(), (*terraformtest.Session).Run)...))
	coming := newCrowd(t, w, runs, each, 0, 0, fromTemplate)
	strangers, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	var theirs []int
	busy.Go(func() { theirs = w.MakeByNextID(strangers, 2*runs) })
	var gone []error
	busy.Go(func() { gone = leaving.atOnce(t.Context(), (*terraformtest.Session).Destroy) })
	began := time.Now()
	came := coming.atOnce(t.Context(), (*terraformtest.Session).Run)
	stop()
	busy.Wait()
	rig.Must(t, errors.Join(append(gone, came...)...))
	coming.figures(t, fmt.Sprintf("%d runs leave, %d VMs of a third party", runs/2, len(theirs)), began)
	coming.mustHave(t, runs*each, others+len(theirs))
	if len(theirs) == 0 {
		t.Error("the third party has made no VM")
	}
	for _, id := range coming.ids() {
		if slices.Contains(theirs, id) {
			t.Errorf("VM %d is the third party's", id)
		}
	}
}
