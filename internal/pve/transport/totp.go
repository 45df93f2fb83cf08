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

// totpTries is how many codes of the secret one login sends. A code that another process of this user has used counts
// as a failure at PVE, and too many in a row lock the factor (proxmox-tfa api/mod.rs).
const totpTries = 3

// answerChallenge sends the second factor. PVE takes each code once and none of an earlier step, also of another
// process (proxmox-tfa api/mod.rs verify_totp, "rejecting reused TOTP value"), and Terraform starts the provider twice
// within seconds: for the plan and for the apply. PVE does not say why it refuses, so a refused code is followed by
// that of the next step. A one-time code from the configuration serves one login.
func (c *Conn) answerChallenge(ctx context.Context, challenge string) (ticketAnswer, error) {
	for try := 1; ; try++ {
		now := c.ServerTime()
		if now.IsZero() {
			now = c.clock.Now()
		}
		code, err := c.session.secondFactor(ctx, c.creds, c.clock, now)
		if err != nil {
			return ticketAnswer{}, err
		}
		t, err := c.postTicket(ctx, Params{"username": c.creds.identity.User, "tfa-challenge": challenge,
			"password": "totp:" + code})
		if !fault.IsKind(err, fault.Denied) || len(c.creds.totp) == 0 {
			return t, err
		}
		if try == totpTries {
			return t, fmt.Errorf("%w (three codes of the TOTP secret in a row: it is another user's, this machine's clock is "+
				"wrong, or other runs log in as this user at the time, who need an API token)", err)
		}
	}
}

func (i Identity) secondFactorDenied(text string) error {
	return &fault.Error{Op: i.loginOp(), Method: http.MethodPost, Path: ticketPath, Kind: fault.Denied,
		Message: text}
}

// secondFactor gives the next code that PVE may take: of this step or the next one (verify_totp, "-1..=1"), and of none
// that this process has sent. It waits where both were sent.
func (s *session) secondFactor(ctx context.Context, creds credentials, clock Clock, now time.Time) (string, error) {
	if i := creds.identity; len(creds.totp) == 0 {
		switch {
		case creds.otp == "":
			return "", i.secondFactorDenied("the user has a second factor: set a TOTP secret or a one-time code, or use " +
				"an API token")
		case s.otpSpent:
			return "", i.secondFactorDenied("the one-time code was used by an earlier login; set a TOTP secret, or use an " +
				"API token")
		}
		s.otpSpent = true
		return creds.otp, nil
	}
	step := max(now.Unix()/totpPeriod, s.totpStep+1)
	if early := time.Unix((step-1)*totpPeriod, 0).Sub(now); early > 0 {
		if err := clock.Sleep(ctx, early); err != nil {
			return "", err
		}
	}
	s.totpStep = step
	return totpCode(creds.totp, step), nil
}
