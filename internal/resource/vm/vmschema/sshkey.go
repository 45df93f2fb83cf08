package vmschema

import (
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// sshKey accepts public SSH keys, one a line, as they stand in authorized_keys. PVE has ssh-keygen look at each
// (pve-common Tools.pm validate_ssh_public_keys) and says no more than "SSH public key validation error". Blank lines
// are nothing.
func sshKey() validator.String {
	return kit.Check{Want: "must be a public SSH key, such as \"ssh-ed25519 AAAA… ops@example.org\"",
		Wrong: func(value string) string {
			for line := range strings.Lines(value) {
				if wrong := wrongKey(strings.Fields(line)); wrong != "" {
					return wrong
				}
			}
			return ""
		}}
}

// wrongKey says what is wrong with the words of a line: options if any, the type, the key, and a comment.
func wrongKey(words []string) string {
	if len(words) == 0 {
		return ""
	}
	if strings.Contains(words[0], "PRIVATE") || words[0] == "-----BEGIN" {
		return "It is a private key, which must never leave your hands. The public one stands in the file with the suffix " +
			".pub."
	}
	for i, word := range words {
		if !isKeyType(word) {
			continue
		}
		if i+1 == len(words) {
			return "The key is missing behind its type " + word + "."
		}
		return wrongBlob(word, words[i+1])
	}
	return "It names no type of key, such as ssh-ed25519 or ssh-rsa."
}

func isKeyType(word string) bool {
	for _, prefix := range []string{"ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-sha2-"} {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// keyParts is of how many strings a key is made, its type among them (RFC 4253 section 6.6, RFC 5656, RFC 8709, OpenSSH
// PROTOCOL.u2f); 0: certificates and what is newer, of which only the type is looked at.
func keyParts(kind string) int {
	switch {
	case strings.Contains(kind, "-cert-"):
		return 0
	case kind == "ssh-ed25519":
		return 2
	case kind == "ssh-rsa", strings.HasPrefix(kind, "ecdsa-sha2-"), strings.HasPrefix(kind, "sk-ssh-ed25519"):
		return 3
	case strings.HasPrefix(kind, "sk-ecdsa-sha2-"):
		return 4
	case kind == "ssh-dss":
		return 5
	}
	return 0
}

// wrongBlob takes the key itself apart.
func wrongBlob(kind, text string) string {
	blob, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "What follows " + kind + " is not in base64: it is cut off, or was broken by a line end or another character."
	}
	name, rest, ok := sshString(blob)
	if !ok || name != kind {
		return "What follows " + kind + " is no key of this type."
	}
	parts := keyParts(kind)
	for i := 1; i < parts; i++ {
		if _, rest, ok = sshString(rest); !ok {
			return "The key is cut off."
		}
	}
	if parts > 0 && len(rest) > 0 {
		return "The key has something behind its end."
	}
	return ""
}

// sshString takes a string with its length before it off the front (RFC 4251 section 5).
func sshString(blob []byte) (text string, rest []byte, ok bool) {
	if len(blob) < 4 {
		return "", nil, false
	}
	length := binary.BigEndian.Uint32(blob)
	if int64(length) > int64(len(blob)-4) {
		return "", nil, false
	}
	return string(blob[4 : 4+length]), blob[4+length:], true
}
