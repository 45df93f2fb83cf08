package acctest_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// theBackup is one of VM 700, which is gone by now: a protected VM with a disk on each of two storages, and the firewall's file. Its
// description is the mark of a create, which proves nothing.
const theBackup = "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst"

// aBackup is what is in it.
func aBackup() *state.Volume {
	return &state.Volume{Storage: "local", Node: "pve1", Name: "backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst", Content: "backup",
		VMID: 700, Format: "vma.zst", Size: 1 << 20, Backup: &state.Backup{VMID: 700,
			Firewall: &state.FirewallFile{Options: map[string]string{"enable": "1"}},
			Config: map[string]string{"name": "old", "memory": "1024", "protection": "1", "ostype": "l26", "scsihw": "virtio-scsi-single",
				"description": "golden image", "scsi0": "local-zfs:vm-700-disk-0,size=2G", "scsi1": "local-lvm:vm-700-disk-1,size=1G",
				"net0": "virtio=BC:24:11:00:07:00,bridge=vmbr0", "ide2": "local-zfs:vm-700-cloudinit,media=cdrom",
				"smbios1": "uuid=11111111-2222-3333-4444-000000000700", "meta": "creation-qemu=9.0.0,ctime=7"},
			Drives: map[string]state.BackupDrive{"scsi0": {Storage: "local-zfs", Format: "raw", Size: 2 << 30, Data: "root"},
				"scsi1": {Storage: "local-lvm", Format: "raw", Size: 1 << 30, Data: "data"}}}}
}

// restoreScenarios are the restores that are swept: where the disks were, with one moved and one grown, and all to one storage.
func restoreScenarios(sweepIdentity) []scenario {
	return []scenario{
		{name: "restore", vmid: 101, request: create.Request{Node: "pve1", Start: true, Pool: "web", Restore: &guest.Restore{Archive: theBackup},
			Spec: vm.Spec{Options: vm.Options{Name: to("web-4"), OnBoot: to(false)}, Disks: map[string]vm.Disk{
				"scsi0": {Size: to(int64(4 << 30)), DiskOptions: vm.DiskOptions{Discard: to(true)}},
				"scsi1": {Storage: "local-zfs", Size: to(int64(1 << 30))}}}}},
		{name: "restore to one storage", vmid: 200, request: create.Request{VMID: 200, Node: "pve1", Start: true,
			Restore: &guest.Restore{Archive: theBackup, Storage: "local-lvm"}, Spec: vm.Spec{
				Options: vm.Options{Name: to("web-5"), Protection: to(false)}, CPU: vm.CPU{Cores: to(int64(2))}}}},
	}
}

// TestSweepRestore fails every operation of a restore in every way, for every identity: PVE itself takes nothing back.
func TestSweepRestore(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "restores", 100, restoreScenarios, sweepCreate)
}

// TestSweepRestoreUndo fails every operation of the undo as well.
func TestSweepRestoreUndo(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "undos of restores", 100, restoreScenarios, sweepUndo)
}
