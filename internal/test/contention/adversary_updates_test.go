package contention_test

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// updateScenes are changes that the sweeps do not make, since they fail: those that wait for a guest which does not obey.
func updateScenes() []scene {
	const hurry = "shutdown_timeout = \"30s\"\n  "
	more := func(config string) string { return engine.Replace(config, "cores = 2", "cores = 4, type = \"host\"") }
	impatient := engine.Replace(engine.PopulatedVM, engine.PoweredOn, hurry+engine.PoweredOn)
	list := []scene{
		{name: "restart of a guest that does not obey", before: impatient, after: more(impatient), prepare: engine.IgnoreShutdown, fails: true},
		{name: "power off, of a guest that does not obey", before: impatient, after: engine.Replace(impatient, engine.PoweredOn, engine.PoweredOff), prepare: engine.IgnoreShutdown, fails: true},
	}
	for n := range list {
		list[n].vmid, list[n].do = engine.ChangedVMID, applies
	}
	return list
}

// heldDiskScenes are about the disk of a proxmox_disk. A change of the VM that uses the disk does not concern the VM that holds it:
// the holder and its volume count as a third party's and stay as they are.
func heldDiskScenes() []scene {
	const attached = "    scsi6 = { imported_disk = { volume = proxmox_disk.data.volume } }\n"
	disk := rig.DiskBlock(`storage = "local-lvm"`, `size = "2G"`)
	has := func(config string) string {
		return disk + engine.Replace(config, "format = \"qcow2\" }\n", "format = \"qcow2\" }\n"+attached)
	}
	off := engine.Replace(engine.PopulatedVM, engine.PoweredOn, engine.PoweredOff)
	undone := []state.PowerKind{state.PowerStop, state.PowerStop} // by an undo
	return []scene{
		{name: "make a disk", vmid: 300, after: disk, do: applies},
		{name: "grow a disk", vmid: 300, before: disk, after: rig.DiskBlock(`storage = "local-lvm"`, `size = "3G"`), do: applies},
		{name: "move a disk", vmid: 300, before: disk, after: rig.DiskBlock(`storage = "local-zfs"`, `size = "2G"`), do: applies},
		{name: "destroy a disk", vmid: 300, before: disk, do: applies},
		{name: "attach a held disk, stopped", vmid: engine.ChangedVMID, before: disk + off, after: has(off), do: applies},
		{name: "create with a held disk", vmid: 200, before: disk, after: has(scratchBy(200)), offs: undone, do: applies},
		{name: "destroy, with a held disk", vmid: engine.ChangedVMID, before: has(engine.PopulatedVM), after: disk, do: applies,
			offs: []state.PowerKind{state.PowerShutdown}},
	}
}
