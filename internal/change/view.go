package change

import (
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
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
	waited  bool   // it may be what it was, but a task was waited for since: by now the id may have another VM
	powered bool   // something may have started or stopped the guest
	gone    bool   // the cluster has shown that there is no such VM any more
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
	v.config, v.stale, v.known, v.waited = config, false, false, false
	return config, nil
}

// Guard looks whose VM it is, now.
func (v *view) Guard(ctx context.Context) error {
	v.Forget()
	_, err := v.Fresh(ctx)
	return err
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

// inState is the VM as package remove knows it.
func (v *view) inState() remove.InState {
	identities := []guest.Identity{v.ref.Identity}
	if v.next != nil {
		identities = append(identities, *v.next)
	}
	return remove.InState{Node: v.node, VMID: v.vmid, Identities: identities}
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
