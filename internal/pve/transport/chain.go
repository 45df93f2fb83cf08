package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// Request is one call of the API, before it knows who makes it.
type Request struct {
	id     string // of the operation's account
	Op     string // the caller's operation, for errors: "create VM 100 on node pve1"
	Method string
	Path   string // below /api2/json, unescaped
	Params Params
	header http.Header // put in by the auth link
	at     *endpoint   // put in by the failover link
	Once   bool        // the caller has a patience of its own: no retries
	File   *File       // sent in place of params
}

// IsWrite reports whether the request may change something.
func (r *Request) IsWrite() bool { return r.Method != http.MethodGet }

// response is PVE's answer, read to its end.
type response struct {
	status int
	reason string // reason phrase: the only text in older versions
	header http.Header
	body   []byte

	parsed *parsed // nil before the first look into the body
}

// parsed is what a body says, or why it cannot be read.
type parsed struct {
	answer Answer
	err    error
}

// answer is the body, unwrapped. It is read once, however many links of the chain look into it.
func (r *response) answer() (Answer, error) {
	if r.parsed == nil {
		r.parsed = new(parsed)
		r.parsed.err = json.Unmarshal(r.body, &r.parsed.answer)
	}
	return r.parsed.answer, r.parsed.err
}

// handler is one link of the chain that a request passes through.
type handler func(ctx context.Context, r *Request) (*response, error)

// newChain is the one place where the chain is put together: limit -> trace -> retry -> refusals -> auth -> failover ->
// account -> http. From the retry link outwards every error is an *Error.
func (c *Conn) newChain(maxInFlight int) handler {
	h := c.withFailover(c.sendCounted)
	c.exchanges = h
	h = c.withAuth(h)
	h = withRefusals(c, h)
	h = c.withRetry(h)
	h = c.withTrace(h)
	return withLimit(maxInFlight, h)
}

// withTrace reports each request once, with what became of it.
func (c *Conn) withTrace(next handler) handler {
	if c.trace == nil {
		return next
	}
	return func(ctx context.Context, r *Request) (*response, error) {
		start := c.clock.Now()
		resp, err := next(ctx, r)
		fields := map[string]string{
			"operation":   r.Op,
			"method":      r.Method,
			"path":        r.Path,
			"params":      c.redact.params(r.Params),
			"duration_ms": strconv.FormatInt(c.clock.Now().Sub(start).Milliseconds(), 10),
		}
		if r.id != "" {
			fields["request"] = r.id
		}
		if resp != nil {
			fields["status"] = strconv.Itoa(resp.status)
		}
		if err != nil {
			fields["error"], fields["kind"] = err.Error(), fault.KindOf(err).String()
		}
		c.log(ctx, "PVE request", fields)
		return resp, err
	}
}

// log hands a line to the trace, after a last look for secrets.
func (c *Conn) log(ctx context.Context, msg string, fields map[string]string) {
	if c.trace == nil {
		return
	}
	for k, v := range fields {
		fields[k] = c.redact.text(v)
	}
	c.trace(ctx, msg, fields)
}

// Answer is what PVE wraps every JSON answer in (pve-http-server Formatter/Standard.pm prepare_response_data).
type Answer struct {
	Data    json.RawMessage        `json:"data"`
	Total   wire.Int               `json:"total"`
	Message wire.String            `json:"message"`
	Errors  map[string]wire.String `json:"errors"`
}

// Do sends a request through the chain and unwraps the answer. Every error is an *Error.
func (c *Conn) Do(ctx context.Context, r *Request) (Answer, error) {
	if strings.Contains(r.Path, "//") || strings.HasSuffix(r.Path, "/") || strings.Contains(r.Path, "/../") {
		return Answer{}, &fault.Error{Op: r.Op, Method: r.Method, Path: r.Path, Kind: fault.Invalid,
			Message: "a name in the path is empty or not a name; nothing was sent"}
	}
	operation := oplog.From(ctx)
	if r.IsWrite() {
		if err := operation.RefuseWrite(r.Method + " " + r.Path); err != nil {
			return Answer{}, &fault.Error{Op: r.Op, Method: r.Method, Path: r.Path, Kind: fault.Invalid, Message: err.Error()}
		}
	}
	if r.IsWrite() && c.creds.identity.PlanOnly {
		return Answer{}, &fault.Error{Op: r.Op, Method: r.Method, Path: r.Path, Kind: fault.Invalid,
			Message: "the provider is set to plan_only (PROXMOX_VE_PLAN_ONLY), so it changes nothing; nothing was sent"}
	}
	r.id = operation.RequestID()
	c.redact.learn(r.Params)
	resp, err := c.chain(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	env, err := resp.answer()
	if err != nil {
		return Answer{}, c.BadAnswer(r, resp.status, err)
	}
	return env, nil
}

// BadAnswer is a success that cannot be read. The effect of a write is then unknown.
func (c *Conn) BadAnswer(r *Request, status int, err error) *fault.Error {
	e := &fault.Error{
		Op: r.Op, Method: r.Method, Path: r.Path, Status: status, Err: err, Foreign: true,
		Message: c.redact.text("the answer is not what PVE sends, check the endpoint and any proxy in front of it: " +
			err.Error()),
	}
	if r.IsWrite() {
		e.Kind = fault.Ambiguous
	}
	return e
}

// noteDate keeps the difference between the server's clock and ours.
func (c *Conn) noteDate(h http.Header) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		offset := date.Sub(c.clock.Now())
		c.offset.Store(&offset)
	}
}
