package pve

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
)

// The names that every caller of the client needs, so that it imports this package alone.
type (
	// Params are the values of one request by parameter name.
	Params = transport.Params
	// Config says which server a Client talks to, as which identity, and how patiently.
	Config = transport.Config
	// ConfigError says which field of a Config is wrong.
	ConfigError = transport.ConfigError
	// Identity is the identity that a Client acts as.
	Identity = transport.Identity
	// Clock is the time that a Client lives in.
	Clock = transport.Clock
	// TraceFunc receives one line about every request.
	TraceFunc = transport.TraceFunc
	// UPID identifies a task.
	UPID = task.UPID
	// Error is a request that failed.
	Error = fault.Error
	// TaskError is a task that PVE accepted and that failed.
	TaskError = fault.TaskError
	// Kind is the meaning of an error.
	Kind = fault.Kind
)

// The kinds of errors, as package fault explains them.
const (
	Unknown        = fault.Unknown
	NotFound       = fault.NotFound
	Exists         = fault.Exists
	Leftover       = fault.Leftover
	Locked         = fault.Locked
	Busy           = fault.Busy
	Invalid        = fault.Invalid
	Denied         = fault.Denied
	Unsupported    = fault.Unsupported
	Unhealthy      = fault.Unhealthy
	Capacity       = fault.Capacity
	Unavailable    = fault.Unavailable
	Ambiguous      = fault.Ambiguous
	DigestMismatch = fault.DigestMismatch
)

// KindOf is the Kind of the first *Error or *TaskError in err's chain; Unknown for nil and for every other error.
func KindOf(err error) Kind { return fault.KindOf(err) }

// IsKind reports whether err is an error of that Kind. IsKind(nil, …) is false.
func IsKind(err error, k Kind) bool { return fault.IsKind(err, k) }

// ParseUPID checks that s has the form of a UPID.
func ParseUPID(s string) (UPID, error) { return task.ParseUPID(s) }

// Elapsed is the time between two readings of a clock, a sleep of the machine included.
func Elapsed(since, now time.Time) time.Duration { return transport.Elapsed(since, now) }

// RealClock is the machine's clock.
func RealClock() Clock { return transport.RealClock() }
