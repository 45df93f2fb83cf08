package transport

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// withFailover sends a request to the endpoint that serves, and when that one fails goes on through the next. A write
// goes to a second one only if it is proved that the first has not passed it on: no write is ever sent twice.
func (c *Conn) withFailover(next handler) handler {
	p := c.endpoints
	if len(p.all) == 1 {
		return func(ctx context.Context, r *Request) (*response, error) { return next(ctx, r.through(p.all[0])) }
	}
	return func(ctx context.Context, r *Request) (*response, error) {
		if r.Path == ticketPath { // comes before the credentials that the rest needs
			return c.tryAll(ctx, r, next)
		}
		_, met, foreign := p.state(p.all[0])
		if foreign != nil {
			return nil, foreign
		}
		if !met {
			if resp, err := c.meet(ctx, r, next); resp != nil || err != nil {
				return resp, err
			}
		}
		return c.tryAll(ctx, r, next)
	}
}

func (r *Request) through(e *endpoint) *Request {
	out := *r
	out.at = e
	return &out
}

// tryAll sends a request to one endpoint after the other, until one takes it.
func (c *Conn) tryAll(ctx context.Context, r *Request, next handler) (*response, error) {
	p := c.endpoints
	var failed []error
	e := p.current()
	for {
		resp, err := c.tryOne(ctx, r, e, next)
		if err == nil && resp.status == statusNoNode && r.node() != "" && r.File == nil {
			return c.tryAround(ctx, r, e, resp, next)
		}
		if !isGone(ctx, resp, err) {
			return resp, err
		}
		to := p.after(e)
		c.moveOn(ctx, e, to, err)
		if failed = append(failed, err); len(failed) == len(p.all) && err != nil {
			return nil, allFailed(failed)
		}
		if len(failed) == len(p.all) || r.IsWrite() && wasSent(err) {
			return resp, err
		}
		e = to
	}
}

// tryOne sends a request to one endpoint, which first shows what cluster it is of if that is not known yet.
func (c *Conn) tryOne(ctx context.Context, r *Request, e *endpoint, next handler) (*response, error) {
	if proven, _, _ := c.endpoints.state(e); !proven && r.Path != ticketPath {
		resp, err := c.prove(ctx, r, e, next)
		var failed *sendError
		if errors.As(err, &failed) { // the question was sent, but not the request
			return nil, &sendError{err: failed.err, isClosed: failed.isClosed}
		}
		if resp != nil || err != nil {
			return resp, err
		}
	}
	return next(ctx, r.through(e))
}

// statusNoNode is a pveproxy's that could not connect to the node which the request is for, so that nothing was
// passed on (pve-http-server AnyEvent.pm proxy_request; AnyEvent::HTTP, 595).
const statusNoNode = 595

// tryAround asks a second endpoint when one cannot reach a node. Where both cannot, it is the node that is not there:
// no further endpoint is asked, nor for a while when it is about that node.
func (c *Conn) tryAround(ctx context.Context, r *Request, e *endpoint, refusal *response, next handler) (*response,
	error) {
	p := c.endpoints
	node := r.node()
	if p.isOffline(node, c.clock.Now()) {
		return refusal, nil
	}
	for other := p.after(e); other != e; other = p.after(other) {
		resp, err := c.tryOne(ctx, r, other, next)
		switch {
		case !isGone(ctx, resp, err):
		case r.IsWrite() && wasSent(err):
			return resp, err
		default:
			continue
		}
		if err == nil && resp.status == statusNoNode {
			p.noteOffline(node, c.clock.Now())
			return refusal, nil
		}
		c.moveOn(ctx, e, other, errors.New("it does not reach node "+node))
		return resp, err
	}
	return refusal, nil
}

// node is the node that a request is for, "" if any can answer it.
func (r *Request) node() string {
	rest, ok := strings.CutPrefix(r.Path, "/nodes/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// moveOn has requests go to another endpoint from now on.
func (c *Conn) moveOn(ctx context.Context, from, to *endpoint, err error) {
	if !c.endpoints.leave(from, to) {
		return
	}
	why := "something in front of it answers that it is not available"
	if err != nil {
		why = err.Error()
	}
	c.log(ctx, "PVE endpoint failed, going on through another one",
		map[string]string{"endpoint": from.url, "next": to.url, "error": why})
}

// isGone tells whether an exchange shows that an endpoint is of no use now, whatever was asked: no answer, or one of
// something in front of it that finds no server there. An interrupt shows nothing.
func isGone(ctx context.Context, resp *response, err error) bool {
	var failed *sendError
	if err != nil {
		return ctx.Err() == nil && errors.As(err, &failed) && !failed.isClosed && !failed.isLocal
	}
	switch resp.status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// wasSent tells whether the server may have seen what failed: an answer of something in front of it proves nothing.
func wasSent(err error) bool {
	var failed *sendError
	return err == nil || !errors.As(err, &failed) || failed.sent
}

// allFailed is the error of a request that no endpoint took.
func allFailed(failed []error) error {
	all := &sendError{err: errors.Join(failed...)}
	for _, err := range failed {
		all.sent = all.sent || wasSent(err)
	}
	return all
}
