package create

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// source is what a new VM is a copy of, as it was when the create began. What is made from scratch has none.
type source struct {
	what        string            // in the name of the first step: "clone VM 100"
	vmid        int               // of the VM that is cloned
	node        string            // where the copy is made
	config      map[string]string // that is copied
	description string            // that the commit sets unless the configuration has one
	storages    []string          // that volumes of it can be on, besides those that are configured
	searched    []string          // that are looked at for what carries the id, besides
	migrates    bool              // the copy is made on this node, and then goes to its own
	request     *guest.Clone      // of a clone
	listed      pve.Resource      // of the VM that is cloned
}

// resolve finds the source of a clone in the cluster's listing and reads what the commit must restore from it. A source that
// is locked is waited for: a backup or a migration of a template ends, and after the migration it is on another node. The
// listing that is returned is the one in which it was found. What was read for a plan a moment ago does, unless afresh says that
// it did not.
func (s *Creator) resolve(
	ctx context.Context, resources pve.Resources, clone *guest.Clone, afresh bool,
) (*source, pve.Resources, error) {
	if clone == nil {
		return nil, resources, nil
	}
	read := s.guests.SourceConfig
	if afresh {
		read = s.readSource
	}
	var q *job.Queue
	for {
		from, lock, err := s.cloned(ctx, resources, clone, read)
		if err != nil || lock == "" || lock == job.Suspended {
			return from, resources, err
		}
		if q == nil || q.Node != from.node {
			q = s.jobs.Queue(from.node, from.vmid)
		}
		locked := job.LockedBy(lock, fmt.Sprintf("clone VM %d on node %s", from.vmid, from.node))
		if err := q.Wait(ctx, locked); err != nil {
			return nil, resources, &guest.FieldError{Path: clone.Path(),
				Summary: fmt.Sprintf("VM %d cannot be cloned while it is locked", from.vmid),
				Detail:  "It was not changed", Err: err}
		}
		if resources, err = s.api.Resources(ctx); err != nil {
			return nil, resources, fmt.Errorf("list the cluster's guests: %w", err)
		}
		read = s.readSource
	}
}

func (s *Creator) readSource(ctx context.Context, node string, vmid int) (map[string]string, error) {
	config, err := s.api.CurrentConfig(ctx, node, vmid)
	return config.Values, err
}

// cloned looks at the source of a clone, and at the lock on it.
func (s *Creator) cloned(ctx context.Context, resources pve.Resources, clone *guest.Clone,
	read func(ctx context.Context, node string, vmid int) (map[string]string, error)) (*source, string, error) {
	found, err := guest.FindSource(resources, clone)
	if err != nil {
		return nil, "", err
	}
	config, err := read(ctx, found.Node, found.VMID)
	if err != nil {
		return nil, "", &guest.FieldError{Path: "clone", Summary: fmt.Sprintf("Cannot read VM %d to clone it", found.VMID),
			Detail: fmt.Sprintf("The source of the clone is on node %s", found.Node), Err: err}
	}
	from := &source{what: fmt.Sprintf("clone VM %d", found.VMID),
		vmid: found.VMID, node: found.Node, config: config, description: descriptionOf(config), storages: storagesOf(config),
		request: clone, listed: found}
	if clone.Snapshot != "" { // its volumes may be elsewhere by now than its VM's
		old, err := s.api.SnapshotConfig(ctx, found.Node, found.VMID, clone.Snapshot)
		if err != nil {
			return nil, "", &guest.FieldError{Path: "clone.snapshot",
				Summary: fmt.Sprintf("Cannot read snapshot %s of VM %d to clone it", clone.Snapshot, found.VMID),
				Detail:  fmt.Sprintf("The source of the clone is on node %s", found.Node), Err: err}
		}
		from.storages = append(from.storages, storagesOf(old)...)
	}
	return from, config["lock"], nil
}

// descriptionOf is the description in a configuration that is copied. The mark of a create is none: it says nothing of the copy.
func descriptionOf(config map[string]string) string {
	description := strings.TrimRight(config["description"], " \n")
	if _, stamp := guest.ParseStamp(description); stamp {
		return ""
	}
	return description
}

// archive is a backup as the source of a VM. All images storages of the node are looked at for what carries the id already: when the
// data is there PVE scans them, and takes whatever carries the id for an unused disk of the VM (qemu-server QemuServer.pm, rescan).
func (s *Creator) archive(ctx context.Context, resources pve.Resources, node string, r Request) (*source, error) {
	config, err := s.guests.ArchiveConfig(ctx, node, r.Restore.Archive)
	if err != nil {
		return nil, &guest.FieldError{Path: "restore.archive", Summary: "Cannot read the backup " + r.Restore.Archive,
			Detail: "The configuration in it says what the VM is, and where its disks are to go. That takes Datastore.AllocateSpace on the " +
				"storage of the backup and VM.Backup on the VM that was backed up. Nothing was made", Err: err}
	}
	storages, err := s.guests.ImageStorages(ctx, resources, node)
	if err != nil {
		return nil, err
	}
	from := &source{what: "restore " + r.Restore.Archive, node: node, config: config,
		description: descriptionOf(config), searched: storages, storages: []string{r.Restore.Storage}}
	if r.Restore.Storage == "" {
		from.storages = storagesOf(config)
	}
	return from, nil
}

// storagesOf are the storages of the guest volumes in a configuration; an ISO image's is none, since it is not copied.
func storagesOf(config map[string]string) []string {
	var ids []string
	for _, value := range config {
		volume := guest.VolumeOf(value)
		if _, ok := vm.VolumeOwner(volume); ok {
			ids = append(ids, vm.VolumeStorage(volume))
		}
	}
	return ids
}

// cloneParams are the clone request's, but for the description.
func (f *source) cloneParams(vmid int, r Request, node string) pve.Params {
	p := pve.Params{"newid": strconv.Itoa(vmid)}
	if f.request.Full != nil {
		p["full"] = map[bool]string{true: "1", false: "0"}[*f.request.Full]
	}
	optional := map[string]string{"snapname": f.request.Snapshot, "storage": f.request.Storage, "format": f.request.Format, "pool": r.Pool}
	if r.Spec.Name != nil {
		optional["name"] = *r.Spec.Name
	}
	if node != f.node && !f.migrates {
		optional["target"] = node
	}
	if f.request.BWLimit != nil {
		optional["bwlimit"] = strconv.FormatInt(*f.request.BWLimit, 10)
	}
	for option, value := range optional {
		if value != "" {
			p[option] = value
		}
	}
	return p
}
