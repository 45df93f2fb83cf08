package fault

import (
	"errors"
	"slices"
)

// Kind is the meaning of an error for the caller. PVE has no error codes, only words; messages.go turns the words into
// these.
type Kind int

const (
	// Unknown is everything that no rule recognises, and a context that ended before anything was sent.
	Unknown Kind = iota
	// NotFound: the VM, volume, pool, task or HA entry does not exist.
	NotFound
	// Exists: the id or name is taken.
	Exists
	// Leftover: a volume of that name is in the way.
	Leftover
	// Locked: a config lock or a file lock is held by a third party.
	Locked
	// Busy: the object is in use: running, mounted, base of a clone.
	Busy
	// Invalid: a parameter is wrong; Error.Params may say which.
	Invalid
	// Denied: not authenticated, not permitted, or for root@pam only.
	Denied
	// Unsupported: this server does not have it.
	Unsupported
	// Unhealthy: node, storage, cluster or guest agent is not in a state to do it.
	Unhealthy
	// Capacity: no space, memory or ids left.
	Capacity
	// Unavailable: the server could not be reached, or not now; nothing happened.
	Unavailable
	// Ambiguous: the request may or may not have taken effect; look before acting.
	Ambiguous
	// DigestMismatch: the config was changed by a third party since it was read.
	DigestMismatch
)

// String is the constant's name.
func (k Kind) String() string {
	names := [...]string{
		"Unknown", "NotFound", "Exists", "Leftover", "Locked", "Busy", "Invalid", "Denied",
		"Unsupported", "Unhealthy", "Capacity", "Unavailable", "Ambiguous", "DigestMismatch",
	}
	if k < 0 || int(k) >= len(names) {
		return "Unknown"
	}
	return names[k]
}

// KindOf is the Kind of the first *Error or *TaskError in err's chain, or else of the first error that tells its own;
// Unknown for nil and for everything else.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var t *TaskError
	if errors.As(err, &t) {
		return t.Kind
	}
	var own interface{ Kind() Kind }
	if errors.As(err, &own) {
		return own.Kind()
	}
	return Unknown
}

// IsKind tells whether err is an error of that Kind. IsKind(nil, …) is false.
func IsKind(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// Has tells whether any error that is joined in err is of that Kind: IsKind goes by the first.
func Has(err error, k Kind) bool {
	if IsKind(err, k) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case interface{ Unwrap() error }:
		return Has(e.Unwrap(), k)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return Has(err, k) })
	}
	return false
}
