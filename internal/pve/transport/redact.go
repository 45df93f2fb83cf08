package transport

import (
	"encoding/json"
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
)

// redactor takes secrets out of text: those of the client, and every one that was ever sent as a parameter, since PVE's
// messages and task logs may repeat what they were given. It forgets none.
type redactor struct {
	mu      sync.RWMutex
	secrets []string        // the longest first: a secret must not be cut up by a shorter one inside it
	known   map[string]bool // the same
}

func newRedactor(creds credentials, cfg Config) *redactor {
	r := &redactor{known: map[string]bool{}}
	_, tokenSecret, _ := strings.Cut(creds.token, "=")
	for _, s := range []string{tokenSecret, cfg.Password, cfg.TOTPSecret, cfg.OTP} {
		r.remember(s)
	}
	return r
}

// isSecretParam names the parameters whose values are secrets.
func isSecretParam(name string) bool {
	switch name {
	case "password", "cipassword", "otp", "tfa-challenge", "ticket", "CSRFPreventionToken",
		"confirmation-password", "keys":
		return true
	}
	return false
}

// variants are the shapes in which a secret may come back: as it is, escaped, unescaped, in JSON, line by line.
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
	for _, s := range slices.Clone(all) {
		all = append(all, inJSON(s)...)
	}
	return all
}

// inJSON are the shapes of a text in JSON: as Go writes it, and as Perl does, which escapes neither "<" nor what is not
// ASCII (JSON.pm without ascii); some programs escape "/" as well.
func inJSON(s string) []string {
	escaped, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	perl := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
	return []string{string(escaped[1 : len(escaped)-1]), perl, strings.ReplaceAll(perl, "/", `\/`)}
}

// learn remembers the secrets among the parameters. Public keys are none: sshkeys is left out of lines that show
// parameters, since it is long, and its value may be shown elsewhere.
func (r *redactor) learn(p Params) {
	for name, value := range p {
		switch {
		case isSecretParam(name):
			r.remember(value)
		case name == "url":
			r.learnURL(value)
		}
	}
}

// remember adds a secret for good.
func (r *redactor) remember(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range variants(secret) {
		if s = strings.TrimSpace(s); s == "" || r.known[s] {
			continue
		}
		r.known[s] = true
		at, _ := slices.BinarySearchFunc(r.secrets, s, func(a, b string) int { return len(b) - len(a) })
		r.secrets = slices.Insert(r.secrets, at, s)
	}
}

// text gives s without any known secret, and without those of its URLs.
func (r *redactor) text(s string) string {
	if s == "" {
		return s
	}
	s = withoutURLSecrets(s)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, secret := range r.secrets {
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
		if isSecretParam(name) || name == "sshkeys" {
			value = redacted
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name + "=" + value)
	}
	return r.text(b.String())
}
