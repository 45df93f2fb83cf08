package acctest_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// fromISO is a VM with two disks that are made of a file which PVE takes by its path only, and one that is not.
func fromISO() scenario {
	iso := func(storage string) vm.Disk {
		return vm.Disk{Storage: storage, Size: to(int64(4 << 30)), ImportFrom: to("local:iso/debian.iso"), DiskOptions: vm.DiskOptions{Discard: to(true)}}
	}
	return scenario{name: "from an ISO file", vmid: 101, request: create.Request{Node: "pve1", Start: true, Spec: vm.Spec{
		Options: vm.Options{Name: to("web-1"), Description: to("web server"), Protection: to(true)},
		Disks: map[string]vm.Disk{"scsi0": iso("local-zfs"), "scsi1": {Storage: "local-lvm", Size: to(int64(2 << 30))},
			"scsi2": iso("local2")},
		Networks: map[string]vm.NIC{"net0": {Model: "virtio", NICOptions: vm.NICOptions{Bridge: to("vmbr0")}}},
	}}}
}

// TestSweepSource fails every request and every command of a create whose disks are named by their paths, in every way, and then every
// one of the undo of an import that was killed or whose end nobody heard of; of the first import only, unless DESTROY_ALL says all.
func TestSweepSource(t *testing.T) {
	t.Parallel()
	for _, who := range sweepIdentities() {
		if !who.ticket && !who.ssh {
			continue // the plan refuses it, and so does the create: TestSourceMatrix
		}
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			b, counts, sc := newBench(t, who), tally{}, fromISO()
			ops := b.cleanRun(sc)
			isCommand := func(op pvesim.Op) bool { return op.Method == "SSH" && op.Path == "qm set" }
			if n := len(slices.DeleteFunc(slices.Clone(ops), func(op pvesim.Op) bool { return !isCommand(op) })); n != 2 && who.ssh || n != 0 && !who.ssh {
				t.Fatalf("%d disks were imported over SSH", n)
			}
			imports := 0
			for _, op := range ops {
				if isCommand(op) {
					imports++
				}
				for _, phase := range phases {
					first := fault.Rule{Match: fault.Match{Seq: op.Seq}, Phase: phase}
					c := &sweepCase{bench: b, who: who, sc: sc, faults: []fault.Rule{first}, op: opName(op)}
					o, effective := c.run(t)
					if effective {
						counts.add(fmt.Sprintf("%-16s %-10s %s", who.name, phase, opName(op)), o)
					}
					if effective && o == rolledBack && isCommand(op) && (imports == 1 || os.Getenv("DESTROY_ALL") != "") {
						for _, undo := range b.undoOf(t, who, sc, first) {
							c := &sweepCase{bench: b, who: who, sc: sc, faults: []fault.Rule{first, {Match: fault.Match{Seq: undo.Seq},
								Phase: fault.After}}, op: opName(undo), undo: true}
							if o, effective := c.run(t); effective {
								counts.add(fmt.Sprintf("%-16s %-10s %s", who.name, "undo of "+phase, opName(op)), o)
							}
						}
					}
				}
			}
			if total := counts.print(t, "sources"); total < 20 {
				t.Errorf("only %d effective cases", total)
			}
		})
	}
}

// TestSweepSourceInOVA fails the request that makes a VM of a disk in an OVA, which PVE unpacks to a volume of the VM's id first, on a storage
// that the VM has nothing on.
func TestSweepSourceInOVA(t *testing.T) {
	t.Parallel()
	who, counts := sweepIdentities()[0], tally{}
	b := newBench(t, who)
	b.also = func(world *state.World) {
		world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "import/web.ova", Content: "import", Format: "ova", Size: 71680, Raw: appliance()})
	}
	b.reset()
	b.base = b.sim.Snapshot()
	sc := fromISO()
	sc.name, sc.request.ImportStorage = "from an OVA", "local2"
	sc.request.Spec.Disks = map[string]vm.Disk{
		"scsi0": {Storage: "local-zfs", Size: to(int64(4 << 30)), ImportFrom: to("local:import/web.ova/disk1.vmdk")}}
	for _, op := range b.cleanRun(sc) {
		if op.Method == http.MethodPost && op.Path == "/nodes/{node}/qemu" && op.Params["import-working-storage"] != "local2" {
			t.Errorf("sent %v", op.Params)
		}
		for _, phase := range phases {
			if op.Method != http.MethodPost {
				continue
			}
			c := &sweepCase{bench: b, who: who, sc: sc, faults: []fault.Rule{{Match: fault.Match{Seq: op.Seq}, Phase: phase}}, op: opName(op)}
			if o, effective := c.run(t); effective {
				counts.add(fmt.Sprintf("%-10s %s", phase, opName(op)), o)
			}
		}
	}
	if total := counts.print(t, "OVA"); total < 8 {
		t.Errorf("only %d effective cases", total)
	}
}
