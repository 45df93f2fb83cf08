// Package tx runs steps that can be undone. It knows nothing of what they do.
package tx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
)

// Step is one thing to do, and how to take it back.
type Step struct {
	Name string
	Do   func(context.Context) error
	// Undo takes the step back. It is idempotent, and it also runs for the step whose Do failed, since a failed request
	// may have taken effect. Nil: nothing to take back. What it could not take back it returns as a *LeftError.
	Undo func(context.Context) error
}

// Residue is something that is still there although its step was undone: an object of a kind, by id, and the command
// that removes it when run as root on the node.
type Residue struct {
	Kind    string `json:"kind"`
	Node    string `json:"node"`
	ID      string `json:"id"`
	What    string `json:"what"`   // for people: "volume local-zfs:vm-101-disk-0"
	Reason  string `json:"reason"` // why it is still there
	Command string `json:"command"`
}

// LeftError is an undo's account of what it could not remove.
type LeftError struct {
	Left []Residue
	Err  error // why, or nil
}

// Error names what is left.
func (e *LeftError) Error() string {
	names := make([]string, len(e.Left))
	for i, r := range e.Left {
		names[i] = r.What
	}
	text := "left behind: " + strings.Join(names, ", ")
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *LeftError) Unwrap() error { return e.Err }

// Error is a failed run: the step that failed and why, what the undo could not remove, and undos that failed without
// saying what they left.
type Error struct {
	Step string
	Err  error
	Left []Residue
	Undo []error
}

// Error says which step failed, and whether everything was taken back.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %v", e.Step, e.Err)
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

// Unwrap gives the cause of the failed step, never those of the undo.
func (e *Error) Unwrap() error { return e.Err }

// RolledBack reports whether err is a failed run of which nothing is left.
func RolledBack(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && len(failed.Left) == 0 && len(failed.Undo) == 0
}

// Run does the steps in order. When one fails, or the context ends, it undoes that step and those before it in reverse
// order, going on after an undo that fails. The undo ignores the end of ctx and has undoTimeout of its own.
// A non-nil error is always an *Error.
func Run(ctx context.Context, undoTimeout time.Duration, steps ...Step) error {
	for i, step := range steps {
		err := ctx.Err()
		if err == nil {
			err = do(ctx, step)
		} else {
			i--
		}
		if err != nil {
			failed := &Error{Step: step.Name, Err: err}
			unwind(ctx, undoTimeout, steps[:i+1], failed)
			return failed
		}
	}
	return nil
}

func do(ctx context.Context, step Step) error {
	ctx, ended := account.Step(ctx, step.Name)
	err := step.Do(ctx)
	ended(err)
	return err
}

func undo(ctx context.Context, step Step) error {
	ctx, ended := account.Undo(ctx, step.Name)
	err := step.Undo(ctx)
	ended(err)
	return err
}

func unwind(ctx context.Context, timeout time.Duration, done []Step, failed *Error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for i := len(done) - 1; i >= 0; i-- {
		if done[i].Undo == nil {
			continue
		}
		err := undo(ctx, done[i])
		var left *LeftError
		switch {
		case err == nil:
		case errors.As(err, &left):
			failed.Left = append(failed.Left, left.Left...)
		default:
			failed.Undo = append(failed.Undo, fmt.Errorf("undo of %s: %w", done[i].Name, err))
		}
	}
}
