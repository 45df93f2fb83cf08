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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// passes bounds a removal: each pass looks anew and does what is next, so a lost answer, a failed task or a stranger in
// between only costs a further pass.
const passes = 16

// Target is a VM of ours that is to go, and what proves that it is.
type Target struct {
	VMID int
	// Nodes are where its configuration can be.
	Nodes []string
	// Fence is what was there before us.
	Fence *guest.Fence
	// Tasks are those that were begun for it.
	Tasks *job.Tasks
	Stamp guest.Stamp
	// Owns reports whether a configuration without our stamp is ours (identity of a VM in state, or of one whose commit
	// may have taken effect); nil: the stamp decides.
	Owns func(config map[string]string) bool
	// Pool is the one that it is in, "" for none: what holds its id must be in it too, for an identity that may do nothing
	// elsewhere.
	Pool string
	// Lost is our create when its answer was lost and no task of it was found: a half-made VM may be ours.
	Lost *job.Lost
	// Managed says that HA may have an entry for the VM, made by our create.
	Managed bool
	// Stub is what killed tasks of ours have left.
	Stub *Stub
}

// Remove takes a VM of ours away.
func (s *Remover) Remove(ctx context.Context, t Target) error {
	return (&removal{s: s, Target: t}).run(ctx)
}

// RemoveAll takes a VM of ours away whose volumes may be on two nodes, in the order given: the first goes with the VM.
// notes is what people should know although nothing may be left.
func (s *Remover) RemoveAll(ctx context.Context, targets []Target) (notes []string, err error) {
	var left []tx.Residue
	var failed, vague error
	for _, t := range targets {
		r := &removal{s: s, Target: t}
		err := r.run(ctx)
		notes = append(notes, r.notes...)
		var named *tx.LeftError
		switch {
		case errors.As(err, &named):
			left, failed = merge(left, named.Left), errors.Join(failed, named.Err)
		case err != nil:
			vague = errors.Join(vague, err)
		}
	}
	if len(left) > 0 {
		return notes, &tx.LeftError{Left: left, Err: errors.Join(failed, vague)}
	}
	return notes, vague
}

// removal takes a VM of ours away until nothing of it is left: the undo of a create, and the destroy of a VM in state.
// It never acts on what an earlier pass saw.
type removal struct {
	Target
	s *Remover
	// committed says that the VM is its user's, and was shut down before: its protection counts, and it is not stopped
	// hard unless force says so.
	committed, force bool
	keep             bool           // its entries in jobs and in HA stay
	identity         guest.Identity // of a committed VM: what holds its id bears it, so that state knows it again
	refusals         int            // times the HA entry could not be removed

	ended  map[pve.UPID]ending // tasks of ours that have ended, and how
	tried  map[string]int      // volumes that were to go with the VM, and how often
	why    map[string]string   // why they did not
	holds  int                 // times the id was taken again to remove them
	failed int                 // attempts to attach them that failed

	how        ending            // the gravest end of our tasks
	found      *users            // the look at the other guests that this removal made last
	explained  pve.UPID          // the destroy whose log was read for it
	stuck      error             // why the guest cannot be removed by us
	looked     bool              // the last look at the configuration was answered
	hidden     bool              // somebody has the id, and may not be seen: its volumes may be his
	at         string            // node where our configuration was last seen, "" when it is gone
	has        map[string]string // that configuration
	lock       string            // the lock that holds it
	destroyed  pve.UPID          // our destroy that ended well
	had        map[string]string // the configuration that it destroyed
	taken      bool              // somebody else has the id
	unsure     bool              // it is half made, and not as our killed task left it
	justKilled bool              // a task of ours was found killed a moment ago: what is there now is what it left
	shield     bool              // it is protected
	vague      bool              // the last look was not answered in full
	strays     []string
	notes      []string // what people should know although nothing is left
}

// run removes, and returns what is left of ours.
func (r *removal) run(ctx context.Context) error {
	r.tried, r.why, r.ended = map[string]int{}, map[string]string{}, map[pve.UPID]ending{}
	r.await(ctx)
	r.survey(ctx)
	err := r.work(ctx)
	r.notes = append(r.notes, r.Fence.Notes()...)
	return err
}

// survey finds out on which storages the identity can see volumes without a VM.
func (r *removal) survey(ctx context.Context) {
	if err := retry(ctx, r.s, func() error { return r.Fence.Sees(ctx, r.s.guests) }); err != nil {
		for _, storage := range r.Fence.Storages {
			r.Fence.Blind[storage] = err
		}
		r.Fence.Storages = nil
	}
}

func (r *removal) work(ctx context.Context) error {
	var failed error
	q := r.s.jobs.Queue(r.Fence.Node, r.VMID)
	for attempt, failures := 0, 0; attempt < passes && failures < 5; attempt++ {
		clean, err := r.pass(ctx)
		if clean {
			return nil
		}
		failed = err
		if err == nil {
			continue
		}
		if r.stuck == nil && pve.IsKind(err, pve.Locked) { // somebody is at work on it, and will have done some time
			if failed = q.Wait(ctx, err); failed == nil {
				attempt--
				continue
			}
			break
		}
		failures++
		if r.stuck != nil || r.s.jobs.Pause(ctx, failures) != nil {
			break
		}
	}
	return r.account(ctx, failed)
}

// account looks once more, so that what is named as left is what is there, and names it.
func (r *removal) account(ctx context.Context, failed error) error {
	if ctx.Err() != nil {
		late, cancel := r.s.jobs.Grace(ctx)
		defer cancel()
		ctx = late
	}
	_, _, who, err := r.find(ctx, r.worst())
	strays, listErr := r.Fence.Strays(ctx, r.s.guests)
	r.vague = err != nil || listErr != nil
	switch {
	case who == guest.Stranger:
		r.taken = true
		r.forgetDestroyed(ctx)
	case listErr == nil && (err == nil || r.Fence.Only != nil):
		r.strays = strays
	case r.Fence.Only != nil: // any of them may be there, and nobody else would remember them
		r.strays = slices.Sorted(maps.Keys(r.Fence.Only))
	}
	left := r.residues(failed)
	if len(left) > 0 {
		return &tx.LeftError{Left: left, Err: failed}
	}
	if listErr != nil && who != guest.Stranger {
		return fmt.Errorf("VM %d is gone, but whether volumes of it are left cannot be told: %w. Look at `pvesm list STORAGE --vmid %d` on node %s",
			r.VMID, listErr, r.VMID, r.Fence.Node)
	}
	return nil
}

func retry(ctx context.Context, s *Remover, look func() error) error {
	var err error
	for attempt := range 3 {
		if s.jobs.Pause(ctx, attempt) != nil {
			break
		}
		if err = look(); err == nil {
			return nil
		}
	}
	return err
}

// pass looks and does one thing. It is clean when there is nothing of ours any more.
func (r *removal) pass(ctx context.Context) (clean bool, err error) {
	how, err := r.settle(ctx)
	if err != nil {
		return false, err
	}
	r.how = how
	node, config, who, err := r.find(ctx, how)
	if err != nil {
		return false, err
	}
	r.justKilled = false
	if who == guest.Stranger {
		return r.yield(ctx, node, config)
	}
	r.strays, err = r.Fence.Strays(ctx, r.s.guests)
	switch {
	case err != nil:
		return false, err
	case who == guest.Ours:
		return false, r.destroy(ctx, node, config)
	case len(r.strays) == 0:
		return true, nil
	}
	r.explain(ctx)
	if r.holds == maxHolds {
		r.stuck = fmt.Errorf("%d attempts did not remove it", maxHolds+1)
		return false, r.stuck
	}
	if err := r.s.jobs.Pause(ctx, 2*r.holds); err != nil { // what is busy may come free
		return false, err
	}
	r.holds++
	return false, r.hold(ctx)
}

// maxHolds is how often the id is taken again to remove volumes that outlived their VM.
const maxHolds = 4

// prove makes evidence for a claim of this removal. One look at the other guests serves all of its claims for a while.
func (r *removal) prove(ctx context.Context, c claim) (Evidence, error) {
	c.vmid, c.own, c.tasks, c.found = r.VMID, true, r.Tasks.UPIDs, r.found
	e, err := r.s.prove(ctx, c)
	if e.found != nil {
		r.found = e.found
	}
	return e, err
}

// ours is the claim on our VM, whose configuration was found on a node.
func (r *removal) ours(node string) claim {
	return claim{node: node, guest: func(config pve.GuestConfig) error {
		_, _, who, err := r.judge(node, config, r.how)
		if err == nil && who != guest.Ours {
			err = errNotOurs
		}
		return err
	}}
}
