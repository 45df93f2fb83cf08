package cost_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const fewVMs = `
resource "proxmox_vm" "few" {
  count = 5
  name  = "vm-${count.index}"
  node  = %q
  vmid  = 300 + count.index
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`

// TestOneListingOfALongRefresh: the refreshes of one run share one listing of the cluster, though they take minutes; a VM that
// was moved meanwhile is found with a listing of its own, and costs no other VM anything.
func TestOneListingOfALongRefresh(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(fewVMs, "pve1"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	refresh := func(before func(address string)) []string {
		t.Helper()
		record := s.Around
		s.Around = func(rpc, address string) func() {
			if rpc == "ReadResource" {
				w.Sim.Advance(time.Minute)
				before(address)
			}
			return record(rpc, address)
		}
		w.ResetCalls()
		pl, err := s.Plan(t.Context())
		s.Around = record
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range pl.Changes {
			if c.Address != "proxmox_vm.few[3]" && c.Action != terraformtest.NoOp {
				t.Errorf("planned to change %s", c.Address)
			}
		}
		return rig.RequestsOf(w, "ReadResource")
	}
	still := refresh(func(string) {})
	if len(still) != 6 {
		t.Errorf("%d requests for 5 VMs, want 6: %s", len(still), still)
	}
	moving := refresh(func(address string) {
		if address == "proxmox_vm.few[3]" {
			rig.MigrateByHand(t, w, 303, "pve2")
		}
	})
	if again := refresh(func(string) {}); len(again) != 7 { // whether its disk came along
		t.Errorf("%d requests for 5 VMs of which one has moved, want 7: %s", len(again), again)
	}
	listings := len(slices.DeleteFunc(moving, func(r string) bool { return r != "GET /cluster/resources" }))
	if listings != 3 {
		t.Errorf("%d listings, want one for all, one for the VM that was moved and one for its disk", listings)
	}
}
