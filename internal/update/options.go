package update

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// sent is what the request that changes the options was about.
type sent struct {
	options  []string               // that were written or reset
	attached map[string]string      // volumes that came into slots
	removed  map[string]removedDisk // volumes that are to be destroyed with their slots
	appends  bool                   // PVE puts optical drives into the boot order
}

// setOptions sends the differing options in one request. Disks that were unplugged for it are in their new slots
// afterwards.
func (u *update) setOptions(ctx context.Context, t todo, unplugged map[string]string) (sent, map[string]string, error) {
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return sent{}, unplugged, err
	}
	c := keepCloudInitDrive(t.change, config.Current())
	if err := errors.Join(u.checkCloudInitDrive(config, t, c), (disks{u}).checkGrowth(config, t)); err != nil {
		return sent{}, unplugged, err
	}
	if len(c.Set)+len(c.Delete) == 0 {
		return sent{}, unplugged, nil
	}
	c.ImportStorage = u.r.ImportStorage
	t.change = c
	done := sent{options: slices.Concat(slices.Sorted(maps.Keys(c.Set)), c.Delete), attached: t.attached(),
		removed: volumes{u}.removedDisks(t, config.Current()),
		appends: request.AppendsToBootOrder(c, vm.BootOrder(config.Current()))}
	if sends(c, "smbios1") {
		u.claim.Next = identityAfter(config, c)
	}
	if err := u.apply(ctx, c, config); err != nil {
		return done, unplugged, u.takeBack(ctx, c, config, err)
	}
	return done, nil, nil
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

// keepBootOrder writes the planned boot order, if PVE has changed it.
func (u *update) keepBootOrder(ctx context.Context, done sent) error {
	if u.r.BootOrder == nil || !done.appends {
		return nil
	}
	return u.view.Set(ctx, pve.Params{"boot": vm.Encode(vm.Spec{Options: vm.Options{BootOrder: u.r.BootOrder}})["boot"]})
}
