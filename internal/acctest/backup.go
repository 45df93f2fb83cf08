package acctest

import "github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"

// BackupID is the volume of Backup.
const BackupID = "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst"

// Backup is that of VM 700, which is gone by now: protected, with a disk on each of two storages, a cloud-init drive and a firewall.
func Backup() *state.Volume {
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
