package faults_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// fromElsewhere is a VM with a disk of an ESXi host and one of an appliance, which is unpacked under the VM's id first.
func fromElsewhere() engine.Scenario {
	disk := func(storage, from string, gib int64) vm.Disk {
		return vm.Disk{Storage: storage, ImportFrom: &from, Size: rig.Pointer(gib << 30)}
	}
	return engine.Scenario{Name: "from elsewhere", VMID: 101, Request: create.Request{Node: "pve1", Start: true, Spec: vm.Spec{
		Options: vm.Options{Name: rig.Pointer("web-1"), Description: rig.Pointer("web server")},
		Disks: map[string]vm.Disk{"scsi0": disk("local-lvm", "esxi:ha-datacenter/datastore1/web/web.vmdk", 16),
			"scsi1": disk("local-zfs", "local:import/appliance.ova/appliance-disk1.vmdk", 10)}, // grown
	}}}
}

// TestSweepImport fails every request of a create whose disks come from another hypervisor, in every way: nothing leaks, neither a copy nor
// an unpacked file, and existing objects stay untouched.
func TestSweepImport(t *testing.T) {
	t.Parallel()
	for _, who := range engine.FaultIdentities() {
		if who.Name != "token with SSH" {
			continue
		}
		b, counts, sc := engine.NewCreateBench(t, who), tally{}, fromElsewhere()
		furnished := state.Default([]string{"pve1", "pve2"})
		furnished.Furnish()
		w := b.Sim.World()
		w.Lock()
		w.Furnish()
		w.Unlock()
		b.Base = b.Sim.Snapshot()
		b.Also = func(w *state.World) { // no snapshot has the bytes of a file
			for at, v := range w.Volumes {
				if was := furnished.Volumes[at]; was != nil {
					v.Raw = was.Raw
				}
			}
		}
		counts.sweep(t, b, who, sc, b.CleanRun(sc), byOperation)
		if total := counts.print(t, "imports"); total < 20 {
			t.Errorf("only %d effective cases", total)
		}
	}
}
