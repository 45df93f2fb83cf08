package create

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Create makes a VM whole, or leaves nothing of it. See Created for what an error means. A create that fails at once for a
// lock of somebody else, its source's mostly, and leaves nothing is begun anew when that may be gone: then the source may be
// on another node, and the id somebody's.
func (s *Creator) Create(ctx context.Context, r Request) (Created, error) {
	var q *job.Queue
	for {
		c, created, err := s.create(ctx, r, q != nil)
		var failed *tx.Error
		if c == nil || !c.held || !tx.RolledBack(err) || created.Guest.VMID != 0 || !errors.As(err, &failed) {
			return created, err
		}
		if q == nil {
			q = s.jobs.Queue(c.node, c.vmid)
			if c.from != nil && c.from.vmid != 0 {
				q = s.jobs.Queue(c.from.node, c.from.vmid)
			}
		}
		if err := q.Wait(ctx, failed.Err); err != nil {
			return created, &tx.Error{Step: failed.Step, Err: err}
		}
	}
}

// create makes one attempt, or several where others take the ids first. The creation is the last one, nil if it did not get
// that far.
func (s *Creator) create(ctx context.Context, r Request, again bool) (*creation, Created, error) {
	found, err := s.find(ctx, r, again)
	if err != nil {
		return nil, Created{}, err
	}
	spec, err := s.sources.Resolve(ctx, found.node, vm.Spec{}, r.Spec)
	if err != nil {
		return nil, Created{}, err
	}
	var warnings []guest.Warning
	if r.VMID == 0 && r.Spec.Name != nil {
		if warnings, err = s.removeDeadNamed(ctx, found.resources, r); err != nil {
			return nil, Created{}, err
		}
	}
	ids := s.chooser(found, r)
	for {
		id, err := ids.next(ctx)
		if err != nil {
			return nil, Created{}, err
		}
		c := s.creation(r, found, id)
		c.spec = spec
		c.warnings = slices.Clone(warnings)
		created, err := c.run(ctx)
		id.done()
		if c.taken && r.VMID == 0 && tx.RolledBack(err) {
			ids.collide(c.vmid)
			continue
		}
		return c, created, err
	}
}

// run does the steps, and reads the VM back once they are committed.
func (c *creation) run(ctx context.Context) (Created, error) {
	defer c.s.begin(c.stamp.TX, c.vmid)()
	account.From(ctx).About(c.vmid, c.node)
	c.compare()
	err := tx.Run(ctx, c.r.undoTimeout(), c.steps()...)
	if err != nil {
		return c.failed(err)
	}
	created := Created{Warnings: c.warnings}
	created.Guest, err = c.readBack(ctx)
	if c.from != nil {
		created.Guest.Source = c.from.vmid
	}
	if err != nil {
		created.Warnings = append(created.Warnings, guest.Warning{
			Summary: fmt.Sprintf("VM %d was created, but could not be read back", c.vmid),
			Detail:  err.Error() + "\n\nThe VM is complete. The next refresh fills in what is missing in state.",
		})
		return created, nil
	}
	waited, err := c.s.guests.Await(ctx, &created.Guest, c.r.Wait, c.r.Start)
	created.Warnings = append(created.Warnings, waited...)
	return created, err
}

// failed says what is left: nothing, or a guest and residues for state.
func (c *creation) failed(err error) (Created, error) {
	created := Created{Warnings: c.warnings}
	for _, note := range c.notes {
		created.Warnings = append(created.Warnings, guest.Warning{Summary: fmt.Sprintf("Rollback of VM %d", c.vmid), Detail: note.Text})
		created.Doubt = created.Doubt || note.Doubt
	}
	var failed *tx.Error
	if errors.As(err, &failed) {
		created.Left = failed.Left
	}
	created.Warnings = append(created.Warnings, c.unheardOf(created.Left)...)
	kept := c.r.OnFailure == Keep && c.sent && !c.taken
	if kept || !tx.RolledBack(err) {
		created.Guest = guest.Guest{VMID: c.vmid, Node: c.node, Spec: c.r.Spec, Pool: c.r.Pool, Firewall: c.r.Firewall, HA: c.r.HA}
		created.Proof = c.proof()
	}
	return created, err
}

// steps is the whole create as a table. Only the first step has an undo, since removing the VM takes back all of them.
func (c *creation) steps() []tx.Step {
	name := fmt.Sprintf("create VM %d on node %s", c.vmid, c.node)
	first := c.create
	if c.from != nil {
		name = fmt.Sprintf("%s to VM %d on node %s", c.from.what, c.vmid, c.node)
		if first = c.clone; c.r.Restore != nil {
			first = c.restore
		}
	}
	var steps []tx.Step
	if c.r.HA != nil {
		steps = append(steps, tx.Step{Name: fmt.Sprintf("look whether HA knows VM %d", c.vmid), Do: c.refuseForeignHA})
	}
	if len(c.borrows()) > 0 {
		steps = append(steps, tx.Step{Name: c.borrowStep(), Do: c.mayBorrow})
	}
	steps = append(steps, tx.Step{Name: name, Do: first, Undo: c.undo})
	if c.from != nil && c.from.migrates {
		steps = append(steps, tx.Step{Name: fmt.Sprintf("migrate VM %d to node %s", c.vmid, c.node), Do: c.migrate})
	}
	if c.from != nil {
		steps = append(steps, tx.Step{Name: fmt.Sprintf("configure VM %d", c.vmid), Do: c.configure})
	}
	if c.from == nil && len(c.late.Set) > 0 {
		steps = append(steps, tx.Step{Name: fmt.Sprintf("import disks of VM %d as root on node %s", c.vmid, c.node), Do: c.importDisks})
	}
	if len(c.borrows()) > 0 {
		steps = append(steps, tx.Step{Name: c.borrowStep() + ", now that it has them", Do: c.mayBorrow})
	}
	steps = append(steps, tx.Step{Name: fmt.Sprintf("place and grow the disks of VM %d", c.vmid), Do: c.shape})
	if c.r.Firewall != nil {
		steps = append(steps, tx.Step{Name: fmt.Sprintf("set the firewall of VM %d", c.vmid), Do: c.setFirewall})
	}
	if c.r.Spec.Template != nil && *c.r.Spec.Template {
		steps = append(steps, tx.Step{Name: fmt.Sprintf("convert VM %d to a template", c.vmid), Do: c.convert})
	} else if c.r.Start {
		steps = append(steps, tx.Step{Name: fmt.Sprintf("start VM %d", c.vmid), Do: c.start})
	}
	if c.r.HA != nil {
		steps = append(steps, tx.Step{Name: fmt.Sprintf("put VM %d under HA", c.vmid), Do: c.addToHA})
	}
	return append(steps, tx.Step{Name: fmt.Sprintf("commit VM %d", c.vmid), Do: c.commit})
}

// undo removes the VM, unless it was never ours or is to be kept.
func (c *creation) undo(ctx context.Context) error {
	if !c.sent {
		return nil
	}
	var undos []remove.Target
	for _, f := range c.fences {
		undos = append(undos, remove.Target{VMID: c.vmid, Nodes: c.nodes(), Fence: f, Tasks: &c.tasks, Stub: c.stub, Stamp: c.stamp,
			Lost: c.lost, Owns: c.owns, Managed: c.managed, Pool: c.r.Pool, Made: c.made,
			Unmarked: c.done && c.identity.IsZero() && c.uuid == ""})
	}
	if c.r.OnFailure == Keep {
		c.s.remover.NoteStub(ctx, undos[0])
		return nil
	}
	if !c.identity.IsZero() { // the clone has ended up on its node
		slices.Reverse(undos)
	}
	notes, err := c.s.remover.RemoveAll(ctx, undos)
	c.notes = notes
	return err
}
