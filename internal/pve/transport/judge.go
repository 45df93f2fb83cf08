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
	return e
}

func (c *Conn) judgeAnswer(r *Request, resp *response) *fault.Error {
	e := &fault.Error{Op: r.Op, Method: r.Method, Path: r.Path, Status: resp.status, Foreign: resp.isForeign()}
	message, params := resp.words()
	switch {
	case resp.isRedirect():
	case e.Foreign:
		params = nil
		e.Kind = fault.Unavailable
		message += " (this is not PVE's answer but that of something in front of it)"
		if r.IsWrite() {
			e.Kind = fault.Ambiguous
			message += mayHaveEffect
		}
	default:
		e.Kind = fault.KindOfAnswer(r.IsWrite(), resp.status, message, params)
		if e.Wordless = resp.isWordless(); e.Wordless {
			message += " (the answer has no text of PVE)"
		}
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

// mayHaveEffect ends the message of a foreign answer to a write.
const mayHaveEffect = "; the request may have taken effect"

// isForeign reports whether the answer is none of PVE's: its failures are JSON with a member "data", or have no body
// at all where pveproxy gives up before or beside the request (pve-http-server AnyEvent.pm error, proxy_request, and
// unshift_read_header for a 401). It sends no WWW-Authenticate, and never a 404, 429, 502, 503, 504 or a redirect.
func (r *response) isForeign() bool {
	switch r.status {
	case http.StatusNotFound, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	}
	if r.status >= 590 {
		return false
	}
	if r.isRedirect() || r.header.Get("Www-Authenticate") != "" {
		return true
	}
	if len(bytes.TrimSpace(r.body)) == 0 {
		return false
	}
	if env, err := r.answer(); err == nil && r.status < 300 {
		return env.Data == nil
	}
	var object map[string]json.RawMessage
	err := json.Unmarshal(r.body, &object)
	_, has := object["data"]
	return err != nil || !has
}

func (r *response) isRedirect() bool { return r.status >= 300 && r.status < 400 }

// isWordless reports whether PVE's text of an error was lost on the way: it is neither in the body, where it stands
// since http-server 5.2.0 (Formatter/Standard.pm prepare_response_data, 9a2112e), nor in the reason phrase.
func (r *response) isWordless() bool {
	env, err := r.answer()
	isStandard := r.reason == "" || r.reason == http.StatusText(r.status)
	return err == nil && isStandard && strings.TrimSpace(string(env.Message)) == "" && len(env.Errors) == 0 &&
		r.status >= 400 && r.status < 590 && r.status != http.StatusUnauthorized
}

// words are PVE's message and its verdicts by parameter. Before http-server 5.2.0 the reason phrase is all there is.
func (r *response) words() (string, map[string]string) {
	if r.isRedirect() {
		return "the server redirects to " + r.header.Get("Location") + ", check the endpoint", nil
	}
	env, _ := r.answer() // an empty body is normal for 401, 501 and 59x
	message := strings.TrimSpace(string(env.Message))
	if message == "" {
		message = r.reason
	}
	if message == "" {
		message = http.StatusText(r.status)
	}
	params := make(map[string]string, len(env.Errors))
	for name, text := range env.Errors {
		params[name] = strings.TrimSpace(string(text))
	}
	return message, params
}
