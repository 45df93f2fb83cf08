package update

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// changePool moves the VM from one pool to another. It returns the pool that the VM is in.
func (u *update) changePool(ctx context.Context) (string, error) {
	from, to := u.r.PriorPool, u.r.Pool
	if from == to {
		return from, nil
	}
	contend := func(change func(context.Context, string, int) error, pool string) error {
		return u.view.Contend(ctx, "", func(ctx context.Context) error { return change(ctx, pool, u.vmid) })
	}
	if from != "" {
		if err := contend(u.changer.api.Pools().RemoveMember, from); err != nil {
			return from, &guest.FieldError{Path: "pool", Summary: fmt.Sprintf("Cannot take VM %d out of pool %s", u.vmid, from),
				Detail: "It is still a member", Err: err}
		}
	}
	if to != "" {
		if err := contend(u.changer.api.Pools().AddMember, to); err != nil {
			return "", &guest.FieldError{Path: "pool",
				Summary: fmt.Sprintf("Cannot put VM %d into pool %s", u.vmid, to), Detail: "It is in no pool now", Err: err}
		}
	}
	return to, nil
}

func (u *update) setFirewall(ctx context.Context) error {
	if reflect.DeepEqual(u.r.PriorFirewall, u.r.Firewall) {
		return nil
	}
	u.firewalled = true
	defer u.view.Forget() // it looks before it sends
	return u.view.Send(ctx, func(ctx context.Context) error {
		return u.changer.guests.SetFirewall(ctx, u.view.Node(), u.vmid, u.r.PriorFirewall, u.r.Firewall, false,
			func(ctx context.Context) error { return guest.GuardNow(ctx, u.view) })
	})
}

// leaveHA removes the HA entry first: HA would start a guest again that is shut down.
func (u *update) leaveHA(ctx context.Context) error {
	if u.r.HA != nil || u.r.PriorHA == nil {
		return nil
	}
	return u.changeHA(ctx)
}

func (u *update) enterHA(ctx context.Context) error {
	if u.r.HA == nil || u.r.PriorHA != nil && maps.Equal(u.r.PriorHA.Options(), u.r.HA.Options()) {
		return nil
	}
	return u.changeHA(ctx)
}

// changeHA makes the HA entry the planned one. HA starts and stops the guest.
func (u *update) changeHA(ctx context.Context) error {
	u.view.Powered = true
	prove := u.view.BeforeEach(u.view.IsThere, func(context.Context) error { return nil })
	return u.changer.guests.ChangeHA(ctx, u.vmid, u.r.PriorHA, u.r.HA, prove)
}

func (u *update) convertToTemplate(ctx context.Context, t todo) error {
	if !t.convert {
		return nil
	}
	_, err := u.view.Perform(ctx, request.Request{Type: "qmtemplate",
		Send: func(ctx context.Context) (pve.UPID, error) {
			return u.changer.api.QEMU(u.view.Node(), u.vmid).ConvertToTemplate(ctx)
		}}, u.checkTemplate)
	return err
}

// checkTemplate refuses to convert a VM to a template if another guest uses its disks: PVE renames them.
func (u *update) checkTemplate(ctx context.Context) error {
	volumes, err := u.ownVolumes(ctx)
	if err != nil {
		return err
	}
	disks := vm.Decode(u.view.Last().Current()).Disks
	// PVE renames these likewise (qemu-server QemuServer.pm template_create)
	for _, slot := range vm.Borrowed(u.vmid, disks) {
		volumes = append(volumes, disks[slot].Volume)
	}
	if len(volumes) == 0 {
		return nil
	}
	if err := u.changer.destroyer.CheckTaken(ctx, u.inState(), volumes); err != nil {
		return &guest.FieldError{Path: "template", Summary: fmt.Sprintf("VM %d was not made a template", u.vmid),
			Detail: "PVE renames the disks of a template, and another guest that uses one would lose it", Err: err}
	}
	return nil
}
