package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

const (
	// graceTime bounds what is still done after an operation was interrupted.
	graceTime = 10 * time.Minute
	// shortTime is how long a task may take that is not to be torn apart, unless it turns out to be copying data.
	shortTime = 30 * time.Second
)

// Grace is a context for what must be done after an operation was interrupted, or its time was over.
func (s *Runner) Grace(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), graceTime)
}

// interruption is what to do with a task that still runs when its operation is interrupted.
type interruption struct {
	await time.Duration // let it run for so long first
	stop  bool          // then stop it
}

// interrupting says what an interrupt does to a task of a type. One that cleans up after itself is stopped (qemu-server
// API2/Qemu.pm, guest-common AbstractMigrate.pm; seen on 8.4 for creates and clones; pve-common Tools.pm download_file_from_url and
// pve-storage API2/Storage/Status.pm upload remove what they have of the file). The others would leave half of their work, and are
// awaited; docs/design/cancel.md has the reasons.
func interrupting(typ string) interruption {
	switch typ {
	case "qmcreate", "qmrestore", "qmclone", "qmmove", "qmigrate", "qmshutdown", "download", "imgcopy":
		return interruption{stop: true}
	case "qmconfig": // half of the options; but copying an image takes long, and PVE frees what an interrupted copy made
		return interruption{await: shortTime, stop: true}
	}
	return interruption{await: graceTime}
}

// outcome awaits a task. When the operation is interrupted first, the task is stopped or awaited, whichever is safe, so that
// none is left at work behind the user's back; what became of it is the outcome.
func (s *Runner) outcome(ctx context.Context, l *Tasks, upid pve.UPID) (pve.TaskResult, error) {
	result, err := s.API.Wait(ctx, upid)
	var ended *pve.TaskError
	if err == nil || ctx.Err() == nil || errors.As(err, &ended) {
		return result, err
	}
	return s.abandon(ctx, upid, l.Guessed[upid])
}

// abandon ends a task of an interrupted operation. One that a search took for ours may be another's: it is not stopped.
func (s *Runner) abandon(ctx context.Context, upid pve.UPID, guessed bool) (pve.TaskResult, error) {
	late, cancel := s.Grace(ctx)
	defer cancel()
	how := interrupting(upid.Type())
	if guessed {
		how = interruption{await: graceTime}
	}
	interrupted := &InterruptedError{Task: upid, ended: ctx.Err()}
	over := how.await > 0 && s.ends(late, upid, how.await)
	if !over && how.stop {
		interrupted.Stopped = true
		if err := s.API.StopTask(late, upid); err != nil {
			interrupted.Err = err
		}
		over = s.ends(late, upid, shortTime)
	}
	if !over {
		interrupted.Running = true
		return pve.TaskResult{}, interrupted
	}
	result, err := s.API.Wait(late, upid)
	if err == nil { // what it was to do is done
		return result, nil
	}
	interrupted.Err = err
	return pve.TaskResult{}, interrupted
}

// ends waits for the end of a task on the Runner's clock.
func (s *Runner) ends(ctx context.Context, upid pve.UPID, limit time.Duration) bool {
	end := s.Clock.Now().Add(limit)
	for attempt := 0; s.Pause(ctx, attempt) == nil; attempt++ {
		status, err := s.API.TaskStatus(ctx, upid)
		if err == nil && !status.Running || pve.IsKind(err, pve.NotFound) {
			return true
		}
		if !s.Clock.Now().Before(end) {
			break
		}
	}
	return false
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
func (e *InterruptedError) Error() string {
	text := "interrupted"
	if errors.Is(e.ended, context.DeadlineExceeded) {
		text = "the time is over"
	}
	what := fmt.Sprintf("%s: task %s", text, e.Task)
	var ended *pve.TaskError
	switch {
	case e.Running && e.Err != nil:
		return fmt.Sprintf("%s could not be stopped (%v) and still runs; `pvenode task status %s` on node %s shows when it has ended",
			what, e.Err, e.Task, e.Task.Node())
	case e.Running:
		return fmt.Sprintf("%s is not safe to stop, and still runs; `pvenode task status %s` on node %s shows when it has ended",
			what, e.Task, e.Task.Node())
	case errors.As(e.Err, &ended) && ended.Killed() && slices.Contains([]string{"download", "imgcopy"}, e.Task.Type()):
		return what + " was stopped, but was killed before it had cleaned up"
	case errors.As(e.Err, &ended) && ended.Killed():
		return fmt.Sprintf("%s was stopped, but was killed before it had cleaned up: look for volumes that no configuration names "+
			"(`pvesm list STORAGE --vmid %s` on node %s)",
			what, e.Task.ID(), e.Task.Node())
	case e.Stopped:
		return fmt.Sprintf("%s was stopped: %v", what, e.Err)
	}
	return fmt.Sprintf("%s was awaited, and failed: %v", what, e.Err)
}

// Unwrap gives the end of the task.
func (e *InterruptedError) Unwrap() error { return e.Err }

// Is finds the end of the context that interrupted the operation.
func (e *InterruptedError) Is(target error) bool { return e.ended != nil && errors.Is(e.ended, target) }

// LookAfter is a context for looking what a request did whose answer is lost. An interrupt is often what cut the line, or
// comes while it is looked, and must not end the look.
func (s *Runner) LookAfter(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), shortTime)
}
