package guest

// Warning is something the operator should know although the operation succeeded.
type Warning struct{ Summary, Detail string }

// FieldError is an error that belongs to one attribute. Path is in terms of the resource: "vmid", "clone.vmid",
// "disks.scsi0.storage".
type FieldError struct {
	Path            string
	Summary, Detail string
	Err             error // what the server said, or nil
}

// Error is the detail, with what the server said behind it.
func (e *FieldError) Error() string {
	if e.Err == nil {
		return e.Summary + ": " + e.Detail
	}
	return e.Summary + ": " + e.Detail + ": " + e.Err.Error()
}

// Unwrap gives what the server said.
func (e *FieldError) Unwrap() error { return e.Err }
