package pve

import "testing"

// TestFound15ShortSecrets: a secret under four characters is taken out where it stands as a value.
func TestFound15ShortSecrets(t *testing.T) {
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
