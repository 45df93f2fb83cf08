package acctest_test

import (
	"fmt"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// fromElsewhere is a VM with a disk of an ESXi host and one of an appliance, which is unpacked under the VM's id first.
func fromElsewhere() scenario {
	disk := func(storage, from string, gib int64) vm.Disk {
		return vm.Disk{Storage: storage, ImportFrom: &from, Size: to(gib << 30)}
	}
	return scenario{name: "from elsewhere", vmid: 101, request: create.Request{Node: "pve1", Start: true, Spec: vm.Spec{
		Options: vm.Options{Name: to("web-1"), Description: to("web server")},
		Disks: map[string]vm.Disk{"scsi0": disk("local-lvm", "esxi:ha-datacenter/datastore1/web/web.vmdk", 16),
			"scsi1": disk("local-zfs", "local:import/appliance.ova/appliance-disk1.vmdk", 10)}, // grown
	}}}
}

// TestSweepImport fails every request of a create whose disks come from another hypervisor, in every way: nothing leaks, neither a copy nor
// what was unpacked, and what is there is not touched.
func TestSweepImport(t *testing.T) {
	t.Parallel()
	for _, who := range sweepIdentities() {
		if who.name != "token with SSH" {
			continue
		}
		b, counts, sc := newBench(t, who), tally{}, fromElsewhere()
		furnished := state.Default([]string{"pve1", "pve2"})
		furnished.Furnish()
		w := b.sim.World()
		w.Lock()
		w.Furnish()
		w.Unlock()
		b.base = b.sim.Snapshot()
		b.also = func(w *state.World) { // no snapshot has the bytes of a file
			for at, v := range w.Volumes {
				if was := furnished.Volumes[at]; was != nil {
					v.Raw = was.Raw
				}
			}
		}
		for _, op := range b.cleanRun(sc) {
			for _, phase := range phases {
				c := &sweepCase{bench: b, who: who, sc: sc, faults: []fault.Rule{{Match: fault.Match{Seq: op.Seq}, Phase: phase}}, op: opName(op)}
				if o, effective := c.run(t); effective {
					counts.add(fmt.Sprintf("%-10s %s", phase, opName(op)), o)
				}
			}
		}
		if total := counts.print(t, "imports"); total < 20 {
			t.Errorf("only %d effective cases", total)
		}
	}
}
