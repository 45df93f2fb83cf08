package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

const (
	// ticketRenewal is the age at which a ticket is renewed. PVE takes it for 2 h (access-control AccessControl.pm
	// $ticket_lifetime).
	ticketRenewal  = 90 * time.Minute
	ticketLifetime = 2 * time.Hour
)

// session holds the ticket of a password login, fetched when the first request needs it.
type session struct {
	turn     Turn // guards everything below
	ticket   string
	csrf     string
	issued   time.Time
	otpSpent bool
	totpStep int64 // the last time step whose code was sent: PVE takes a code once
	refusal  error // of the last login, nil where it worked
	refused  time.Time
}

// ticket is what a request carries.
type ticket struct {
	cookie, csrf string
	issued       time.Time
}

// withAuth adds the credentials. A 401 to a ticket leads to a fresh login and one more try, for writes too: PVE checks
// the ticket before it looks at the request (pve-manager HTTPServer.pm auth_handler), so nothing has happened. A ticket
// that has run out meanwhile, as where this machine slept, tells nothing of the identity and does not count as a try.
func (c *Conn) withAuth(next handler) handler {
	if c.creds.identity.IsToken {
		return func(ctx context.Context, r *Request) (*response, error) {
			return next(ctx, r.with(http.Header{"Authorization": {"PVEAPIToken=" + c.creds.token}}))
		}
	}
	return func(ctx context.Context, r *Request) (*response, error) {
		for refused, tried := "", false; ; {
			t, err := c.currentTicket(ctx, refused)
			if err != nil {
				return nil, c.loginFailed(r, err)
			}
			resp, err := next(ctx, r.with(t.header(r)))
			ranOut := c.clock.Now().Sub(t.issued) >= ticketLifetime
			if err != nil || resp.status != http.StatusUnauthorized || tried && !ranOut {
				return resp, err
			}
			refused, tried = t.cookie, tried || !ranOut
		}
	}
}

func (r *Request) with(h http.Header) *Request {
	out := *r
	out.header = h
	return &out
}

func (t ticket) header(r *Request) http.Header {
	h := http.Header{"Cookie": {"PVEAuthCookie=" + url.QueryEscape(t.cookie)}}
	if r.IsWrite() {
		h["CSRFPreventionToken"] = []string{t.csrf} // PVE's spelling; header names ignore case anyway
	}
	return h
}

// loginFailed is the error of a request that could not even be sent.
func (c *Conn) loginFailed(r *Request, err error) *fault.Error {
	e := &fault.Error{Op: r.Op, Method: r.Method, Path: r.Path, Message: c.redact.text(err.Error()), Err: err,
		Unsent: true}
	var login *fault.Error
	if errors.As(err, &login) {
		e.Kind, e.Status, e.Foreign = login.Kind, login.Status, login.Foreign
	}
	return e
}

// currentTicket gives a valid ticket, logging in or renewing when it must. refused is a ticket that PVE did not take.
func (c *Conn) currentTicket(ctx context.Context, refused string) (ticket, error) {
	s := &c.session
	if err := s.turn.Take(ctx); err != nil {
		return ticket{}, err
	}
	defer s.turn.Give()
	age := c.clock.Now().Sub(s.issued)
	switch {
	case s.ticket == "" || s.ticket == refused || age >= ticketLifetime || age < 0:
		s.ticket = ""
		if err := c.login(ctx); err != nil {
			return ticket{}, err
		}
	case age >= ticketRenewal:
		// The old ticket serves as the password, so no second factor is needed. A server that cannot be reached is no
		// reason to throw away a ticket that is still good.
		err := c.requestTicket(ctx, Params{"username": c.creds.identity.User, "password": s.ticket})
		if fault.IsKind(err, fault.Denied) {
			err = c.login(ctx)
		}
		if fault.IsKind(err, fault.Denied) {
			s.ticket = ""
			return ticket{}, err
		}
	}
	return ticket{cookie: s.ticket, csrf: s.csrf, issued: s.issued}, nil
}

// login gets a ticket with the password, and with the second factor when PVE asks for it. A refusal stands for a while:
// each further try would bring the account nearer to being locked.
func (c *Conn) login(ctx context.Context) error {
	s := &c.session
	if s.refusal != nil && c.clock.Now().Sub(s.refused) < loginRefusalLife {
		return s.refusal
	}
	err := c.requestTicket(ctx, Params{"username": c.creds.identity.User, "password": c.creds.password})
	if s.refusal = nil; fault.IsKind(err, fault.Denied) {
		s.refusal, s.refused = err, c.clock.Now()
	}
	return err
}

// ticketAnswer is the data of POST /access/ticket (access-control API2/AccessControl.pm create_ticket).
type ticketAnswer struct {
	Ticket  wire.String `json:"ticket"`
	CSRF    wire.String `json:"CSRFPreventionToken"`
	NeedTFA wire.Bool   `json:"NeedTFA"`
}

func (c *Conn) requestTicket(ctx context.Context, p Params) error {
	t, err := c.postTicket(ctx, p)
	if err != nil {
		return err
	}
	if t.NeedTFA {
		if t, err = c.answerChallenge(ctx, string(t.Ticket)); err != nil {
			return err
		}
	}
	if t.Ticket == "" || t.CSRF == "" || t.NeedTFA {
		return &fault.Error{Op: c.creds.identity.loginOp(), Method: http.MethodPost, Path: ticketPath, Kind: fault.Denied,
			Message: "the server gave no full ticket"}
	}
	s := &c.session
	s.ticket, s.csrf, s.issued = string(t.Ticket), string(t.CSRF), c.clock.Now()
	c.log(ctx, "PVE login", map[string]string{"user": c.creds.identity.User})
	return nil
}

const ticketPath = "/access/ticket"

func (i Identity) loginOp() string { return "log in as " + i.User }

// postTicket makes one request for a ticket, past the chain. Whatever it gives back is a secret from then on. A lost
// answer here is no ambiguity: a ticket that no client has does nothing.
func (c *Conn) postTicket(ctx context.Context, p Params) (ticketAnswer, error) {
	r := &Request{id: oplog.From(ctx).RequestID(), Op: c.creds.identity.loginOp(), Method: http.MethodPost,
		Path: ticketPath, Params: p}
	c.redact.learn(p)
	resp, err := c.exchanges(ctx, r)
	if failure := c.judge(r, resp, err); failure != nil {
		if failure.Kind == fault.Ambiguous {
			failure.Kind = fault.Unavailable
			failure.Message = strings.TrimSuffix(failure.Message, mayHaveEffect)
			if err != nil {
				failure.Message = "no answer to the login: " + c.redact.text(err.Error())
			}
			if ctx.Err() != nil {
				failure.Kind = fault.Unknown
			}
		}
		return ticketAnswer{}, failure
	}
	var env struct {
		Data ticketAnswer `json:"data"`
	}
	if err := json.Unmarshal(resp.body, &env); err != nil {
		failure := c.BadAnswer(r, resp.status, err)
		failure.Kind = fault.Unknown
		return ticketAnswer{}, failure
	}
	c.redact.remember(string(env.Data.Ticket))
	c.redact.remember(string(env.Data.CSRF))
	return env.Data, nil
}
