// Package handle answers API requests on a state.World, one file per area of the API.
//
// The server (server.go) does what pveproxy does: it routes, authenticates, checks permissions and parameters in PVE's
// order, and then calls the handler with the world's mutex held. A handler changes the world or forks a worker.
package handle

import (
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Func answers one method of one path. What it returns becomes "data".
type Func func(r *Request) (any, error)

// Routes maps "METHOD /path/{template}" (the schema's templates) to handlers. Each area has a function that returns its own.
type Routes map[string]Func

// Request is a call that passed routing, authentication, permission and schema checks. W's mutex is held.
type Request struct {
	W        *state.World
	Method   string
	Template string
	Params   map[string]string // path, query and body parameters together
	Auth     Auth
	// Server is the way to fork workers and to take file locks.
	Server *Server
}

// Auth is who asks.
type Auth struct {
	ID      string // "root@pam" or "user@realm!token", as in UPIDs
	User    string // "user@realm"
	IsToken bool
}

// IsRoot reports whether the request has root's unconditional rights: the user root@pam with a ticket.
// A token of root@pam has not (access-control RPCEnvironment.pm compares the whole id).
func (a Auth) IsRoot() bool { return a.ID == "root@pam" }

// Error is an answer other than 200. Errors is the parameter map of a 400.
type Error struct {
	Status  int
	Message string
	Errors  map[string]string
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s", e.Status, e.Message) }

// Die is a Perl die in API code: status 500 with the text as reason.
func Die(format string, args ...any) *Error {
	return &Error{Status: 500, Message: fmt.Sprintf(format, args...)}
}

// Invalid is a 400 with one parameter error.
func Invalid(param, text string) *Error {
	return &Error{Status: 400, Message: "Parameter verification failed.", Errors: map[string]string{param: text}}
}
