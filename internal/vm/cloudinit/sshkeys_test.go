package cloudinit

import (
	"slices"
	"testing"
)

func TestSSHKeys(t *testing.T) {
	keys := []string{"ssh-ed25519 AAAA+/= me@x", "ssh-rsa BBBB ünï"}
	encoded := EncodeSSHKeys(keys)
	if want := "ssh-ed25519%20AAAA%2B%2F%3D%20me%40x%0Assh-rsa%20BBBB%20%C3%BCn%C3%AF"; encoded != want {
		t.Errorf("encoded %q, want %q", encoded, want)
	}
	for _, stored := range []string{encoded, encoded + "%0A", encoded + "%0D%0A%0A", "%0a" + encoded} {
		if got := DecodeSSHKeys(stored); !slices.Equal(got, keys) {
			t.Errorf("%q decodes to %q", stored, got)
		}
	}
	if got := EncodeSSHKeys([]string{" a \n", "", "b\nc"}); got != "a%0Ab%0Ac" {
		t.Errorf("untidy keys encode to %q", got)
	}
	if DecodeSSHKeys("") != nil || EncodeSSHKeys(nil) != "" {
		t.Error("no keys are not nothing")
	}
}
