package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// errInPool says that the VM is in its pool already.
var errInPool = errors.New("the VM is in the pool already")

// changePool moves the VM from one pool to another. Before each try it looks which pool the VM is in: an earlier
// request may have done its work though its answer was lost, and a third party's pool is not left. It returns the pool
// that the VM is in.
//
// That is one request, since an identity may have its privileges on the VM by way of the pools, and between two
// requests it would have none. A server that is too old for it takes two.
func (u pooling) changePool(ctx context.Context) (string, error) {
	is, to, inTwo, pools := u.r.PriorPool, u.r.Pool, false, u.changer.api.Pools()
	if is == to {
		return is, nil
	}
	var refused error
	look := func(ctx context.Context) error {
		if is, refused = u.mayMove(ctx, is); refused != nil {
			return refused
		}
		return u.view.IsThere(ctx)
	}
	send := func(ctx context.Context) error {
		switch {
		case is == "":
			return pools.AddMember(ctx, to, u.vmid)
		case to == "" || inTwo:
			return pools.RemoveMember(ctx, is, u.vmid)
		}
		return pools.MoveMember(ctx, to, u.vmid)
	}
	move := func() error {
		return u.changer.jobs.Retry(ctx, request.LostAnswer(), func(ctx context.Context) error {
			return u.view.Contend(ctx, "", look, send)
		})
	}
	err := move()
	if pve.CannotMoveBetweenPools(err) {
		inTwo = true
		if err = u.mayLeavePool(ctx, is); err == nil {
			err = move()
		}
		if err == nil {
			err = move()
		}
	}
	switch {
	case err == nil, errors.Is(err, errInPool):
		return to, nil
	case refused != nil:
		return is, refused
	}
	return u.poolAfter(ctx, is, to, err)
}

// mayMove looks which pool the VM is in. It is an error if it is to stay there.
func (u pooling) mayMove(ctx context.Context, was string) (is string, err error) {
	is, err = u.poolNow(ctx)
	switch to := u.r.Pool; {
	case err != nil:
		return was, u.poolError(to, "Which pool it is in could not be looked up", err)
	case is == to:
		return is, errInPool
	case is != "" && is != u.r.PriorPool:
		return is, u.poolError(to, fmt.Sprintf("A third party has put it into pool %s since the plan, where it was left. "+
			"Make a new plan", is), nil)
	}
	return is, nil
}

// poolAfter is the pool that the VM is in after a change that failed.
func (u pooling) poolAfter(ctx context.Context, was, to string, failed error) (string, error) {
	late, cancel := u.changer.jobs.LookAfter(ctx)
	defer cancel()
	now, err := u.poolNow(late)
	switch {
	case err != nil:
		return was, u.poolError(to, "Which pool it is in now could not be looked up", errors.Join(failed, err))
	case now == to && ctx.Err() == nil:
		return to, nil
	case now == "":
		return "", u.poolError(to, "It is in no pool that "+u.changer.api.Identity().User+" may see", failed)
	}
	return now, u.poolError(to, "It is in pool "+now, failed)
}

// poolNow is the pool that the VM is in.
func (u pooling) poolNow(ctx context.Context) (string, error) {
	resources, err := u.changer.api.Cluster().Resources(ctx)
	if err != nil {
		return "", err
	}
	listed, there := resources.Guest(u.vmid)
	if !there {
		return "", fmt.Errorf("the cluster's listing does not show VM %d to %s", u.vmid, u.changer.api.Identity().User)
	}
	return listed.Pool, nil
}

func (u pooling) poolError(to, detail string, err error) error {
	summary := fmt.Sprintf("Cannot put VM %d into pool %s", u.vmid, to)
	if to == "" {
		summary = fmt.Sprintf("Cannot take VM %d out of pool %s", u.vmid, u.r.PriorPool)
	}
	return &guest.FieldError{Path: "pool", Summary: summary, Detail: detail, Err: err}
}

// mayLeavePool refuses to take the VM out of a pool if the identity could not put it into another one afterwards. A
// privilege that comes by way of a pool is one that does not propagate (pve-access-control RPCEnvironment.pm
// compile_acl_path).
func (u pooling) mayLeavePool(ctx context.Context, from string) error {
	if u.changer.api.Identity().IsRootTicket() {
		return nil
	}
	at := fmt.Sprintf("/vms/%d", u.vmid)
	held, err := u.changer.api.Access().Permissions(ctx, at)
	if err != nil {
		return fmt.Errorf("look up the privileges on %s: %w", at, err)
	}
	if held[at]["VM.Allocate"] || held[at]["Permissions.Modify"] {
		return nil
	}
	return fmt.Errorf("%s has its privileges on VM %d by way of pool %s only, and this server moves a guest between "+
		"pools in two steps, between which they would be gone. Update Proxmox VE to 8.1 or later, or have an administrator "+
		"move the VM", u.changer.api.Identity().User, u.vmid, from)
}

func (u *update) setFirewall(ctx context.Context) error {
	if reflect.DeepEqual(u.r.PriorFirewall, u.r.Firewall) {
		return nil
	}
	defer u.view.Forget() // it looks before it sends
	guard := func(ctx context.Context) error {
		err := guest.GuardNow(ctx, u.view)
		u.reached.Firewall = u.reached.Firewall || err == nil
		return err
	}
	return u.view.Send(ctx, func(ctx context.Context) error {
		guests, at := u.changer.guests, u.view.Node()
		if u.r.PriorFirewall == nil {
			return guest.TakeFirewall(ctx, guests, at, u.vmid, u.r.Firewall, guard)
		}
		return guests.SetFirewall(ctx, at, u.vmid, u.r.PriorFirewall, u.r.Firewall, false, guard)
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
	look := func(ctx context.Context) error {
		if err := (power{u}).mayEnterHA(ctx); err != nil {
			return err
		}
		return u.view.IsThere(ctx)
	}
	prove := u.view.BeforeEach(look, func(context.Context) error {
		u.reached.HA = true
		return nil
	})
	return u.changer.guests.ChangeHA(ctx, u.vmid, u.r.PriorHA, u.r.HA, prove)
}

// checkConvertible refuses, before the guest is shut down for it, to make a template of a VM with snapshots: PVE would
// refuse it afterwards (qemu-server API2/Qemu.pm template), and leave the guest off.
func checkConvertible(ctx context.Context, u *update, t todo) error {
	if !t.convert {
		return nil
	}
	names, err := u.changer.api.QEMU(u.view.Node(), u.vmid).SnapshotNames(ctx)
	if err != nil {
		return fmt.Errorf("see whether VM %d has snapshots, of which PVE makes no template: %w", u.vmid, err)
	}
	if len(names) == 0 {
		return nil
	}
	return &guest.FieldError{Path: "template", Summary: fmt.Sprintf("VM %d was not made a template", u.vmid),
		Detail: "Nothing was changed. " + guest.KeptBySnapshots(names, fmt.Sprintf("VM %d from becoming a template", u.vmid))}
}

// keptBySnapshot is the refusal of PVE to move a disk that a snapshot has, with the snapshots that have one of those
// that were to move.
func keptBySnapshot(ctx context.Context, u *update, volumes map[string]string, err error) error {
	kept, lookErr := keptBySnapshots(ctx, u, volumes)
	if lookErr != nil || kept == "" {
		kept = "PVE moves no disk that a snapshot has: remove the snapshots first"
	}
	return notMoved(u.vmid, kept, err)
}

func notMoved(vmid int, kept string, err error) error {
	return &guest.FieldError{Path: "disks", Summary: fmt.Sprintf("A disk of VM %d has snapshots, and was not moved", vmid),
		Detail: kept + ". Then apply again. Or leave storage and format of the disk as they were", Err: err}
}

// keptBySnapshots says which snapshots have some volumes, by slot; "" if none has.
func keptBySnapshots(ctx context.Context, u *update, volumes map[string]string) (string, error) {
	names, err := u.changer.api.QEMU(u.view.Node(), u.vmid).SnapshotNames(ctx)
	if err != nil {
		return "", err
	}
	configs, err := u.changer.guests.SnapshotConfigs(ctx, u.view.Node(), u.vmid, names)
	if err != nil {
		return "", err
	}
	keepers, slots := guest.KeepersOf(volumes, names, configs)
	if len(slots) == 0 {
		return "", nil
	}
	return guest.KeptBySnapshots(keepers, guest.OnStorages(slots, volumes)), nil
}

// checkMovable refuses, before the guest is shut down, to move a disk that a snapshot has: PVE would refuse it
// afterwards (qemu-server API2/Qemu.pm, load_and_check_move), and leave the guest off. A cloud-init drive it moves,
// which is an optical one (QemuServer/Drive.pm is_volume_in_use). Disks that a migration moves are judged by it.
func checkMovable(ctx context.Context, u *update, t todo) error {
	moves := t.change.Moves
	if u.r.PowerState != guest.Stopped || len(moves) == 0 || u.r.Node != "" && u.r.Node != u.view.Node() {
		return nil
	}
	volumes := movedFrom(t.read.Current(), moves)
	maps.DeleteFunc(volumes, func(_, volume string) bool { return volid.IsCloudInit(volume) })
	kept, err := keptBySnapshots(ctx, u, volumes)
	switch {
	case err != nil:
		return fmt.Errorf("see whether VM %d has snapshots, of whose disks PVE moves none: %w", u.vmid, err)
	case kept != "":
		return notMoved(u.vmid, "Nothing was changed. "+kept, nil)
	}
	return nil
}

func (u *update) convertToTemplate(ctx context.Context, t todo) error {
	if !t.convert {
		return nil
	}
	_, err := u.view.Perform(ctx, request.Request{Type: "qmtemplate",
		Send: func(ctx context.Context) (pve.UPID, error) {
			return u.changer.api.QEMU(u.view.Node(), u.vmid).ConvertToTemplate(ctx)
		}}, u.checkTemplate)
	if err == nil {
		return nil
	}
	var ended *pve.TaskError
	if !errors.As(err, &ended) { // the task may be at work, or was never begun
		return err
	}
	late, cancel := u.changer.jobs.LookAfter(ctx)
	defer cancel()
	config, failed := u.view.Fresh(late)
	slots := guest.Unconverted(u.vmid, config.Current())
	if failed != nil || len(slots) == 0 {
		return err
	}
	commands := make([]string, len(slots))
	for i, slot := range slots {
		commands[i] = shell.VM("qm template {vmid} --disk {}", u.vmid, slot)
	}
	return &guest.FieldError{Path: "template", Summary: fmt.Sprintf("VM %d is a template only in part", u.vmid),
		Detail: fmt.Sprintf("PVE has made it a template, and has not converted %s. No later apply does that. Unless their "+
			"storages have no base images, as root on node %s: %s", strings.Join(slots, ", "), u.view.Node(),
			strings.Join(commands, "; ")), Err: err}
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
