package access

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	bigendian "encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// createTicket is POST /access/ticket (access-control API2/AccessControl.pm, create_ticket).
func createTicket(r *engine.Request) (any, error) {
	e, user := r.Engine, r.Params["username"]
	if realm := r.Params["realm"]; realm != "" && !strings.HasSuffix(user, "@"+realm) {
		user += "@" + realm
	}
	needsCode, err := login(e, user, r.Params["password"], r.Params["otp"], r.Params["tfa-challenge"])
	if err != nil {
		return nil, &perl.Error{Status: 401, Message: "authentication failure"}
	}
	data := map[string]any{"username": user, "CSRFPreventionToken": NewCSRFToken(e, user)}
	if needsCode {
		data["NeedTFA"] = 1
		data["ticket"] = NewTicket(e, "PVE", "!tfa!"+url.QueryEscape(`{"totp":true,"recovery":"unavailable"}`+user))
		return data, nil
	}
	data["ticket"] = NewTicket(e, "PVE", user)
	data["cap"] = capabilities(e, r.W, auth.Identity{ID: user, User: user})
	if len(r.W.Nodes) > 1 && auth.Has(r.W, auth.Identity{ID: user, User: user}, "/", "Sys.Audit") {
		data["clustername"] = engine.ClusterName
	}
	return data, nil
}

// login accepts a password, a ticket of the same user or of root@pam, or the second factor to a challenge.
func login(e *engine.Engine, user, password, otp, challenge string) (needsCode bool, err error) {
	if err := CheckUser(e.World, user); err != nil {
		return false, err
	}
	account := e.World.Users[user]
	if challenge != "" {
		subject, ok := VerifyTicket(e, "PVE", challenge)
		subject, err := url.QueryUnescape(subject)
		code, isTOTP := strings.CutPrefix(password, "totp:")
		if !ok || err != nil || !strings.HasPrefix(subject, "!tfa!") || !strings.HasSuffix(subject, "}"+user) || !isTOTP {
			return false, fmt.Errorf("bad challenge")
		}
		return false, verifyTOTP(e, account, code)
	}
	if strings.HasPrefix(password, "PVE:") && !strings.HasPrefix(password, "PVE:!tfa!") {
		owner, ok := VerifyTicket(e, "PVE", password)
		if !ok || owner != user && owner != auth.RootUser {
			return false, fmt.Errorf("bad ticket")
		}
		return false, nil
	}
	if account.Password == "" || !hmac.Equal([]byte(account.Password), []byte(password)) {
		return false, fmt.Errorf("wrong password")
	}
	if account.TOTPSecret == "" {
		return false, nil
	}
	if otp != "" {
		return false, verifyTOTP(e, account, otp)
	}
	return true, nil
}

// verifyTOTP checks a code of RFC 6238 (SHA-1, 30 s, six digits), one step of drift allowed either way. No code is
// taken twice, nor one of an earlier step than the last that was taken (proxmox-tfa api/mod.rs verify_totp).
func verifyTOTP(e *engine.Engine, account *state.User, code string) error {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(
		strings.TrimRight(account.TOTPSecret, "=")))
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	now := e.World.Clock.Now()
	for _, drift := range []time.Duration{-totpStep, 0, totpStep} {
		at := now.Add(drift)
		if !hmac.Equal([]byte(TOTP(key, at)), []byte(code)) {
			continue
		}
		step := at.Unix() / int64(totpStep/time.Second)
		if step <= account.TOTPStep {
			return fmt.Errorf("rejecting reused TOTP value")
		}
		account.TOTPStep = step
		return nil
	}
	return fmt.Errorf("totp verification failed")
}

const totpStep = 30 * time.Second

// TOTP is the code of RFC 6238 for a key at a time: SHA-1, six digits.
func TOTP(key []byte, at time.Time) string {
	mac := hmac.New(sha1.New, key)
	var counter [8]byte
	bigendian.BigEndian.PutUint64(counter[:], uint64(at.Unix()/int64(totpStep/time.Second)))
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	from := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%06d", bigendian.BigEndian.Uint32(sum[from:])&0x7fffffff%1_000_000)
}
