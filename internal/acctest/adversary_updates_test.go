package acctest_test

import "github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"

// updateScenes are changes that the sweeps do not make: those that destroy, that cut off, and that wait for a guest which does not obey.
func updateScenes() []scene {
	const destroying, hard = "removed_disks = \"destroy\"\n  ", "reboot_policy = \"force\"\n  "
	const uuid = "smbios = { uuid = \"11111111-2222-3333-4444-555555555555\" }\n  "
	const hurry = "shutdown_timeout = \"30s\"\n  "
	without := func(config string) string {
		return with(config, "    scsi1 = { storage = \"local-lvm\", size = \"2G\" }\n", "")
	}
	more := func(config string) string { return with(config, "cores = 2", "cores = 4, type = \"host\"") }
	impatient := with(inhabited, poweredOn, hurry+poweredOn)
	forced := with(inhabited, poweredOn, hard+hurry+poweredOn)
	removing := with(inhabited, poweredOn, destroying+poweredOn)
	rules := with(inhabited, `macro = "SSH" }`,
		`macro = "SSH" }, { type = "in", action = "ACCEPT", macro = "HTTP" }, { type = "in", action = "DROP" }`)
	off := with(inhabited, poweredOn, poweredOff)
	list := []scene{
		{name: "remove a disk with its volume", before: removing, after: without(removing)},
		{name: "change the slot of a disk", before: inhabited, after: with(inhabited,
			"scsi1 = { storage", "scsi5 = { imported_disk = { volume = \"local-lvm:vm-101-disk-0\" }, storage")},
		{name: "new cloud-init data", before: inhabited, after: with(inhabited, `user = "ops"`, `user = "admin"`)},
		{name: "move the cloud-init drive", before: inhabited, after: with(inhabited,
			`{ storage = "local-zfs", user`, `{ storage = "local-lvm", user`)},
		{name: "firewall rules", before: inhabited, after: rules},
		{name: "fewer firewall rules", before: rules, after: inhabited},
		{name: "change of the uuid", before: off, after: with(off, poweredOff, uuid+poweredOn, "cores = 2", "cores = 4",
			`pool     = "web"`, `pool     = "db"`)},
		{name: "force a restart", before: forced, after: more(forced), prepare: deaf, offs: []state.PowerKind{state.PowerStop}},
		{name: "restart of a deaf guest", before: impatient, after: more(impatient), prepare: deaf, fails: true},
		{name: "power off, of a deaf guest", before: impatient, after: with(impatient, poweredOn, poweredOff), prepare: deaf, fails: true},
	}
	for n := range list {
		list[n].vmid, list[n].do = lifeVMID, applies
	}
	return list
}

// deaf has the guest not react when it is asked to shut down.
func deaf(world *state.World) { world.Guests[lifeVMID].Ignores = []string{"shutdown"} }

// heldDiskScenes are about the disk of a proxmox_disk. What is done to a VM that has it is no affair of the VM that holds it: among the
// strangers' things, it and its volume stay as they are.
func heldDiskScenes() []scene {
	const attached = "    scsi6 = { imported_disk = { volume = proxmox_disk.data.volume } }\n"
	disk := diskBlock(`storage = "local-lvm"`, `size = "2G"`)
	has := func(config string) string {
		return disk + with(config, "format = \"qcow2\" }\n", "format = \"qcow2\" }\n"+attached)
	}
	off := with(inhabited, poweredOn, poweredOff)
	undone := []state.PowerKind{state.PowerStop, state.PowerStop} // by an undo
	return []scene{
		{name: "make a disk", vmid: 300, after: disk, do: applies},
		{name: "grow a disk", vmid: 300, before: disk, after: diskBlock(`storage = "local-lvm"`, `size = "3G"`), do: applies},
		{name: "move a disk", vmid: 300, before: disk, after: diskBlock(`storage = "local-zfs"`, `size = "2G"`), do: applies},
		{name: "destroy a disk", vmid: 300, before: disk, do: applies},
		{name: "attach a held disk", vmid: lifeVMID, before: disk + inhabited, after: has(inhabited), do: applies},
		{name: "attach a held disk, stopped", vmid: lifeVMID, before: disk + off, after: has(off), do: applies},
		{name: "let go of a held disk", vmid: lifeVMID, before: has(inhabited), after: disk + inhabited, do: applies},
		{name: "create with a held disk", vmid: 200, before: disk, after: has(scratchBy(200)), offs: undone, do: applies},
		{name: "destroy, with a held disk", vmid: lifeVMID, before: has(inhabited), after: disk, do: applies,
			offs: []state.PowerKind{state.PowerShutdown}},
	}
}
