package request

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

const (
	// graceTime bounds what is still done after an operation was interrupted.
	graceTime = 10 * time.Minute
	// shortTime is how long a task may take that is not to be torn apart, unless it turns out to be copying data.
	shortTime = 30 * time.Second
	// copyLines is more than the log of a task has that copies for hours.
	copyLines = 50_000
)

// Grace is a context for what must be done after an operation was interrupted, or its time was over.
func (r *Runner) Grace(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), graceTime)
}

// interruption is what to do with a task that still runs when its operation is interrupted.
type interruption struct {
	await time.Duration // let it run for so long first
	stop  bool          // then stop it
}

// interrupting says what an interrupt does to a task of a type. One that cleans up after itself is stopped
// (qemu-server API2/Qemu.pm, guest-common AbstractMigrate.pm; seen on 8.4 for creates and clones; pve-common Tools.pm
// download_file_from_url and pve-storage API2/Storage/Status.pm upload remove the part that they have). The others
// would leave half of their work, and are awaited; docs/design/cancel.md has the reasons. A running guest's disk or the
// guest itself is another matter (awaitSafe).
func interrupting(typ string) interruption {
	switch typ {
	case "qmcreate", "qmrestore", "qmclone", "qmmove", "qmigrate", "qmshutdown", "download", "imgcopy":
		return interruption{stop: true}
	case "qmconfig": // half of the options; but copying an image takes long, and PVE frees what an interrupted copy made
		return interruption{await: shortTime, stop: true}
	}
	return interruption{await: graceTime}
}

// outcome awaits a task. When the operation is interrupted first, the task is stopped or awaited, whichever is safe,
// so that none is left at work behind the user's back; what became of it is the outcome.
func (r *Runner) outcome(ctx context.Context, tasks *Tasks, upid pve.UPID) (pve.TaskResult, error) {
	result, err := r.API.Tasks().Wait(ctx, upid)
	var ended *pve.TaskError
	if err == nil || ctx.Err() == nil || errors.As(err, &ended) {
		return result, err
	}
	return r.abandon(ctx, upid, tasks.Guessed[upid])
}

// abandon ends a task of an interrupted operation. One that a search took for ours may be another's: it is not stopped.
func (r *Runner) abandon(ctx context.Context, upid pve.UPID, guessed bool) (pve.TaskResult, error) {
	late, cancel := r.Grace(ctx)
	defer cancel()
	how := interrupting(upid.Type())
	if guessed {
		how = interruption{await: graceTime}
	}
	interrupted := &InterruptedError{Task: upid, ended: ctx.Err()}
	over := how.await > 0 && r.ends(late, upid, how.await)
	stop := how.stop && !over
	if stop {
		stop, over = r.awaitSafe(late, upid)
	}
	if stop {
		interrupted.Stopped = true
		if err := r.API.Tasks().Stop(late, upid); err != nil {
			interrupted.Err = err
		}
		over = r.ends(late, upid, shortTime)
	}
	if !over {
		interrupted.Running = true
		return pve.TaskResult{}, interrupted
	}
	result, err := r.API.Tasks().Wait(late, upid)
	if err == nil { // its work is done
		return result, nil
	}
	interrupted.Err = err
	return pve.TaskResult{}, interrupted
}

// awaitSafe waits until a task that can be stopped is safe to stop, which it mostly is at once, or until it has ended.
// Where neither comes in time, the task is left at work, which loses nothing.
func (r *Runner) awaitSafe(ctx context.Context, upid pve.UPID) (safe, ended bool) {
	limit := graceTime
	if slices.Contains([]string{"qmmove", "qmigrate"}, upid.Type()) {
		limit = shortTime
	}
	_, _ = r.Poll(ctx, Policy{Within: limit, Again: func(error) bool { return true }},
		func(ctx context.Context) (bool, error) {
			log, err := r.API.Tasks().Log(ctx, upid, copyLines)
			if err == nil && task.IsSafeToStop(upid.Type(), log) {
				safe = true
				return true, nil
			}
			status, statusErr := r.API.Tasks().Status(ctx, upid)
			if ended = pve.IsKind(statusErr, pve.NotFound) || statusErr == nil && !status.Running; ended {
				return true, nil
			}
			return false, errors.Join(err, statusErr)
		})
	return safe, ended
}

// ends waits for the end of a task on the Runner's clock.
func (r *Runner) ends(ctx context.Context, upid pve.UPID, limit time.Duration) bool {
	ended, err := r.Poll(ctx, Policy{Within: limit, Again: func(error) bool { return true }},
		func(ctx context.Context) (bool, error) {
			status, err := r.API.Tasks().Status(ctx, upid)
			if pve.IsKind(err, pve.NotFound) {
				return true, nil
			}
			return !status.Running, err
		})
	return err == nil && ended
}

// InterruptedError says what became of the task that ran when an operation was interrupted.
type InterruptedError struct {
	// Task is the task.
	Task pve.UPID
	// Stopped is whether it was told to stop; Running whether it runs on.
	Stopped, Running bool
	// Err is how it ended, or why it could not be stopped.
	Err error

	ended error
}

// Error says it in words, with what to do about a task that runs on.
func (i *InterruptedError) Error() string {
	text := "interrupted"
	if errors.Is(i.ended, context.DeadlineExceeded) {
		text = "the time is over"
	}
	what := fmt.Sprintf("%s: task %s", text, i.Task)
	var ended *pve.TaskError
	switch {
	case i.Running && i.Err != nil:
		return fmt.Sprintf("%s could not be stopped (%v) and still runs; %s shows when it has ended", what, i.Err,
			shell.TaskStatus(string(i.Task), i.Task.Node()))
	case i.Running:
		return fmt.Sprintf("%s is not safe to stop, and still runs; %s shows when it has ended", what,
			shell.TaskStatus(string(i.Task), i.Task.Node()))
	case errors.As(i.Err, &ended) && ended.Killed() && slices.Contains([]string{"download", "imgcopy"}, i.Task.Type()):
		return what + " was stopped, but was killed before it had cleaned up"
	case errors.As(i.Err, &ended) && ended.Killed():
		return fmt.Sprintf("%s was stopped, but was killed before it had cleaned up: look for volumes that no "+
			"configuration names (%s on node %s)", what,
			shell.Or(shell.Command("pvesm list STORAGE --vmid {}", i.Task.ID()), "in the lists of the storages"), i.Task.Node())
	case i.Stopped:
		return fmt.Sprintf("%s was stopped: %v", what, i.Err)
	}
	return fmt.Sprintf("%s was awaited, and failed: %v", what, i.Err)
}

// Unwrap gives the end of the task.
func (i *InterruptedError) Unwrap() error { return i.Err }

// Is finds the end of the context that interrupted the operation.
func (i *InterruptedError) Is(target error) bool { return i.ended != nil && errors.Is(i.ended, target) }

// LookAfter is a context for looking what a request did whose answer is lost. An interrupt is often what cut the
// line, or comes while it is looked, and must not end the look.
func (r *Runner) LookAfter(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), shortTime)
}
