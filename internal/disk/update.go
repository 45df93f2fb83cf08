package disk

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// moves reports whether a change gives the volume another name.
func (w Wanted) moves(was Disk) bool {
	return w.Storage != was.Storage() || w.Format != "" && w.Format != was.Format || w.Node != "" && w.Node != was.Node
}

// CheckMove refuses to move a disk that a guest has: the volume gets another name, and what that guest has would be gone.
func (s *Disks) CheckMove(ctx context.Context, was Disk, w Wanted) error {
	if !w.moves(was) {
		return nil
	}
	users, err := s.users(ctx, was)
	if err != nil || len(users) == 0 {
		return err
	}
	at := "storage"
	switch {
	case w.Node != "" && w.Node != was.Node:
		at = "node"
	case w.Storage == was.Storage():
		at = "format"
	}
	return &guest.FieldError{Path: at, Summary: fmt.Sprintf("The disk of VM %d is in use", was.VMID),
		Detail: fmt.Sprintf("Moved, the volume %s has another name, and would be gone for %s. Nothing was changed. Detach it there first, "+
			"or delete the snapshot",
			was.Volume, named(users))}
}

// users are the guests that have a disk, but for the VM that holds it.
func (s *Disks) users(ctx context.Context, d Disk) ([]usage.User, error) {
	return s.remover.UsersOf(ctx, d.Node, d.VMID, d.Volume)
}

func named(users []usage.User) string {
	var all []string
	for _, u := range users {
		all = append(all, u.String())
	}
	return strings.Join(all, "; ")
}

// Update changes a disk in place. What is returned is true, also with an error, unless it has no VMID.
func (s *Disks) Update(ctx context.Context, ref guest.Ref, was Disk, w Wanted) (Disk, []guest.Warning, error) {
	if err := s.CheckMove(ctx, was, w); err != nil {
		return was, nil, err
	}
	if w.Size > was.Size {
		grown, err := s.growAttached(ctx, was, w.Size)
		if err != nil {
			return was, nil, err
		}
		if grown {
			was.Size = w.Size
		}
	}
	prior := Wanted{Storage: was.Storage(), Format: was.Format, Size: was.Size, Name: was.Name, Description: was.Description}
	request := change.Request{Ref: ref, Prior: prior.spec(was.Volume), Planned: w.spec(was.Volume), PriorPool: was.Pool, Pool: w.Pool,
		Node: w.Node, Restart: change.RestartNever}
	if !was.Marked {
		request.Prior.Description = nil
	}
	now, warnings, err := s.changer.Update(ctx, request)
	if now.VMID == 0 {
		return was, warnings, err
	}
	return s.measured(ctx, of(now, "")), warnings, err
}

// growAttached grows a disk by way of the VM that has it, so that a guest that runs sees it at once, and PVE knows there how large it
// is. It is false where no guest has it.
func (s *Disks) growAttached(ctx context.Context, d Disk, size int64) (bool, error) {
	users, err := s.users(ctx, d)
	if err != nil || len(users) == 0 {
		return false, err
	}
	by := slices.DeleteFunc(slices.Clone(users), func(u usage.User) bool { return u.Guest.Type != "qemu" || !vm.IsSlot(u.Where) })
	if len(by) != 1 {
		return false, &guest.FieldError{Path: "size", Summary: fmt.Sprintf("The disk of VM %d cannot be grown now", d.VMID),
			Detail: fmt.Sprintf("It was not touched: it grows by way of the one VM that has it in a slot, and it is used by %s", named(users))}
	}
	at := by[0]
	config, err := s.api.CurrentConfig(ctx, at.Guest.Node, at.Guest.VMID)
	if err != nil {
		return false, fmt.Errorf("read VM %d, which has the disk: %w", at.Guest.VMID, err)
	}
	if guest.VolumeOf(config.Values[at.Where]) != d.Volume {
		return false, fmt.Errorf("VM %d had the disk in %s a moment ago; it was not touched", at.Guest.VMID, at.Where)
	}
	grow := vm.Growth{Slot: at.Where, Size: size}
	if err := s.jobs.GrowRead(ctx, &job.Tasks{}, at.Guest.Node, at.Guest.VMID, grow, config.Digest); err != nil {
		return false, fmt.Errorf("by way of VM %d: %w", at.Guest.VMID, err)
	}
	return true, s.tellHolder(ctx, d)
}

// tellHolder has PVE note the size of a volume at the VM that holds it: it looks when a volume is put into a slot (qemu-server
// API2/Qemu.pm create_disks).
func (s *Disks) tellHolder(ctx context.Context, d Disk) error {
	config, err := s.api.CurrentConfig(ctx, d.Node, d.VMID)
	if err == nil && vm.HeldVolume(d.VMID, config.Values) == d.Volume && d.Identity.Matches(guest.IdentityOf(config.Values)) {
		err = s.jobs.Set(ctx, d.Node, d.VMID, pve.Params{vm.HolderSlot: d.Volume}, job.Bound{Digest: config.Digest})
	}
	if err != nil {
		return fmt.Errorf("the disk has grown; note its size at VM %d: %w", d.VMID, err)
	}
	return nil
}
