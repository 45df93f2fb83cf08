package remove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// passes bounds a removal: each pass looks anew and does what is next, so a lost answer, a failed task or a stranger in
// between only costs a further pass.
const passes = 16

// Remove takes a VM of ours away.
func (s *Remover) Remove(ctx context.Context, t Target) error {
	return (&removal{s: s, Target: t}).run(ctx)
}

// RemoveAll takes a VM of ours away whose volumes may be on two nodes, in the order given: the first goes with the VM.
// notes is what people should know although nothing may be left.
func (s *Remover) RemoveAll(ctx context.Context, targets []Target) (notes []Note, err error) {
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

// merge adds the residues that are not in the list yet.
func merge(left, more []tx.Residue) []tx.Residue {
	for _, m := range more {
		if !slices.ContainsFunc(left, func(l tx.Residue) bool { return l.Kind == m.Kind && l.Node == m.Node && l.ID == m.ID }) {
			left = append(left, m)
		}
	}
	return left
}

// run removes, and returns what is left of ours.
func (r *removal) run(ctx context.Context) error {
	r.tried, r.why = map[string]int{}, map[string]string{}
	if r.ended == nil {
		r.ended = map[pve.UPID]ending{}
	}
	r.awaitLost(ctx)
	r.checkSight(ctx)
	err := r.work(ctx)
	for _, text := range r.Fence.Notes() {
		r.notes = append(r.notes, Note{Text: text, Doubt: true})
	}
	r.noteUnproven()
	return err
}

func (r *removal) work(ctx context.Context) error {
	var failed error
	q := r.s.jobs.Queue(r.Fence.Node, r.VMID)
	q.Destroys = true
	began := r.s.clock.Now()
	for attempt, failures := 0, 0; attempt < passes && failures < 5; attempt++ {
		clean, err := r.pass(ctx)
		if clean {
			return nil
		}
		failed = err
		if err == nil {
			continue
		}
		if r.blocked == nil && pve.IsKind(err, pve.Locked) { // somebody is at work on it, and will have done some time
			if failed = q.Wait(ctx, err); failed == nil {
				attempt--
				continue
			}
			break
		}
		failures++
		if isAway(err) && !r.committed && r.s.clock.Now().Sub(began) < away {
			attempt--
			failures = min(failures, 4)
		}
		if r.blocked != nil || r.s.jobs.Pause(ctx, failures) != nil {
			break
		}
	}
	return r.lastLook(ctx, failed)
}

// away is how long a rollback waits for a node that does not answer: nobody else takes back what was made there.
const away = 2 * time.Minute

func isAway(err error) bool {
	return pve.IsKind(err, pve.Unavailable) || pve.IsKind(err, pve.Ambiguous)
}

// pass looks and does one thing. It is clean when there is nothing of ours any more.
func (r *removal) pass(ctx context.Context) (clean bool, err error) {
	if r.how, err = r.endTasks(ctx); err != nil {
		return false, err
	}
	found, err := r.look(ctx)
	if err != nil {
		return false, err
	}
	r.justKilled = false
	switch {
	case found.owner == guest.Stranger:
		return r.leaveToStranger(ctx, found.node, found.config.Values)
	case found.owner == guest.Ours:
		return false, r.destroy(ctx, found)
	case len(r.left) == 0:
		return true, nil
	}
	return false, r.reclaim(ctx)
}

// look finds the guest, and the volumes of ours that are there. Those that a VM of ours names go with it, so they are looked for only
// when it is gone. When a stranger has the id they stay what they were before he came.
func (r *removal) look(ctx context.Context) (found sighting, err error) {
	var volumes []string
	find := func(ctx context.Context) (err error) { found, err = r.find(ctx, r.how); return err }
	list := func(ctx context.Context) (err error) { volumes, err = r.listOwn(ctx); return err }
	if r.gone {
		var listErr error
		err = together(ctx, find, func(ctx context.Context) error { listErr = list(ctx); return nil })
		if err != nil || found.owner == guest.Stranger || listErr != nil {
			return found, errors.Join(err, listErr)
		}
		r.left = volumes
		return found, nil
	}
	if err = find(ctx); err != nil || found.owner == guest.Stranger {
		return found, err
	}
	if r.committed && found.owner == guest.Ours {
		if err := r.follow(ctx, found); err != nil {
			return found, err
		}
		if !r.hasUnattached(found.config.Values) {
			r.left = slices.Sorted(maps.Keys(r.Fence.Only))
			return found, nil
		}
	}
	if found.owner == guest.Nobody && r.lastDestroy() == "" {
		r.Made.forgetNamed()
	}
	err = list(ctx)
	r.left = volumes
	return found, err
}

// looks bounds how often what is left is looked at until it stays the same.
const looks = 4

// lastLook names what is left. Who else uses it is asked of every guest, which takes its time; so what is named is looked at once more
// afterwards, until it is what it was before: an administrator may be tidying up at the same time.
func (r *removal) lastLook(ctx context.Context, failed error) error {
	if ctx.Err() != nil {
		late, cancel := r.s.jobs.Grace(ctx)
		defer cancel()
		ctx = late
	}
	r.noteEnds(ctx) // where the node was away before
	var owner guest.Owner
	var listErr error
	for before, attempt := "", 0; attempt < looks; attempt++ {
		owner, listErr = r.lookAtRemains(ctx)
		now := r.remains()
		if now == before || r.isClean() {
			break
		}
		before = now
		r.surveyLeft(ctx)
	}
	left := r.residues(failed)
	if len(left) > 0 {
		return &tx.LeftError{Left: left, Err: failed}
	}
	if listErr != nil && owner != guest.Stranger {
		return fmt.Errorf("VM %d is gone, but whether volumes of it are left cannot be told: %w. Look at `pvesm list STORAGE --vmid %d` on "+
			"node %s", r.VMID, listErr, r.VMID, r.Fence.Node)
	}
	return nil
}

// lookAtRemains looks at the guest and the volumes. What was there the last time comes last, so that nothing is named that went while
// the other was looked at: volumes go with their VM.
func (r *removal) lookAtRemains(ctx context.Context) (guest.Owner, error) {
	var found sighting
	var volumes []string
	var err, listErr error
	find := func() { found, err = r.find(ctx, r.worst()) }
	list := func() { volumes, listErr = r.listOwn(ctx) }
	if r.at != "" {
		list()
		find()
	} else {
		find()
		list()
	}
	r.partly = err != nil || listErr != nil
	switch {
	case found.owner == guest.Stranger:
		r.taken = true
		r.forgetDestroyed(ctx)
	case listErr == nil && (err == nil || r.Fence.Only != nil):
		r.left = volumes
	case r.Fence.Only != nil: // any of them may be there, and nobody else would remember them
		r.left = slices.Sorted(maps.Keys(r.Fence.Only))
	}
	return found.owner, listErr
}

// isClean reports whether the last look has seen that nothing of ours is there.
func (r *removal) isClean() bool { return r.at == "" && (r.looked || r.unseen) && len(r.left) == 0 }

// remains is what the last look has seen of ours, to be compared.
func (r *removal) remains() string {
	return fmt.Sprint(r.at, r.has, r.left, r.looked, r.unseen, r.taken, r.partly)
}
