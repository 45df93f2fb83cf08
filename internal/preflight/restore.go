package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// restore checks whether a backup can become the planned VM. The configuration in the backup decides, and the create
// needs that too: an identity that may not read it can restore nothing here.
func (p *planCheck) restore(ctx context.Context, c *Checker, r Request) {
	if r.Restore == nil || !r.Creating {
		return
	}
	node, err := guest.Target(p.resources, p.node, "")
	if err != nil {
		return // said before
	}
	const path = "restore.archive"
	archive := r.Restore.Archive
	p.uses = append(p.uses, ownBackupUses(r)...)
	if p.storages(ctx, c, map[string]string{path: volid.Storage(archive)}); p.isReported(path) {
		return
	}
	if !r.Acting {
		p.storagesDown(ctx, c, at{node, "backup"}, map[string]string{path: volid.Storage(archive)})
	}
	if p.isReported(path) {
		return
	}
	config, err := c.guests.ArchiveConfig(ctx, node, archive)
	switch {
	case err == nil:
	case pve.IsKind(err, pve.Denied) && c.api.Identity().PlanOnly:
		p.report(backupUnread, unread(err))
		return
	case pve.IsKind(err, pve.Denied):
		denied := finding(backupDenied, path, fmt.Sprintf("A restore takes Datastore.AllocateSpace on /storage/%s and "+
			"VM.Backup on the VM that was backed up", volid.Storage(archive)), archive)
		denied.Err = err
		p.report(backupDenied, denied)
		return
	default:
		p.unreadable(ctx, c, node, archive, err)
		return
	}
	p.copy, p.begun = vm.Decode(config), true
	if r.Restore.Storage == "" {
		p.storagesInside(node, config)
		restoredTo(ctx, p, c, r, config)
	}
	p.uses = append(p.uses, copyUses(p, path, "restore the backup")...)
	nodesDevices(p, c, path, notRestored, config)
	if r.Whole {
		p.copied(config, r.Planned, notRestored)
	}
}

// ownBackupUses is the privilege to read the backup of the VM that is replaced, once that is destroyed: PVE removes the
// entries on its id and takes it out of its pool (qemu-server API2/Qemu.pm, destroy_vm; pve-manager API2/VZDump.pm,
// extractconfig).
func ownBackupUses(r Request) []use {
	owner, ok := volid.BackedUp(r.Restore.Archive)
	if !ok || r.Leaves == nil || !r.Leaves(owner) {
		return nil
	}
	what := fmt.Sprintf("read the backup of VM %d once VM %d is destroyed", owner, owner)
	return []use{{path: "restore.archive", what: what, on: []string{"/vms"}, anyOf: []string{"VM.Backup"},
		instead: fmt.Sprintf("make a VM of the backup under another "+
			"address and vmid first, and take VM %d out of the configuration after that", owner)}}
}

// displaced warns of the disks of a copy whose slots get other volumes: PVE detaches them (qemu-server API2/Qemu.pm,
// update_vm_api).
func displaced(p *planCheck, r Request) {
	for _, slot := range r.Imported {
		if of := p.copy.Disks[slot]; of.Volume != "" && r.copies() && !r.Acting {
			p.say(diskGoes, "disks."+slot+".imported_disk", fmt.Sprintf("Its source has %s there. The copy of that becomes an "+
				"unused disk of the VM (unused_volumes), whose data the guest does not see, and is destroyed with the VM. To "+
				"keep it in a slot, give imported_disk another one", of.Volume), slot)
		}
	}
}

// unreadable reports a backup that certainly does not exist, by a listing that shows all backups that this identity may
// restore. If it exists, or the listing fails, the report only says that it could not be read now.
func (p *planCheck) unreadable(ctx context.Context, c *Checker, node, archive string, cause error) {
	if others, err := guest.Backups(ctx, c.api, node, archive); err == nil && guest.BackupGone(others, archive) {
		p.say(volumeMissing, "restore.archive", fmt.Sprintf("Storage %s of node %s has %d other backups, as far as this "+
			"identity may see them", volid.Storage(archive), node, len(others)), archive)
		return
	}
	p.report(backupUnread, unread(cause))
}

// unread is the report of a backup whose content the plan does not know.
func unread(cause error) *guest.FieldError {
	report := finding(backupUnread, "restore.archive", "What is in it was not checked. If it cannot be read by the time "+
		"of the apply either, nothing is made, and "+goneByThen)
	report.Err = cause
	return report
}

// storagesInside reports storages that the disks in a backup were on and that the node lacks.
func (p *planCheck) storagesInside(node string, config map[string]string) {
	var there, lacks []string
	for _, storage := range p.resources.Storages(node) {
		there = append(there, storage.Storage)
	}
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		storage := volid.Storage(volume)
		if _, owned := volid.Owner(volume); owned && !slices.Contains(there, storage) && !slices.Contains(lacks, storage) {
			lacks = append(lacks, storage)
		}
	}
	if len(there) > 0 && len(lacks) > 0 {
		p.say(backupStorages, "restore.storage", fmt.Sprintf("They were on %s; the node has %s, as far as this identity "+
			"may see them (Datastore.Audit). Set restore.storage", strings.Join(lacks, ", "), strings.Join(there, ", ")), node)
	}
}

// restoredTo reports storages of the disks in a backup that PVE puts none on. The data of a device of the node goes to
// the storage "local" (qemu-server QemuServer.pm, $parse_backup_hints).
func restoredTo(ctx context.Context, p *planCheck, c *Checker, r Request, config map[string]string) {
	const path = "restore.storage"
	to := &uses{}
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		storage := volid.Storage(volume)
		_, isOwned := volid.Owner(volume)
		switch on := map[string]string{path: storage}; {
		case vm.IsOptical(config[slot]) && !volid.IsCloudInit(volume), p.isReported(path):
		case volid.IsDevice(volume):
			if to.storage(path, "local"); !isForImages(p, "local") {
				p.say(storageNoDisks, path, fmt.Sprintf("In the backup, %s was the device %s, whose data PVE puts there. Set "+
					"restore.storage", slot, volume), "local")
			}
		case isOwned && !isForImages(p, storage):
			p.say(storageNoDisks, path, fmt.Sprintf("In the backup, %s was on it, and PVE puts it there. Set restore.storage",
				slot), storage)
		case isOwned:
			if to.storage(path, storage); !r.Acting {
				p.storagesDown(ctx, c, at{p.node, "images"}, on)
			}
		}
	}
	p.uses = append(p.uses, to.all...)
}

// nodesDevices reports devices of the node that only root may have copied (qemu-server QemuServer.pm,
// check_mapping_access).
func nodesDevices(p *planCheck, c *Checker, path, name string, config map[string]string, source ...string) {
	identity := c.api.Identity()
	if identity.IsRootTicket() || identity.PlanOnly {
		return
	}
	for _, option := range slices.Sorted(maps.Keys(config)) {
		if vm.IsNodesDevice(option, config[option]) {
			p.say(name, path, fmt.Sprintf("Its %s is a device of a node, %s, which PVE lets only root@pam with a password "+
				"copy; the provider acts as %s. Take a source with a resource mapping in its place, or give the provider "+
				"username = \"root@pam\" and a password", option, config[option], identity.User), source...)
		}
	}
}

// copied reports what the source cannot become: disks that would have to shrink or make room, new disks without a
// storage or a size, a boot order with a device that is not there (qemu-server API2/Qemu.pm, update_vm_api).
func (p *planCheck) copied(config map[string]string, wanted vm.Spec, name string, source ...string) {
	has := vm.Decode(config)
	want := vm.Merge(has, wanted)
	want.Template = has.Template
	vm.Complete(&want)
	displaced, drive := vm.Displaced(has, wanted)
	for _, problem := range append(vm.Diff(has, want).Problems, displaced...) {
		p.say(name, problem.At, problem.Text, source...)
	}
	if !slices.Equal(wanted.BootOrder, has.BootOrder) { // PVE looks at an order that it is sent
		options := vm.Encode(want)
		for _, device := range wanted.BootOrder {
			if _, exists := options[device]; !exists {
				p.say(name, "boot_order", fmt.Sprintf("There is no device %s: the copy has %s", device,
					strings.Join(vm.Slots(options), ", ")), source...)
			}
		}
	}
	if drive != "" {
		p.say(driveGoes, "cloud_init", fmt.Sprintf("The source has it in %s, where the configuration has another drive, and "+
			"without cloud_init none is made elsewhere: the guest reads no user, keys and addresses of Proxmox VE. Choose "+
			"another slot to keep it", drive))
	}
}
