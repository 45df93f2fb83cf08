package tx

// StepError is the step that failed of a run that is not undone: what was done before it stays.
type StepError struct {
	Step string
	Err  error
}

// Error says which step failed.
func (e *StepError) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *StepError) Unwrap() error { return e.Err }
