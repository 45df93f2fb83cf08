package create

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Create makes a whole VM, or nothing. Created says what an error means. A create that fails on a foreign lock, mostly
// its source's, and leaves nothing is retried from the start. The source may have moved and the VMID may be taken by
// then, so both are looked up again. So it is where a destroy of this process frees the configured VMID meanwhile:
// Terraform orders a destroy and a create at another address in no way. And so it is where the source has moved.
func (c *Creator) Create(ctx context.Context, r Request) (Created, error) {
	var q *request.Queue
	var before []guest.Warning // of earlier attempts
	left, err := awaitDestroy(ctx, c.guests, r.VMID)
	if err != nil {
		return Created{}, err
	}
	strays := 0
	for again := false; ; again = true {
		a, created, err := c.create(ctx, r, again)
		if err != nil && created.isNothing() && (a == nil || a.first.taken && saga.RolledBack(err)) {
			if by, late := awaitDestroy(ctx, c.guests, r.VMID); late == nil && by != left {
				left = by
				continue
			}
		}
		isAgain := func(w guest.Warning) bool { return slices.Contains(created.Warnings, w) }
		before = slices.DeleteFunc(slices.Clone(before), isAgain)
		created.Warnings = slices.Concat(before, created.Warnings)
		failed := leftNothing(a, created, err)
		if failed == nil || !a.first.held && (!a.first.strayed || strays == tries) {
			return created, err
		}
		before = created.Warnings
		if a.first.strayed && strays < tries {
			strays++
			continue
		}
		if q == nil {
			q = queueOf(c, a)
		}
		if err := q.Wait(ctx, failed.Err); err != nil {
			return created, &saga.Error{Step: failed.Step, Err: err}
		}
	}
}

// leftNothing is the failure of an attempt that has left nothing, nil for any other end.
func leftNothing(a *attempt, created Created, err error) *saga.Error {
	var failed *saga.Error
	if a == nil || !saga.RolledBack(err) || !created.isNothing() || !errors.As(err, &failed) {
		return nil
	}
	return failed
}

// queueOf is where an attempt waits for the lock that it has met, mostly its source's.
func queueOf(c *Creator, a *attempt) *request.Queue {
	if a.from != nil && a.from.vmid != 0 {
		return c.jobs.Queue(a.from.node, a.from.vmid)
	}
	return c.jobs.Queue(a.node, a.vmid)
}

// awaitDestroy waits for a destroy of this process that is at work on a configured VMID, and returns how many have
// begun.
func awaitDestroy(ctx context.Context, guests *guest.Guests, vmid int) (int, error) {
	if vmid == 0 {
		return 0, nil
	}
	ctx, waited := oplog.Wait(ctx, oplog.Limit, fmt.Sprintf("the destroy of VM %d, which has the vmid", vmid))
	defer waited()
	return guests.Leaving.Await(ctx, vmid)
}

// isNothing reports whether a failed create has left nothing.
func (c Created) isNothing() bool { return c.Guest.VMID == 0 && len(c.Left) == 0 && !c.Doubt }

// create makes one attempt, or several if other creates take the VMIDs first. It returns the last attempt, nil if there
// was none.
func (c *Creator) create(ctx context.Context, r Request, again bool) (*attempt, Created, error) {
	found, err := c.find(ctx, r, again)
	if err != nil {
		return nil, Created{}, err
	}
	if err := awaitImported(ctx, c, found.resources, r); err != nil {
		return nil, Created{}, err
	}
	spec, err := c.sources.Resolve(ctx, found.node, vm.Spec{}, r.Spec)
	if err != nil {
		return nil, Created{}, err
	}
	p := plan{r: r, key: c.keyOf(r), spec: spec, node: found.node, from: found.from}
	a, warnings, err := c.inherit(ctx, p, found)
	if err != nil {
		return nil, Created{Warnings: warnings}, err
	}
	if a != nil {
		defer c.guests.Occupy(a.vmid)()
		a.warnings = append(a.warnings, warnings...)
		created, err := a.run(ctx)
		return a, created, err
	}
	ids := c.chooser(found, r)
	for {
		id, err := ids.next(ctx)
		if err != nil {
			return nil, Created{}, err
		}
		p.vmid, p.baselines = id.vmid, id.baselines
		a := c.attempt(p, found)
		a.warnings = slices.Concat(warnings, ids.warnings)
		created, err := a.run(ctx)
		id.done()
		if a.first.taken && r.VMID == 0 && saga.RolledBack(err) {
			ids.collide(a.vmid)
			continue
		}
		return a, created, err
	}
}

// run does the steps, and reads the VM back once they are committed. A read that fails does not lose the VM.
func (a *attempt) run(ctx context.Context) (Created, error) {
	defer a.creator.begin(a.mark.Saga, a.vmid)()
	oplog.From(ctx).About(a.vmid, a.node)
	if err := saga.Run(ctx, a.r.undoTimeout(), a.steps()...); err != nil {
		return a.failed(err)
	}
	if a.resumed {
		a.creator.guests.Completed.Note(a.vmid)
	}
	created := Created{Warnings: a.warnings}
	var err error
	created.Guest, err = a.readBack(ctx)
	noteSource(a, &created)
	if err != nil {
		created.Warnings = append(created.Warnings, guest.Warning{
			Summary: fmt.Sprintf("VM %d was created, but could not be read back", a.vmid),
			Detail:  err.Error() + "\n\nThe VM is complete. The next refresh fills in what is missing in state.",
		})
		return created, nil
	}
	if heard := a.awaited.guest; heard.VMID != 0 {
		created.Guest.Interfaces, created.Guest.Silent, created.Guest.Status = heard.Interfaces, heard.Silent, heard.Status
	}
	return created, a.awaited.failed
}

// noteSource notes what a copy has from its source.
func noteSource(a *attempt, created *Created) {
	if a.from != nil {
		created.Guest.Source, created.Inherited = a.from.vmid, vm.Slots(a.filledAtFirst())
	}
}

// failed says what a failed attempt has left: nothing, or a guest and leftovers for state.
func (a *attempt) failed(err error) (Created, error) {
	created := Created{Warnings: a.warnings}
	for _, note := range a.notes {
		created.Warnings = append(created.Warnings,
			guest.Warning{Summary: fmt.Sprintf("Rollback of VM %d", a.vmid), Detail: note.Text})
		created.Doubt = created.Doubt || note.Doubt
	}
	var failed *saga.Error
	if errors.As(err, &failed) {
		created.Left = failed.Left
	}
	created.Warnings = append(created.Warnings, rootImport{a}.lostImport(created.Left)...)
	if created.Stays = a.stays; created.Stays != "" && a.awaited.failed != nil {
		created.Warnings = append(created.Warnings, guest.Warning{
			Summary: fmt.Sprintf("VM %d was not waited for to the end", a.vmid), Detail: a.awaited.failed.Error()})
	}
	kept := a.stays != "" || a.r.OnFailure == Keep && a.first.sent && !a.first.taken
	if kept || !saga.RolledBack(err) {
		created.Guest = guest.Guest{VMID: a.vmid, Node: a.node, Spec: a.r.Spec, Pool: a.r.Pool,
			Firewall: a.r.Firewall, HA: a.r.HA}
		if final := a.finalOptions(); a.stays != "" && len(a.view.Last().Entries) > 0 { // its disks were seen, a source's too
			created.Guest.Spec = guest.FromConfig(a.view.Last().With(final.Set, final.Delete), a.node, a.vmid).Spec
			noteSource(a, &created)
		}
		created.Proof = a.proof()
	}
	return created, err
}

// proof is what a later destroy needs to know of this attempt, to act under the same rules as its undo.
func (a *attempt) proof() *guest.Proof {
	p := &guest.Proof{VMID: a.vmid, Nodes: a.nodes(), Cluster: a.mark.Cluster, Saga: a.mark.Saga,
		Lost: a.first.lost != nil, Identity: a.view.Identity(), HA: !a.beside.ha.IsZero(), Pool: a.r.Pool,
		HalfMade: a.halfMade.Digest, Committed: a.committing, Alone: a.alone,
		HAIgnores: a.r.HA.Ignores(), Off: !a.resumed && startedAt(a).IsZero(),
		Kept: a.mark.Kept, Protected: isProtector(a), Restored: a.mark.By == "qmrestore"}
	if p.Identity.IsZero() {
		p.Identity.UUID = a.first.uuid
	}
	for _, baseline := range a.baselines {
		p.Baselines = append(p.Baselines, baseline.Record())
	}
	for _, upid := range a.view.Tasks.UPIDs {
		p.Tasks = append(p.Tasks, string(upid))
		if a.view.Tasks.Guessed[upid] {
			p.Guessed = append(p.Guessed, string(upid))
		}
	}
	return p
}
