package handle

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
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
	s      *Server
	q      *httpRequest
	path   string // below /api2/<format>
	format string
	route  *schema.Route // nil: not known
	vars   map[string]string
	params map[string]string
	upload *Upload
	refuse *answer // what the HTTP layer says to the body
	op     *Op
	strike fault.Strikes
}

// api answers a request below /api2: numbers it, lets faults strike, and runs it.
func (s *Server) api(q *httpRequest) *answer {
	c := &call{s: s, q: q}
	c.read()
	s.enter()
	defer s.leave()
	s.world.Lock()
	defer s.world.Unlock()
	s.tick()
	c.op, c.strike = s.begin(q.method, c.template(), c.params, q.path)
	a := s.older(c.struck())
	s.keep()
	if a.status == 401 {
		s.Wait(unauthorizedDelay, nil)
	}
	c.op.Status, c.op.Left = a.status, s.world.Clock.Now()
	s.inspectOp(c.op)
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
		c.route, c.vars, _ = c.s.schema.Route(c.q.method, c.path)
	}
	isUpload := c.route != nil && strings.HasSuffix(c.route.Template, "/upload")
	limit := int64(bodyLimit)
	if !c.s.world.Has(state.LargerBodies) {
		limit = oldBodyLimit
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
	if wait := c.s.inService(); wait > 0 {
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
		return c.s.failure(&Error{Status: status, Message: k.Text("injected failure")})
	}
	a := c.run()
	k := c.strike.After
	if off := c.strike.Task; off != nil && off.Phase == fault.Offline && !off.Fired() && c.s.world.Nodes[c.params["node"]] != nil {
		k = off // no worker has taken it
	}
	if k != nil && k.Fire() {
		c.s.Wait(k.Delay(), nil)
		k.Took()
		if k.Phase == fault.Offline {
			c.s.crash(c.params["node"], k.Away())
		}
		cut := *a
		cut.cut = true
		return &cut
	}
	return a
}

// inService gives the request that has just come to the worker that is free first, and says when that one will have served it:
// its turn in the queue and the latency. Only the latency keeps a worker busy, not what the request waits for afterwards.
func (s *Server) inService() time.Duration {
	if len(s.busy) == 0 {
		return s.latency
	}
	now, first := s.world.Clock.Now(), 0
	for i, until := range s.busy {
		if until.Before(s.busy[first]) {
			first = i
		}
	}
	if s.busy[first].Before(now) {
		s.busy[first] = now
	}
	s.busy[first] = s.busy[first].Add(s.latency)
	return s.busy[first].Sub(now)
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
	auth, refused := c.s.authenticate(c.q, c.path)
	if refused != nil {
		return refused
	}
	c.op.Identity = auth.ID
	if c.refuse != nil {
		return c.refuse
	}
	if c.route == nil {
		return c.s.failure(&Error{Status: 501, Message: "Method '" + c.q.method + " " + c.path + "' not implemented"})
	}
	if err := c.admit(auth); err != nil {
		return c.s.failure(err)
	}
	if refused := c.toNode(); refused != nil {
		return refused
	}
	if errs := c.route.Validate(c.params, c.vars); errs != nil {
		return c.s.failure(&Error{Status: 400, Message: "Parameter verification failed.", Errors: errs})
	}
	return c.handle(auth)
}

func (c *call) admit(auth Auth) error {
	for name, value := range c.vars {
		if c.params[name] != value {
			return Invalid(name, "duplicate parameter (already defined in URI) with conflicting values!")
		}
	}
	if auth.IsToken && !c.route.AllowToken {
		return denied("URI '" + c.path + "' not available with API token, need proper ticket.")
	}
	return c.s.authorize(c.s.world, auth, c.route.Permissions, c.params)
}

// toNode forwards a request to the node that it names.
func (c *call) toNode() *answer {
	name, ok := c.vars["node"]
	if !ok || !c.route.ProxyToNode {
		return nil
	}
	if name == "localhost" {
		c.vars["node"] = home(c.s.world)
		c.params["node"] = c.vars["node"]
		return nil
	}
	node := c.s.world.Nodes[name]
	if node == nil {
		return c.s.failure(unknownNode(name))
	}
	switch {
	case !node.Online:
		return bare(595, "No route to host")
	case node.Unreached:
		return bare(595, "Connection refused")
	}
	return nil
}

func unknownNode(name string) *Error {
	return Die("hostname lookup '%s' failed - failed to get address info for: %s: Name or service not known", name, name)
}

// home is the node that serves the request: the first one that is up.
func home(w *state.World) string {
	names := nodeNames(w)
	for _, name := range names {
		if w.Nodes[name].Online {
			return name
		}
	}
	if len(names) == 0 {
		return "pve"
	}
	return names[0]
}

func nodeNames(w *state.World) []string { return slices.Sorted(maps.Keys(w.Nodes)) }

func (c *call) handle(auth Auth) *answer {
	f := c.s.routes[c.q.method+" "+c.route.Template]
	if f == nil {
		return c.s.failure(&Error{Status: 501, Message: "Method '" + c.q.method + " " + c.route.Template + "' not simulated"})
	}
	r := &Request{
		W: c.s.world, Method: c.q.method, Template: c.route.Template, Params: c.arguments(), Auth: auth, Server: c.s,
		Upload: c.upload, strike: c.strike.Task,
	}
	start := c.s.world.Clock.Now()
	data, err := f(r)
	if !r.started && c.route.Protected && c.s.world.Clock.Now().Sub(start) > proxyTimeout {
		r.startForked()
		return bare(596, "Connection timed out") // done all the same
	}
	r.startForked()
	if err != nil {
		return c.s.failure(err)
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
