// Package proxy does what pveproxy does: it reads HTTP, routes, authenticates, checks permissions and parameters in
// PVE's order, and then calls the handler with the world's mutex held.
package proxy

import (
	"maps"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/access"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const (
	basePath = "/api2"
	// unauthorizedDelay is how long every 401 is held back (AnyEvent.pm).
	unauthorizedDelay = 3 * time.Second
	// proxyTimeout is how long pveproxy waits for pvedaemon (AnyEvent.pm, proxy_request).
	proxyTimeout = 30 * time.Second
)

// call is one API request on its way through the checks.
type call struct {
	s      *engine.Engine
	q      *httpRequest
	path   string // below /api2/<format>
	format string
	route  *schema.Route // nil: not known
	vars   map[string]string
	params map[string]string
	upload *engine.Upload
	refuse *answer // the HTTP layer's answer to the body
	op     *engine.Op
	strike fault.Strikes
}

// api answers a request below /api2: numbers it, lets faults strike, and runs it.
func (p *Proxy) api(q *httpRequest) *answer {
	s := p.e
	c := &call{s: s, q: q}
	c.read()
	s.Enter()
	defer s.Leave()
	s.World.Lock()
	defer s.World.Unlock()
	s.Tick()
	c.op, c.strike = s.Begin(q.method, c.template(), c.params, q.path)
	a := older(s.World, c.struck())
	s.Keep()
	if a.status == 401 {
		s.Wait(unauthorizedDelay, nil)
	}
	c.op.Status, c.op.Left = a.status, s.World.Clock.Now()
	s.InspectOp(c.op)
	if s.World.Served != nil {
		s.World.Served(c.op.Seq, c.op.Method, c.op.Path)
	}
	return a
}

// read finds the route and decodes the parameters. Nothing of it shows before authentication.
func (c *call) read() {
	rest, ok := strings.CutPrefix(c.q.path, basePath+"/")
	if ok {
		c.format, c.path, _ = strings.Cut(rest, "/")
		c.path = "/" + c.path
	}
	if c.format == "json" {
		c.route, c.vars, _ = c.s.Config.Schema.Route(c.q.method, c.path)
	}
	isUpload := c.route != nil && strings.HasSuffix(c.route.Template, "/upload")
	limit := int64(BodyLimit)
	if !c.s.World.Has(state.LargerBodies) {
		limit = OldBodyLimit
	}
	if !isUpload { // a file is read while it comes
		c.q.readBody(limit)
	}
	c.params, c.upload, c.refuse = c.q.params(limit, isUpload)
	for name, value := range c.vars {
		if _, ok := c.params[name]; !ok {
			c.params[name] = value
		}
	}
}

func (c *call) template() string {
	if c.route != nil {
		return c.route.Template
	}
	if c.path != "" {
		return c.path
	}
	return c.q.path
}

// struck runs the call with the faults that meet it.
func (c *call) struck() *answer {
	if wait := c.s.InService(); wait > 0 {
		c.s.Wait(wait, nil)
	}
	if k := c.strike.Before; k != nil && k.Fire() {
		c.s.Wait(k.Delay(), nil)
		k.Took()
		status := k.Status
		if status == 0 {
			status = 500
		}
		if status == 401 || status > 594 {
			return bare(status, k.Text("injected failure"))
		}
		return failure(c.s.World, &perl.Error{Status: status, Message: k.Text("injected failure")})
	}
	a := c.run()
	k := c.strike.After
	if off := c.strike.Task; off != nil && off.Phase == fault.Offline && !off.Fired() &&
		c.s.World.Nodes[c.params["node"]] != nil {
		k = off // no worker has taken it
	}
	if k != nil && k.Fire() {
		c.s.Wait(k.Delay(), nil)
		k.Took()
		if k.Phase == fault.Offline {
			c.s.Crash(c.params["node"], k.Away())
		}
		cut := *a
		cut.cut = true
		return &cut
	}
	return a
}

// run applies PVE's order: authentication, body, route, duplicate parameters, token, permission, node, schema, code
// (pve-manager HTTPServer.pm, rest_handler; pve-common RESTHandler.pm, handle).
func (c *call) run() *answer {
	switch {
	case c.format == "" || c.path == "":
		return plainError(501, "no such uri")
	case c.format != "json":
		return plainError(501, "no formatter for uri "+c.q.path)
	}
	auth, refused := authenticate(c.s, c.q, c.path)
	if refused != nil {
		return refused
	}
	c.op.Identity = auth.ID
	if c.refuse != nil {
		return c.refuse
	}
	if c.route == nil {
		return failure(c.s.World, &perl.Error{Status: 501, Message: "Method '" + c.q.method + " " + c.path +
			"' not implemented"})
	}
	if err := c.admit(auth); err != nil {
		return failure(c.s.World, err)
	}
	if refused := c.toNode(); refused != nil {
		return refused
	}
	if err := c.onNode(auth); err != nil {
		return failure(c.s.World, err)
	}
	if errs := c.route.Validate(c.params, c.vars); errs != nil {
		return failure(c.s.World, &perl.Error{Status: 400, Message: "Parameter verification failed.", Errors: errs})
	}
	return c.handle(auth)
}

func (c *call) admit(auth auth.Identity) error {
	for name, value := range c.vars {
		if c.params[name] != value {
			return perl.Invalid(name, "duplicate parameter (already defined in URI) with conflicting values!")
		}
	}
	if auth.IsToken && !c.route.AllowToken {
		return perl.Denied("URI '" + c.path + "' not available with API token, need proper ticket.")
	}
	return access.Authorize(c.s, c.s.World, auth, c.route.Permissions, c.params)
}

// toNode forwards a request to the node that it names.
func (c *call) toNode() *answer {
	name, ok := c.vars["node"]
	if !ok || !c.route.ProxyToNode {
		return nil
	}
	if name == "localhost" {
		c.vars["node"] = engine.Home(c.s.World)
		c.params["node"] = c.vars["node"]
		return nil
	}
	node := c.s.World.Nodes[name]
	if node == nil {
		return failure(c.s.World, engine.UnknownNode(name))
	}
	switch {
	case !node.Online:
		return bare(595, "No route to host")
	case node.Unreached:
		return bare(595, "Connection refused")
	}
	return nil
}

// onNode has a node of another release than the world's route the request and check its permissions again, by its own
// rules (pve-manager HTTPServer.pm, rest_handler).
func (c *call) onNode(auth auth.Identity) error {
	is := state.ReleaseOf(c.s.World, c.vars["node"])
	if !c.route.ProxyToNode || is == c.s.World.Profile {
		return nil
	}
	if c.route, c.vars, _ = schema.LoadVersion(is).Route(c.q.method, c.path); c.route == nil {
		return &perl.Error{Status: 501, Message: "Method '" + c.q.method + " " + c.path + "' not implemented"}
	}
	return c.admit(auth)
}

func (c *call) handle(auth auth.Identity) *answer {
	f := c.s.Handler(c.q.method, c.route.Template)
	if f == nil {
		return failure(c.s.World, &perl.Error{Status: 501, Message: "Method '" + c.q.method + " " + c.route.Template +
			"' not simulated"})
	}
	r := &engine.Request{
		W: c.s.World, Method: c.q.method, Template: c.route.Template, Params: c.arguments(), Auth: auth, Engine: c.s,
		Upload: c.upload, Strike: c.strike.Task,
	}
	start := c.s.World.Clock.Now()
	data, err := f(r)
	if !r.Started && c.route.Protected && c.s.World.Clock.Now().Sub(start) > proxyTimeout {
		r.StartForked()
		return bare(596, "Connection timed out") // done all the same
	}
	r.StartForked()
	if err != nil {
		return failure(c.s.World, err)
	}
	members := map[string]any{"data": data}
	maps.Copy(members, r.Extra)
	return document(200, "OK", members)
}

// arguments are the parameters as the code sees them: a repeated one is a comma-separated list unless it is an array
// (RESTHandler.pm, normalize_legacy_param_formats).
func (c *call) arguments() map[string]string {
	for name, value := range c.params {
		if p := c.route.Params[name]; strings.Contains(value, "\x00") && (p == nil || p.Type != "array") {
			c.params[name] = strings.ReplaceAll(value, "\x00", ",")
		}
	}
	return c.params
}
