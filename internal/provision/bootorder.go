package provision

import (
	"context"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// appends tells whether PVE will append CD-ROM drives of a change to the boot order: it does so with every one that is
// written and not in it, in whatever order it takes the options of a request (qemu-server API2/Qemu.pm update_vm_api). So
// an order that is to be another one has to be written afterwards.
func appends(change vm.Change, order []string) bool {
	drives := vm.Decode(change.Set).CDROMs
	for slot := range drives {
		if !slices.Contains(order, slot) {
			return true
		}
	}
	return false
}

// reorder writes the boot order that is wanted in the place of the one that PVE has made.
func (s *Service) reorder(ctx context.Context, node string, vmid int, order []string) error {
	return s.set(ctx, node, vmid, pve.Params{"boot": vm.Encode(vm.Spec{BootOrder: order})["boot"]})
}

// reorder keeps the boot order that is planned.
func (u *update) reorder(ctx context.Context) error {
	if u.r.BootOrder == nil || !u.appended {
		return nil
	}
	u.stale = true
	return u.s.reorder(ctx, u.node, u.vmid, u.r.BootOrder)
}
