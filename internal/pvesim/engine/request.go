package engine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// On is a request of the same caller about another guest, for work that the first one sets off.
func (r *Request) On(node string, vmid int) *Request {
	return &Request{
		W: r.W, Method: r.Method, Template: r.Template, Auth: r.Auth, Engine: r.Engine, Synchronous: r.Synchronous,
		Params: map[string]string{"node": node, "vmid": strconv.Itoa(vmid)},
	}
}

// Upload is the file part of a multipart request.
type Upload struct {
	Filename string
	Size     int64
	Data     []byte // all of it, or its beginning

	Sums map[string]string // by algorithm
}

// Check asks for all of privs on an ACL path. The error is a 403 "Permission check failed (<path>, <priv>)" with the
// first privilege that is missing.
func (r *Request) Check(path string, privs ...string) error {
	return auth.Check(r.W, r.Auth, path, privs)
}

// CheckAny asks for one of privs on an ACL path; the 403 names them all, joined by "|".
func (r *Request) CheckAny(path string, privs ...string) error {
	return auth.CheckAny(r.W, r.Auth, path, privs)
}

// CheckPool refuses a pool that does not exist: 403, not 400 (access-control RPCEnvironment.pm, check_pool_exist).
func (r *Request) CheckPool(pool string) error {
	if r.W.Pools[pool] == nil {
		return perl.Denied(fmt.Sprintf("pool '%s' does not exist", pool))
	}
	return nil
}

// Node is the node of the path.
func (r *Request) Node() string { return r.Params["node"] }

// VMID is the VMID of the path; 0 without one.
func (r *Request) VMID() int {
	n, _ := strconv.Atoi(r.Params["vmid"]) // the schema lets only VMIDs through
	return n
}

// Flag reports whether a boolean parameter is set.
func (r *Request) Flag(name string) bool { return r.Params[name] == "1" }

// Func answers one method of one path. Its result becomes "data".
type Func func(r *Request) (any, error)

// Routes maps "METHOD /path/{template}" (the schema's templates) to handlers. Each area has a function that returns its
// own.
type Routes map[string]Func

// Request is a call that passed routing, authentication, permission and schema checks. W's mutex is held.
type Request struct {
	W        *state.World
	Method   string
	Template string
	Params   map[string]string // path, query and body parameters together
	Auth     auth.Identity
	// Engine is the way to fork workers and to take file locks.
	Engine *Engine
	// Extra are siblings of "data" in the answer: total, changes.
	Extra map[string]any
	// Upload is the file of a multipart request; nil without one.
	Upload *Upload

	Strike      *fault.Strike // waits for the worker that this request forks
	forked      []func()      // workers to start once the handler has returned
	Started     bool          // one of them runs or has run
	Synchronous bool          // an SSH command: its process waits for its tasks
}

// Subject is the VMID that the request makes or is about; 0 if it is about none.
func (r *Request) Subject() int {
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
func (r *Request) Wait(d time.Duration) { r.Engine.Wait(d, nil) }
