package state

import (
	"maps"
	"slices"
)

// Backup is what an archive of a virtual machine holds: its configuration without lock, snapshots, pending changes and
// unused volumes, the content of its drives, and its firewall file.
type Backup struct {
	VMID     int                    `json:"vmid"` // whose it was
	Config   map[string]string      `json:"config"`
	Drives   map[string]BackupDrive `json:"drives,omitempty"`
	Firewall *FirewallFile          `json:"firewall,omitempty"`
}

// BackupDrive is the content of a drive, and where it lay.
type BackupDrive struct {
	Storage string `json:"storage"`
	Format  string `json:"format"`
	Size    int64  `json:"size"`
	Data    string `json:"data,omitempty"`
}

// AddBackup adds WebBackup, and lets the provider's roles restore it.
func (w *World) AddBackup(node string) {
	w.Put(WebBackup(node))
	w.AllowRestores()
}

// AllowRestores gives the provider's roles the privilege that a restore takes and that is not in the documented role.
func (w *World) AllowRestores() {
	for _, role := range []string{"TerraformProvider", "TerraformLite"} {
		w.Roles[role] = append(slices.Clone(w.Roles[role]), "VM.Backup")
	}
}

// WebBackup is a backup of VM 700, which is gone by now: protected, with a disk on each of two storages, a cloud-init
// drive and a firewall.
func WebBackup(node string) *Volume {
	return &Volume{Storage: "local", Node: node, Name: "backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst",
		Content: "backup",
		VMID:    700, Format: "vma.zst", Size: gib, Backup: &Backup{VMID: 700,
			Firewall: &FirewallFile{Options: map[string]string{"enable": "1"}},
			Config: map[string]string{"name": "old", "memory": "1024", "protection": "1", "ostype": "l26",
				"scsihw":      "virtio-scsi-single",
				"description": "golden image", "scsi0": "local-zfs:vm-700-disk-0,size=2G",
				"scsi1": "local-lvm:vm-700-disk-1,size=1G",
				"net0":  "virtio=BC:24:11:00:07:00,bridge=vmbr0", "ide2": "local-zfs:vm-700-cloudinit,media=cdrom",
				"smbios1": "uuid=11111111-2222-3333-4444-000000000700", "meta": "creation-qemu=9.0.0,ctime=7"},
			Drives: map[string]BackupDrive{"scsi0": {Storage: "local-zfs", Format: "raw", Size: 2 * gib, Data: "root"},
				"scsi1": {Storage: "local-lvm", Format: "raw", Size: gib, Data: "data"}}}}
}

// Clone copies the firewall file.
func (f *FirewallFile) Clone() *FirewallFile {
	if f == nil {
		return nil
	}
	c := &FirewallFile{Options: maps.Clone(f.Options), Aliases: map[string]map[string]string{},
		IPSets: map[string]*IPSet{}}
	for _, r := range f.Rules {
		c.Rules = append(c.Rules, maps.Clone(r))
	}
	for k, v := range f.Aliases {
		c.Aliases[k] = maps.Clone(v)
	}
	for k, v := range f.IPSets {
		set := &IPSet{Comment: v.Comment}
		for _, e := range v.Entries {
			set.Entries = append(set.Entries, maps.Clone(e))
		}
		c.IPSets[k] = set
	}
	return c
}
