package handle

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const (
	ticketLifetime = 2 * time.Hour   // AccessControl.pm, $ticket_lifetime
	ticketGrace    = 5 * time.Minute // $auth_graceperiod: tickets of a node whose clock is ahead
)

// authenticate is the authentication stage (pve-manager HTTPServer.pm, auth_handler). Its refusals are 401 with the text in
// the reason phrase only.
func (s *Server) authenticate(q *httpRequest, path string) (Auth, *answer) {
	auth, refused := s.identify(q, path)
	if refused == nil && q.method == "POST" && uploadPath.MatchString(path) { // no token against forgery, so that this is asked here
		storage := uploadPath.FindStringSubmatch(path)[1]
		if err := s.check(s.world, auth, "/storage/"+storage, []string{"Datastore.AllocateTemplate"}); err != nil {
			return auth, bare(403, flatten(err))
		}
	}
	return auth, refused
}

var uploadPath = regexp.MustCompile(`^/nodes/[^/]+/storage/([^/]+)/upload$`)

// identify finds out who asks.
func (s *Server) identify(q *httpRequest, path string) (Auth, *answer) {
	ticket, token := credentials(q)
	if isOpen(q.method, path) {
		if ticket == "" && token != "" {
			if a, err := s.verifyToken(token); err == nil {
				return a, nil
			}
		}
		return Auth{}, nil
	}
	if ticket == "" && token != "" {
		a, err := s.verifyToken(token)
		if err != nil {
			return Auth{}, bare(401, s.authText(err.Error()))
		}
		return a, nil
	}
	if ticket == "" || strings.HasPrefix(ticket, "PVE:!tfa!") {
		return Auth{}, bare(401, "No ticket")
	}
	user, ok := s.verifyTicket("PVE", ticket)
	if !ok {
		return Auth{}, bare(401, s.authText("permission denied - invalid PVE ticket"))
	}
	if err := usable(s.world, user); err != nil {
		return Auth{}, bare(401, s.authText(err.Error()))
	}
	// An upload is a plain HTML form, which cannot set the header.
	if q.method != "GET" && !strings.HasSuffix(path, "/upload") && !s.verifyCSRF(user, q.header["csrfpreventiontoken"]) {
		return Auth{}, bare(401, "Permission denied - invalid csrf token")
	}
	return Auth{ID: user, User: user}, nil
}

// authText is what a refused identity is told: the detail, or since early 2026 always the same.
func (s *Server) authText(detail string) string {
	if !s.world.Has(state.OneRefusalText) {
		return detail
	}
	return "Authentication failed!"
}

// isOpen lists the methods that need no credentials.
func isOpen(method, path string) bool {
	switch path {
	case "/access/domains":
		return method == "GET"
	case "/access/ticket":
		return method == "GET" || method == "POST"
	case "/access/vncticket", "/access/openid/login", "/access/openid/auth-url":
		return method == "POST"
	}
	return false
}

// credentials are the ticket and the API token of a request; the cookie wins over the header (HTTPServer.pm).
func credentials(q *httpRequest) (ticket, token string) {
	for _, part := range strings.FieldsFunc(q.header["cookie"], func(c rune) bool { return c == ';' || c == ',' }) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(part), "PVEAuthCookie="); ok {
			return unescape(v), ""
		}
	}
	header := q.header["authorization"]
	for _, keyword := range []string{"PVEAPIToken", "PVEAuthCookie"} {
		rest, ok := strings.CutPrefix(header, keyword)
		if !ok || rest == "" || rest[0] != '=' && rest[0] != ' ' {
			continue
		}
		value := unescape(strings.TrimSpace(rest[1:]))
		if keyword == "PVEAPIToken" {
			return "", value
		}
		return value, ""
	}
	return "", ""
}

func (s *Server) verifyToken(value string) (Auth, error) {
	id, secret, ok := strings.Cut(value, "=")
	user, name, isToken := strings.Cut(id, "!")
	if !ok || !isToken || !strings.Contains(user, "@") {
		return Auth{}, fmt.Errorf("invalid token value")
	}
	if err := usable(s.world, user); err != nil {
		return Auth{}, err
	}
	t := s.world.Tokens[id]
	switch {
	case t == nil:
		return Auth{}, fmt.Errorf("no such token '%s' for user '%s'", name, user)
	case t.Expire != 0 && t.Expire < s.world.Clock.Now().Unix():
		return Auth{}, fmt.Errorf("token '%s' access expired", name)
	case subtle.ConstantTimeCompare([]byte(t.Secret), []byte(secret)) != 1:
		return Auth{}, fmt.Errorf("invalid token value!")
	}
	return Auth{ID: id, User: user, IsToken: true}, nil
}

// usable refuses accounts that do not exist, are disabled or have expired (AccessControl.pm, check_user_enabled).
func usable(w *state.World, id string) error {
	u := w.Users[id]
	switch {
	case u == nil:
		return fmt.Errorf("no such user ('%s')", id)
	case u.Disabled:
		return fmt.Errorf("user '%s' is disabled", id)
	case u.Expire != 0 && u.Expire < w.Clock.Now().Unix():
		return fmt.Errorf("user '%s' access expired", id)
	}
	return nil
}

// assemble makes a signed, dated statement "<prefix>:<subject>:<hex time>::<signature>".
func (s *Server) assemble(prefix, subject string) string {
	text := fmt.Sprintf("%s:%s:%08X", prefix, subject, s.world.Clock.Now().Unix())
	return text + "::" + s.sign(text)
}

func (s *Server) sign(text string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// verifyTicket returns whom a ticket names, if it is ours and not too old.
func (s *Server) verifyTicket(prefix, ticket string) (subject string, ok bool) {
	text, signature, found := strings.Cut(ticket, "::")
	if !found || !hmac.Equal([]byte(s.sign(text)), []byte(signature)) {
		return "", false
	}
	rest, ok := strings.CutPrefix(text, prefix+":")
	at := strings.LastIndexByte(rest, ':')
	if !ok || at < 0 || !s.inTime(rest[at+1:]) {
		return "", false
	}
	return rest[:at], true
}

func (s *Server) inTime(hex string) bool {
	issued, err := strconv.ParseInt(hex, 16, 64)
	if err != nil {
		return false
	}
	age := s.world.Clock.Now().Sub(time.Unix(issued, 0))
	return age > -ticketGrace && age < ticketLifetime
}

// csrfToken is the CSRF prevention token of a user: time and signature.
func (s *Server) csrfToken(user string) string {
	stamp := fmt.Sprintf("%08X", s.world.Clock.Now().Unix())
	return stamp + ":" + s.sign(stamp+":"+user)
}

func (s *Server) verifyCSRF(user, token string) bool {
	stamp, signature, ok := strings.Cut(token, ":")
	return ok && s.inTime(stamp) && hmac.Equal([]byte(s.sign(stamp+":"+user)), []byte(signature))
}
