package cloudinit

import (
	"net/url"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// EncodeSSHKeys joins keys and percent-encodes them as the option sshkeys wants it: everything but letters, digits and
// -_.!~*'() (qemu-server Cloudinit; a form body encodes it once more). No key at all gives "".
func EncodeSSHKeys(keys []string) string {
	return property.PercentEncode(strings.Join(cleanLines(keys), "\n"))
}

// DecodeSSHKeys is the inverse. It drops blank lines and white space around a line; text with broken escapes is taken
// as it is.
func DecodeSSHKeys(value string) []string {
	plain, err := url.PathUnescape(value) // "+" stands for itself here
	if err != nil {
		plain = value
	}
	return cleanLines([]string{plain})
}

func cleanLines(texts []string) []string {
	var out []string
	for _, t := range texts {
		for line := range strings.SplitSeq(t, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
	}
	return out
}
