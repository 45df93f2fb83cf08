package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// PopulatedVM is a running VM with a bit of everything; the lives replace parts of it.
const PopulatedVM = `
resource "proxmox_vm" "x" {
  vmid     = 101
  name     = "web"
  node     = "pve1"
  pool     = "web"
  scsihw   = "virtio-scsi-single"
  memory   = { size = 1024 }
  cpu      = { cores = 2 }
  disks = {
    scsi0 = { storage = "local-zfs", size = "4G", discard = true }
    scsi1 = { storage = "local-lvm", size = "2G" }
    scsi2 = { storage = "local", size = "1G", format = "qcow2" }
  }
  networks = {
    net0 = { bridge = "vmbr0" }
    net1 = { bridge = "vmbr1" }
  }
  cloud_init = { storage = "local-zfs", user = "ops", addresses = { net0 = { ipv4 = "10.0.0.5/24" }, net1 = { ipv4 = "dhcp" } } }
  firewall = {
    enabled = true
    rules   = [{ type = "in", action = "ACCEPT", macro = "SSH" }]
  }
  power_state = "running"
  timeouts    = { update = "3m", delete = "3m" }
}
`

// WithISODisk adds a disk that is made of a file which PVE takes by its path only.
func WithISODisk(config string) string {
	const last = "format = \"qcow2\" }\n"
	return Replace(config, last, last+"    scsi4 = { storage = \"local-lvm\", size = \"5G\", import_from = \"local:iso/debian.iso\" }\n")
}

// Replace replaces parts of a configuration, which must be there.
func Replace(config string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(config, pairs[i]) {
			panic("no " + pairs[i] + " in " + config)
		}
		config = strings.Replace(config, pairs[i], pairs[i+1], 1)
	}
	return config
}

// Parts of PopulatedVM, and of its other states.
const (
	PoweredOn  = `power_state = "running"`
	PoweredOff = `power_state = "stopped"`
	onPVE1     = `node     = "pve1"`
	onPVE2     = `node     = "pve2"`
	underHA    = "ha = { state = \"started\", max_restart = 2 }\n  power_state = \"running\""
)

// Steps returns the changes and destroys that are swept.
func Steps() []Step {
	off := Replace(PopulatedVM, PoweredOn, PoweredOff)
	firmware := firmwareVM()
	destroying := Replace(PopulatedVM, PoweredOn, "removed_disks = \"destroy\"\n  "+PoweredOn)
	moreOptions := Replace(PopulatedVM, "vmid     = 101", "vmid     = 101\n  description = \"the web server\"\n  tags = [\"prod\"]\n  onboot = true",
		`pool     = "web"`, `pool     = "db"`, `size = "4G"`, `size = "5G"`,
		"format = \"qcow2\" }\n", "format = \"qcow2\" }\n    scsi3 = { storage = \"local-lvm\", size = \"1G\" }\n",
		`net1 = { bridge = "vmbr1" }`, `net2 = { bridge = "vmbr1", macaddr = "BC:24:11:00:00:02" }`,
		`user = "ops"`, `user = "admin"`, `10.0.0.5/24`, `10.0.0.6/24`, `net1 = { ipv4 = "dhcp" }`, `net2 = { ipv4 = "dhcp" }`,
		`macro = "SSH" }`, `macro = "SSH" }, { type = "in", action = "DROP" }`)
	list := []Step{
		{Name: "many options", Before: PopulatedVM, After: moreOptions, Leaves: []string{"networks.net1"}, Again: withNet1(moreOptions)},
		{Name: "many options, HA", Ticket: true, Before: PopulatedVM, After: Replace(moreOptions, PoweredOn, underHA),
			Leaves: []string{"networks.net1"}, Again: withNet1(Replace(moreOptions, PoweredOn, underHA))},
		{Name: "restart", Before: PopulatedVM, After: Replace(PopulatedVM, "cores = 2", "cores = 4, type = \"host\"", `name     = "web"`, `name     = "web-2"`), Offs: []state.PowerKind{state.PowerReboot}},
		{Name: "move disks online", Before: PopulatedVM, After: Replace(PopulatedVM, `storage = "local-zfs", size = "4G"`, `storage = "local-lvm", size = "4G"`, `storage = "local", size = "1G", format = "qcow2"`, `storage = "local2", size = "1G", format = "raw"`)},
		{Name: "move and grow, stopped", Before: Replace(firmware, PoweredOn, PoweredOff), After: Replace(firmware, PoweredOn, PoweredOff, `efi_disk = { storage = "local-zfs"`, `efi_disk = { storage = "local-lvm"`, `tpm_state = { storage = "local-zfs"`, `tpm_state = { storage = "local-lvm"`, `storage = "local-lvm", size = "2G"`, `storage = "local-zfs", size = "3G"`)},
		{Name: "grow disks", Before: PopulatedVM, After: Replace(PopulatedVM, `"4G"`, `"6G"`, `"2G"`, `"3G"`, `"1G"`, `"1536M"`), Prepare: zfsSnapshot},
		{Name: "import a disk by its path", SSH: true, Before: PopulatedVM, After: WithISODisk(PopulatedVM)},
		{Name: "import a disk", Before: PopulatedVM, After: Replace(PopulatedVM, "format = \"qcow2\" }\n", "format = \"qcow2\" }\n    scsi4 = { storage = \"local-lvm\", size = \"5G\", import_from = \"local:import/disk.qcow2\" }\n")},
		{Name: "detach a disk", Before: PopulatedVM, After: Replace(PopulatedVM, scsi1, ""), Leaves: []string{"disks.scsi1"}},
		{Name: "remove a disk with its volume", Before: destroying, After: Replace(destroying, scsi1, ""), Leaves: []string{"disks.scsi1"}, Killed: (*ChangedWorld).ForgetDetached},
		{Name: "change the slot of a disk", Before: PopulatedVM, After: Replace(PopulatedVM, "scsi1 = { storage",
			"scsi5 = { imported_disk = { volume = \"local-lvm:vm-101-disk-0\" }, storage")},
		{Name: "change the slot of a disk, and move another", Before: PopulatedVM, After: Replace(PopulatedVM, "scsi1 = { storage",
			"scsi5 = { imported_disk = { volume = \"local-lvm:vm-101-disk-0\" }, storage", `storage = "local-zfs", size = "4G"`, `storage = "local-lvm", size = "5G"`)},
		{Name: "more firmware, stopped", Before: off, After: Replace(firmware, PoweredOn, PoweredOff)},
		{Name: "migrate online", Before: PopulatedVM, After: Replace(PopulatedVM, onPVE1, onPVE2)},
		{Name: "migrate to other storages", Before: PopulatedVM, After: Replace(PopulatedVM, onPVE1, onPVE2, `storage = "local-lvm", size = "2G"`, `storage = "local-zfs", size = "2G"`, `storage = "local", size`, `storage = "local2", size`)},
		{Name: "migrate offline, and options", Before: off, After: Replace(off, onPVE1, onPVE2, "cores = 2", "cores = 4", `"4G"`, `"5G"`)},
		{Name: "migrate with a snapshot", Before: onlyZFS(off), After: onlyZFS(Replace(off, onPVE1, onPVE2)), Prepare: snapshotted},
		{Name: "migrate under HA", Ticket: true, Before: Replace(PopulatedVM, PoweredOn, underHA), After: Replace(PopulatedVM, PoweredOn, underHA, onPVE1, onPVE2)},
		{Name: "power off, and options", Before: PopulatedVM, After: Replace(PopulatedVM, PoweredOn, PoweredOff, "cores = 2", "cores = 4"), Offs: []state.PowerKind{state.PowerShutdown}},
		{Name: "power on, and options", Before: off, After: Replace(off, PoweredOff, PoweredOn, "cores = 2", "cores = 4")},
		{Name: "leave HA", Ticket: true, Before: Replace(PopulatedVM, PoweredOn, underHA), After: PopulatedVM, Leaves: []string{"ha"},
			ByHand: func(world *state.World) { delete(world.HA, "vm:101") }},
		{Name: "become a template", Before: off, After: Replace(off, PoweredOff, "template = true")},
		{Name: "destroy, running", Before: firmware, Offs: []state.PowerKind{state.PowerShutdown}},
		{Name: "destroy, stopped, with a snapshot", Before: off, Prepare: snapshotted},
		{Name: "destroy, with jobs", Before: PopulatedVM, Offs: []state.PowerKind{state.PowerShutdown}, Prepare: func(world *state.World) {
			world.Replication["101-0"] = &state.ReplicationJob{ID: "101-0", Guest: 101, Target: "pve2"}
			world.Backups["ours"] = &state.BackupJob{ID: "ours", VMIDs: []int{101, 8000}, Storage: "local"}
		}},
		{Name: "destroy, under HA", Ticket: true, Before: Replace(PopulatedVM, PoweredOn, underHA), Offs: []state.PowerKind{state.PowerShutdown}},
	}
	return slices.Concat(list, diskUpdates(), deviceUpdates(), settingUpdates())
}

// withNet1 is a configuration that has lost net1, with it.
func withNet1(config string) string {
	return Replace(config, "    net2 = { bridge", "    net1 = { bridge = \"vmbr1\" }\n    net2 = { bridge", "net2 = { ipv4", "net1 = { ipv4 = \"dhcp\" }, net2 = { ipv4")
}

func onlyZFS(config string) string {
	return Replace(config, `storage = "local-lvm", size = "2G"`, `storage = "local-zfs", size = "2G"`, `storage = "local", size = "1G", format = "qcow2"`, `storage = "local-zfs", size = "1G"`)
}

func zfsSnapshot(world *state.World) {
	snapshotted(world)
}

// manualRepairs is the table of the operator's tasks.
func manualRepairs() []manualRepair {
	killed, both := []fault.Phase{fault.KillTask}, []fault.Phase{fault.KillTask, fault.Partial}
	const copies = "PVE frees what a failed task has made; where its worker was killed or the storage refused, the copy stays, and cannot be told from " +
		"one that a third party is making at this moment"
	return []manualRepair{
		{op: "/migrate", phases: killed, commands: []string{"qm unlock"}, reason: "the lock of a migration whose worker died says that the guest may be half-way; PVE leaves it to an operator, too"},
		{op: "/migrate", phases: both, commands: []string{"pvesm free"}, reason: copies},
		{op: "/move_disk", phases: []fault.Phase{fault.After, fault.KillTask, fault.Partial}, commands: []string{"pvesm free"}, reason: copies},
		{op: "POST /nodes/{node}/qemu/{vmid}/config", phases: both, commands: []string{"pvesm free"}, reason: copies},
		{op: "DELETE /nodes/{node}/storage/{storage}/content/{volume}", phases: []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask}, commands: []string{"pvesm free"},
			reason: "the old cloud-init drive, which PVE leaves when a running guest gets another one; no later plan shows it"},
		{op: "PUT /nodes/{node}/qemu/{vmid}/cloudinit", phases: []fault.Phase{fault.Before, fault.After}, commands: []string{"pvesm free"}, reason: "the same: the guest may still read the old drive"},
		{op: "PUT /nodes/{node}/qemu/{vmid}/config", phases: []fault.Phase{fault.Before}, commands: []string{"qm set"}, reason: "PVE has put a drive with another medium into the boot order, and no later plan shows it"},
		{op: "SSH qm set", phases: killed, commands: []string{"pvesm free"}, reason: copies},
		{op: "PUT /nodes/{node}/qemu/{vmid}/cloudinit", phases: []fault.Phase{fault.Before, fault.After}, commands: []string{"qm cloudinit"}, reason: "no later plan shows that the drive has old data, and PVE shows no new name, address or network device that it lacks (qemu-server API2/Qemu.pm cloudinit_pending); the guest gets it at its next start all the same"},
		{op: "/template", phases: killed, commands: []string{"qm set"}, reason: "the disk was renamed and the configuration not yet written; PVE converts no template again"},
	}
}

// ContendedChanges are the changes of a VM that meet locks in different places: as an answer, and in a task.
func ContendedChanges() map[string]func(*update.Request) {
	disk := func(alter func(*vm.Disk)) func(*update.Request) {
		return func(r *update.Request) {
			d := r.Planned.Disks["scsi0"]
			alter(&d)
			r.Planned.Disks = maps.Clone(r.Planned.Disks)
			r.Planned.Disks["scsi0"] = d
		}
	}
	return map[string]func(*update.Request){
		"an option": func(r *update.Request) { r.Planned.Name = rig.Pointer("renamed") },
		"a new disk": func(r *update.Request) {
			r.Planned.Disks = maps.Clone(r.Planned.Disks)
			r.Planned.Disks["scsi1"] = vm.Disk{Storage: "local-lvm", Size: rig.Pointer(int64(1 << 30))}
		},
		"a move":     disk(func(d *vm.Disk) { d.Storage = "local-lvm" }),
		"growth":     disk(func(d *vm.Disk) { d.Size = rig.Pointer(int64(2 << 30)) }),
		"a start":    func(r *update.Request) { r.PowerState = guest.Running },
		"a template": func(r *update.Request) { r.Planned.Template = rig.Pointer(true) },
		"a node":     func(r *update.Request) { r.Node = "pve2" },
	}
}

// FromISO is a VM with two disks that are made of a file which PVE takes by its path only, and one that is not.
func FromISO() Scenario {
	iso := func(storage string) vm.Disk {
		return vm.Disk{Storage: storage, Size: rig.Pointer(int64(4 << 30)), ImportFrom: rig.Pointer("local:iso/debian.iso"), DiskOptions: vm.DiskOptions{Discard: rig.Pointer(true)}}
	}
	return Scenario{Name: "from an ISO file", VMID: 101, Request: create.Request{Node: "pve1", Start: true, Spec: vm.Spec{
		Options: vm.Options{Name: rig.Pointer("web-1"), Description: rig.Pointer("web server"), Protection: rig.Pointer(true)},
		Disks: map[string]vm.Disk{"scsi0": iso("local-zfs"), "scsi1": {Storage: "local-lvm", Size: rig.Pointer(int64(2 << 30))},
			"scsi2": iso("local2")},
		Networks: map[string]vm.NIC{"net0": {Model: "virtio", NICOptions: vm.NICOptions{Bridge: rig.Pointer("vmbr0")}}},
	}}}
}

// DiskStep is a change in which something goes wrong.
type DiskStep struct {
	Name          string
	Before, After string
	Holds         bool // there is a disk with data in it, which has to be there in the end
	Gone          bool // and nothing is left then
}

// DiskSteps are the ways of a disk, from VM to VM.
func DiskSteps() []DiskStep {
	disk, grown := rig.DiskBlock(rig.SmallDisk), rig.DiskBlock(strings.Replace(rig.SmallDisk, "1G", "2G", 1))
	a, b := rig.DiskAttached("a", 400, rig.DiskVolume), rig.DiskAttached("b", 401, rig.DiskVolume, "depends_on = [proxmox_vm.a]")
	return []DiskStep{
		{Name: "made", After: disk},
		{Name: "made with its VM", After: disk + a},
		{Name: "grown", Before: disk, After: grown, Holds: true},
		{Name: "grown under its VM", Before: disk + a, After: grown + a, Holds: true},
		{Name: "attached to a new VM", Before: disk, After: disk + a, Holds: true},
		{Name: "attached to a VM", Before: disk + rig.DiskReleased("a", 400), After: disk + a, Holds: true},
		{Name: "from VM to VM", Before: disk + a, After: disk + rig.DiskReleased("a", 400) + b, Holds: true},
		{Name: "its VM replaced", Before: disk + a, After: disk + rig.DiskAttached("a", 402, rig.DiskVolume), Holds: true},
		{Name: "its VM destroyed", Before: disk + a, After: disk, Holds: true},
		{Name: "moved", Before: disk, After: strings.Replace(disk, "local-zfs", "local-lvm", 1), Holds: true},
		{Name: "destroyed", Before: disk, Holds: true, Gone: true},
		{Name: "destroyed with its VM", Before: disk + a, Holds: true, Gone: true},
	}
}
