// Package kinds has creates of all kinds, for tests that play each of them.
package kinds

import (
	"maps"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Kind is a create of one kind, of a VM without id and name.
type Kind struct {
	Node    string // "": that of its source, pve1
	Clone   *guest.Clone
	Restore *guest.Restore
	Spec    vm.Spec
	Start   bool
}

func to[V any](v V) *V { return &v }

// World adds a template with firmware, TPM state, cloud-init drive and two disks, a VM with a snapshot, and a guest on pve2.
func World(w *state.World) {
	config := maps.Clone(w.Guests[9000].Config)
	maps.Copy(config, map[string]string{"name": "firmware", "bios": "ovmf", "machine": "q35",
		"scsi0": "local-zfs:base-9100-disk-0,size=2G", "scsi1": "local-zfs:base-9100-disk-3,size=1G",
		"efidisk0": "local-zfs:base-9100-disk-1,efitype=4m,size=1M", "tpmstate0": "local-zfs:base-9100-disk-2,size=4M,version=v2.0",
		"ide2": "local-zfs:vm-9100-cloudinit,media=cdrom", "smbios1": "uuid=11111111-2222-3333-4444-555555555555"})
	w.Guests[9100] = &state.Guest{VMID: 9100, Type: "qemu", Node: "pve1", Config: config}
	put := func(storage, name string, vmid int, size int64) *state.Volume {
		v := &state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: vmid, Content: "images", Format: "raw", Size: size, Data: name}
		w.Put(v)
		return v
	}
	for name, size := range map[string]int64{"base-9100-disk-0": 2 << 30, "base-9100-disk-1": 1 << 20, "base-9100-disk-2": 4 << 20,
		"base-9100-disk-3": 1 << 30, "vm-9100-cloudinit": 4 << 20} {
		put("local-zfs", name, 9100, size)
	}
	put("local-lvm", "vm-8300-disk-0", 8300, 1<<30).TakeSnapshot("old")
	source := map[string]string{"name": "source", "memory": "512", "description": "golden image", "scsi0": "local-lvm:vm-8300-disk-0,size=1G",
		"meta": "creation-qemu=9.2.0,ctime=1", "smbios1": "uuid=11111111-2222-3333-4444-666666666666"}
	snapshot := maps.Clone(source)
	snapshot["snaptime"] = "946684800"
	source["parent"] = "old"
	w.Guests[8300] = &state.Guest{VMID: 8300, Type: "qemu", Node: "pve1", Config: source, Snaps: map[string]map[string]string{"old": snapshot}}
	w.Guests[8200] = &state.Guest{VMID: 8200, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "far", "memory": "512",
		"meta": "creation-qemu=9.2.0,ctime=1", "smbios1": "uuid=11111111-2222-3333-4444-777777777777"}}
}

// All are creates of each source, to the same node and another one, with disks that are copied, moved, added, imported and grown,
// started, left off, and made a template. archive is the one that is restored.
func All(archive string) map[string]Kind {
	size := func(gib int64) *int64 { return to(gib << 30) }
	image, yes := to("local:import/disk.qcow2"), to(true)
	ovmf := vm.Options{BIOS: to("ovmf"), Description: to("new")}
	template, ovmfTemplate := vm.Options{Template: yes}, ovmf
	ovmfTemplate.Template = yes
	of := func(vmid int, full bool) *guest.Clone { return &guest.Clone{VMID: vmid, Full: &full} }
	efi, cloudInit := &vm.EFIDisk{Storage: "local-zfs"}, vm.CloudInit{Slot: "ide2", Storage: "local-zfs"}
	return map[string]Kind{
		"full, moves, adds, imports": {Start: true, Clone: of(9100, true), Spec: vm.Spec{Disks: map[string]vm.Disk{
			"scsi0": {Storage: "local-lvm", Size: size(8)}, "scsi1": {Storage: "local", Size: size(3)},
			"scsi2": {Storage: "local-zfs", Size: size(2)}, "scsi3": {Storage: "local-zfs", ImportFrom: image, Size: size(9)}}}},
		"full, cloud-init drive elsewhere": {Start: true, Clone: of(9100, true), Spec: vm.Spec{CloudInit: vm.CloudInit{Slot: "ide0", Storage: "local"}}},
		"full to a directory, template": {Clone: &guest.Clone{VMID: 9100, Full: yes, Storage: "local", Format: "qcow2"}, Spec: vm.Spec{Options: template,
			Disks: map[string]vm.Disk{"scsi0": {Storage: "local-lvm", Size: size(5)}}}},
		"full to shared storage": {Start: true, Clone: of(9100, true), Spec: vm.Spec{Disks: map[string]vm.Disk{
			"scsi0": {Storage: "shared-nfs"}, "scsi2": {Storage: "shared-nfs", Size: size(2)}}}},
		"linked, adds, template": {Clone: of(9100, false), Spec: vm.Spec{Options: template, Disks: map[string]vm.Disk{"scsi2": {Storage: "local-zfs", Size: size(2)}}}},
		"to another node": {Node: "pve2", Start: true, Clone: of(9100, true), Spec: vm.Spec{Disks: map[string]vm.Disk{
			"scsi0": {Storage: "local-lvm", Size: size(8)}, "scsi2": {Storage: "local-zfs", Size: size(2)}}}},
		"to another node, template": {Node: "pve2", Clone: of(9100, true), Spec: vm.Spec{Options: template}},
		"of a snapshot": {Start: true, Clone: &guest.Clone{VMID: 8300, Full: yes, Snapshot: "old"}, Spec: vm.Spec{
			Disks: map[string]vm.Disk{"scsi1": {Storage: "local-zfs", Size: size(2)}}}},
		"scratch, firmware": {Node: "pve1", Start: true, Spec: vm.Spec{Options: ovmf, EFIDisk: efi, CloudInit: cloudInit,
			TPMState: &vm.TPMState{Storage: "local-zfs", Version: to("v2.0")},
			Disks:    map[string]vm.Disk{"scsi0": {Storage: "local-lvm", ImportFrom: image, Size: size(9)}, "scsi1": {Storage: "local", Size: size(3)}}}},
		"scratch, template": {Node: "pve1", Spec: vm.Spec{Options: ovmfTemplate, EFIDisk: efi, CloudInit: cloudInit,
			Disks: map[string]vm.Disk{"scsi0": {Storage: "local-zfs", ImportFrom: image, Size: size(9)}}}},
		"restore, template": {Node: "pve1", Restore: &guest.Restore{Archive: archive}, Spec: vm.Spec{Options: template,
			Disks: map[string]vm.Disk{"scsi1": {Storage: "local-zfs"}, "scsi2": {Storage: "local", Size: size(2)}}}},
		"restore, moves, grows": {Node: "pve1", Start: true, Restore: &guest.Restore{Archive: archive}, Spec: vm.Spec{
			Disks: map[string]vm.Disk{"scsi0": {Size: size(4)}, "scsi1": {Storage: "local-zfs"}, "scsi2": {Storage: "local", Size: size(2)}}}},
	}
}
