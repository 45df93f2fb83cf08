package volumeuse

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Loans are the attachments of volumes that other VMs hold.
type Loans struct {
	use  *Reader
	held sync.Map // the nodes of volumes that a refresh of this run has seen held
}

// NewLoans shares the looks of a Reader.
func NewLoans(use *Reader) *Loans { return &Loans{use: use} }

// MayBorrow returns nil if a VM on a node may attach a volume that another VM holds for it, or a device of the node. It
// takes a fresh look at the guests, which begins after a place that Ask has given. vmid is that VM, or 0 if it does not
// exist yet. ErrNotHeld and BorrowedError are results of the look; any other error means that the look failed.
func (l *Loans) MayBorrow(ctx context.Context, asked uint64, node string, vmid int, volume string) error {
	use, err := l.useSince(ctx, asked, node, volume)
	if err != nil {
		return err
	}
	if err := l.borrow(ctx, use, node, vmid, volume); err == nil {
		return nil
	}
	if use, err = l.use.Confirm(ctx, use, vmid, volume); err != nil {
		return fmt.Errorf("look who uses %s: %w", volume, err)
	}
	return l.borrow(ctx, use, node, vmid, volume)
}

// NoteHeld notes that a refresh has found a volume held on a node, for the plans of this run.
func (l *Loans) NoteHeld(node, volume string) { l.held.Store(volume, node) }

// IsHeld returns nil if another VM holds a volume for others, and ErrNotHeld or an ElsewhereError if none does that is
// to be had on a node; "" is a node that is not known yet. It looks at that VM alone, unless a refresh of this run has
// seen it: which other guests have the volume only MayBorrow tells.
func (l *Loans) IsHeld(ctx context.Context, node string, vmid int, volume string) error {
	on, seen := l.held.Load(volume)
	if seen && (node == "" || on == node) {
		return nil
	}
	resources, _, err := l.use.api.Listing().Recent(ctx)
	if err != nil {
		return fmt.Errorf("list the cluster's guests: %w", err)
	}
	if at, known := resources.Storage(node, volid.Storage(volume)); seen && (!known || at.Shared) {
		return nil
	}
	scope, err := l.use.Scope(ctx, resources, node, []string{volume})
	if err != nil {
		return err
	}
	use, err := l.use.ofHolder(ctx, scope, volume)
	if err != nil {
		return err
	}
	owner, _ := volid.Owner(volume)
	if holder, there := use.Resources.Guest(owner); there && scope != "" && holder.Node != scope {
		return &ElsewhereError{Volume: volume, VMID: owner, On: holder.Node, Node: scope}
	}
	return use.Borrow(volume, vmid, false)
}

// borrow is MayBorrow by a look at the guests.
func (l *Loans) borrow(ctx context.Context, use *Use, node string, vmid int, volume string) error {
	if volid.IsDevice(volume) {
		return use.passThrough(node, vmid, volume)
	}
	holder, _ := use.Holder(volume)
	runs := holder.Guest.Status != "stopped"
	if runs && holder.Guest.Type == "qemu" { // the listing is up to ten seconds old
		now, err := l.use.api.QEMU(holder.Guest.Node, holder.Guest.VMID).Status(ctx)
		if err != nil {
			return err
		}
		runs = now.IsRunning()
	}
	if err := use.Borrow(volume, vmid, runs); err != nil {
		return err
	}
	return l.isAtRest(ctx, holder, volume)
}

// isAtRest is a BorrowedError while a task may take a held volume out of its place. PVE frees the old one at its end,
// whichever guest has attached it since (qemu-server API2/Qemu.pm move_vm_disk, QemuMigrate.pm phase3_cleanup), or
// takes its content back. A move sets no lock: only the cluster's log tells of it, to those who may read that.
func (l *Loans) isAtRest(ctx context.Context, holder Reading, volume string) error {
	vmid := holder.Guest.VMID
	taking := []string{"migrate", "rollback", "create", "destroyed"}
	if lock := holder.Config.Current()["lock"]; slices.Contains(taking, lock) {
		return &BorrowedError{Volume: volume, Users: []string{fmt.Sprintf("VM %d, which holds it, is locked (%s) and", vmid,
			lock)}}
	}
	for _, upid := range l.use.trail.tasksOf(vmid) {
		if !slices.Contains([]string{"qmmove", "qmigrate", "qmrollback", "qmtemplate"}, upid.Type()) {
			continue
		}
		status, err := l.use.api.Tasks().Status(ctx, upid)
		switch {
		case pve.IsKind(err, pve.NotFound):
		case err != nil:
			return fmt.Errorf("look whether task %s is at work on VM %d, which holds %s: %w", upid, vmid, volume, err)
		case status.Running:
			return &BorrowedError{Volume: volume, Users: []string{fmt.Sprintf("VM %d, which holds it, is being changed by "+
				"task %s and", vmid, upid)}}
		}
	}
	return nil
}

// UsersOf returns the guests other than vmid that use a volume on a node, by a fresh look. It is an error if this
// identity may not see all guests.
func (l *Loans) UsersOf(ctx context.Context, node string, vmid int, volume string) ([]User, error) {
	use, err := l.useSince(ctx, l.use.Ask(), node, volume)
	if err == nil {
		use, err = l.use.Confirm(ctx, use, vmid, volume)
	}
	if err == nil && use.Unseen != nil {
		err = fmt.Errorf("look who uses %s: %w", volume, use.Unseen)
	}
	if err != nil {
		return nil, err
	}
	return use.UsersOf(volume, vmid), nil
}

// Ask notes a place in the order of the looks at the guests.
func (l *Loans) Ask() uint64 { return l.use.Ask() }

// Offer hands over what an operation has read of its own VM since such a place: the looks of others need not read it.
func (l *Loans) Offer(asked uint64, node string, vmid int, config pve.PendingConfig, began time.Time) {
	l.use.Offer(asked, node, vmid, config, began)
}

// useSince reads the guests that can use a volume on a node.
func (l *Loans) useSince(ctx context.Context, asked uint64, node, volume string) (*Use, error) {
	scope, err := l.scope(ctx, node, volume)
	if err != nil {
		return nil, err
	}
	use, err := l.use.Since(ctx, asked, scope)
	if err != nil {
		return nil, fmt.Errorf("look who uses %s: %w", volume, err)
	}
	return use, nil
}

// scope is Scope for one volume. A storage does not change its kind, so any recent listing tells.
func (l *Loans) scope(ctx context.Context, node, volume string) (string, error) {
	resources, _, err := l.use.api.Listing().Recent(ctx)
	if err != nil {
		return "", fmt.Errorf("list the cluster's guests: %w", err)
	}
	return l.use.Scope(ctx, resources, node, []string{volume})
}
