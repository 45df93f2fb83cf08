package saga

// StepError is the failed step of a run without undo: the effects of earlier steps stay.
type StepError struct {
	Step string
	Err  error
}

// Error names the step that failed.
func (s *StepError) Error() string { return s.Step + ": " + s.Err.Error() }

// Unwrap returns the cause.
func (s *StepError) Unwrap() error { return s.Err }
