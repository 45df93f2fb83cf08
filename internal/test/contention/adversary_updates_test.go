package contention_test

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// updateScenes are changes that the sweeps do not make: those that destroy, that cut off, and that wait for a guest which does not obey.
func updateScenes() []scene {
	const hard = "reboot_policy = \"force\"\n  "
	const uuid = "smbios = { uuid = \"11111111-2222-3333-4444-555555555555\" }\n  "
	const hurry = "shutdown_timeout = \"30s\"\n  "
	more := func(config string) string { return engine.Replace(config, "cores = 2", "cores = 4, type = \"host\"") }
	impatient := engine.Replace(engine.PopulatedVM, engine.PoweredOn, hurry+engine.PoweredOn)
	forced := engine.Replace(engine.PopulatedVM, engine.PoweredOn, hard+hurry+engine.PoweredOn)
	medium := engine.Replace(engine.PopulatedVM, engine.PoweredOn, "cdroms = { ide3 = { file = \"local:iso/debian.iso\" } }\n  "+engine.PoweredOn)
	rules := engine.Replace(engine.PopulatedVM, `macro = "SSH" }`,
		`macro = "SSH" }, { type = "in", action = "ACCEPT", macro = "HTTP" }, { type = "in", action = "DROP" }`)
	off := engine.Replace(engine.PopulatedVM, engine.PoweredOn, engine.PoweredOff)
	list := []scene{
		{name: "new cloud-init data", before: engine.PopulatedVM, after: engine.Replace(engine.PopulatedVM, `user = "ops"`, `user = "admin"`)},
		{name: "move the cloud-init drive", before: engine.PopulatedVM, after: engine.Replace(engine.PopulatedVM,
			`{ storage = "local-zfs", user`, `{ storage = "local-lvm", user`)},
		{name: "exchange the medium", before: medium, after: engine.Replace(medium, "local:iso/debian.iso", "none")},
		{name: "firewall rules", before: engine.PopulatedVM, after: rules},
		{name: "fewer firewall rules", before: rules, after: engine.PopulatedVM},
		{name: "change of the uuid", before: off, after: engine.Replace(off, engine.PoweredOff, uuid+engine.PoweredOn, "cores = 2", "cores = 4",
			`pool     = "web"`, `pool     = "db"`)},
		{name: "force a restart", before: forced, after: more(forced), prepare: ignoreShutdown, offs: []state.PowerKind{state.PowerStop}},
		{name: "restart of a ignoreShutdown guest", before: impatient, after: more(impatient), prepare: ignoreShutdown, fails: true},
		{name: "power off, of a ignoreShutdown guest", before: impatient, after: engine.Replace(impatient, engine.PoweredOn, engine.PoweredOff), prepare: ignoreShutdown, fails: true},
	}
	for n := range list {
		list[n].vmid, list[n].do = engine.ChangedVMID, applies
	}
	return list
}

// ignoreShutdown has the guest not react when it is asked to shut down.
func ignoreShutdown(world *state.World) {
	world.Guests[engine.ChangedVMID].Ignores = []string{"shutdown"}
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
		{name: "attach a held disk", vmid: engine.ChangedVMID, before: disk + engine.PopulatedVM, after: has(engine.PopulatedVM), do: applies},
		{name: "attach a held disk, stopped", vmid: engine.ChangedVMID, before: disk + off, after: has(off), do: applies},
		{name: "let go of a held disk", vmid: engine.ChangedVMID, before: has(engine.PopulatedVM), after: disk + engine.PopulatedVM, do: applies},
		{name: "create with a held disk", vmid: 200, before: disk, after: has(scratchBy(200)), offs: undone, do: applies},
		{name: "destroy, with a held disk", vmid: engine.ChangedVMID, before: has(engine.PopulatedVM), after: disk, do: applies,
			offs: []state.PowerKind{state.PowerShutdown}},
	}
}
