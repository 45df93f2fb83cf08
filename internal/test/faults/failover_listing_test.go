package faults_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestFailoverOfListings: a node is listed as online and cannot be reached, as in the first moments after it went, or while its
// pveproxy is stopped. Its VMs keep their state, with a warning each; every listing has the rest, and names the missing part.
func TestFailoverOfListings(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}})
	s := w.Session(t, rig.TokenNoSSH, `
resource "proxmox_vm" "each" {
  count = 6
  name  = "vm-${count.index}"
  node  = "pve${count.index % 3 + 1}"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`)
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.Advance(20e9)
	const away = "pve1"
	w.Change(func(world *state.World) {
		world.Nodes[away].Unreached = true
		for _, v := range []state.Volume{{Storage: "local-zfs", Node: "pve2", Name: "vm-800-disk-0"}, {Storage: "shared-nfs", Name: "801/vm-801-disk-0.qcow2"}} {
			v.Content, v.Format, v.Size, v.VMID = "images", "raw", 1<<30, 800
			if v.Node == "" {
				v.Format, v.VMID = "qcow2", 801
			}
			world.Volumes[state.VolumeKey{Storage: v.Storage, Node: v.Node, Name: v.Name}] = &v
		}
	})
	w.ResetCalls()
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := s.Diagnostics().String()
	if len(s.Addresses()) != 6 || strings.Count(kept, "Connection refused") != 1 || strings.Count(kept, "node pve1 does not answer, as for VM ") != 1 || strings.Contains(kept, "node pve2") {
		t.Errorf("%d VMs in state: %s", len(s.Addresses()), kept)
	}
	// 6 VMs and the listing; of the two on the node that is away the first is tried three times.
	if used := rig.BudgetedRequests(w.Sim.Ops()); len(w.Sim.Ops()) > 7+2 {
		t.Errorf("%d requests:\n%s", len(w.Sim.Ops()), strings.Join(used, "\n"))
	}
	if pl, err := s.Plan(t.Context()); err != nil {
		t.Error(err)
	} else if changes := pl.String(); strings.Contains(changes, "proxmox_vm.each") {
		t.Errorf("the plan changes something:\n%s", changes)
	}
	for _, c := range []struct{ source, config, want, says string }{
		{"proxmox_vms", "", "vm-5", ""},
		{"proxmox_nodes", "", "pve3", ""},
		{"proxmox_node", `name = "pve2"`, "pve2", ""},
		{"proxmox_node", `name = "pve1"`, "pve1", "does not answer"},
		{"proxmox_storages", "", "local-zfs", ""},
		{"proxmox_files", `storage = "shared-nfs"`, "pve2", ""},
		{"proxmox_orphans", "", "vm-800-disk-0", "the guests of node pve1"},
		{"proxmox_orphans", "", "vm-801-disk-0", "could not be looked at"},
		{"proxmox_vm", `name = "vm-1"`, "vm-1", ""},
	} {
		v, err := s.ReadDataSource(t.Context(), c.source, c.config)
		said := s.Diagnostics().String()
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		if got := shown(v); !strings.Contains(got, c.want) || !strings.Contains(said+got, c.says) {
			t.Errorf("%s: want %q and %q in %s %s", c.source, c.want, c.says, got, said)
		}
	}
}

func shown(v cty.Value) string { return fmt.Sprint(terraformtest.ShowValue(v)) }
