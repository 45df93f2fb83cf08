package destroy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// clear retries remembered leftovers and returns those that are still there. A guest is not removed here: the delete
// of the VM in state has just tried that, with proof.
func (d *Destroyer) clear(ctx context.Context, r Request) ([]saga.Residue, error) {
	if len(r.Left) == 0 {
		return nil, nil
	}
	var failed error
	var open []saga.Residue
	has := d.attached(ctx, r.Ref)
	for _, leftover := range r.Left {
		if guest.Uses(has, leftover.ID) {
			continue
		}
		if leftover.Kind != "volume" {
			open = append(open, leftover)
			continue
		}
		if err := d.clearVolume(ctx, r, leftover); err != nil {
			open = append(open, leftover)
			failed = errors.Join(failed, fmt.Errorf("remove %s: %w", leftover.What, err))
		}
	}
	remaining, err := d.Recheck(ctx, r.Ref, open)
	if err != nil {
		return open, err
	}
	if len(remaining) > 0 {
		return remaining, &saga.LeftError{Left: remaining, Err: failed}
	}
	return nil, nil
}

// clearVolume removes a remembered volume, unless a VM has its VMID now: then it may be that VM's.
func (d *Destroyer) clearVolume(ctx context.Context, r Request, leftover saga.Residue) error {
	vmid, ok := volid.Owner(leftover.ID)
	if !ok {
		return fmt.Errorf("no VMID in %q", leftover.ID)
	}
	if err := d.proveRemembered(ctx, vmid, leftover); err != nil {
		return err
	}
	resources, err := d.api.Listing().Shared(ctx)
	if err != nil {
		return err
	}
	b := guest.OwnBaseline(leftover.Node, vmid, []string{leftover.ID})
	b.Unremoved = map[string]string{leftover.ID: leftover.Reason}
	b.Resources = resources
	return d.newRemoval(Target{VMID: vmid, Nodes: []string{leftover.Node}, Baseline: b, Tasks: &request.Tasks{},
		HalfMade: NewHalfMade("", nil), Pool: r.Pool, Mark: d.guests.NewMark(guest.ClusterName(resources), vmid)},
		policy{identity: r.Ref.Identity, alone: true}).run(ctx)
}

// proveRemembered makes sure that a volume is the one that state remembers, and not a later one of its name: it has the
// same size and was made at the same time. A storage that tells no time, or a volume that was not seen when it was
// noted, proves that only as far as no other cluster may use the storage. One whose size state does not know either is
// not proved at all.
func (d *Destroyer) proveRemembered(ctx context.Context, vmid int, was saga.Residue) error {
	found, err := d.guests.Volumes(ctx, was.Node, volid.Storage(was.ID), vmid)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(found, func(v pve.Volume) bool { return v.ID == was.ID })
	if at < 0 {
		return d.ProveOrphaned(ctx, was.Node, vmid, []string{was.ID})
	}
	now, seen := found[at], !was.CreatedAt.IsZero()
	isOther := seen && now.Size != 0 && now.Size != was.Size
	switch {
	case was.Size == 0:
		return errors.New("its size is not known, so the volume that has the name now may be another one. It was not " +
			"touched. Find its owner; `terraform state rm` makes Terraform forget the leftover")
	case isOther || !hasSize(now, was.Size) || seen && !now.CreatedAt.Equal(was.CreatedAt):
		return fmt.Errorf("another volume has its name now: it has %d bytes and not %d, or was made at another time. It was "+
			"not touched. Find its owner; `terraform state rm` makes Terraform forget the leftover",
			cmp.Or(now.Size, now.Approximate), was.Size)
	case seen:
		return d.ProveLeftOver(ctx, was.Node, vmid, []string{was.ID})
	}
	return d.ProveOrphaned(ctx, was.Node, vmid, []string{was.ID}) // ZFS and RBD list no time (pve-storage, list_images)
}

// Recheck returns the remembered leftovers of a VM in state that are still there.
func (d *Destroyer) Recheck(ctx context.Context, ref guest.Ref, left []saga.Residue) ([]saga.Residue, error) {
	if len(left) == 0 {
		return nil, nil
	}
	var remaining []saga.Residue
	has := d.attached(ctx, ref)
	for _, leftover := range left {
		if guest.Uses(has, leftover.ID) && !d.isProof(ctx, ref, has, leftover) {
			continue
		}
		there, err := d.exists(ctx, ref, &leftover)
		if leftover.Kind == "volume" && pve.IsKind(err, pve.NotFound) { // pve-storage Storage.pm storage_config
			there, err, leftover.Command = true, nil, ""
			leftover.Reason = fmt.Sprintf("storage %s does not exist any more, so PVE can neither show nor remove it. Add the "+
				"storage again, or have Terraform forget the leftover (`terraform state rm`)", volid.Storage(leftover.ID))
		}
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", leftover.What, err)
		}
		if there {
			if !guest.Uses(has, leftover.ID) {
				leftover = withoutBareFree(leftover)
			}
			if leftover.Kind == "guest" && ref.Proof != nil && len(ref.Proof.Used) > 0 { // others work with it
				leftover.Command = shell.VM("qm config {vmid}", ref.VMID)
			}
			remaining = append(remaining, leftover)
		}
	}
	return remaining, nil
}

// isProof reports whether a leftover is an unused disk of the VM that its create has left: the roll-back attaches the
// copy of a dead move, and only the state knows whose that is. Another volume may have got its name since.
func (d *Destroyer) isProof(ctx context.Context, ref guest.Ref, config map[string]string, was saga.Residue) bool {
	_, marked := ownership.Parse(config["description"])
	if ref.Proof == nil || !marked || was.Size == 0 || !slices.Contains(Adopted(ref.Proof.VMID, config), was.ID) {
		return false
	}
	found, err := d.guests.Volumes(ctx, was.Node, volid.Storage(was.ID), ref.Proof.VMID)
	known := fact{size: was.Size, createdAt: was.CreatedAt}
	isIt := func(v pve.Volume) bool { return v.ID == was.ID && known.fits(v) }
	return err == nil && slices.ContainsFunc(found, isIt)
}

// onRemovedStorage refuses to destroy a VM with a volume on a storage that was removed. PVE destroys such a VM and only
// warns, and before qemu-server 9.1.19 it fails when other volumes are gone (QemuServer.pm destroy_vm, 2e85e6d7). It
// takes a drive out of the VM without its storage (vmconfig_register_unused_drive, try_deallocate_drive).
func onRemovedStorage(ctx context.Context, d *destruction, volumes []string) error {
	vmid := d.r.Ref.VMID
	for _, volume := range volumes {
		storage := volid.Storage(volume)
		_, err := d.d.api.Storage(d.node, storage).Content(ctx, "images", vmid)
		if !pve.IsKind(err, pve.NotFound) {
			continue
		}
		var options []string
		for _, config := range []map[string]string{d.config.Current(), d.config.Merged()} {
			for option, has := range guest.Volumes(config) {
				if has == volume {
					options = append(options, option)
				}
			}
		}
		slices.Sort(options)
		without := shell.VM("qm set {vmid} --delete {}", vmid, strings.Join(slices.Compact(options), ","))
		return fmt.Errorf("storage %s, which holds %s, does not exist any more: nothing would remove the volume with VM %d. "+
			"The VM was not touched. Add the storage again, or let the VM go without the disk (`%s` on node %s), then destroy "+
			"again", storage, volume, vmid, without, d.node)
	}
	return nil
}

// attached is the configuration of the VM in state, if it is there, or of the VM of a create that failed, which another
// run has completed. Its volumes are no leftovers, although a destroy that lost sight of the VM took them for some.
func (d *Destroyer) attached(ctx context.Context, ref guest.Ref) map[string]string {
	config, err := d.api.QEMU(ref.Node, ref.VMID).Config(ctx)
	same := ref.Identity.Matches(guest.IdentityOf(config.Values)) ||
		ref.Proof != nil && ref.Proof.Identity.Proves(config.Values)
	if err != nil || !same {
		return nil
	}
	return config.Values
}

// withoutBareFree has a remembered command free a volume only where no guest has it. The volume may have been removed
// by that very command, and its name may be another user's since: PVE gives out the lowest free name.
func withoutBareFree(left saga.Residue) saga.Residue {
	if left.Kind == "volume" && left.Command == shell.Free(left.ID) {
		left.Command = shell.FreeUnused(left.ID)
	}
	return left
}

// exists looks for one leftover. A VM of another user that has a leftover's VMID by now is none. A volume that is
// another one by now loses its command.
func (d *Destroyer) exists(ctx context.Context, ref guest.Ref, leftover *saga.Residue) (bool, error) {
	if leftover.Kind != "guest" {
		now, there, err := d.HasVolume(ctx, leftover.Node, leftover.ID)
		known := fact{size: leftover.Size, createdAt: leftover.CreatedAt}
		vmid, ok := volid.Owner(leftover.ID)
		if ok && now.ID != "" && !known.fits(now) {
			leftover.Reason = "another volume has its name now: it has another size, or was made at another time. Find its " +
				"owner, or have Terraform forget the leftover (`terraform state rm`)"
		}
		if ok && now.ID != "" && (!known.fits(now) || known.size == 0) {
			leftover.Command = shell.VM("pvesm list {} --vmid {vmid}", vmid, volid.Storage(leftover.ID))
		}
		return there, err
	}
	if ref.Proof != nil {
		return d.stands(ctx, ref.Proof)
	}
	vmid, err := strconv.Atoi(leftover.ID)
	if err != nil {
		return false, err
	}
	config, err := d.api.QEMU(leftover.Node, vmid).Config(ctx)
	if pve.IsKind(err, pve.NotFound) {
		return false, nil
	}
	return err == nil && ref.Identity.Matches(guest.IdentityOf(config.Values)), err
}

// stands reports whether the VM of a create that failed is there, or may be. It judges as the removal of that VM does,
// by the ends of the create's tasks too: with a judge of its own it would keep what the removal has resolved.
func (d *Destroyer) stands(ctx context.Context, p *guest.Proof) (bool, error) {
	all := targetsOf(p, d.guests.MarkOf(p), nil)
	if len(all) == 0 {
		return false, fmt.Errorf("the create of VM %d has noted no node", p.VMID)
	}
	r := d.newRemoval(all[0], policy{})
	r.tasks.noteAll(ctx, d.api)
	err := r.find(ctx, r.tasks.worst())
	if r.view.unsure {
		return true, nil
	}
	return r.view.standing(), err
}
