// Package saga runs steps that can be undone. It does not know what the steps do.
package saga

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// Step is one entry of a saga.
type Step struct {
	// Name says what the step does. The user is told it when the step fails.
	Name string
	// Why is the reason for the step's place in the order. It is for readers of the code.
	Why string
	// Skip leaves the step out.
	Skip bool
	// Regardless: the step is done although the context has ended, and has as long for it as all undos.
	Regardless bool
	// Do sends the requests of the step.
	Do func(context.Context) error
	// Undo takes the step back. It is idempotent, and it also runs for the step whose Do failed, since a failed request
	// may have taken effect. Nil: nothing to take back. It returns its leftovers as a *LeftError.
	Undo func(context.Context) error
}

// Residue is a leftover: an object that is still there although its step was undone.
type Residue struct {
	Kind    string `json:"kind"`
	Node    string `json:"node"`
	ID      string `json:"id"`
	What    string `json:"what"`    // for people: "volume local-zfs:vm-101-disk-0"
	Reason  string `json:"reason"`  // why it is still there
	Command string `json:"command"` // removes it when run as root on the node
	// Size in bytes and CreatedAt tell a volume from a later one of its name; zero if they are not known.
	Size      int64     `json:"size,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// LeftError is the error of an undo that could not remove everything.
type LeftError struct {
	Left []Residue
	Err  error // the reason, or nil
}

// Error names the leftovers.
func (l *LeftError) Error() string {
	names := make([]string, len(l.Left))
	for i, r := range l.Left {
		names[i] = r.What
	}
	text := "left behind: " + strings.Join(names, ", ")
	if l.Err != nil {
		text += ": " + l.Err.Error()
	}
	return text
}

// Unwrap returns the reason.
func (l *LeftError) Unwrap() error { return l.Err }

// Error is a failed saga.
type Error struct {
	Step string    // the step that failed
	Err  error     // why
	Left []Residue // the leftovers of the undos
	Undo []error   // undos that failed without naming their leftovers
}

// Error names the failed step, and what could not be undone.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %v", e.Step, e.Err)
	if _, isNotBegun := e.Err.(*NotBegunError); isNotBegun { //nolint:errorlint // a wrapped one is of another step
		text = e.Err.Error()
	}
	if len(e.Left)+len(e.Undo) > 0 {
		text += "; not everything could be undone"
	}
	for _, err := range e.Undo {
		text += "; " + err.Error()
	}
	for _, r := range e.Left {
		text += "; left: " + r.What
	}
	return text
}

// Unwrap returns the cause of the failed step, never an error of an undo.
func (e *Error) Unwrap() error { return e.Err }

// RolledBack reports whether err is a failed saga that has left nothing.
func RolledBack(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && len(failed.Left) == 0 && len(failed.Undo) == 0
}

// Run does the steps in order. When a step fails, or the context ends, it undoes that step and those before it in
// reverse order. It goes on after an undo that fails. The undos ignore the end of ctx and have undoTimeout of their
// own. A non-nil error is always an *Error.
func Run(ctx context.Context, undoTimeout time.Duration, steps ...Step) error {
	var begun []Step
	for _, step := range steps {
		if step.Skip {
			continue
		}
		var err error
		switch ended := ctx.Err(); {
		case ended == nil:
			begun = append(begun, step)
			err = do(ctx, step)
		case step.Regardless:
			begun = append(begun, step)
			err = doRegardless(ctx, undoTimeout, step)
		default:
			err = &NotBegunError{Step: step.Name, Err: ended}
		}
		if err != nil {
			failed := &Error{Step: step.Name, Err: err}
			unwind(ctx, undoTimeout, begun, failed)
			return failed
		}
	}
	return nil
}

func doRegardless(ctx context.Context, limit time.Duration, step Step) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return do(ctx, step)
}

func do(ctx context.Context, step Step) error {
	ctx, ended := oplog.Step(ctx, step.Name)
	err := step.Do(ctx)
	ended(err)
	return err
}

func undo(ctx context.Context, step Step) error {
	ctx, ended := oplog.Undo(ctx, step.Name)
	err := step.Undo(ctx)
	ended(err)
	return err
}

func unwind(ctx context.Context, timeout time.Duration, begun []Step, failed *Error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for i := len(begun) - 1; i >= 0; i-- {
		if begun[i].Undo == nil {
			continue
		}
		err := undo(ctx, begun[i])
		var left *LeftError
		switch {
		case err == nil:
		case errors.As(err, &left):
			failed.Left = append(failed.Left, left.Left...)
		default:
			failed.Undo = append(failed.Undo, fmt.Errorf("undo of %s: %w", begun[i].Name, err))
		}
	}
}
