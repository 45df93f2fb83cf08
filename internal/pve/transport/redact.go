package transport

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	redacted = "(redacted)"
	// minSecret: a shorter secret is taken out where it stands as a value, after a quote, "=" or ":", so that one letter
	// does not turn every message into noise.
	minSecret = 4
	// maxLearnt bounds how many parameter values are remembered; the oldest go first.
	maxLearnt = 512
)

// redactor takes secrets out of text: those of the client, and every sensitive parameter value that was ever sent,
// since PVE's messages and task logs may repeat what they were given.
type redactor struct {
	mu     sync.RWMutex
	fixed  []string
	learnt []string
}

func newRedactor(creds credentials, cfg Config) *redactor {
	r := &redactor{}
	_, tokenSecret, _ := strings.Cut(creds.token, "=")
	for _, s := range []string{tokenSecret, cfg.Password, cfg.TOTPSecret, cfg.OTP} {
		r.fixed = append(r.fixed, variants(s)...)
	}
	return r
}

// isSecretParam names the parameters whose values are never shown.
func isSecretParam(name string) bool {
	switch name {
	case "password", "cipassword", "sshkeys", "otp", "tfa-challenge", "ticket", "CSRFPreventionToken",
		"confirmation-password", "keys":
		return true
	}
	return false
}

// variants are the shapes in which a secret may come back: as it is, escaped, unescaped, line by line.
func variants(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	if s, err := url.PathUnescape(secret); err == nil {
		all = append(all, s)
	}
	for _, s := range slices.Clone(all) {
		if lines := strings.Split(s, "\n"); len(lines) > 1 {
			all = append(all, lines...)
		}
	}
	var out []string
	for _, s := range all {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	// The longest first: a secret must not be cut up by a shorter one inside it.
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// learn remembers the sensitive values among the parameters.
func (r *redactor) learn(p Params) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, value := range p {
		if !isSecretParam(name) {
			continue
		}
		for _, s := range variants(value) {
			if slices.Contains(r.fixed, s) || slices.Contains(r.learnt, s) {
				continue
			}
			if len(r.learnt) >= maxLearnt {
				r.learnt = r.learnt[1:]
			}
			r.learnt = append(r.learnt, s)
		}
	}
}

// remember adds a secret of the client's own for good: a ticket.
func (r *redactor) remember(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range variants(secret) {
		if !slices.Contains(r.fixed, s) {
			r.fixed = append(r.fixed, s)
		}
	}
}

// text gives s without any known secret.
func (r *redactor) text(s string) string {
	if s == "" {
		return s
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, secret := range r.fixed {
		s = without(s, secret)
	}
	for _, secret := range r.learnt {
		s = without(s, secret)
	}
	return s
}

// without is a text without a secret.
func without(s, secret string) string {
	if len(secret) >= minSecret {
		return strings.ReplaceAll(s, secret, redacted)
	}
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(s[from:], secret)
		if i < 0 {
			b.WriteString(s[from:])
			return b.String()
		}
		begin, end := from+i, from+i+len(secret)
		b.WriteString(s[from:begin])
		after, _ := utf8.DecodeRuneInString(s[end:])
		if !strings.ContainsRune(`'"=:`, before(s[:begin])) || unicode.IsLetter(after) || unicode.IsDigit(after) {
			b.WriteString(secret)
		} else {
			b.WriteString(redacted)
		}
		from = end
	}
}

// before is the last character of a text, spaces aside.
func before(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimRight(s, " "))
	return r
}

// Params prints parameters in order, without the values of sensitive ones.
func (r *redactor) params(p Params) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		value := p[name]
		if isSecretParam(name) {
			value = redacted
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name + "=" + value)
	}
	return r.text(b.String())
}
