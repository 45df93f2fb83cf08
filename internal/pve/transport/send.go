package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

const (
	dialTimeout = 10 * time.Second
	// shortDial is the patience with one of several endpoints: two repeated SYNs fit in.
	shortDial = 5 * time.Second
	// headerTimeout lies a bit above the 30 s after which pveproxy itself answers 596 (pve-http-server AnyEvent.pm
	// proxy_request).
	headerTimeout = 35 * time.Second
	// idleTimeout lies below the 5 s after which PVE closes an idle connection (AnyEvent.pm, timeout).
	idleTimeout = 4 * time.Second
)

// transports makes the connection pools.
//
// Reads share connections that are dropped before PVE drops them; should one die nevertheless, net/http repeats the
// GET. A write gets a connection of its own, for two reasons. On a reused one a dying connection (idle close, a
// worker of pveproxy that ends after 1000 requests) and a lost answer look the same, so that harmless failures would
// have to be reported as Ambiguous. And net/http repeats requests only on reused connections: on a fresh one a POST
// goes out at most once. The price is a resumed TLS handshake for each write. Files are writes whose answer may take
// longer (sending.patience).
func (cfg Config) transports(t *tls.Config) (reads, writes, files *http.Transport) {
	patience := dialTimeout
	if len(cfg.Endpoints) > 1 {
		patience = shortDial
	}
	dialer := &net.Dialer{Timeout: patience, KeepAlive: 30 * time.Second}
	newTransport := func() *http.Transport {
		tr := &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dialer.DialContext,
			TLSClientConfig:       t.Clone(),
			TLSHandshakeTimeout:   patience,
			ResponseHeaderTimeout: headerTimeout,
			IdleConnTimeout:       idleTimeout,
			MaxIdleConnsPerHost:   cfg.MaxInFlight,
		}
		if cfg.DialContext != nil {
			tr.Proxy, tr.DialContext = nil, cfg.DialContext
		}
		if cfg.DialTLSContext != nil {
			tr.Proxy, tr.DialTLSContext = nil, cfg.DialTLSContext
		}
		return tr
	}
	reads, writes = newTransport(), newTransport()
	writes.DisableKeepAlives = true
	writes.DialContext, writes.DialTLSContext = checking(writes.DialContext), checking(writes.DialTLSContext)
	files = writes.Clone()
	files.ResponseHeaderTimeout = 0
	return reads, writes, files
}

// sendError is a request without an answer.
type sendError struct {
	err      error
	sent     bool // the server may have seen it
	isClosed bool // the caller's context ended, or its check refuses it
	isLocal  bool // it failed on this machine
}

func (s *sendError) Error() string { return s.err.Error() }
func (s *sendError) Unwrap() error { return s.err }

// noAnswerError is our own patience at its end. It is not context.DeadlineExceeded, which would be the caller's.
type noAnswerError struct{ after time.Duration }

func (n noAnswerError) Error() string   { return "no answer within " + n.after.String() }
func (n noAnswerError) Timeout() bool   { return true }
func (n noAnswerError) Temporary() bool { return true }

// sendCounted is send on the operation's account: each try of a request is one there.
func (c *Conn) sendCounted(ctx context.Context, r *Request) (*response, error) {
	ctx, answered := oplog.Send(ctx, oplog.Request{ID: r.id, Method: r.Method, Path: r.Path, Server: r.at.url,
		Write: r.IsWrite()})
	resp, err := c.send(ctx, r)
	if err != nil {
		answered(0)
		return nil, err
	}
	answered(resp.status)
	oplog.From(ctx).Received(int64(len(resp.body)))
	return resp, nil
}

// send is the last link: one HTTP exchange. Its errors are *sendError.
func (c *Conn) send(ctx context.Context, r *Request) (*response, error) {
	if err := cmp.Or(ctx.Err(), oplog.Checked(ctx)); err != nil {
		return nil, &sendError{err: err, isClosed: true}
	}
	if r.File != nil {
		return c.sendFile(ctx, r)
	}
	reqCtx, cancel := context.WithTimeoutCause(ctx, c.timeout, noAnswerError{after: c.timeout})
	defer cancel()
	var sent atomic.Bool
	gotConn := func(httptrace.GotConnInfo) { sent.Store(true) }
	reqCtx = httptrace.WithClientTrace(reqCtx, &httptrace.ClientTrace{GotConn: gotConn})
	resp, err := c.exchange(reqCtx, r, nil)
	if err == nil {
		return resp, nil
	}
	return nil, failedToSend(ctx, reqCtx, err, sent.Load() && !isCut(err))
}

// isCut reports whether a request was cut while it went out, which its own connection shows as a failed write. It has
// no effect: pveproxy hands no request on before its last byte has arrived (pve-http-server AnyEvent.pm,
// authenticate_and_handle_request).
func isCut(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "write"
}

// sendFile sends a body that is read while it is sent. It may take as long as the caller allows, but may not stand
// still. The server does not look at a body before its last byte has arrived.
func (c *Conn) sendFile(ctx context.Context, r *Request) (*response, error) {
	reqCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, err := r.File.begin(reqCtx)
	if err != nil {
		return nil, &sendError{err: err, isLocal: true}
	}
	defer body.Close()
	defer body.watch(cancel)()
	resp, err := c.exchange(reqCtx, r, body)
	oplog.From(ctx).Sent(r.File.Length - body.left.Load())
	if err == nil {
		return resp, nil
	}
	return nil, failedToSend(ctx, reqCtx, err, body.left.Load() <= 0)
}

func failedToSend(ctx, reqCtx context.Context, err error, sent bool) *sendError {
	e := &sendError{err: plainError(err), sent: sent}
	switch {
	case ctx.Err() != nil:
		e.err, e.isClosed = ctx.Err(), true
	case reqCtx.Err() != nil:
		e.err = context.Cause(reqCtx)
	}
	return e
}

func (c *Conn) exchange(ctx context.Context, r *Request, file *sending) (*response, error) {
	req, err := c.newHTTPRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	if file != nil {
		req.Body, req.ContentLength = file, r.File.Length
		req.Header.Set("Content-Type", r.File.ContentType)
	} else {
		oplog.From(ctx).Sent(req.ContentLength)
	}
	transport := c.reads
	switch {
	case file != nil:
		transport = c.files
	case r.IsWrite():
		transport = c.writes
	}
	// RoundTrip and not Client.Do: following a redirect would repeat a write, and send the credentials elsewhere.
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := readAnswer(resp.Body)
	if err != nil {
		return nil, err
	}
	c.noteDate(resp.Header)
	noteAuthority(c, resp.TLS)
	return &response{status: resp.StatusCode, reason: reasonOf(resp), header: resp.Header, body: body}, nil
}

func reasonOf(resp *http.Response) string {
	return strings.TrimSpace(strings.TrimPrefix(resp.Status, strconv.Itoa(resp.StatusCode)))
}

// newHTTPRequest puts parameters into the query of a GET and a DELETE (PVE answers 501 to a body there) and into a
// form body otherwise. url.Values encodes "=", ";" and "," inside values, which PVE's parser needs (AnyEvent.pm
// decode_urlencoded).
func (c *Conn) newHTTPRequest(ctx context.Context, r *Request) (*http.Request, error) {
	values := url.Values{}
	for k, v := range r.Params {
		values.Set(k, v)
	}
	u := r.at.origin + (&url.URL{Path: r.at.basePath + "/api2/json" + r.Path}).EscapedPath()
	var body io.Reader
	switch {
	case r.File != nil:
		body = http.NoBody // the file takes its place
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		body = strings.NewReader(values.Encode())
	case len(values) > 0:
		u += "?" + values.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.GetBody = nil // nothing may ever rewind and repeat a write
	for k, v := range r.header {
		req.Header[k] = v
	}
	req.Header.Set("Accept", "application/json")
	if c.agent != "" {
		req.Header.Set("User-Agent", c.agent)
	}
	return req, nil
}

// plainError drops the URL that net/url puts around errors: our own text names the request.
func plainError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
