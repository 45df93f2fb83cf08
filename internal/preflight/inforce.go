package preflight

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// InForce is what decides whether a change restarts a guest.
type InForce struct {
	Running bool
	Spec    vm.Spec // without what waits for a restart; only where it was asked for, as is Removed
	// Removed is what becomes of the disks that leave the VM at its restart, its stop or its start, by slot.
	Removed map[string]string
}

// InForce asks whether a guest runs, which the listing knows ten seconds late, and, if something waits, with which
// values.
func (c *Checker) InForce(ctx context.Context, node string, vmid int, waits bool) (is InForce, err error) {
	status, err := c.api.Listing().Power(ctx, node, vmid)
	if err != nil {
		return is, err
	}
	is.Running = status == string(guest.Running)
	if waits {
		config, err := c.api.QEMU(node, vmid).Pending(ctx)
		if err != nil {
			return is, err
		}
		is.Spec, is.Removed = vm.Decode(config.Current()), guest.RemovedAtStart(config)
	}
	return is, nil
}
