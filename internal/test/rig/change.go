package rig

import (
	"maps"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

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
		"an option": func(r *update.Request) { r.Planned.Name = Pointer("renamed") },
		"a new disk": func(r *update.Request) {
			r.Planned.Disks = maps.Clone(r.Planned.Disks)
			r.Planned.Disks["scsi1"] = vm.Disk{Storage: "local-lvm", Size: Pointer(int64(1 << 30))}
		},
		"a move":     disk(func(d *vm.Disk) { d.Storage = "local-lvm" }),
		"growth":     disk(func(d *vm.Disk) { d.Size = Pointer(int64(2 << 30)) }),
		"a start":    func(r *update.Request) { r.PowerState = guest.Running },
		"a template": func(r *update.Request) { r.Planned.Template = Pointer(true) },
		"a node":     func(r *update.Request) { r.Node = "pve2" },
	}
}
