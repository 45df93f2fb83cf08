package preflight

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// InForce is what decides whether a change restarts a guest.
type InForce struct {
	Running bool
	Spec    vm.Spec // without what waits for a restart; only where it was asked for
}

// InForce asks whether a guest runs, which the listing knows ten seconds late, and, if something waits for a restart,
// with which values.
func (c *Checker) InForce(ctx context.Context, node string, vmid int, waits bool) (is InForce, err error) {
	status, err := c.api.Listing().Power(ctx, node, vmid)
	if err != nil {
		return is, err
	}
	is.Running = status == string(guest.Running)
	if is.Running && waits {
		config, err := c.api.QEMU(node, vmid).Pending(ctx)
		if err != nil {
			return is, err
		}
		is.Spec = vm.Decode(config.Current())
	}
	return is, nil
}
