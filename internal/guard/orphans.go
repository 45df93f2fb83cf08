package guard

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Orphans removes objects that no configuration and no guest owns, when a user names them. Package orphan has found
// that they are left over; each request here proves it once more.
type Orphans struct{ *Guard }

// Orphans returns the part of the guard that handles orphans.
func (g *Guard) Orphans() Orphans { return Orphans{g} }

// Unowned is an orphaned guest, as it was when it was judged.
type Unowned struct {
	Listed    pve.Resource
	Resources pve.Resources
	// Config is its configuration, and Digest that of the file.
	Config map[string]string
	Digest string
	// Mark is its ownership mark, if it bears one.
	Mark ownership.Mark
	// Gone: the process of the create has ended. A task that it began may still run, and its end is awaited.
	Gone bool
	// Dead is the task that died over the guest, if one did.
	Dead pve.UPID
}

// ErrChanged says that a guest has changed since it was judged, or is another by now.
var ErrChanged = errors.New("it was not touched")

// Changed is the error for a guest that is no longer what was judged. It wraps ErrChanged.
func Changed(vmid int, node string) error {
	return fmt.Errorf("VM %d on node %s has changed since it was found to be left over: another user is at work on it, "+
		"or has made another one: %w", vmid, node, ErrChanged)
}

// RemoveVM destroys a VM that is not locked, exactly as it was judged, with its entries elsewhere. PVE refuses one
// that runs.
func (o Orphans) RemoveVM(ctx context.Context, tasks *request.Tasks, u Unowned) error {
	node, vmid := u.Listed.Node, u.Listed.VMID
	e, err := o.Prove(ctx, Claim{Node: node, VMID: vmid, Whole: true, Guest: func(config pve.GuestConfig) error {
		if config.Digest == "" || config.Digest != u.Digest {
			return Changed(vmid, node)
		}
		return nil
	}})
	if err == nil {
		_, err = o.Guard.RemoveVM(ctx, tasks, e, true)
	}
	if err != nil && !pve.IsKind(err, pve.Ambiguous) && !pve.IsKind(err, pve.NotFound) {
		return err
	}
	free, lookErr := o.api.Cluster().IsFreeID(ctx, vmid)
	if lookErr != nil || !free {
		return errors.Join(err, lookErr, fmt.Errorf("a guest with the id %d is still there, or there again", vmid))
	}
	return nil
}

// Free frees a volume whose VMID no guest has, and that no guest uses: over the API, else over SSH. Right before the
// request it looks whether the volume is still as it was when it was judged.
func (o Orphans) Free(ctx context.Context, tasks *request.Tasks, vmid int, was MadeFile) error {
	node, volume := was.Node, was.Volume
	prove := func(ctx context.Context) (Evidence, error) {
		e, err := o.Prove(ctx, Claim{Node: node, VMID: vmid, NoGuest: true, Volumes: []string{volume}})
		if err == nil {
			err = o.isAsListed(ctx, vmid, was)
		}
		return e, err
	}
	e, err := prove(ctx)
	if err == nil {
		err = o.Guard.Free(ctx, tasks, e, volume)
	}
	if pve.IsKind(err, pve.Denied) && o.shell != nil {
		err = o.FreeByRoot(ctx, node, volume, prove)
	}
	if err != nil && !pve.IsKind(err, pve.Ambiguous) {
		return err
	}
	_, there, lookErr := o.HasVolume(ctx, node, volume)
	switch {
	case lookErr != nil:
		return errors.Join(err, lookErr)
	case there && err != nil:
		return fmt.Errorf("volume %s is still there: %w", volume, err)
	case there:
		return fmt.Errorf("volume %s is still there after PVE removed it, or cannot be seen", volume)
	}
	return nil
}

// isAsListed is an error if another volume has taken the place of a listed one, or if the listed one was written to.
// A volume that is not listed any more needs no error: the request does no harm, and the look after it tells whether
// the volume is gone.
func (o Orphans) isAsListed(ctx context.Context, vmid int, was MadeFile) error {
	volumes, err := o.api.Storage(was.Node, volid.Storage(was.Volume)).Content(ctx, "images", vmid)
	for _, v := range volumes {
		if v.ID == was.Volume && (v.Size != was.Size || !v.CreatedAt.Equal(was.CreatedAt)) {
			return fmt.Errorf("volume %s on node %s has changed since it was found to be left over: another user is at work "+
				"on it, or has made another one. It was not touched", was.Volume, was.Node)
		}
	}
	return err
}

// LeaveHA takes a VMID that no guest has out of HA.
func (o Orphans) LeaveHA(ctx context.Context, vmid int, sid string) error {
	return o.drop(ctx, vmid, func(ctx context.Context) error { return o.api.HA().RemoveEntry(ctx, sid) })
}

// LeavePool takes a VMID that no guest has out of a pool.
func (o Orphans) LeavePool(ctx context.Context, vmid int, pool string) error {
	return o.drop(ctx, vmid, func(ctx context.Context) error { return o.api.Pools().RemoveMember(ctx, pool, vmid) })
}

// DropACL takes a permission on a VMID that no guest has away.
func (o Orphans) DropACL(ctx context.Context, vmid int, entry pve.ACLEntry) error {
	return o.drop(ctx, vmid, func(ctx context.Context) error { return o.api.Access().DeleteACL(ctx, entry) })
}

// drop removes an entry for a VMID. Before each try it proves that no guest has the VMID.
func (o Orphans) drop(ctx context.Context, vmid int, drop func(context.Context) error) error {
	return o.jobs.Contend(ctx, "", vmid, func(ctx context.Context) error {
		e, err := o.Prove(ctx, Claim{VMID: vmid, NoGuest: true})
		if err != nil {
			return err
		}
		return o.dropEntry(ctx, e, drop)
	})
}
