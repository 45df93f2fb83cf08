package foretold_test

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// change is a change of VMs and disks that are there.
type change struct {
	name          string
	before, after string
	prepare       func(*state.World)
	all           bool // terraform destroy
}

const second = `
resource "proxmox_vm" "y" {
  vmid        = 102
  name        = "db"
  node        = "pve1"
  protection  = false
  disks       = { scsi0 = { storage = "local-zfs", size = "1G" } }
  power_state = "stopped"
}
`

// changes are those that the sweeps make, and those of several objects.
func changes() []change {
	var list []change
	for _, s := range engine.Steps() {
		list = append(list, change{name: s.Name, before: s.Before, after: s.After, prepare: s.Prepare})
	}
	const attached = "    scsi6 = { imported_disk = { volume = proxmox_disk.data.volume } }\n"
	has := func(disk, config string) string {
		return disk + engine.Replace(config, "format = \"qcow2\" }\n", "format = \"qcow2\" }\n"+attached)
	}
	held := rig.DiskBlock(`storage = "local-lvm"`, `size = "2G"`)
	cloned := func(source string) string {
		return "resource \"proxmox_vm\" \"x\" {\n  vmid = 101\n  name = \"web\"\n  node = \"pve1\"\n  clone = { vmid = " + source +
			", full = true }\n  protection = false\n  power_state = \"stopped\"\n}\n"
	}
	snapshots := "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n  name = \"ours\"\n}\n"
	vm := engine.PopulatedVM
	return append(list,
		change{name: "destroy of all", before: vm + second, all: true},
		change{name: "destroy of two", before: vm + second},
		change{name: "destroy of one of two", before: vm + second, after: second},
		change{name: "replacement by another clone", before: cloned("9000"), after: cloned("9100")},
		change{name: "replacement under another id", before: vm, after: engine.Replace(vm, "vmid     = 101", "vmid     = 150")},
		change{name: "destroy with a snapshot of ours", before: vm + snapshots},
		change{name: "a snapshot of ours goes", before: vm + snapshots, after: vm},
		change{name: "destroy a disk", before: held},
		change{name: "grow a disk", before: held, after: rig.DiskBlock(`storage = "local-lvm"`, `size = "3G"`)},
		change{name: "move a disk", before: held, after: rig.DiskBlock(`storage = "local-zfs"`, `size = "2G"`)},
		change{name: "another id for a disk", before: held, after: engine.Replace(held, "vmid = 300", "vmid = 310")},
		change{name: "destroy a VM, keep its disk", before: has(held, vm), after: held},
		change{name: "destroy a VM and its disk", before: has(held, vm)},
		change{name: "put a new disk in the place of an own one", before: vm,
			after: held + engine.Replace(vm, `scsi1 = { storage = "local-lvm", size = "2G" }`, `scsi1 = { imported_disk = { volume = proxmox_disk.data.volume } }`)},
	)
}
