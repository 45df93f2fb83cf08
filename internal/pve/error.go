package pve

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// Error is a request that failed: refused by PVE, or without a readable answer.
type Error struct {
	// Op is what was attempted on what: "create VM 100 on node pve1".
	Op string
	// Method and Path are the request, without /api2/json and without parameters.
	Method, Path string
	// Status is the HTTP status, 0 without an answer.
	Status int
	// Kind is what it means.
	Kind Kind
	// Message is PVE's own words, trimmed, or why there was no answer. Never a secret.
	Message string
	// Params is PVE's verdict by parameter, for Invalid.
	Params map[string]string
	// Err is the cause when there was no answer; errors.Is finds a context's error through it.
	Err error

	unsent bool // nothing reached the server: even a write may be tried again
}

// Error is the operation, PVE's words and its verdicts on parameters, in order.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op + ": " + e.Message)
	for i, name := range sortedKeys(e.Params) {
		sep := "; "
		if i == 0 {
			sep = " "
		}
		b.WriteString(sep + name + ": " + e.Params[name])
	}
	return b.String()
}

// Said is what a tool of PVE on a node said when it refused something, as an answer of the API would be.
func Said(op, message string) *Error {
	return &Error{Op: op, Kind: kindOfMessage(message), Message: message}
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// TaskError is a task that PVE accepted and that failed.
type TaskError struct {
	// Op is the task in words: "task qmcreate of VM 100 on node pve1".
	Op string
	// UPID identifies the task.
	UPID UPID
	// ExitStatus is PVE's words.
	ExitStatus string
	// Log is the last lines of its log, oldest first; empty when it could not be fetched.
	Log []string
	// Kind is what ExitStatus means; Ambiguous when the worker was killed or its log is unreadable.
	Kind Kind
}

// Error is the task and its exit status. The log stands in Log.
func (e *TaskError) Error() string { return e.Op + ": " + e.ExitStatus }

// Killed tells whether the worker ended without saying how, by SIGKILL or a crash of the node: locks and volumes of a
// half-done job are still there (pve-common UPID handling, "unexpected status").
func (e *TaskError) Killed() bool { return e.ExitStatus == killedStatus }

// IsUntold tells whether PVE cannot say how the worker ended, since the end of its log is lost (pve-common Tools.pm
// upid_read_status).
func (e *TaskError) IsUntold() bool { return !e.Killed() && kindOfExit(e.ExitStatus) == Ambiguous }

const killedStatus = "unexpected status"

// judge turns an exchange into an *Error, or nil when PVE said yes.
func (c *Client) judge(r *request, resp *response, err error) *Error {
	var known *Error
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
func (c *Client) judgeNoAnswer(r *request, err error) *Error {
	e := &Error{Op: r.op, Method: r.method, Path: r.path, Kind: Unavailable, Message: c.redact.text(err.Error()), Err: err}
	var s *sendError
	if !errors.As(err, &s) {
		s = &sendError{err: err, sent: true}
	}
	e.Err, e.unsent = s.err, !s.sent
	switch {
	case r.isWrite() && s.sent:
		e.Kind = Ambiguous
		e.Message += "; the request was sent and may have taken effect"
	case s.isClosed:
		e.Kind = Unknown
	}
	if hint := certificateHint(s.err); hint != "" {
		e.Message += hint
	}
	return e
}

func (c *Client) judgeAnswer(r *request, resp *response) *Error {
	e := &Error{Op: r.op, Method: r.method, Path: r.path, Status: resp.status}
	message, params := resp.words()
	e.Kind = kindOfAnswer(r.isWrite(), resp.status, message, params)
	if r.isWrite() && resp.isForeign() {
		e.Kind = Ambiguous
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

// isForeign reports whether the answer is none of PVE's: its failures are JSON with a member "data", or have no body at all where
// pveproxy gives up before or beside the request (pve-http-server AnyEvent.pm error, proxy_request). A 429, 502, 503 or 504 never
// is one.
func (resp *response) isForeign() bool {
	switch resp.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusUnauthorized, http.StatusNotImplemented:
		return false
	}
	if resp.status >= 590 || resp.status < 400 || len(bytes.TrimSpace(resp.body)) == 0 {
		return false
	}
	var object map[string]json.RawMessage
	err := json.Unmarshal(resp.body, &object)
	_, has := object["data"]
	return err != nil || !has
}

// words are PVE's message and its verdicts by parameter. Before http-server 5.2.0 the reason phrase is all there is.
func (resp *response) words() (string, map[string]string) {
	if resp.status >= 300 && resp.status < 400 {
		return "the server redirects to " + resp.header.Get("Location") + ", check the endpoint", nil
	}
	var env envelope
	_ = json.Unmarshal(resp.body, &env) // a plain text or empty body is normal for 401, 501 and 59x
	message := strings.TrimSpace(string(env.Message))
	if message == "" {
		message = resp.reason
	}
	if message == "" {
		message = http.StatusText(resp.status)
	}
	if resp.status == http.StatusNotFound {
		message += " (PVE never answers 404, check the endpoint)"
	}
	params := make(map[string]string, len(env.Errors))
	for name, text := range env.Errors {
		params[name] = strings.TrimSpace(string(text))
	}
	return message, params
}
