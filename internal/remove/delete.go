package remove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Delete destroys a VM and looks that nothing of it is left, whatever PVE says. A VM that is gone already is a success.
// What is left is returned with the error, to be kept in state.
func (s *Remover) Delete(ctx context.Context, r Request) ([]tx.Residue, []guest.Warning, error) {
	defer s.guests.Occupy(r.Ref.VMID)() // what carries the id is ours until the last look
	remove := s.deleteInState
	if r.Ref.Proof != nil {
		remove = s.deleteUncommitted
	}
	left, warnings, err := remove(ctx, r)
	if err != nil {
		return merge(left, r.Left), warnings, err
	}
	remembered, err := s.clear(ctx, r)
	return remembered, warnings, err
}

func (s *Remover) deleteInState(ctx context.Context, r Request) ([]tx.Residue, []guest.Warning, error) {
	d := &destruction{s: s, r: r, pool: r.Pool}
	left, err := d.destroyInState(ctx)
	return left, d.warnings, err
}

// destroyInState destroys a VM in state, and returns what is left of it.
func (d *destruction) destroyInState(ctx context.Context) ([]tx.Residue, error) {
	surveyed, done := d.s.surveyor.Begin(d.r.Ref.VMID)
	defer done()
	d.copied = map[string]string{}
	end := func(ctx context.Context) error {
		f := guest.OwnFence(d.node, d.r.Ref.VMID, ownVolumes(d.r.Ref.VMID, d.config.Current(), d.config.Merged()))
		return together(ctx, d.shutDown, func(ctx context.Context) error { return d.learnRights(ctx, f) })
	}
	survey := func(ctx context.Context) error { defer surveyed(); return d.survey(ctx) }
	for _, step := range []func(context.Context) error{survey, d.refuse, d.unlocked, end} {
		if err := step(ctx); err != nil || d.gone {
			return nil, err
		}
	}
	return d.removeStopped(ctx)
}

// removeStopped destroys a VM that is off, and looks that nothing of it is left.
func (d *destruction) removeStopped(ctx context.Context) ([]tx.Residue, error) {
	vmid := d.r.Ref.VMID
	volumes, err := d.volumes(ctx)
	if err != nil {
		return nil, err
	}
	fresh := d.others
	if d.acted {
		fresh = d.surveyAgain(ctx, volumes)
	}
	f := guest.OwnFence(d.node, vmid, volumes)
	f.Resources = d.resources
	gone := &removal{s: d.s, others: d.others, unspent: fresh, committed: true, off: d.off, force: d.r.ForceStop, holder: d.r.Holder,
		keep: d.r.KeepReferences, identity: d.r.Ref.Identity, known: d.config.Digest, ended: map[pve.UPID]ending{},
		Target: Target{VMID: vmid, Nodes: []string{d.node}, Fence: f, Tasks: &d.tasks, Stub: NewStub("", nil), Pool: d.pool, Owns: d.mine,
			Stamp: d.s.guests.NewStamp(guest.ClusterName(d.resources), vmid)}}
	if d.off { // by a task of ours that was awaited, if there was one
		for _, upid := range d.tasks.UPIDs {
			gone.ended[upid] = cleanedUp
		}
	}
	err = gone.run(ctx)
	if err != nil && gone.lifted {
		d.protectAgain(ctx)
	}
	left, warnings, err := report(vmid, gone.notes, err)
	d.warnings = append(d.warnings, warnings...)
	for _, node := range gone.leftFrom {
		d.copied[node] = wasThere
	}
	d.warnings = append(d.warnings, d.remains(ctx, gone, left)...)
	return left, err
}

// protectAgain protects a VM whose disk stays after all, as it was before. Whoever has the id by then is left alone.
func (d *destruction) protectAgain(ctx context.Context) {
	late, cancel := d.s.jobs.LookAfter(ctx)
	defer cancel()
	now, err := d.s.api.CurrentConfig(late, d.node, d.r.Ref.VMID)
	if pve.IsKind(err, pve.NotFound) || err == nil && (!d.mine(now.Values) || now.Values["protection"] == "1") {
		return
	}
	if err == nil {
		err = d.s.api.UpdateConfig(late, d.node, d.r.Ref.VMID, pve.Params{"protection": "1", "digest": now.Digest})
	}
	if err != nil {
		d.warnings = append(d.warnings, guest.Warning{Summary: fmt.Sprintf("VM %d may not be protected any more", d.r.Ref.VMID),
			Detail: fmt.Sprintf("Its protection was switched off for a destroy that failed, and could not be switched on again: %v. "+
				"`qm set %d --protection 1` on node %s does that.", err, d.r.Ref.VMID, d.node)})
	}
}

// surveyAgain looks who uses the volumes by now: the guest took its time to shut down. Where that fails, nil, the removal asks.
func (d *destruction) surveyAgain(ctx context.Context, volumes []string) *usage.Survey {
	if len(volumes) == 0 {
		return nil
	}
	surveyed, _ := d.s.surveyor.Begin(d.r.Ref.VMID)
	defer surveyed()
	d.asked = d.s.surveyor.Ask()
	if d.s.surveyor.Gather(ctx) != nil {
		return nil
	}
	others, _ := d.s.surveyor.Since(ctx, d.asked, scopeOf(d.resources, d.node, volumes))
	return others
}

// volumes are those that go with the VM: of its configuration, its pending changes and its snapshots. PVE destroys the memory
// that snapshots have saved, but not a disk that only a snapshot names (qemu-server QemuServer.pm destroy_vm).
func (d *destruction) volumes(ctx context.Context) ([]string, error) {
	vmid := d.r.Ref.VMID
	configs := []map[string]string{d.config.Current(), d.config.Merged()}
	snapshots, err := d.s.surveyor.Snapshots(ctx, pve.Resource{Type: "qemu", Node: d.node, VMID: vmid}, d.config)
	if err != nil && !pve.IsKind(err, pve.NotFound) {
		return nil, fmt.Errorf("look which volumes the snapshots of VM %d have; it was not removed: %w", vmid, err)
	}
	return ownVolumes(vmid, slices.AppendSeq(configs, maps.Values(snapshots))...), nil
}

// learnRights asks, while the guest shuts down, for the privileges by which it is told later whether the volumes are gone. They are
// kept; where that fails the question is asked again.
func (d *destruction) learnRights(ctx context.Context, f *guest.Fence) error {
	_ = f.Sees(ctx, d.s.guests)
	return nil
}

// mine reports whether a configuration is still that of the VM in state.
func (d *destruction) mine(config map[string]string) bool {
	return !d.r.Ref.Identity.IsZero() && d.r.Ref.Identity.Matches(guest.IdentityOf(config))
}

func report(vmid int, notes []Note, err error) ([]tx.Residue, []guest.Warning, error) {
	var warnings []guest.Warning
	for _, note := range notes {
		warnings = append(warnings, guest.Warning{Summary: fmt.Sprintf("Destroy of VM %d", vmid), Detail: note.Text})
	}
	var left *tx.LeftError
	if errors.As(err, &left) {
		return left.Left, warnings, err
	}
	return nil, warnings, err
}

// deleteUncommitted goes on with the rollback of a create that left something, under the proof that the create had.
func (s *Remover) deleteUncommitted(ctx context.Context, r Request) ([]tx.Residue, []guest.Warning, error) {
	notes, err := s.RemoveAll(ctx, targetsOf(r.Ref.Proof, r.Left))
	return report(r.Ref.VMID, notes, err)
}

// clear retries remembered residues and returns those that are still there. A guest that is left is not removed here: the
// delete of the VM in state has just tried that, with proof.
func (s *Remover) clear(ctx context.Context, r Request) ([]tx.Residue, error) {
	var failed error
	var open []tx.Residue
	for _, residue := range r.Left {
		if residue.Kind != "volume" {
			open = append(open, residue)
			continue
		}
		if err := s.clearVolume(ctx, r, residue); err != nil {
			open = append(open, residue)
			failed = errors.Join(failed, fmt.Errorf("remove %s: %w", residue.What, err))
		}
	}
	remaining, err := s.Recheck(ctx, r.Ref, open)
	if err != nil {
		return open, err
	}
	if len(remaining) > 0 {
		return remaining, &tx.LeftError{Left: remaining, Err: failed}
	}
	return nil, nil
}

// clearVolume removes a remembered volume, unless a VM has its id now: then it may be that VM's.
func (s *Remover) clearVolume(ctx context.Context, r Request, residue tx.Residue) error {
	vmid, ok := vm.VolumeOwner(residue.ID)
	if !ok {
		return fmt.Errorf("no VMID in %q", residue.ID)
	}
	if err := s.ProveLeftOver(ctx, residue.Node, vmid, []string{residue.ID}); err != nil {
		return err
	}
	resources, err := s.api.SharedResources(ctx)
	if err != nil {
		return err
	}
	f := guest.OwnFence(residue.Node, vmid, []string{residue.ID})
	f.Unremoved = map[string]string{residue.ID: residue.Reason}
	sweep := &removal{s: s, identity: r.Ref.Identity, Target: Target{VMID: vmid, Nodes: []string{residue.Node}, Fence: f, Tasks: &job.Tasks{},
		Stub: NewStub("", nil), Pool: r.Pool,
		Stamp: s.guests.NewStamp(guest.ClusterName(resources), vmid)}}
	return sweep.run(ctx)
}

// targetsOf are what is left of a create, to go on where its own rollback gave up. Which volumes it has made, as far as it knew, are
// those that are left.
func targetsOf(p *guest.Proof, left []tx.Residue) []Target {
	l := &job.Tasks{}
	for _, upid := range p.Tasks {
		l.Add(pve.UPID(upid))
	}
	for _, upid := range p.Guessed {
		l.Guess(pve.UPID(upid))
	}
	var all []Target
	var known []string
	for _, residue := range left {
		if residue.Kind == "volume" {
			known = append(known, residue.ID)
		}
	}
	stub, made := NewStub(p.Stub, l.UPIDs), NewMade(known, nil)
	for _, f := range p.RestoreFences() {
		t := Target{VMID: p.VMID, Nodes: p.Nodes, Fence: f, Tasks: l, Stub: stub, Stamp: p.Stamp(), Owns: p.Identity.Proves,
			Managed: p.HA, Pool: p.Pool, Made: made}
		if p.Lost {
			t.Lost = &job.Lost{}
		}
		all = append(all, t)
	}
	if !p.Identity.IsZero() { // the VM is where it ended up
		slices.Reverse(all)
	}
	return all
}
