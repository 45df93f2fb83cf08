package saga

import (
	"context"
	"errors"
)

// StepError is the failed step of a run without undo: the effects of earlier steps stay.
type StepError struct {
	Step string
	Err  error
}

// Error names the step that failed.
func (s *StepError) Error() string { return s.Step + ": " + s.Err.Error() }

// Unwrap returns the cause.
func (s *StepError) Unwrap() error { return s.Err }

// NotBegunError says that the context had ended before a step: nothing of the step was done.
type NotBegunError struct {
	Step string
	Err  error // of the context
}

// Error names the step that comes next.
func (n *NotBegunError) Error() string {
	if errors.Is(n.Err, context.DeadlineExceeded) {
		return "Out of time before the step: " + n.Step
	}
	return "Interrupted before the step: " + n.Step
}

// Unwrap returns the error of the context.
func (n *NotBegunError) Unwrap() error { return n.Err }
