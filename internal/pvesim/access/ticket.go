package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const (
	ticketLifetime = 2 * time.Hour   // AccessControl.pm, $ticket_lifetime
	ticketGrace    = 5 * time.Minute // $auth_graceperiod: tickets of a node whose clock is ahead
)

// VerifyToken finds the identity of an API token, "user@realm!name=secret". The error is the reason of the 401.
func VerifyToken(e *engine.Engine, value string) (auth.Identity, error) {
	id, secret, ok := strings.Cut(value, "=")
	user, name, isToken := strings.Cut(id, "!")
	if !ok || !isToken || !strings.Contains(user, "@") {
		return auth.Identity{}, fmt.Errorf("invalid token value")
	}
	if err := CheckUser(e.World, user); err != nil {
		return auth.Identity{}, err
	}
	t := e.World.Tokens[id]
	switch {
	case t == nil:
		return auth.Identity{}, fmt.Errorf("no such token '%s' for user '%s'", name, user)
	case t.Expire != 0 && t.Expire < e.World.Clock.Now().Unix():
		return auth.Identity{}, fmt.Errorf("token '%s' access expired", name)
	case subtle.ConstantTimeCompare([]byte(t.Secret), []byte(secret)) != 1:
		return auth.Identity{}, fmt.Errorf("invalid token value!")
	}
	return auth.Identity{ID: id, User: user, IsToken: true}, nil
}

// CheckUser refuses accounts that do not exist, are disabled or have expired (AccessControl.pm, check_user_enabled).
func CheckUser(w *state.World, id string) error {
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

// NewTicket makes a signed, dated statement "<prefix>:<subject>:<hex time>::<signature>".
func NewTicket(e *engine.Engine, prefix, subject string) string {
	text := fmt.Sprintf("%s:%s:%08X", prefix, subject, e.World.Clock.Now().Unix())
	return text + "::" + sign(e, text)
}

func sign(e *engine.Engine, text string) string {
	mac := hmac.New(sha256.New, e.Key)
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// VerifyTicket returns whom a ticket names, if it is ours and not too old.
func VerifyTicket(e *engine.Engine, prefix, ticket string) (subject string, ok bool) {
	text, signature, found := strings.Cut(ticket, "::")
	if !found || !hmac.Equal([]byte(sign(e, text)), []byte(signature)) {
		return "", false
	}
	rest, ok := strings.CutPrefix(text, prefix+":")
	at := strings.LastIndexByte(rest, ':')
	if !ok || at < 0 || !inTime(e, rest[at+1:]) {
		return "", false
	}
	return rest[:at], true
}

func inTime(e *engine.Engine, hex string) bool {
	issued, err := strconv.ParseInt(hex, 16, 64)
	if err != nil {
		return false
	}
	age := e.World.Clock.Now().Sub(time.Unix(issued, 0))
	return age > -ticketGrace && age < ticketLifetime
}

// NewCSRFToken is the CSRF prevention token of a user: time and signature.
func NewCSRFToken(e *engine.Engine, user string) string {
	stamp := fmt.Sprintf("%08X", e.World.Clock.Now().Unix())
	return stamp + ":" + sign(e, stamp+":"+user)
}

// VerifyCSRF reports whether a CSRF prevention token is the user's and not too old.
func VerifyCSRF(e *engine.Engine, user, token string) bool {
	stamp, signature, ok := strings.Cut(token, ":")
	return ok && inTime(e, stamp) && hmac.Equal([]byte(sign(e, stamp+":"+user)), []byte(signature))
}
