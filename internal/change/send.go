package change

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Send sends something that changes the VM.
func (v *view) Send(ctx context.Context, send func(context.Context) error) error {
	v.logStep(ctx)
	v.Forget()
	return send(ctx)
}

// beforeEach has something looked at before each try of a request that is bound to no digest: what was seen before something was
// waited for is nothing to act upon.
func (v *view) beforeEach(look, try func(context.Context) error) func(context.Context) error {
	tries := 0
	return func(ctx context.Context) error {
		v.stale = v.stale || v.waited || tries > 0
		tries++
		if err := look(ctx); err != nil {
			return err
		}
		v.logStep(ctx)
		v.Forget()
		return try(ctx)
	}
}

// isThere is the look at nothing but whose VM it is.
func (v *view) isThere(ctx context.Context) error {
	_, err := v.Fresh(ctx)
	return err
}

// Contend sends something that is bound to no digest and is no task, as soon as nobody holds the VM. Before each try it looks whose
// that is.
func (v *view) Contend(ctx context.Context, node string, send func(context.Context) error) error {
	return v.jobs.Contend(ctx, node, v.vmid, v.beforeEach(v.isThere, send))
}

// logStep says in the log which step sends something, once.
func (v *view) logStep(ctx context.Context) {
	if v.jobs.Log != nil && v.current != "" {
		v.jobs.Log(ctx, v.current, nil)
	}
	v.current = ""
}

// Set changes options.
func (v *view) Set(ctx context.Context, params pve.Params) error {
	read, err := v.Fresh(ctx)
	if err != nil {
		return err
	}
	return v.bound(ctx, read, sameButLock, func(ctx context.Context, b job.Bound) error {
		return v.jobs.Set(ctx, v.node, v.vmid, params, b)
	})
}

// Revert drops options that wait for a restart. Whatever else was changed meanwhile, they are to go.
func (v *view) Revert(ctx context.Context, options []string) error {
	read, err := v.Fresh(ctx)
	if err != nil {
		return err
	}
	whatever := func(pve.PendingConfig, pve.PendingConfig) bool { return true }
	return v.bound(ctx, read, whatever, func(ctx context.Context, b job.Bound) error {
		return v.jobs.Revert(ctx, v.node, v.vmid, options, b)
	})
}

// Grow grows disks, one after the other, as long as each has the volume that it had.
func (v *view) Grow(ctx context.Context, all []vm.Growth) error {
	grow := slices.SortedFunc(slices.Values(all), func(a, b vm.Growth) int { return strings.Compare(a.Slot, b.Slot) })
	for _, g := range grow {
		read, err := v.Fresh(ctx)
		if err != nil {
			return err
		}
		same := func(was, now pve.PendingConfig) bool {
			return guest.VolumeOf(was.Current()[g.Slot]) == guest.VolumeOf(now.Current()[g.Slot])
		}
		if err := v.bound(ctx, read, same, func(ctx context.Context, b job.Bound) error {
			return v.jobs.GrowRead(ctx, &v.tasks, v.node, v.vmid, g, b.Digest)
		}); err != nil {
			return err
		}
	}
	return nil
}

// Perform sends what becomes a task and is bound to no digest, and awaits that. look is asked before each try.
func (v *view) Perform(ctx context.Context, r job.Request, look func(context.Context) error) (result pve.TaskResult, err error) {
	r.Node, r.ID = v.node, v.vmid
	send, upid := r.Send, pve.UPID("")
	try := v.beforeEach(look, func(ctx context.Context) (err error) { upid, err = send(ctx); return err })
	r.Send = func(ctx context.Context) (pve.UPID, error) {
		upid = ""
		err := try(ctx)
		return upid, err
	}
	return v.jobs.Perform(ctx, &v.tasks, r)
}

// Power sends a request that starts, stops or restarts the guest. Before each try it looks whose VM it is, where anything was
// sent or waited for since the last look. Such a request changes the configuration only where something waits for it.
func (v *view) Power(ctx context.Context, r job.Request) (pve.TaskResult, error) {
	r.Node, r.ID = v.node, v.vmid
	v.logStep(ctx)
	v.powered = true
	send, tries := r.Send, 0
	r.Send = func(ctx context.Context) (pve.UPID, error) {
		v.stale = v.stale || v.waited || tries > 0
		tries++
		config, err := v.Fresh(ctx)
		if err != nil {
			return "", err
		}
		v.stale, v.waited = len(config.Waiting()) > 0 || config.Current()["lock"] != "", true
		return send(ctx)
	}
	return v.jobs.Perform(ctx, &v.tasks, r)
}

// Apply sends a change of the configuration as it was read.
func (v *view) Apply(ctx context.Context, c vm.Change, read pve.PendingConfig) error {
	return v.bound(ctx, read, sameButLock, func(ctx context.Context, b job.Bound) error {
		known, err := v.jobs.Apply(ctx, &v.tasks, v.node, v.vmid, c, b)
		if err == nil && known && isImmediate(c, read) {
			v.config, v.known = read.With(c.Set, c.Delete), true
		}
		return err
	})
}

// bound sends a request with the digest of the configuration that was read, so that PVE carries it out on no other. A lock that came
// since then changes the digest too, and PVE compares that before it looks at the lock (qemu-server API2/Qemu.pm update_vm_api,
// resize_vm): where the VM is still ours and the same, as far as that matters, the request is sent again when nobody holds it.
func (v *view) bound(ctx context.Context, read pve.PendingConfig, same func(was, now pve.PendingConfig) bool,
	send func(context.Context, job.Bound) error) error {
	for attempt := 0; ; attempt++ {
		err := v.Send(ctx, func(ctx context.Context) error { return send(ctx, job.Bound{Digest: read.Digest, Again: v.digestNow}) })
		if !pve.IsKind(err, pve.DigestMismatch) || attempt == 2 {
			return err
		}
		ref := v.ref
		ref.Node = v.node
		if v.next != nil {
			ref.NextUUID = v.next.UUID
		}
		at, lookErr := v.guests.FindUnlocked(ctx, ref)
		if pve.IsKind(lookErr, pve.Locked) {
			return lookErr
		}
		if lookErr != nil || at.Node != v.node || !same(read, at.Config) {
			return err
		}
		read = at.Config
	}
}

// digestNow is the digest that the VM has now, for a request that is sent again.
func (v *view) digestNow(ctx context.Context) (string, error) {
	defer v.Forget()
	v.Forget()
	config, err := v.Fresh(ctx)
	return config.Digest, err
}

// isImmediate tells whether all of a change is in force when PVE has taken it, and nothing else is by that: PVE puts in force what
// waits on a stopped guest with any request (qemu-server API2/Qemu.pm update_vm_api, QemuServer.pm vmconfig_apply_pending).
func isImmediate(c vm.Change, read pve.PendingConfig) bool {
	for option, value := range c.Set {
		if !vm.IsImmediate(option) || value == "" || strings.TrimSpace(value) != value {
			return false
		}
	}
	waits := slices.ContainsFunc(c.Delete, func(option string) bool { return !vm.IsImmediate(option) })
	return !waits && len(c.DeleteFirst) == 0 && len(read.Waiting()) == 0
}

// sameButLock tells whether two readings of a configuration differ in nothing but its lock.
func sameButLock(a, b pve.PendingConfig) bool {
	less := func(values map[string]string) map[string]string {
		values = maps.Clone(values)
		delete(values, "lock")
		return values
	}
	return maps.Equal(less(a.Current()), less(b.Current())) && maps.Equal(less(a.Merged()), less(b.Merged()))
}
