package vmschema

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func TestSSHKey(t *testing.T) {
	const ed25519 = "AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN"
	for value, want := range map[string]string{
		"ssh-ed25519 " + ed25519 + " ops@example.org":                    "",
		"ssh-ed25519 " + ed25519 + " a comment of words\n":               "",
		"ssh-ed25519 " + ed25519 + " a\r\nssh-ed25519 " + ed25519 + " b": "",
		"no-pty,command=\"echo hi\" ssh-ed25519 " + ed25519:              "",
		"": "",
		"ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAAAA a": "",
		"ssh-ed25519":                                     "missing",
		"ops@example.org":                                 "names no type",
		ed25519 + " ops@example.org":                      "names no type",
		"ssh-ed25519 " + ed25519[:40] + " ops":            "cut off",
		"ssh-ed25519 " + ed25519[:41] + " ops":            "not in base64",
		"ssh-rsa " + ed25519 + " ops":                     "no key of this type",
		"ssh-ed25519 " + ed25519 + "AAAA ops":             "behind its end",
		"ssh-ed25519 AA ops":                              "not in base64",
		"ssh-ed25519 AAAA ops":                            "no key of this type",
		"ssh-ed25519 " + ed25519 + "\nssh-ed25519 broken": "not in base64",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nx":          "private key",
	} {
		var resp validator.StringResponse
		sshKey().ValidateString(t.Context(), validator.StringRequest{Path: path.Root("k"), ConfigValue: types.StringValue(value)}, &resp)
		text := ""
		for _, d := range resp.Diagnostics {
			text += d.Detail()
		}
		if (text == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%q: %q, want %q", value, text, want)
		}
	}
}
