// Package handle answers API requests on a state.World, one file per area of the API.
//
// The server (server.go) does what pveproxy does: it routes, authenticates, checks permissions and parameters in PVE's
// order, and then calls the handler with the world's mutex held. A handler changes the world or forks a worker.
package handle

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
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
	// Extra are siblings of "data" in the answer: total, changes.
	Extra map[string]any
	// Upload is the file of a multipart request; nil without one.
	Upload *Upload

	strike      *fault.Strike // waits for the worker that this request forks
	forked      []func()      // workers to start once the handler has returned
	started     bool          // one of them runs or has run
	synchronous bool          // an SSH command: its process waits for its tasks
}

// subject is the VMID that the request makes or is about; 0 if it is about none.
func (r *Request) subject() int {
	ids := subjects(r.Template, r.Params)
	if len(ids) == 0 {
		return 0
	}
	return ids[len(ids)-1]
}

// subjects are the VMIDs that a request is about: the path's or body's, then a clone's newid.
func subjects(template string, params map[string]string) []int {
	var ids []int
	keys := []string{"vmid"}
	if strings.HasSuffix(template, "/clone") {
		keys = append(keys, "newid")
	}
	for _, k := range keys {
		if id, err := strconv.Atoi(params[k]); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Wait lets d pass on the cluster's clock with the mutex released.
func (r *Request) Wait(d time.Duration) { r.Server.Wait(d, nil) }

// Auth is who asks.
type Auth struct {
	ID      string // "root@pam" or "user@realm!token", as in UPIDs
	User    string // "user@realm"
	IsToken bool

	almighty bool // a stranger's act: nothing is forbidden to him
}

// IsRoot reports whether the request has root's unconditional rights: the user root@pam with a ticket.
// A token of root@pam has not (access-control RPCEnvironment.pm compares the whole id).
func (a Auth) IsRoot() bool { return a.ID == rootUser || a.almighty }

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
