package engine

import (
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// Parts of PopulatedVM that updates take out and put in.
const (
	scsi1     = "    scsi1 = { storage = \"local-lvm\", size = \"2G\" }\n"
	scsi2     = "    scsi2 = { storage = \"local\", size = \"1G\", format = \"qcow2\" }\n"
	imported1 = "imported_disk = { volume = \"local-lvm:vm-101-disk-0\" }"
	imported2 = "imported_disk = { volume = \"local:101/vm-101-disk-0.qcow2\" }"
)

var (
	rebooted = []state.PowerKind{state.PowerReboot}
	stopped  = []state.PowerKind{state.PowerShutdown}
)

// with is PopulatedVM, or one made of it, with more arguments.
func with(config, arguments string) string {
	return Replace(config, "scsihw ", arguments+"\n  scsihw ")
}

func stoppedVM(config string) string { return Replace(config, PoweredOn, PoweredOff) }

// diskUpdates are updates of one disk or two.
func diskUpdates() []Step {
	destroying := with(PopulatedVM, `removed_disks = "destroy"`)
	const sata = "    sata1 = { storage = \"local-lvm\", size = \"1G\" }\n"
	hasSATA := Replace(destroying, scsi2, scsi2+sata)
	slot := func(config, name string) string {
		return Replace(config, "scsi1 = { storage", name+" = { "+imported1+", storage")
	}
	swapped := Replace(PopulatedVM, scsi1, Replace(scsi2, "scsi2 = { ", "scsi1 = { "+imported2+", "),
		scsi2, Replace(scsi1, "scsi1 = { ", "scsi2 = { "+imported1+", "))
	held := rig.DiskBlock(`storage = "local-lvm"`, `size = "2G"`)
	attached := held + Replace(PopulatedVM, scsi2, scsi2+"    scsi6 = { imported_disk = { volume = proxmox_disk.data.volume } }\n")
	return []Step{
		{Name: "swap two disks", Before: PopulatedVM, After: swapped},
		{Name: "swap two disks, stopped", Before: stoppedVM(PopulatedVM), After: stoppedVM(swapped)},
		{Name: "change the bus of a disk, stopped", Before: stoppedVM(PopulatedVM), After: stoppedVM(slot(PopulatedVM, "sata3"))},
		{Name: "replace a disk", Before: destroying, After: Replace(destroying, scsi1, "    scsi6 = { storage = \"local-lvm\", size = \"2G\" }\n"), Leaves: []string{"disks.scsi1"}, Killed: (*ChangedWorld).ForgetDetached},
		{Name: "replace a disk in its slot", Before: destroying, After: Replace(destroying, scsi1, "    scsi1 = { storage = \"local-lvm\", size = \"2G\", import_from = \"local:import/disk.qcow2\" }\n")},
		{Name: "remove a disk by a restart", Before: hasSATA, After: Replace(hasSATA, sata, ""), Offs: rebooted, Leaves: []string{"disks.sata1", "sata1"}, ByHand: deleted("sata1"), Failed: (*ChangedWorld).ForgetDetached},
		{Name: "remove disks, stopped", Before: stoppedVM(hasSATA), After: stoppedVM(Replace(hasSATA, sata, "", scsi1, "")), Leaves: []string{"disks.scsi1"}, Killed: (*ChangedWorld).ForgetDetached},
		{Name: "detach a disk of a snapshot", Before: stoppedVM(PopulatedVM), After: stoppedVM(Replace(PopulatedVM, scsi1, "")), Prepare: snapshotted, Leaves: []string{"disks.scsi1"}},
		{Name: "attach a detached disk", Before: Replace(PopulatedVM, scsi1, ""), After: slot(PopulatedVM, "scsi1"), Prepare: detached},
		{Name: "move a disk, and change it", Before: PopulatedVM, After: Replace(PopulatedVM, `"local-zfs", size = "4G"`, `"local-lvm", size = "4G", ssd = true`), Offs: rebooted},
		{Name: "change a disk", Before: PopulatedVM, After: Replace(PopulatedVM, `size = "4G", discard = true`, `size = "4G", discard = true, ssd = true, backup = false`), Offs: rebooted},
		{Name: "leave firmware, stopped", Before: stoppedVM(firmwareVM()), After: stoppedVM(PopulatedVM), Leaves: []string{"efi_disk"}, ByHand: deleted("bios", "machine", "efidisk0", "tpmstate0")},
		{Name: "remove firmware, stopped", Before: stoppedVM(with(firmwareVM(), `removed_disks = "destroy"`)), After: stoppedVM(destroying), Leaves: []string{"efi_disk"}, ByHand: deleted("bios", "machine", "efidisk0", "tpmstate0"), Killed: (*ChangedWorld).ForgetDetached},
		{Name: "attach a held disk", Before: held + PopulatedVM, After: attached},
		{Name: "let go of a held disk", Before: attached, After: held + PopulatedVM, Leaves: []string{"disks.scsi6"}},
	}
}

// deleted takes options out of the VM, as an administrator does it who also restarts it where that is needed.
func deleted(options ...string) func(*state.World) {
	return func(world *state.World) {
		config := world.Guests[ChangedVMID].Config
		for _, option := range options {
			volume, _, _ := strings.Cut(config[option], ",")
			isVolume := strings.Contains(volume, fmt.Sprintf("-%d-", ChangedVMID))
			for n := 0; isVolume; n++ {
				if entry := fmt.Sprintf("unused%d", n); config[entry] == "" {
					config[entry], isVolume = volume, false
				}
			}
			delete(config, option)
			delete(world.Guests[ChangedVMID].Deletes, option)
		}
	}
}

// detached adds a volume of the VM that it had as scsi1.
func detached(world *state.World) {
	world.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-101-disk-0", VMID: ChangedVMID, Content: "images", Format: "raw", Size: 2 << 30,
		Data: "the data of scsi1"})
	world.Guests[ChangedVMID].Config["unused0"] = "local-lvm:vm-101-disk-0"
}

// firmwareVM is PopulatedVM with a UEFI disk and a TPM.
func firmwareVM() string {
	return with(PopulatedVM, "bios = \"ovmf\"\n  machine = \"q35\"\n  efi_disk = { storage = \"local-zfs\", type = \"4m\" }\n  tpm_state = { storage = \"local-zfs\", version = \"v2.0\" }")
}

// deviceUpdates are updates of drives and devices that are no disks.
func deviceUpdates() []Step {
	drive := func(file string) string {
		return with(PopulatedVM, fmt.Sprintf("cdroms = { ide3 = { file = %q } }", file))
	}
	devices := with(PopulatedVM, "serial = { serial0 = { device = \"socket\" } }\n  audio = { device = \"ich9-intel-hda\", driver = \"none\" }\n  rng = { source = \"/dev/urandom\" }\n"+
		"  watchdog = { model = \"i6300esb\", action = \"reset\" }\n  vga = { type = \"std\" }")
	const cloudInit = `cloud_init = { storage = "local-zfs", user`
	return []Step{
		{Name: "new cloud-init data", Before: PopulatedVM, After: Replace(PopulatedVM, `user = "ops"`, `user = "admin"`)},
		{Name: "move the cloud-init drive", Before: PopulatedVM, After: Replace(PopulatedVM, cloudInit, `cloud_init = { storage = "local-lvm", user`), Failed: (*ChangedWorld).forgetCloudInitDrive},
		{Name: "change the slot of the cloud-init drive, stopped", Before: stoppedVM(PopulatedVM),
			After: stoppedVM(Replace(PopulatedVM, cloudInit, `cloud_init = { slot = "ide0", storage = "local-zfs", user`))},
		{Name: "add a drive", Before: PopulatedVM, After: drive("local:iso/debian.iso"), Offs: rebooted},
		{Name: "remove a drive", Before: drive("local:iso/debian.iso"), After: PopulatedVM, Offs: rebooted, Leaves: []string{"cdroms.ide3", "ide3"}, ByHand: deleted("ide3")},
		{Name: "exchange the medium", Before: drive("local:iso/debian.iso"), After: drive("none"), Killed: (*ChangedWorld).forgetBootOrder},
		{Name: "more devices", Before: PopulatedVM, After: devices, Offs: rebooted},
		{Name: "fewer devices, stopped", Before: stoppedVM(devices), After: stoppedVM(PopulatedVM), Leaves: []string{"serial.serial0"}, ByHand: deleted("serial0", "audio0", "rng0", "watchdog", "vga")},
		{Name: "change network devices", Before: PopulatedVM, After: Replace(PopulatedVM, `net1 = { bridge = "vmbr1" }`, `net1 = { bridge = "vmbr0", model = "e1000", firewall = true }`)},
	}
}

// settingUpdates are updates beside the VM's configuration, and those of its identity and power.
func settingUpdates() []Step {
	rules := Replace(PopulatedVM, `macro = "SSH" }`, `macro = "SSH" }, { type = "in", action = "ACCEPT", macro = "HTTP" }, { type = "in", action = "DROP" }`)
	const firewall = "  firewall = {\n    enabled = true\n    rules   = [{ type = \"in\", action = \"ACCEPT\", macro = \"SSH\" }]\n  }\n"
	uuid := with(stoppedVM(PopulatedVM), `smbios = { uuid = "11111111-2222-3333-4444-555555555555" }`)
	hard := with(PopulatedVM, "reboot_policy = \"force\"\n  shutdown_timeout = \"30s\"")
	lazy := with(PopulatedVM, `reboot_policy = "never"`)
	ha := Replace(PopulatedVM, PoweredOn, underHA)
	template := Replace(PopulatedVM, PoweredOn, "template = true")
	return []Step{
		{Name: "more firewall rules", Before: PopulatedVM, After: rules},
		{Name: "fewer firewall rules", Before: rules, After: PopulatedVM},
		{Name: "no firewall", Before: PopulatedVM, After: Replace(PopulatedVM, firewall, ""), Leaves: []string{"firewall"}, ByHand: func(world *state.World) { world.Firewall[ChangedVMID] = &state.FirewallFile{} }},
		{Name: "no pool", Before: PopulatedVM, After: Replace(PopulatedVM, "  pool     = \"web\"\n", ""), Leaves: []string{"pool"}, ByHand: func(world *state.World) { world.Pools["web"].Guests = nil }},
		{Name: "change of the uuid", Before: stoppedVM(PopulatedVM), After: Replace(uuid, PoweredOff, PoweredOn, "cores = 2", "cores = 4", `pool     = "web"`, `pool     = "db"`)},
		{Name: "force a restart", Before: hard, After: Replace(hard, "cores = 2", "cores = 4, type = \"host\""), Prepare: IgnoreShutdown, Offs: []state.PowerKind{state.PowerStop}},
		{Name: "leave a restart", Before: lazy, After: Replace(lazy, "cores = 2", "cores = 4, type = \"host\"")},
		{Name: "change HA", Ticket: true, Before: ha, After: Replace(ha, "max_restart = 2", "max_relocate = 3, comment = \"web\""), Leaves: []string{"ha.max_restart"}, ByHand: func(world *state.World) { delete(world.HA["vm:101"].Options, "max_restart") }},
		{Name: "power off under HA", Ticket: true, Before: ha, After: Replace(ha, `state = "started"`, `state = "stopped"`, PoweredOn, PoweredOff), Offs: stopped},
		{Name: "change a template", Before: template, After: Replace(template, "cores = 2", "cores = 4", `name     = "web"`, "name     = \"web-2\"\n  tags = [\"prod\"]")},
		{Name: "migrate a template", Before: onlyZFS(template), After: onlyZFS(Replace(template, onPVE1, onPVE2))},
	}
}

// IgnoreShutdown has the guest not react when it is asked to shut down.
func IgnoreShutdown(world *state.World) {
	world.Guests[ChangedVMID].Ignores = []string{"shutdown"}
}
