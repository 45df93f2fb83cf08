package pve

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
)

// request is one call of the API, before it knows who makes it.
type request struct {
	id     string // of the operation's account
	op     string // what the caller is doing, for errors: "create VM 100 on node pve1"
	method string
	path   string // below /api2/json, unescaped
	params Params
	header http.Header // put in by the auth link
	at     *endpoint   // put in by the failover link
	once   bool        // the caller has a patience of its own: no retries
	file   *fileBody   // sent in place of params
}

func (r *request) isWrite() bool { return r.method != http.MethodGet }

// response is PVE's answer, read to its end.
type response struct {
	status int
	reason string // reason phrase: the only text in older versions
	header http.Header
	body   []byte
}

// handler is one link of the chain that a request passes through.
type handler func(ctx context.Context, r *request) (*response, error)

// newChain is the one place where the chain is put together: limit -> trace -> retry -> auth -> failover -> account ->
// http. From the retry link outwards every error is an *Error.
func (c *Client) newChain(maxInFlight int) handler {
	h := c.withFailover(c.sendCounted)
	c.exchanges = h
	h = c.withAuth(h)
	h = c.withRetry(h)
	h = c.withTrace(h)
	return c.withLimit(maxInFlight, h)
}

// withTrace reports each request once, with what became of it.
func (c *Client) withTrace(next handler) handler {
	if c.trace == nil {
		return next
	}
	return func(ctx context.Context, r *request) (*response, error) {
		start := c.clock.Now()
		resp, err := next(ctx, r)
		fields := map[string]string{
			"operation":   r.op,
			"method":      r.method,
			"path":        r.path,
			"params":      c.redact.params(r.params),
			"duration_ms": strconv.FormatInt(c.clock.Now().Sub(start).Milliseconds(), 10),
		}
		if r.id != "" {
			fields["request"] = r.id
		}
		if resp != nil {
			fields["status"] = strconv.Itoa(resp.status)
		}
		if err != nil {
			fields["error"], fields["kind"] = err.Error(), KindOf(err).String()
		}
		c.log(ctx, "PVE request", fields)
		return resp, err
	}
}

// log hands a line to the trace, after a last look for secrets.
func (c *Client) log(ctx context.Context, msg string, fields map[string]string) {
	if c.trace == nil {
		return
	}
	for k, v := range fields {
		fields[k] = c.redact.text(v)
	}
	c.trace(ctx, msg, fields)
}

// envelope is what PVE wraps every JSON answer in (pve-http-server Formatter/Standard.pm prepare_response_data).
type envelope struct {
	Data    json.RawMessage       `json:"data"`
	Total   flexInt               `json:"total"`
	Message flexString            `json:"message"`
	Errors  map[string]flexString `json:"errors"`
}

// do sends a request through the chain and unwraps the answer. Every error is an *Error.
func (c *Client) do(ctx context.Context, r *request) (envelope, error) {
	if strings.Contains(r.path, "//") || strings.HasSuffix(r.path, "/") || strings.Contains(r.path, "/../") {
		return envelope{}, &Error{Op: r.op, Method: r.method, Path: r.path, Kind: Invalid,
			Message: "a name in the path is empty or not a name; nothing was sent"}
	}
	r.id = account.From(ctx).RequestID()
	c.redact.learn(r.params)
	if r.isWrite() {
		// Before and after: a listing that was fetched meanwhile may show either state.
		c.noteWrite(r.leaves(), r.changes())
		defer c.noteWrite(r.leaves(), r.changes())
	}
	began := c.clock.Now()
	resp, err := c.chain(ctx, r)
	if err != nil {
		return envelope{}, err
	}
	if !r.isWrite() {
		c.waits.answered(c.clock.Now().Sub(began))
	}
	var env envelope
	if err := json.Unmarshal(resp.body, &env); err != nil {
		return envelope{}, c.badAnswer(r, resp.status, err)
	}
	return env, nil
}

// badAnswer is a success that cannot be read. What a write did is then unknown.
func (c *Client) badAnswer(r *request, status int, err error) *Error {
	e := &Error{
		Op: r.op, Method: r.method, Path: r.path, Status: status, Err: err,
		Message: c.redact.text("the answer is not what PVE sends, check the endpoint and any proxy in front of it: " + err.Error()),
	}
	if r.isWrite() {
		e.Kind = Ambiguous
	}
	return e
}

// noteDate keeps the difference between the server's clock and ours.
func (c *Client) noteDate(h http.Header) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		offset := date.Sub(c.clock.Now())
		c.offset.Store(&offset)
	}
}
