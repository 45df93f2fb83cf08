package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// sent is what the request that changes the options was about.
type sent struct {
	options  []string               // that were written or reset
	attached map[string]string      // volumes that came into slots
	removed  map[string]removedDisk // volumes that are to be destroyed with their slots
	ejected  map[string]string      // cloud-init volumes that made room for other media, by slot
	order    []string               // boot order to write afterwards; nil: PVE leaves it as it is
}

// setOptions sends the differing options in one request. Disks that were unplugged for it are in their new slots
// afterwards.
func (u *update) setOptions(ctx context.Context, t todo, out unplugged) (sent, unplugged, error) {
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return sent{}, out, err
	}
	c := keepCloudInitDrive(t.change, config.Current())
	if err := t.stillHolds(u.vmid, config); err != nil {
		return sent{}, out, err
	}
	if err := errors.Join(u.checkCloudInitDrive(config, t, c), (disks{u}).checkGrowth(config, t)); err != nil {
		return sent{}, out, err
	}
	if u.reached.Options = len(c.Set)+len(c.Delete) == 0; u.reached.Options {
		return sent{}, out, nil
	}
	c.ImportStorage = u.r.ImportStorage
	t.change = c
	removed, err := volumes{u}.removedDisks(t, config)
	if err != nil {
		return sent{}, out, err
	}
	done := sent{options: slices.Concat(slices.Sorted(maps.Keys(c.Set)), c.Delete, t.emptied),
		attached: t.attached(), removed: removed, ejected: ejectedCloudInit(config, c), order: u.orderToKeep(config, c)}
	if sends(c, "smbios1") {
		u.claim.Next = identityAfter(config, c)
	}
	u.reached.Options = true
	if err := u.apply(ctx, c, config, slots{u}.stillFree(t.given())); err != nil {
		var taken *guest.FieldError // stillFree has found a volume with another guest
		refused := pve.IsKind(err, pve.DigestMismatch) || errors.As(err, &taken)
		// A lost answer may have done it before, and root may have filled a slot.
		if refused && !fault.Has(err, pve.Ambiguous) && len(u.changer.jobs.ByRoot(c)) == 0 {
			u.reached.Options, done.removed, done.ejected = false, nil, nil
		}
		return done, out, u.takeBack(ctx, c, config, err)
	}
	return done, unplugged{}, nil
}

// identityAfter is the VM's identity once a change of its uuid is in force.
func identityAfter(config pve.PendingConfig, c vm.Change) *guest.Identity {
	values := config.Merged()
	maps.Copy(values, c.Set)
	for _, option := range c.Delete {
		delete(values, option)
	}
	next := guest.IdentityOf(values)
	return &next
}

// orderToKeep is the boot order to write once a change was sent, nil for none: PVE appends new optical drives to the
// order in force (qemu-server API2/Qemu.pm update_vm_api). Where the plan leaves the order as it was, a third party may
// have changed it since: it is the server's from before this update, which may have emptied slots already.
func (u *update) orderToKeep(config pve.PendingConfig, c vm.Change) []string {
	if u.r.BootOrder == nil || !request.AppendsToBootOrder(c, vm.BootOrder(config.Current())) {
		return nil
	}
	if !slices.Equal(u.r.Prior.BootOrder, u.r.Planned.BootOrder) {
		return u.r.BootOrder
	}
	return slices.DeleteFunc(vm.BootOrder(u.before.Merged()), func(slot string) bool {
		return slices.Contains(c.Delete, slot)
	})
}

// keepBootOrder takes the optical drives out of the boot order that PVE has put into it.
func (u *update) keepBootOrder(ctx context.Context, done sent) error {
	if len(done.order) == 0 {
		return nil
	}
	order := vm.Encode(vm.Spec{Options: vm.Options{BootOrder: done.order}})["boot"]
	err := u.view.Set(ctx, pve.Params{"boot": order})
	var another *guest.IdentityError
	if err == nil || errors.As(err, &another) {
		return err
	}
	command := shell.Or(shell.BootOrder(u.vmid, done.order), "setting it")
	return &guest.FieldError{Path: "boot_order", Summary: fmt.Sprintf("The boot order of VM %d has an optical drive more",
		u.vmid), Detail: fmt.Sprintf("PVE adds one that is new, or has another medium, and it could not be taken out again. "+
		"Where boot_order is not configured no later plan shows that; %s on node %s mends it", command, u.view.Node()),
		Err: err}
}

// notCopied adds the look at guests that run with disks which are to be copied. A slot that is filled by then has its
// copy: an answer was lost.
func notCopied(u *update, c vm.Change, look guest.Look) guest.Look {
	if len(c.Copies()) == 0 {
		return look
	}
	return func(ctx context.Context, now pve.PendingConfig) error {
		copies := c.Copies()
		maps.DeleteFunc(copies, func(slot, _ string) bool { return guest.HoldingsOf(now).Slots[slot] != "" })
		if err := guard.CheckCopies(ctx, u.changer.destroyer.Guard, u.view.Node(), copies); err != nil || look == nil {
			return err
		}
		return look(ctx, now)
	}
}
