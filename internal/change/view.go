package change

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// view is what is known of the VM on the server. Only Fresh reads its configuration, and only what is sent through the view
// makes that stale, so that no step can work with a configuration which another has changed, or with another VM that has got
// the id since.
type view struct {
	jobs   *job.Runner
	guests *guest.Guests
	vmid   int
	node   string // where the VM is by now
	ref    guest.Ref
	next   *guest.Identity // that the VM gets by a change of ours
	tasks  job.Tasks

	config  pve.PendingConfig
	stale   bool   // something was sent since config was read
	known   bool   // but config is what came of it, digest aside
	powered bool   // something may have started or stopped the guest
	status  string // of the guest when it was last seen, "" if it was not
	current string // that is at work, until it has sent something
}

// newView begins with a configuration that was just read, of the VM in state. Where state does not know its identity, or that has
// changed with a restart since, it is from then on the one that was seen.
func newView(jobs *job.Runner, guests *guest.Guests, ref guest.Ref, node string, config pve.PendingConfig) *view {
	if seen := guest.IdentityOf(config.Current()); !ref.Identity.Matches(seen) {
		ref.Identity = seen
	}
	v := &view{jobs: jobs, guests: guests, vmid: ref.VMID, node: node, ref: ref, config: config}
	if next := guest.IdentityOf(config.Merged()); next != guest.IdentityOf(config.Current()) {
		v.next = &next // an earlier change of it waits for the restart
	}
	return v
}

// Fresh is the VM's configuration. It is read where something was sent since it was read last, and it is an error that the id
// has another VM by then.
func (v *view) Fresh(ctx context.Context) (pve.PendingConfig, error) {
	if !v.stale {
		return v.config, nil
	}
	config, err := v.jobs.API.PendingConfig(ctx, v.node, v.vmid)
	if err != nil {
		return pve.PendingConfig{}, fmt.Errorf("read VM %d on node %s: %w", v.vmid, v.node, err)
	}
	if err := guest.Guard(v.ref, v.node, config.Current()); err != nil && v.isOurs(guest.IdentityOf(config.Current())) != nil {
		return pve.PendingConfig{}, err
	}
	v.config, v.stale, v.known = config, false, false
	return config, nil
}

// Known is Fresh for who needs no digest: no request is made where it is certain what has come of what was sent.
func (v *view) Known(ctx context.Context) (pve.PendingConfig, error) {
	if v.known {
		return v.config, nil
	}
	return v.Fresh(ctx)
}

// Spec is the VM as Fresh has it: as it runs, and as it will be after its next restart.
func (v *view) Spec(ctx context.Context) (current, merged vm.Spec, config pve.PendingConfig, err error) {
	config, err = v.Fresh(ctx)
	if err == nil {
		current, merged = vm.Decode(config.Current()), vm.Decode(config.Merged())
	}
	return current, merged, config, err
}

// isOurs refuses a VM that is not the one in state. One whose identity this very update changes has the old one or the new one.
func (v *view) isOurs(seen guest.Identity) error {
	if v.ref.Identity.IsZero() || v.ref.Identity.Matches(seen) || v.next != nil && *v.next == seen {
		return nil
	}
	return &guest.IdentityError{VMID: v.vmid, Node: v.node, State: v.ref.Identity, Server: seen}
}

// Send sends something that changes the VM.
func (v *view) Send(ctx context.Context, send func(context.Context) error) error {
	v.logStep(ctx)
	v.Forget()
	return send(ctx)
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
	return v.Send(ctx, func(ctx context.Context) error { return v.jobs.Set(ctx, v.node, v.vmid, params) })
}

// Revert drops options that wait for a restart.
func (v *view) Revert(ctx context.Context, options []string) error {
	return v.Send(ctx, func(ctx context.Context) error { return v.jobs.Revert(ctx, v.node, v.vmid, options) })
}

// Grow grows disks.
func (v *view) Grow(ctx context.Context, all []vm.Growth) error {
	return v.Send(ctx, func(ctx context.Context) error { return v.jobs.Grow(ctx, &v.tasks, v.node, v.vmid, all) })
}

// Perform sends what becomes a task, and awaits that.
func (v *view) Perform(ctx context.Context, r job.Request) (result pve.TaskResult, err error) {
	r.Node, r.ID = v.node, v.vmid
	err = v.Send(ctx, func(ctx context.Context) error {
		result, err = v.jobs.Perform(ctx, &v.tasks, r)
		return err
	})
	return result, err
}

// Power sends a request that starts, stops or restarts the guest. Before each try it looks whose VM it is, where anything was
// sent or waited for since the last look. Such a request changes the configuration only where something waits for it.
func (v *view) Power(ctx context.Context, r job.Request) (pve.TaskResult, error) {
	r.Node, r.ID = v.node, v.vmid
	v.logStep(ctx)
	v.powered = true
	send, tries := r.Send, 0
	r.Send = func(ctx context.Context) (pve.UPID, error) {
		v.stale = v.stale || tries > 0
		tries++
		config, err := v.Fresh(ctx)
		if err != nil {
			return "", err
		}
		v.stale = len(config.Waiting()) > 0 || config.Current()["lock"] != ""
		return send(ctx)
	}
	return v.jobs.Perform(ctx, &v.tasks, r)
}

// Status is the guest's state now.
func (v *view) Status(ctx context.Context) (pve.GuestStatus, error) {
	now, err := v.jobs.API.GuestStatus(ctx, v.node, v.vmid)
	v.status = now.Status
	return now, err
}

// Forget has the next look read the configuration, whatever is known.
func (v *view) Forget() { v.stale, v.known = true, false }

// Moved notes that the VM is on another node by now.
func (v *view) Moved(node string) {
	v.node = node
	v.Forget()
}

// Apply sends a change of the configuration as it was read. A lock that came since then changes the digest too, and PVE
// compares that before it looks at the lock (qemu-server API2/Qemu.pm update_vm_api): where nothing but a lock came, or came
// and went, nobody has changed anything.
func (v *view) Apply(ctx context.Context, c vm.Change, read pve.PendingConfig) error {
	for attempt := 0; ; attempt++ {
		var known bool
		err := v.Send(ctx, func(ctx context.Context) (err error) {
			known, err = v.jobs.Apply(ctx, &v.tasks, v.node, v.vmid, c, read.Digest)
			return err
		})
		if err == nil && known && isImmediate(c, read) {
			v.config, v.known = read.With(c.Set, c.Delete), true
		}
		if !pve.IsKind(err, pve.DigestMismatch) || attempt == 2 {
			return err
		}
		ref := v.ref
		ref.Node = v.node
		at, lookErr := v.guests.FindUnlocked(ctx, ref)
		if pve.IsKind(lookErr, pve.Locked) {
			return lookErr
		}
		if lookErr != nil || at.Node != v.node || !sameButLock(read, at.Config) {
			return err
		}
		read = at.Config
	}
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
