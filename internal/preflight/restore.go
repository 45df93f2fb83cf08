package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// restore asks whether a backup can become what is wanted. The configuration in it says what it is, and the create needs that too: an
// identity that may not read it can restore nothing here.
func (c *planCheck) restore(ctx context.Context, s *Checker, r Request) {
	if r.Restore == nil || !r.Creating {
		return
	}
	node, err := guest.Target(c.resources, c.node, "")
	if err != nil {
		return // said before
	}
	const path = "restore.archive"
	archive := r.Restore.Archive
	if c.storages(ctx, s, map[string]string{path: vm.VolumeStorage(archive)}); c.isReported(path) {
		return
	}
	config, err := s.guests.ArchiveConfig(ctx, node, archive)
	switch {
	case err == nil:
	case pve.IsKind(err, pve.Denied):
		denied := finding(backupDenied, path, fmt.Sprintf("A restore takes Datastore.AllocateSpace on /storage/%s and VM.Backup on the VM "+
			"that was backed up", vm.VolumeStorage(archive)), archive)
		denied.Err = err
		c.report(backupDenied, denied)
		return
	default:
		c.unreadable(ctx, s, node, archive, err)
		return
	}
	c.copy = vm.Decode(config)
	if r.Restore.Storage == "" {
		c.storagesInside(node, config)
	}
	if r.Whole {
		c.copied(config, r.Planned, notRestored)
	}
}

// unreadable reports a backup that is certainly not there, by a listing that shows all that this identity may restore; of one that is, or
// of a listing that fails, only that it could not be read now.
func (c *planCheck) unreadable(ctx context.Context, s *Checker, node, archive string, cause error) {
	storage := vm.VolumeStorage(archive)
	volumes, err := s.api.Content(ctx, node, storage, "backup", 0)
	is := func(v pve.Volume) bool { return v.ID == archive }
	if err == nil && !slices.ContainsFunc(volumes, is) {
		c.say(volumeMissing, "restore.archive", fmt.Sprintf("Storage %s of node %s has %d other backups, as far as this identity may see them",
			storage, node, len(volumes)), archive)
		return
	}
	unread := finding(backupUnread, "restore.archive", "What is in it was not checked. If it cannot be read by the time of the apply either, "+
		"nothing is made")
	unread.Err = cause
	c.report(backupUnread, unread)
}

// storagesInside reports storages that the disks in a backup were on and that the node does not have.
func (c *planCheck) storagesInside(node string, config map[string]string) {
	var there, lacks []string
	for _, storage := range c.resources.Storages(node) {
		there = append(there, storage.Storage)
	}
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		storage := vm.VolumeStorage(volume)
		if _, owned := vm.VolumeOwner(volume); owned && !slices.Contains(there, storage) && !slices.Contains(lacks, storage) {
			lacks = append(lacks, storage)
		}
	}
	if len(there) > 0 && len(lacks) > 0 {
		c.say(backupStorages, "restore.storage", fmt.Sprintf("They were on %s; the node has %s, as far as this identity may see them "+
			"(Datastore.Audit). Set restore.storage", strings.Join(lacks, ", "), strings.Join(there, ", ")), node)
	}
}

// copied reports what cannot be made of the source: disks that would have to shrink, new ones without a storage or a size.
func (c *planCheck) copied(config map[string]string, wanted vm.Spec, name string, source ...string) {
	has := vm.Decode(config)
	want := vm.Merge(has, wanted)
	want.Template = has.Template
	vm.Complete(&want)
	for _, p := range vm.Diff(has, want).Problems {
		c.say(name, p.Option, p.Text, source...)
	}
}
