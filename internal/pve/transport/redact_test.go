package transport

import (
	"fmt"
	"testing"
)

func TestShortSecretsDoNotEatTheMessage(t *testing.T) {
	r := newRedactor(credentials{}, Config{Password: "VM"})
	if got := r.text("VM is locked (backup)"); got != "VM is locked (backup)" {
		t.Errorf("got %q", got)
	}
}

// TestSecretsAreNotForgotten: the password of the first VM of a large run is taken out as surely as that of the last.
func TestSecretsAreNotForgotten(t *testing.T) {
	const vms = 3000
	r := newRedactor(credentials{}, Config{})
	for i := range vms {
		r.learn(Params{"cipassword": fmt.Sprintf("secret-of-vm-%d", i), "name": "visible",
			"sshkeys": fmt.Sprintf("ssh-ed25519 AAAA%d one@host\nssh-ed25519 BBBB%d two@host", i, i)})
	}
	for _, i := range []int{0, 1, vms / 2, vms - 1} {
		if got := r.text(fmt.Sprintf("visible secret-of-vm-%d refused", i)); got != "visible (redacted) refused" {
			t.Errorf("got %q", got)
		}
	}
}

// TestPublicKeysAreNoSecrets: nothing is taken out of a message because it is part of a public key, or a comment of one.
func TestPublicKeysAreNoSecrets(t *testing.T) {
	r := newRedactor(credentials{}, Config{})
	p := Params{"sshkeys": "ssh-ed25519%20AAAA%20admin%0A"}
	r.learn(p)
	if got := r.text("ssh-ed25519 AAAA admin"); got != "ssh-ed25519 AAAA admin" || len(r.secrets) > 0 {
		t.Errorf("got %q, %d secrets", got, len(r.secrets))
	}
	if got := r.params(p); got != "sshkeys=(redacted)" {
		t.Errorf("got %q", got)
	}
}

// TestSecretsInJSON: an answer that was quoted in JSON, by Go or by Perl, shows no part of a secret.
func TestSecretsInJSON(t *testing.T) {
	secret := "pa\"ss\\word<&>é/\u2028x"
	r := newRedactor(credentials{}, Config{Password: secret})
	r.learn(Params{"cipassword": "two\nlines\"of\tit"})
	for _, text := range []string{secret, `pa\"ss\\word\u003c\u0026\u003eé/\u2028x`, `pa\"ss\\word<&>é/` + "\u2028x", `pa\"ss\\word<&>é\/` + "\u2028x",
		"two\nlines\"of\tit", `two\nlines\"of\tit`, `lines\"of\tit`} {
		if got := r.text(`{"errors":{"password":"` + text + `"}}`); got != `{"errors":{"password":"(redacted)"}}` {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// TestLongerSecretsGoFirst: a secret is not cut up by a shorter one that is part of it, whichever was known first.
func TestLongerSecretsGoFirst(t *testing.T) {
	r := newRedactor(credentials{}, Config{Password: "inner"})
	r.learn(Params{"cipassword": "outer-inner-outer"})
	if got := r.text("password outer-inner-outer, or inner"); got != "password (redacted), or (redacted)" {
		t.Errorf("got %q", got)
	}
}

// TestShortSecretAsValue: a secret of under four characters is taken out where it stands as a value.
func TestShortSecretAsValue(t *testing.T) {
	r := newRedactor(credentials{}, Config{Password: "ab"})
	r.learn(Params{"cipassword": "x1"})
	for text, want := range map[string]string{
		`password "ab" is too short`: `password "(redacted)" is too short`,
		"about ab, absent":           "about ab, absent",
		"cipassword=ab, name=abc":    "cipassword=(redacted), name=abc",
		"cipassword: x1":             "cipassword: (redacted)",
		"x10 x1x ax1":                "x10 x1x ax1",
	} {
		if got := r.text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
