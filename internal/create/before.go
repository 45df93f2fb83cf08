package create

import (
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// A volume that another VM holds (vm.HeldVolume) is attached by the create itself: the roll-back removes the VM, and PVE destroys with it
// what carries its own id only (qemu-server QemuServer.pm destroy_vm).

// borrows are the slots that get such volumes.
func (c *creation) borrows() []string { return vm.Borrowed(c.vmid, c.r.Spec.Disks) }

// mayBorrow makes sure that nobody has the volumes: before anything is made, and again when they are attached, since PVE gives one volume
// to two VMs without a word, and others may have looked at the same time.
func (c *creation) mayBorrow(ctx context.Context) error {
	for _, slot := range c.borrows() {
		d := c.r.Spec.Disks[slot]
		at := "disks." + slot
		if d.Size != nil {
			return &guest.FieldError{Path: at + ".size", Summary: d.Volume + " is not this VM's to size",
				Detail: "It is the disk of a proxmox_disk, which says how large it is. Leave size out here; no VM was made"}
		}
		if c.r.Spec.Template != nil && *c.r.Spec.Template {
			return &guest.FieldError{Path: "template", Summary: "A template cannot have " + d.Volume,
				Detail: "PVE renames the disks of a template, and the VM that holds this one would lose it. No VM was made"}
		}
		if err := c.s.remover.MayBorrow(ctx, c.node, c.vmid, d.Volume); err != nil {
			return &guest.FieldError{Path: at + ".imported_disk.volume", Summary: d.Volume + " cannot be attached",
				Detail: usage.WhyNotBorrowed(err), Err: err}
		}
	}
	return nil
}

// borrowStep looks who has the volumes.
func (c *creation) borrowStep() string {
	return fmt.Sprintf("look who else has the disks that VM %d is given", c.vmid)
}

// refuseForeignHA looks, before the first write, whether HA has an entry for the id of a VM that is to have one: PVE would refuse
// another, and removes no VM that HA names without the entry (qemu-server API2/Qemu.pm destroy_vm), which is not ours to take away.
func (c *creation) refuseForeignHA(ctx context.Context) error {
	if there, err := c.s.guests.ReadHA(ctx, c.vmid); err == nil && there != nil {
		return c.hasHA(nil)
	}
	return nil // who may not look is told when he makes the entry
}

// hasHA says that HA has an entry for the VM that the create has not made.
func (c *creation) hasHA(err error) error {
	return &guest.FieldError{Path: "ha", Summary: fmt.Sprintf("HA has an entry for VM %d already", c.vmid),
		Detail: fmt.Sprintf("An earlier VM of this id, or somebody else, left it. Look at `ha-manager status`, "+
			"and remove it with `ha-manager remove vm:%d`", c.vmid), Err: err}
}
