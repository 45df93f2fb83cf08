package transport

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238 as PVE uses it
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

const totpPeriod = 30 // seconds; with six digits and SHA-1 what PVE's enrolment makes

func decodeTOTPSecret(s string) ([]byte, error) {
	s = strings.ToUpper(strings.NewReplacer(" ", "", "-", "", "=", "").Replace(s))
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(s)
	if err != nil || len(secret) == 0 {
		return nil, errors.New("the TOTP secret is not base32") // and is not repeated
	}
	return secret, nil
}

// totpCode is the RFC 6238 code of a time step.
func totpCode(secret []byte, step int64) string {
	mac := hmac.New(sha1.New, secret)
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step)) //nolint:gosec // a time step after 1970
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0x0f
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:at+4])&0x7fffffff%1000000)
}

// secondFactor gives the code for a challenge. PVE takes each code once, so a second login within a step waits for the
// next one, and a one-time code from the configuration serves one login.
func (c *Conn) secondFactor(ctx context.Context) (string, error) {
	s := &c.session
	denied := func(text string) error {
		return &fault.Error{Op: c.creds.identity.loginOp(), Method: http.MethodPost, Path: ticketPath, Kind: fault.Denied,
			Message: text}
	}
	if len(c.creds.totp) == 0 {
		switch {
		case c.creds.otp == "":
			return "", denied("the user has a second factor: set a TOTP secret or a one-time code, or use an API token")
		case s.otpSpent:
			return "", denied("the one-time code was used by an earlier login; set a TOTP secret, or use an API token")
		}
		s.otpSpent = true
		return c.creds.otp, nil
	}
	now := c.ServerTime()
	if now.IsZero() {
		now = c.clock.Now()
	}
	step := now.Unix() / totpPeriod
	if step <= s.totpStep {
		next := time.Unix((s.totpStep+1)*totpPeriod, 0)
		if err := c.clock.Sleep(ctx, next.Sub(now)); err != nil {
			return "", err
		}
		step = s.totpStep + 1
	}
	s.totpStep = step
	return totpCode(c.creds.totp, step), nil
}
