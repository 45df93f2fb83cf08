package create

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// source is what a new VM is a copy of, as it was when the create began. A VM made from scratch has none.
type source struct {
	what        string            // in the name of the first step: "clone VM 100"
	vmid        int               // of the VM that is cloned
	node        string            // where the copy is made
	config      map[string]string // that is copied
	snapshot    map[string]string // that is copied instead; nil without one
	description string            // that the commit sets unless the configuration has one
	storages    []string          // that volumes of it can be on, besides those that are configured
	searched    []string          // that are looked at for what carries the id, besides
	migrates    bool              // the copy is made on this node, and then goes to its own
	request     *guest.Clone      // of a clone
	listed      pve.Resource      // of the VM that is cloned
}

// isAnotherThan reports whether a dead run's VM is a clone of another VM than this one. A mark of an earlier release
// names no uuid.
func (s *source) isAnotherThan(dead guard.Unowned) bool {
	was := dead.Mark.SourceUUID
	return dead.Mark.Source != s.vmid || was != "" && was != vm.UUID(s.config)
}

// resolve finds the source of a clone in the cluster's listing and reads what the commit must restore from it. It waits
// for a locked source: a backup or a migration of a template ends, and after a migration it is on another node. So it
// does for one that another create is still making, of which the copy would be half made. It returns the listing in
// which it was found. A configuration that was read for a plan a moment ago will do, unless afresh is set.
func (c *Creator) resolve(
	ctx context.Context, resources pve.Resources, clone *guest.Clone, afresh bool,
) (*source, pve.Resources, error) {
	if clone == nil {
		return nil, resources, nil
	}
	read := c.guests.SourceConfig
	if afresh {
		read = c.readSource
	}
	var q *request.Queue
	for try := 1; ; try++ {
		from, lock, err := c.cloned(ctx, resources, clone, read)
		isMissing := guest.IsElsewhere(err) && try < tries
		if err != nil && !isMissing {
			return from, resources, err
		}
		var mark ownership.Mark
		isMarked := false
		if !isMissing {
			mark, isMarked = ownership.Unfinished(from.vmid, from.config)
		}
		switch {
		case isMissing: // it has moved since it was listed, or is gone: then the next listing lacks it
			if err := c.jobs.Pause(ctx, try); err != nil {
				return nil, resources, err
			}
		case isMarked:
			u := unfinishedSource{unfinished{listed: from.listed, mark: mark, config: from.config}, clone.Path(), "cloned"}
			if err := u.await(ctx, c, afresh, try); err != nil {
				return nil, resources, err
			}
		case lock == "" || lock == request.Suspended:
			return from, resources, nil
		default:
			if q == nil || q.Node != from.node {
				q = c.jobs.Queue(from.node, from.vmid)
			}
			locked := request.LockedBy(lock, fmt.Sprintf("clone VM %d on node %s", from.vmid, from.node))
			if err := q.Wait(ctx, locked); err != nil {
				return nil, resources, &guest.FieldError{Path: clone.Path(),
					Summary: fmt.Sprintf("VM %d cannot be cloned while it is locked", from.vmid),
					Detail:  "It was not changed", Err: err}
			}
		}
		if resources, err = c.api.Cluster().Resources(ctx); err != nil {
			return nil, resources, fmt.Errorf("list the cluster's guests: %w", err)
		}
		read = c.readSource
	}
}

// unfinishedSource is a VM that is to be copied, and whose create has not been committed.
type unfinishedSource struct {
	unfinished
	path string // of the attribute that names it
	done string // to it: "cloned"
}

// await waits until the VM may have been committed, and refuses one of which nothing shows that a run is at work on it.
// One that was read for a plan is refused at once, unless afresh is set: the create then reads it again.
func (u unfinishedSource) await(ctx context.Context, c *Creator, afresh bool, try int) error {
	life, why := c.lifeOf(u.mark), "No run is at work on it. "
	var err error
	switch {
	case u.mark.Saga == "":
		life, why = guest.Dead, ""
	case u.mark.Kept:
		life, why = guest.Dead, "Its create has failed, and on_failure = \"keep\" keeps it. "
	case afresh && life == guest.Unsure:
		life, err = c.guests.Watch(ctx, u.listed, u.mark, life)
		if pve.IsKind(err, pve.NotFound) { // it has moved, or is gone
			life, err = guest.Alive, nil
		}
	}
	switch {
	case err == nil && afresh && life == guest.Alive:
		if try == 1 {
			c.jobs.Tell(ctx, fmt.Sprintf("%s on node %s is to be %s, and transaction %s is still making it: the end of that is "+
				"awaited", u.named(), u.listed.Node, u.done, u.mark.Saga))
		}
		if err = c.jobs.Pause(ctx, try); err == nil {
			return nil
		}
		why = "A run is at work on it, and its end was awaited. "
	case err != nil:
		why = "Whether a run is at work on it cannot be told. "
	}
	refused := &guest.FieldError{Path: u.path, Err: err,
		Summary: fmt.Sprintf("%s on node %s cannot be %s before it is finished", u.named(), u.listed.Node, u.done),
		Detail:  why + guest.Unfinished(u.listed.VMID, u.mark)}
	if u.mark.Saga != "" {
		refused.Detail += ". If no configuration has it: " + u.waysOut()
	}
	return refused
}

// awaitImported does so for the VMs that new disks are copied of. One that cannot be read is left to PVE, which wants
// VM.Config.Disk on it (pve-storage Storage.pm check_volume_access).
func awaitImported(ctx context.Context, c *Creator, resources pve.Resources, r Request) error {
	copies := vm.Diff(vm.Spec{}, r.Spec).Copies()
	for _, slot := range slices.Sorted(maps.Keys(copies)) {
		owner, owned := volid.Owner(copies[slot])
		read := c.guests.SourceConfig
		for try := 1; owned && owner != r.VMID; try++ {
			listed, ok := resources.Guest(owner)
			if !ok || listed.Type != "qemu" {
				break
			}
			config, err := read(ctx, listed.Node, owner)
			mark, is := ownership.Unfinished(owner, config)
			if err != nil || !is {
				break
			}
			u := unfinishedSource{unfinished{listed: listed, mark: mark, config: config}, guest.ImportPath(slot), "copied"}
			if try > 1 { // the first reading may be some seconds old
				err = u.await(ctx, c, true, try-1)
			}
			if err == nil {
				resources, err = c.api.Cluster().Resources(ctx)
			}
			if err != nil {
				return err
			}
			read = c.readSource
		}
	}
	return nil
}

func (c *Creator) readSource(ctx context.Context, node string, vmid int) (map[string]string, error) {
	config, err := c.api.QEMU(node, vmid).Config(ctx)
	return config.Values, err
}

// withNames is the listing in which the source is looked for. Where no listed VM is meant, those of which PVE tells too
// little are read: an apply may clone a VM that it has just made.
func withNames(ctx context.Context, guests *guest.Guests, resources pve.Resources, clone *guest.Clone) pve.Resources {
	if slices.ContainsFunc(resources, clone.Means) {
		return resources
	}
	return guest.WithNames(ctx, guests, resources, clone)
}

// cloned looks at the source of a clone, and at the lock on it.
func (c *Creator) cloned(ctx context.Context, resources pve.Resources, clone *guest.Clone,
	read func(ctx context.Context, node string, vmid int) (map[string]string, error)) (*source, string, error) {
	found, err := guest.FindSource(withNames(ctx, c.guests, resources, clone), clone)
	if err != nil {
		return nil, "", err
	}
	config, err := read(ctx, found.Node, found.VMID)
	if err != nil {
		return nil, "", &guest.FieldError{Path: "clone", Summary: fmt.Sprintf("Cannot read VM %d to clone it", found.VMID),
			Detail: fmt.Sprintf("The source of the clone is on node %s", found.Node), Err: err}
	}
	from := &source{what: fmt.Sprintf("clone VM %d", found.VMID),
		vmid: found.VMID, node: found.Node, config: config, description: guest.CopiedDescription(config),
		storages: storagesOf(config), request: clone, listed: found}
	if clone.Snapshot != "" { // its volumes may be elsewhere by now than its VM's
		old, err := c.api.QEMU(found.Node, found.VMID).SnapshotConfig(ctx, clone.Snapshot)
		switch {
		case err == nil:
		case pve.IsKind(err, pve.NotFound) && !fault.IsGuestGone(err, found.VMID): // final: PVE has read the configuration
			return nil, "", &guest.FieldError{Path: "clone.snapshot",
				Summary: fmt.Sprintf("VM %d has no snapshot %q", found.VMID, clone.Snapshot),
				Detail:  fmt.Sprintf("The source of the clone is on node %s. Nothing was made", found.Node)}
		default:
			return nil, "", &guest.FieldError{Path: "clone.snapshot",
				Summary: fmt.Sprintf("Cannot read snapshot %s of VM %d to clone it", clone.Snapshot, found.VMID),
				Detail:  fmt.Sprintf("The source of the clone is on node %s", found.Node), Err: err}
		}
		from.storages, from.snapshot = append(from.storages, storagesOf(old)...), old
	}
	return from, config["lock"], nil
}

// archive is a backup as the source of a VM. All image storages of the node are searched for volumes with the VMID:
// after a restore PVE scans them, and attaches each such volume as an unused disk of the VM (qemu-server QemuServer.pm,
// rescan).
func (c *Creator) archive(ctx context.Context, resources pve.Resources, node string, r Request) (*source, error) {
	config, err := c.guests.ArchiveConfig(ctx, node, r.Restore.Archive)
	if err != nil {
		return nil, &guest.FieldError{Path: "restore.archive", Summary: "Cannot read the backup " + r.Restore.Archive,
			Detail: "The configuration in it says what the VM is, and where its disks are to go. That takes " +
				"Datastore.AllocateSpace on the " +
				"storage of the backup and VM.Backup on the VM that was backed up. Nothing was made", Err: err}
	}
	storages, err := c.guests.ImageStorages(ctx, resources, node)
	if err != nil {
		return nil, err
	}
	from := &source{what: "restore " + r.Restore.Archive, node: node, config: config,
		description: guest.CopiedDescription(config), searched: storages, storages: []string{r.Restore.Storage}}
	if r.Restore.Storage == "" {
		from.storages = storagesOf(config)
	}
	return from, refuseTwins(ctx, c.destroyer, from)
}

// refuseTwins refuses a restore onto a share that the node has under two ids. PVE's scan tells disks apart by their
// paths alone, and would make each of the new ones an unused disk of the VM, too, whose removal destroys it
// (qemu-server QemuServer.pm update_disk_config). Places that cannot be read refuse nothing: the restore looks at its
// disks.
func refuseTwins(ctx context.Context, d *destroy.Destroyer, from *source) error {
	places, err := d.Places(ctx)
	if err != nil {
		return ctx.Err()
	}
	for _, on := range from.storages {
		for _, other := range from.searched {
			if on == other || places[on].Path == places[other].Path || places.Compare(on, other) != volumeuse.Same {
				continue
			}
			return &guest.FieldError{Path: "restore.storage",
				Summary: fmt.Sprintf("Storages %s and %s are one place", on, other),
				Detail: fmt.Sprintf("After a restore PVE scans both, and makes each new disk an unused disk of the VM, too, "+
					"by its other name. Nothing was made. Restore onto another storage, or take the content type images from %s",
					other)}
		}
	}
	return nil
}

// storagesOf are the storages of the guest volumes in a configuration. That of an ISO image is none, since it is not
// copied.
func storagesOf(config map[string]string) []string {
	var ids []string
	for _, volume := range guest.Volumes(config) {
		if _, ok := volid.Owner(volume); ok {
			ids = append(ids, volid.Storage(volume))
		}
	}
	return ids
}

// cloneParams are the parameters of the clone request, without the description.
func (s *source) cloneParams(vmid int, r Request, node string) pve.Params {
	p := pve.Params{"newid": strconv.Itoa(vmid)}
	if s.request.Full != nil {
		p["full"] = map[bool]string{true: "1", false: "0"}[*s.request.Full]
	}
	optional := map[string]string{"snapname": s.request.Snapshot, "storage": s.request.Storage, "format": s.request.Format,
		"pool": r.Pool}
	if r.Spec.Name != nil {
		optional["name"] = *r.Spec.Name
	}
	if node != s.node && !s.migrates {
		optional["target"] = node
	}
	if s.request.BWLimit != nil {
		optional["bwlimit"] = strconv.FormatInt(*s.request.BWLimit, 10)
	}
	for option, value := range optional {
		if value != "" {
			p[option] = value
		}
	}
	return p
}

// hasDrive refuses cloud-init data for a copy that has no drive with them.
func (s *source) hasDrive(r Request) error {
	if s == nil {
		return nil
	}
	for _, problem := range vm.Undriven(vm.Decode(s.copied()), r.Spec) {
		return &guest.FieldError{Path: problem.At, Summary: "The copy would have no cloud-init drive",
			Detail: fmt.Sprintf("Cannot %s: %s. No VM was made", s.what, problem.Text)}
	}
	return nil
}

// copied is the configuration of the copy.
func (s *source) copied() map[string]string {
	if s.snapshot != nil {
		return s.snapshot
	}
	return s.config
}

// isAsPlanned refuses a source of which the plan has said something else: before the first write nothing has to be
// taken back, and the next plan says what the source is now.
func (s *source) isAsPlanned(r Request) error {
	if r.AsPlanned == nil {
		return nil
	}
	return r.AsPlanned(guest.Source{Listed: s.listed, Config: s.copied(), Description: s.description})
}
