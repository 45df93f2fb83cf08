package create

import (
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

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
