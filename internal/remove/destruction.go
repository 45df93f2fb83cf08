package remove

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// destruction is the destroy of a VM in state: everything that can speak against it is asked before anything is touched.
type destruction struct {
	s     *Remover
	r     Request
	tasks job.Tasks

	resources pve.Resources
	node      string
	config    pve.PendingConfig
	pool      string
	// gone: there is no such VM any more. stub: all that is left of its configuration is the lock of a destroy.
	gone, stub bool
	found      *users // the look at the other guests
	// suspects are nodes that may have copies of its volumes, and why.
	suspects map[string]string
	warnings []guest.Warning
}

// run destroys, and returns what is left of the VM.
func (d *destruction) run(ctx context.Context) ([]tx.Residue, error) {
	d.suspects = map[string]string{}
	for _, step := range []func(context.Context) error{d.look, d.refuse, d.unlocked, d.shutDown} {
		if err := step(ctx); err != nil || d.gone {
			return nil, err
		}
	}
	return d.remove(ctx)
}

// look finds the VM and makes sure that it is the one in state, and that it may be destroyed.
func (d *destruction) look(ctx context.Context) error {
	var err error
	if d.resources, err = d.s.api.Resources(ctx); err != nil {
		return fmt.Errorf("list the cluster's guests: %w", err)
	}
	at, seen, err := d.s.guests.Find(ctx, d.r.Ref, d.resources)
	if d.gone = seen == guest.Gone; d.gone {
		return nil
	}
	if err != nil {
		return d.unknown(err)
	}
	d.node, d.config = at.Node, at.Config
	if listed, ok := d.resources.Guest(d.r.Ref.VMID); ok && listed.Pool != "" {
		d.pool = listed.Pool
	}
	current := at.Config.Current()
	if d.stub = guest.IsStub(current); d.stub {
		return nil
	}
	if err := guest.Guard(d.r.Ref, at.Node, current); err != nil {
		return err
	}
	if d.r.Ref.Identity.IsZero() {
		return fmt.Errorf("state does not know which VM %d it means: it has no uuid. It was not touched; run terraform refresh first", d.r.Ref.VMID)
	}
	if current["protection"] == "1" {
		return &guest.FieldError{Path: "protection", Summary: fmt.Sprintf("VM %d is protected", d.r.Ref.VMID),
			Detail: "It was not touched. Set protection = false and apply, then destroy"}
	}
	return nil
}

// unknown says what a failed look leaves open.
func (d *destruction) unknown(err error) error {
	node, ok := d.resources.Node(d.r.Ref.Node)
	if !ok || node.Status == "online" {
		return err
	}
	return fmt.Errorf("node %s is %s, so whether VM %d is still there, and what of it, cannot be told. It stays in state; destroy again when the node is back: %w",
		node.Node, node.Status, d.r.Ref.VMID, err)
}

// refuse finds what makes PVE refuse the destroy, or leave something behind, while nothing has been touched.
func (d *destruction) refuse(ctx context.Context) error {
	if d.stub {
		return nil
	}
	if err := d.unlinked(ctx); err != nil {
		return err
	}
	if err := d.unreferenced(ctx); err != nil {
		return err
	}
	if err := d.unshared(ctx); err != nil {
		return err
	}
	return d.s.reachable(ctx, d.node, d.r.Ref.VMID, ownVolumes(d.r.Ref.VMID, d.config.Current(), d.config.Merged()))
}

// unshared refuses to destroy a VM whose volumes another guest uses.
func (d *destruction) unshared(ctx context.Context) error {
	vmid := d.r.Ref.VMID
	e, err := d.s.prove(ctx, claim{node: d.node, vmid: vmid, guest: inState(d.r.Ref.Identity), whole: true, own: true,
		volumes: ownVolumes(vmid, d.config.Merged()), tasks: d.tasks.UPIDs})
	d.found = e.found
	var inUse *InUseError
	switch {
	case errors.As(err, &inUse):
		return fmt.Errorf("VM %d was not touched: %w. Detach it there, then destroy again", vmid, err)
	case err != nil:
		return fmt.Errorf("look whether another guest uses a volume of VM %d; it was not removed, nor was anything else touched: %w", vmid, err)
	}
	return nil
}

// mine reports whether a configuration is still that of the VM in state.
func (d *destruction) mine(config map[string]string) bool {
	return !d.r.Ref.Identity.IsZero() && d.r.Ref.Identity.Matches(guest.IdentityOf(config))
}

// remove destroys a VM that is off, and looks that nothing of it is left.
func (d *destruction) remove(ctx context.Context) ([]tx.Residue, error) {
	snapshots, err := d.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	vmid := d.r.Ref.VMID
	f := guest.OwnFence(d.node, vmid, ownVolumes(vmid, append(snapshots, d.config.Current(), d.config.Merged())...))
	gone := &removal{s: d.s, found: d.found, committed: true, force: d.r.ForceStop, keep: d.r.KeepReferences, identity: d.r.Ref.Identity,
		Target: Target{VMID: vmid, Nodes: []string{d.node}, Fence: f, Tasks: &d.tasks, Stub: NewStub("", nil), Pool: d.pool, Owns: d.mine,
			Stamp: guest.NewStamp(guest.ClusterName(d.resources), vmid, d.s.guests.Deadline(0))}}
	err = gone.run(ctx)
	left, warnings, err := report(vmid, gone.notes, err)
	d.warnings = append(d.warnings, warnings...)
	d.warnings = append(d.warnings, d.copies(ctx, left)...)
	return left, err
}

// snapshots are the options that the VM's snapshots keep. PVE destroys the memory that they saved, but not a disk that only
// a snapshot names (qemu-server QemuServer.pm destroy_vm).
func (d *destruction) snapshots(ctx context.Context) ([]map[string]string, error) {
	names, err := d.s.api.Snapshots(ctx, d.node, d.r.Ref.VMID)
	if pve.IsKind(err, pve.NotFound) {
		return nil, nil
	}
	var all []map[string]string
	if err == nil {
		all, err = d.s.guests.SnapshotConfigs(ctx, d.node, d.r.Ref.VMID, names)
	}
	if err != nil {
		return nil, fmt.Errorf("look which volumes the snapshots of VM %d have; it was not removed: %w", d.r.Ref.VMID, err)
	}
	return all, nil
}

// warn keeps the end of a task's log where the task ended with warnings.
func (d *destruction) warn(what string, result pve.TaskResult) {
	if result.Warnings == 0 {
		return
	}
	text := ""
	for _, line := range result.Log {
		text += line + "\n"
	}
	d.warnings = append(d.warnings, guest.Warning{Summary: fmt.Sprintf("%s of VM %d ended with warnings", what, d.r.Ref.VMID), Detail: text})
}
