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
	for i := range 3 * maxLearnt {
		r.learn(Params{"cipassword": fmt.Sprintf("secret-%d", i), "name": "visible"})
	}
	if len(r.learnt) > maxLearnt {
		t.Errorf("%d values remembered", len(r.learnt))
	}
	if got := r.text(fmt.Sprintf("visible secret-%d", 3*maxLearnt-1)); got != "visible (redacted)" {
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
