package handle

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	bigendian "encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// createTicket is POST /access/ticket (access-control API2/AccessControl.pm, create_ticket).
func createTicket(r *Request) (any, error) {
	s, user := r.Server, r.Params["username"]
	if realm := r.Params["realm"]; realm != "" && !strings.HasSuffix(user, "@"+realm) {
		user += "@" + realm
	}
	needsCode, err := s.login(user, r.Params["password"], r.Params["otp"], r.Params["tfa-challenge"])
	if err != nil {
		return nil, &Error{Status: 401, Message: "authentication failure"}
	}
	data := map[string]any{"username": user, "CSRFPreventionToken": s.csrfToken(user)}
	if needsCode {
		data["NeedTFA"] = 1
		data["ticket"] = s.assemble("PVE", "!tfa!"+url.QueryEscape(`{"totp":true,"recovery":"unavailable"}`+user))
		return data, nil
	}
	data["ticket"] = s.assemble("PVE", user)
	data["cap"] = s.capabilities(r.W, Auth{ID: user, User: user})
	if len(r.W.Nodes) > 1 && s.Has(r.W, Auth{ID: user, User: user}, "/", "Sys.Audit") {
		data["clustername"] = clusterName
	}
	return data, nil
}

// login accepts a password, a ticket of the same user or of root@pam, or the second factor to a challenge.
func (s *Server) login(user, password, otp, challenge string) (needsCode bool, err error) {
	if err := usable(s.world, user); err != nil {
		return false, err
	}
	account := s.world.Users[user]
	if challenge != "" {
		subject, ok := s.verifyTicket("PVE", challenge)
		subject, err := url.QueryUnescape(subject)
		code, isTOTP := strings.CutPrefix(password, "totp:")
		if !ok || err != nil || !strings.HasPrefix(subject, "!tfa!") || !strings.HasSuffix(subject, "}"+user) || !isTOTP {
			return false, fmt.Errorf("bad challenge")
		}
		return false, s.verifyTOTP(account.TOTPSecret, code)
	}
	if strings.HasPrefix(password, "PVE:") && !strings.HasPrefix(password, "PVE:!tfa!") {
		owner, ok := s.verifyTicket("PVE", password)
		if !ok || owner != user && owner != rootUser {
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
		return false, s.verifyTOTP(account.TOTPSecret, otp)
	}
	return true, nil
}

// verifyTOTP checks a code of RFC 6238 (SHA-1, 30 s, six digits), one step of drift allowed either way.
func (s *Server) verifyTOTP(secret, code string) error {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(strings.TrimRight(secret, "=")))
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	now := s.world.Clock.Now()
	for _, drift := range []time.Duration{0, -totpStep, totpStep} {
		if hmac.Equal([]byte(totp(key, now.Add(drift))), []byte(code)) {
			return nil
		}
	}
	return fmt.Errorf("wrong code")
}

const totpStep = 30 * time.Second

func totp(key []byte, at time.Time) string {
	mac := hmac.New(sha1.New, key)
	var counter [8]byte
	bigendian.BigEndian.PutUint64(counter[:], uint64(at.Unix()/int64(totpStep/time.Second)))
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	from := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%06d", bigendian.BigEndian.Uint32(sum[from:])&0x7fffffff%1_000_000)
}
