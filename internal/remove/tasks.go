package remove

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// awaitLost looks once more, and longer, for what a lost request of ours did. It may have been cut off by an interrupt, or its
// handler may still be at work behind a timeout.
func (r *removal) awaitLost(ctx context.Context) {
	if r.Lost == nil || r.Lost.Request.Type == "" {
		return
	}
	for attempt := range r.Lost.Patience {
		if r.s.jobs.Pause(ctx, attempt) != nil {
			return
		}
		if upid, err := r.s.jobs.Search(ctx, r.Tasks, r.Lost.Request, r.Lost.Since, 1); err == nil && upid != "" {
			r.Tasks.Guess(upid)
			r.Lost = nil
			return
		}
		if found, err := r.find(ctx, cleanedUp); err == nil && found.owner != guest.Nobody {
			return
		}
	}
	r.notes = append(r.notes, Note{Doubt: true, Text: fmt.Sprintf("The answer to the request that was to make VM %d was lost, "+
		"and nothing of it was found. Should the VM appear after all, its description names transaction %s, "+
		"and the next create with its id or name removes it", r.VMID, r.Stamp.TX)})
}

// endTasks stops our tasks that still run and awaits their end, and tells the gravest.
func (r *removal) endTasks(ctx context.Context) (ending, error) {
	for _, upid := range r.Tasks.UPIDs {
		if _, known := r.ended[upid]; known {
			continue
		}
		if err := r.endTask(ctx, upid); err != nil {
			return cleanedUp, err
		}
	}
	return r.worst(), nil
}

// worst is the gravest end of our tasks. How one ended that could not be looked at is not known.
func (r *removal) worst() ending {
	worst := cleanedUp
	for _, upid := range r.Tasks.UPIDs {
		if how, known := r.ended[upid]; known {
			worst = max(worst, how)
		} else {
			worst = max(worst, unknownEnd)
		}
	}
	return worst
}

// noteEnds notes how those of our tasks have ended of which that is not known yet.
func (r *removal) noteEnds(ctx context.Context) {
	for _, upid := range r.Tasks.UPIDs {
		if _, known := r.ended[upid]; known {
			continue
		}
		if status, err := r.s.api.TaskStatus(ctx, upid); err == nil && !status.Running {
			_ = r.noteEnd(upid, status, nil) // which fails only where the status is not known
		}
	}
}

// endTask sees to it that a task is over, and notes how. One that a search took for ours is awaited, not stopped.
func (r *removal) endTask(ctx context.Context, upid pve.UPID) error {
	status, err := r.s.api.TaskStatus(ctx, upid)
	if err == nil && status.Running {
		if !r.Tasks.Guessed[upid] && upid.Type() != "qmdestroy" { // which does what we want, and better undisturbed
			if err := r.s.api.StopTask(ctx, upid); err != nil {
				return err
			}
		}
		_, err = r.s.api.Wait(ctx, upid)
		var ended *pve.TaskError
		if err != nil && !errors.As(err, &ended) && !pve.IsKind(err, pve.Ambiguous) {
			return err
		}
		status, err = r.s.api.TaskStatus(ctx, upid)
	}
	return r.noteEnd(upid, status, err)
}

// noteEnd notes how a task has ended, as its status, or why that cannot be had, tells.
func (r *removal) noteEnd(upid pve.UPID, status pve.TaskStatus, err error) error {
	switch {
	case pve.IsKind(err, pve.NotFound):
		r.ended[upid] = unknownEnd
	case err != nil:
		return fmt.Errorf("look at task %s: %w", upid, err)
	default:
		r.ended[upid] = endingOf(upid, status.ExitStatus)
		if r.ended[upid] == killed && r.Stub != nil && !r.Stub.kills[upid] {
			r.Stub.kills[upid], r.justKilled = true, true
		}
	}
	return nil
}

// NoteStub looks what killed tasks of ours have left, right after that, where it is to be kept: nothing else will show later that it is
// still the same.
func (s *Remover) NoteStub(ctx context.Context, t Target) {
	r := &removal{s: s, Target: t, ended: map[pve.UPID]ending{}}
	r.noteEnds(ctx)
	if r.justKilled {
		_, _ = r.find(ctx, killed) // what cannot be seen is not known again
	}
}
