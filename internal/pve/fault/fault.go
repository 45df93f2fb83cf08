// Package fault gives PVE's errors a meaning. PVE has no error codes, only texts: messages.go is the one table that
// turns them into kinds, each row with its Perl source.
package fault

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
)

// Error is a request that failed: refused by PVE, or without a readable answer.
type Error struct {
	// Op is what was attempted on what: "create VM 100 on node pve1".
	Op string
	// Method and Path are the request, without /api2/json and without parameters.
	Method, Path string
	// Status is the HTTP status, 0 without an answer.
	Status int
	// Kind is what it means.
	Kind Kind
	// Message is PVE's own words, trimmed, or why there was no answer. Never a secret.
	Message string
	// Params is PVE's verdict by parameter, for Invalid.
	Params map[string]string
	// Err is the cause when there was no answer; errors.Is finds a context's error through it.
	Err error
	// Unsent: nothing reached the server, so that even a write may be tried again.
	Unsent bool
	// Foreign: something in front of PVE answered, a proxy or another server.
	Foreign bool
	// Wordless: PVE's text was lost on the way.
	Wordless bool

	isSaid bool // by a tool on a node
}

// IsPVEs reports whether PVE itself said Message and Params. Else nothing answered, or something in front of PVE, or
// the provider concluded it.
func (e *Error) IsPVEs() bool { return e.isSaid || e.Status != 0 && !e.Foreign }

// Error is the operation, PVE's words and its verdicts on parameters, in order.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op + ": " + e.Message)
	for i, name := range slices.Sorted(maps.Keys(e.Params)) {
		sep := "; "
		if i == 0 {
			sep = " "
		}
		b.WriteString(sep + name + ": " + e.Params[name])
	}
	return b.String()
}

// Said is what a tool of PVE on a node said when it refused something, as an answer of the API would be.
func Said(op, message string) *Error {
	return &Error{Op: op, Kind: kindOfMessage(message), Message: message, isSaid: true}
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// TaskError is a task that PVE accepted and that failed.
type TaskError struct {
	// Op is the task in words: "task qmcreate of VM 100 on node pve1".
	Op string
	// UPID identifies the task.
	UPID task.UPID
	// ExitStatus is PVE's words.
	ExitStatus string
	// Log is the last lines of its log, oldest first; empty when it could not be fetched.
	Log []string
	// Kind is what ExitStatus means; Ambiguous when the worker was killed or its log is unreadable.
	Kind Kind
}

// Error is the task and its exit status. The log stands in Log.
func (t *TaskError) Error() string { return t.Op + ": " + t.ExitStatus }

// Killed tells whether the worker ended without saying how, by SIGKILL or a crash of the node: locks and volumes of a
// half-done job are still there (pve-common UPID handling, "unexpected status").
func (t *TaskError) Killed() bool { return t.ExitStatus == KilledStatus }

// IsUntold tells whether PVE cannot say how the worker ended, since the end of its log is lost (pve-common Tools.pm
// upid_read_status).
func (t *TaskError) IsUntold() bool { return !t.Killed() && KindOfExit(t.ExitStatus) == Ambiguous }

// KilledStatus is the exit status of a worker that was killed, in PVE's own words.
const KilledStatus = "unexpected status"

// KindOfExit is the kind of a failed task: an exit status that is not the worker's own word leaves open what was done.
func KindOfExit(exitStatus string) Kind {
	for _, prefix := range []string{KilledStatus, "unable to open file - ", "unable to read tail",
		"unable to extract last line",
		"unable to get last line"} {
		if strings.HasPrefix(exitStatus, prefix) {
			return Ambiguous
		}
	}
	return kindOfMessage(exitStatus)
}
