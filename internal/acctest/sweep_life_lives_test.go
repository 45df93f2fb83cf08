package acctest_test

import (
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// inhabited is a running VM with a bit of everything; the lives replace parts of it.
const inhabited = `
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

// withISODisk adds a disk that is made of a file which PVE takes by its path only.
func withISODisk(config string) string {
	const last = "format = \"qcow2\" }\n"
	return with(config, last, last+"    scsi4 = { storage = \"local-lvm\", size = \"5G\", import_from = \"local:iso/debian.iso\" }\n")
}

// with replaces parts of a configuration, which must be there.
func with(config string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(config, pairs[i]) {
			panic("no " + pairs[i] + " in " + config)
		}
		config = strings.Replace(config, pairs[i], pairs[i+1], 1)
	}
	return config
}

const (
	poweredOn  = `power_state = "running"`
	poweredOff = `power_state = "stopped"`
	onPVE1     = `node     = "pve1"`
	onPVE2     = `node     = "pve2"`
	underHA    = "ha = { state = \"started\", max_restart = 2 }\n  power_state = \"running\""
)

func turns() []turn {
	off := with(inhabited, poweredOn, poweredOff)
	firmware := with(inhabited, "scsihw ", "bios = \"ovmf\"\n  machine = \"q35\"\n  efi_disk = { storage = \"local-zfs\", type = \"4m\" }\n  tpm_state = { storage = \"local-zfs\", version = \"v2.0\" }\n  scsihw ")
	moreOptions := with(inhabited, "vmid     = 101", "vmid     = 101\n  description = \"the web server\"\n  tags = [\"prod\"]\n  onboot = true",
		`pool     = "web"`, `pool     = "db"`, `size = "4G"`, `size = "5G"`,
		"format = \"qcow2\" }\n", "format = \"qcow2\" }\n    scsi3 = { storage = \"local-lvm\", size = \"1G\" }\n",
		`net1 = { bridge = "vmbr1" }`, `net2 = { bridge = "vmbr1", macaddr = "BC:24:11:00:00:02" }`,
		`user = "ops"`, `user = "admin"`, `10.0.0.5/24`, `10.0.0.6/24`, `net1 = { ipv4 = "dhcp" }`, `net2 = { ipv4 = "dhcp" }`,
		`macro = "SSH" }`, `macro = "SSH" }, { type = "in", action = "DROP" }`)
	list := []turn{
		{name: "many options", before: inhabited, after: moreOptions},
		{name: "many options, HA", ticket: true, before: inhabited, after: with(moreOptions, poweredOn, underHA)},
		{name: "restart", before: inhabited, after: with(inhabited, "cores = 2", "cores = 4, type = \"host\"", `name     = "web"`, `name     = "web-2"`), offs: []state.PowerKind{state.PowerReboot}},
		{name: "move disks online", before: inhabited, after: with(inhabited, `storage = "local-zfs", size = "4G"`, `storage = "local-lvm", size = "4G"`, `storage = "local", size = "1G", format = "qcow2"`, `storage = "local2", size = "1G", format = "raw"`)},
		{name: "move and grow, stopped", before: with(firmware, poweredOn, poweredOff), after: with(firmware, poweredOn, poweredOff, `efi_disk = { storage = "local-zfs"`, `efi_disk = { storage = "local-lvm"`, `tpm_state = { storage = "local-zfs"`, `tpm_state = { storage = "local-lvm"`, `storage = "local-lvm", size = "2G"`, `storage = "local-zfs", size = "3G"`)},
		{name: "grow disks", before: inhabited, after: with(inhabited, `"4G"`, `"6G"`, `"2G"`, `"3G"`, `"1G"`, `"1536M"`), prepare: zfsSnapshot},
		{name: "import a disk by its path", ssh: true, before: inhabited, after: withISODisk(inhabited)},
		{name: "import a disk", before: inhabited, after: with(inhabited, "format = \"qcow2\" }\n", "format = \"qcow2\" }\n    scsi4 = { storage = \"local-lvm\", size = \"5G\", import_from = \"local:import/disk.qcow2\" }\n")},
		{name: "detach a disk", before: inhabited, after: with(inhabited, "    scsi1 = { storage = \"local-lvm\", size = \"2G\" }\n", "")},
		{name: "migrate online", before: inhabited, after: with(inhabited, onPVE1, onPVE2)},
		{name: "migrate to other storages", before: inhabited, after: with(inhabited, onPVE1, onPVE2, `storage = "local-lvm", size = "2G"`, `storage = "local-zfs", size = "2G"`, `storage = "local", size`, `storage = "local2", size`)},
		{name: "migrate offline, and options", before: off, after: with(off, onPVE1, onPVE2, "cores = 2", "cores = 4", `"4G"`, `"5G"`)},
		{name: "migrate with a snapshot", before: onlyZFS(off), after: onlyZFS(with(off, onPVE1, onPVE2)), prepare: snapshotted},
		{name: "migrate under HA", ticket: true, before: with(inhabited, poweredOn, underHA), after: with(inhabited, poweredOn, underHA, onPVE1, onPVE2)},
		{name: "power off, and options", before: inhabited, after: with(inhabited, poweredOn, poweredOff, "cores = 2", "cores = 4"), offs: []state.PowerKind{state.PowerShutdown}},
		{name: "power on, and options", before: off, after: with(off, poweredOff, poweredOn, "cores = 2", "cores = 4")},
		{name: "leave HA", ticket: true, before: with(inhabited, poweredOn, underHA), after: inhabited},
		{name: "become a template", before: off, after: with(off, poweredOff, "template = true")},
		{name: "destroy, running", before: firmware, offs: []state.PowerKind{state.PowerShutdown}},
		{name: "destroy, stopped, with a snapshot", before: off, prepare: snapshotted},
		{name: "destroy, with jobs", before: inhabited, offs: []state.PowerKind{state.PowerShutdown}, prepare: func(world *state.World) {
			world.Replication["101-0"] = &state.ReplicationJob{ID: "101-0", Guest: 101, Target: "pve2"}
			world.Backups["ours"] = &state.BackupJob{ID: "ours", VMIDs: []int{101, 8000}, Storage: "local"}
		}},
		{name: "destroy, under HA", ticket: true, before: with(inhabited, poweredOn, underHA), offs: []state.PowerKind{state.PowerShutdown}},
	}
	return list
}

func onlyZFS(config string) string {
	return with(config, `storage = "local-lvm", size = "2G"`, `storage = "local-zfs", size = "2G"`, `storage = "local", size = "1G", format = "qcow2"`, `storage = "local-zfs", size = "1G"`)
}

func zfsSnapshot(world *state.World) {
	snapshotted(world)
}

// strandings is the table of what an operator has to do.
func strandings() []stranding {
	killed, both := []fault.Phase{fault.KillTask}, []fault.Phase{fault.KillTask, fault.Partial}
	const copies = "PVE frees what a failed task has made; where its worker was killed or the storage refused, the copy stays, and nobody can tell it from " +
		"one that somebody else is making at this moment"
	return []stranding{
		{op: "/migrate", phases: killed, commands: []string{"qm unlock"}, reason: "the lock of a migration whose worker died says that the guest may be half-way; PVE leaves it to an operator, too"},
		{op: "/migrate", phases: both, commands: []string{"pvesm free"}, reason: copies},
		{op: "/move_disk", phases: both, commands: []string{"pvesm free"}, reason: copies},
		{op: "POST /nodes/{node}/qemu/{vmid}/config", phases: both, commands: []string{"pvesm free"}, reason: copies},
		{op: "SSH qm set", phases: killed, commands: []string{"pvesm free"}, reason: copies},
		{op: "/template", phases: killed, commands: []string{"qm set"}, reason: "the disk was renamed and the configuration not yet written; PVE converts no template again"},
	}
}
