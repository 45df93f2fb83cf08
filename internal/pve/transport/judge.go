package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

// judge turns an exchange into an *Error, or nil when PVE said yes.
func (c *Conn) judge(r *Request, resp *response, err error) *fault.Error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	if err != nil {
		return c.judgeNoAnswer(r, err)
	}
	if resp.status >= 200 && resp.status < 300 {
		return nil
	}
	return c.judgeAnswer(r, resp)
}

// judgeNoAnswer: a write that may have reached the server is Ambiguous, whatever cut the line.
func (c *Conn) judgeNoAnswer(r *Request, err error) *fault.Error {
	e := &fault.Error{Op: r.Op, Method: r.Method, Path: r.Path, Kind: fault.Unavailable,
		Message: c.redact.text(err.Error()), Err: err}
	var s *sendError
	if !errors.As(err, &s) {
		s = &sendError{err: err, sent: true}
	}
	e.Err, e.Unsent = s.err, !s.sent
	switch {
	case r.IsWrite() && s.sent:
		e.Kind = fault.Ambiguous
		e.Message += "; the request was sent and may have taken effect"
	case s.isClosed:
		e.Kind = fault.Unknown
	}
	if hint := certificateHint(s.err); hint != "" {
		e.Message += hint
	}
	return e
}

func (c *Conn) judgeAnswer(r *Request, resp *response) *fault.Error {
	e := &fault.Error{Op: r.Op, Method: r.Method, Path: r.Path, Status: resp.status}
	message, params := resp.words()
	e.Kind = fault.KindOfAnswer(r.IsWrite(), resp.status, message, params)
	if r.IsWrite() && resp.isForeign() {
		e.Kind = fault.Ambiguous
		message += " (this is not PVE's answer but that of something in front of it, and the request may have taken effect)"
	}
	e.Message = c.redact.text(message)
	if len(params) > 0 {
		e.Params = make(map[string]string, len(params))
		for name, text := range params {
			e.Params[name] = c.redact.text(text)
		}
	}
	return e
}

// isForeign reports whether the answer is none of PVE's: its failures are JSON with a member "data", or have no body
// at all where pveproxy gives up before or beside the request (pve-http-server AnyEvent.pm error, proxy_request). A
// 429, 502, 503 or 504 never is one.
func (r *response) isForeign() bool {
	switch r.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusUnauthorized, http.StatusNotImplemented:
		return false
	}
	if r.status >= 590 || r.status < 400 || len(bytes.TrimSpace(r.body)) == 0 {
		return false
	}
	var object map[string]json.RawMessage
	err := json.Unmarshal(r.body, &object)
	_, has := object["data"]
	return err != nil || !has
}

// words are PVE's message and its verdicts by parameter. Before http-server 5.2.0 the reason phrase is all there is.
func (r *response) words() (string, map[string]string) {
	if r.status >= 300 && r.status < 400 {
		return "the server redirects to " + r.header.Get("Location") + ", check the endpoint", nil
	}
	var env Answer
	_ = json.Unmarshal(r.body, &env) // a plain text or empty body is normal for 401, 501 and 59x
	message := strings.TrimSpace(string(env.Message))
	if message == "" {
		message = r.reason
	}
	if message == "" {
		message = http.StatusText(r.status)
	}
	if r.status == http.StatusNotFound {
		message += " (PVE never answers 404, check the endpoint)"
	}
	params := make(map[string]string, len(env.Errors))
	for name, text := range env.Errors {
		params[name] = strings.TrimSpace(string(text))
	}
	return message, params
}
