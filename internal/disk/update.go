package disk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// moves reports whether a change gives the volume another name.
func (w Wanted) moves(was Disk) bool {
	return w.Storage != was.Storage() || w.Format != "" && w.Format != was.Format || w.Node != "" && w.Node != was.Node
}

// CheckMove refuses to move a disk that a guest has attached: the volume gets another name, and the guest would lose
// its disk. Guests on every node count: a third party may have moved the VM that holds it from under them.
func (d *Disks) CheckMove(ctx context.Context, was Disk, w Wanted) error {
	if !w.moves(was) {
		return nil
	}
	at := "storage"
	switch {
	case w.Node != "" && w.Node != was.Node:
		at = "node"
	case w.Storage == was.Storage():
		at = "format"
	}
	users, strays, err := d.remover.Carriers(ctx, was.Node, was.Volume)
	if err != nil { // such as a node that is off: a refresh has looked whether the disk is where it was
		users, err = d.users(ctx, was)
	}
	switch {
	case err != nil:
		return err
	case len(strays) > 0:
		return astray(was, at, strays)
	case len(users) == 0:
		return nil
	}
	var next []string
	if slices.ContainsFunc(users, volumeuse.User.HasVolume) {
		next = append(next, "detach it there in an apply of its own")
	}
	if slices.ContainsFunc(users, func(u volumeuse.User) bool { return !u.HasVolume() }) {
		next = append(next, "remove the snapshot")
	}
	return &guest.FieldError{Path: at, Summary: fmt.Sprintf("The disk of VM %d is in use", was.VMID),
		Detail: fmt.Sprintf("Moved, the volume %s has another name, and would be gone for %s. Nothing was changed. Next "+
			"step: %s; then move the disk", was.Volume, named(users), strings.Join(next, ", and "))}
}

// IsShared reports whether other nodes have the volume of a disk, too, so that a migration copies nothing; false where
// that cannot be told.
func (d *Disks) IsShared(ctx context.Context, held Disk) bool {
	resources, _, err := d.api.Listing().Recent(ctx)
	storage, _ := resources.Storage(held.Node, held.Storage())
	return err == nil && storage.Shared
}

// CheckAstray refuses a disk from under which a third party has moved the VM that holds it, or its volume, while a
// guest had it: what the VM holds now may be an old copy.
func (d *Disks) CheckAstray(ctx context.Context, held Disk) error {
	_, strays, err := d.remover.Carriers(ctx, held.Node, held.Volume)
	if err == nil && len(strays) > 0 {
		err = astray(held, "storage", strays)
	}
	return err
}

// astray says how a holder and a guest come together again. PVE gives the migrated copy another name where the volume
// of its name is there (pve-storage Storage.pm storage_migrate, allow_rename), and puts the copy aside as unusedN
// (qemu-server QemuServer.pm vmconfig_register_unused_drive).
func astray(held Disk, at string, strays []volumeuse.Stray) error {
	first := strays[0]
	back := ""
	if to := first.Guest.Node; to != held.Node {
		back = fmt.Sprintf("%s on node %s, then ", shell.Or(shell.VM("qm migrate {vmid} {}", held.VMID, to),
			"migrate it to node "+to), held.Node)
	}
	put := "put " + first.As + " into " + vm.HolderSlot + " of VM " + strconv.Itoa(held.VMID)
	if !volid.IsDevice(first.As) {
		put = shell.Or(shell.VM("qm set {vmid} --{} {}", held.VMID, vm.HolderSlot, first.As+",backup=0"), put)
	}
	var all []string
	for _, s := range strays {
		all = append(all, s.String())
	}
	return &guest.FieldError{Path: at,
		Summary: fmt.Sprintf("VM %d does not hold the disk that is in use", held.VMID),
		Detail: fmt.Sprintf("It was migrated, or its disk moved, outside Terraform: %s, while VM %d holds %s on node %s, "+
			"which may be an old copy. Nothing was changed, and neither is put in the place of the other. To keep the disk "+
			"that is in use, give it back to VM %d: %s%s on node %s; the copy stays there as an unused disk. To keep what "+
			"VM %d holds, take the other disk out of the guest in PVE (Hardware, Detach). Then apply again",
			strings.Join(all, "; "), held.VMID, held.Volume, held.Node, held.VMID, back, put, first.Guest.Node, held.VMID)}
}

// users are the guests that have a disk attached, without the VM that holds it.
func (d *Disks) users(ctx context.Context, held Disk) ([]volumeuse.User, error) {
	return d.remover.UsersOf(ctx, held.Node, held.VMID, held.Volume)
}

func named(users []volumeuse.User) string {
	var all []string
	for _, u := range users {
		all = append(all, u.String())
	}
	return strings.Join(all, "; ")
}

// checkPlace refuses to change a disk that is neither where the plan has seen it nor where the plan takes it, as an
// apply leaves it that was killed. The change would be that of a volume which no plan has shown, and the result could
// not be on the planned node without a move that no plan has shown either.
func (d *Disks) checkPlace(ctx context.Context, ref guest.Ref, was Disk, w Wanted) error {
	at, err := d.guests.FindUnlocked(ctx, ref)
	if err != nil {
		return err
	}
	is := of(guest.FromConfig(at.Config, at.Node, ref.VMID), "")
	if is.Node == was.Node && is.Volume == was.Volume || w.moves(was) && w.isReached(is) {
		return nil
	}
	attribute, holds := "storage", is.Volume
	if is.Node != was.Node {
		attribute = "node"
	}
	if is.Volume == "" {
		holds = "no disk of its own in " + vm.HolderSlot
	} else if err := d.CheckAstray(ctx, is); errors.As(err, new(*guest.FieldError)) {
		return err
	}
	return &guest.FieldError{Path: attribute,
		Summary: fmt.Sprintf("The disk of VM %d was moved outside Terraform since the plan", was.VMID),
		Detail: fmt.Sprintf("The plan has seen %s on node %s, and VM %d is on node %s and holds %s. Nothing was changed. "+
			"A new plan shows what becomes of it: plan and apply again", was.Volume, was.Node, was.VMID, is.Node, holds)}
}

// isReached reports whether a disk is where it is to be.
func (w Wanted) isReached(is Disk) bool {
	return is.Volume != "" && is.Node == w.Node && is.Storage() == w.Storage && (w.Format == "" || is.Format == w.Format)
}

// Change is what an update makes of the VM that holds a disk: from and to.
func Change(was Disk, w Wanted) (prior, planned vm.Spec) {
	prior = Wanted{Storage: was.Storage(), Format: was.Format, Size: was.Size, Name: was.Name,
		Description: was.Description}.Spec(was.Volume)
	if !was.Marked {
		prior.Description = nil
	}
	// A VM that an earlier version made lacks these.
	held := prior.Disks[vm.HolderSlot]
	held.Backup, prior.BootOrder = nil, nil
	prior.Disks[vm.HolderSlot] = held
	return prior, w.Spec(was.Volume)
}

// Update changes a disk in place. One with a proof is the leftover of a failed create, which its user has untainted.
// The result is the disk as it is now, even with an error, unless its VMID is zero.
func (d *Disks) Update(ctx context.Context, ref guest.Ref, was Disk, w Wanted) (Disk, []guest.Warning, error) {
	leftover := ref.Proof
	if leftover != nil {
		if ref.Proof = nil; ref.Identity.IsZero() {
			ref.Identity = leftover.Identity
		}
		if !was.Marked { // but with the mark of the create
			leftover = leftover.SeenMarked()
		}
	}
	if err := d.checkPlace(ctx, ref, was, w); err != nil {
		return was, nil, err
	}
	if err := d.CheckMove(ctx, was, w); err != nil {
		return was, nil, err
	}
	if w.Size > was.Size && leftover == nil { // a leftover is attached to no other VM
		grown, err := d.growAttached(ctx, was, w.Size)
		if err != nil {
			return was, nil, err
		}
		if grown {
			was.Size = w.Size
		}
	}
	prior, planned := Change(was, w)
	request := update.Request{Ref: ref, Prior: prior, Planned: planned, PriorPool: was.Pool, Pool: w.Pool,
		Restart: update.RestartNever, Protect: true, Notes: update.Notes{Leftover: leftover}}
	if w.Node != was.Node { // else it stays where it is: no plan has shown a migration
		request.Node = w.Node
	}
	now, warnings, err := d.changer.Update(ctx, request)
	if now.VMID == 0 {
		return was, warnings, err
	}
	return d.measured(ctx, of(now, "")), warnings, err
}

// growAttached grows a disk through the VM that has it attached, so that a running guest sees it at once and PVE knows
// its size there. It is false if no guest has it attached.
func (d *Disks) growAttached(ctx context.Context, held Disk, size int64) (bool, error) {
	users, err := d.users(ctx, held)
	if err != nil || len(users) == 0 {
		return false, err
	}
	by := slices.DeleteFunc(slices.Clone(users), func(u volumeuse.User) bool {
		return u.Guest.Type != "qemu" ||
			!vm.IsSlot(u.Where)
	})
	if len(by) != 1 {
		return false, &guest.FieldError{Path: "size",
			Summary: fmt.Sprintf("The disk of VM %d cannot be grown now", held.VMID),
			Detail: fmt.Sprintf("It was not touched: it grows by way of the one VM that has it in a slot, and it is used by %s",
				named(users))}
	}
	at := by[0]
	config, err := d.api.QEMU(at.Guest.Node, at.Guest.VMID).Config(ctx)
	if err != nil {
		return false, fmt.Errorf("read VM %d, which has the disk: %w", at.Guest.VMID, err)
	}
	if guest.VolumeOf(config.Values[at.Where]) != held.Volume {
		return false, fmt.Errorf("VM %d had the disk in %s a moment ago; it was not touched", at.Guest.VMID, at.Where)
	}
	grow := vm.Growth{Slot: at.Where, Size: size}
	if err := d.jobs.GrowRead(ctx, &request.Tasks{}, at.Guest.Node, at.Guest.VMID, grow, config.Digest); err != nil {
		return false, fmt.Errorf("by way of VM %d: %w", at.Guest.VMID, err)
	}
	return true, d.tellHolder(ctx, held)
}

// tellHolder makes PVE record the size of a volume in the VM that holds it: PVE looks when a volume is put into a slot
// (qemu-server API2/Qemu.pm create_disks). Other options of the slot stay, which a third party may have set.
func (d *Disks) tellHolder(ctx context.Context, held Disk) error {
	options := pve.Params{}
	look := func(ctx context.Context, next map[string]string) (string, error) {
		config, err := d.api.QEMU(held.Node, held.VMID).Config(ctx)
		if err != nil {
			return "", err
		}
		if vm.HeldVolume(held.VMID, config.Values) != held.Volume ||
			!held.Identity.Matches(guest.IdentityOf(config.Values)) {
			return "", fmt.Errorf("it does not hold %s any more", held.Volume)
		}
		drive, ok := property.Parse(config.Values[vm.HolderSlot], "file")
		if !ok {
			return "", fmt.Errorf("its %s cannot be read", vm.HolderSlot)
		}
		delete(drive, "size")
		drive["backup"] = "0"
		options[vm.HolderSlot] = property.Print(drive, "file")
		if sent := next[vm.HolderSlot]; sent != "" && sent != options[vm.HolderSlot] {
			return "", fmt.Errorf("its %s was changed meanwhile", vm.HolderSlot)
		}
		return config.Digest, nil
	}
	digest, err := look(ctx, nil)
	if err == nil {
		err = d.jobs.Set(ctx, held.Node, held.VMID, maps.Clone(options), request.Bound{Digest: digest, Again: look})
	}
	if err != nil {
		return fmt.Errorf("the disk has grown; note its size at VM %d: %w", held.VMID, err)
	}
	return nil
}
