package vm

import (
	"net/url"
	"strings"
)

// EncodeSSHKeys joins keys and percent-encodes them as the option sshkeys wants it: everything but letters, digits and
// -_.!~*'() (qemu-server Cloudinit; a form body encodes it once more). No key at all gives "".
func EncodeSSHKeys(keys []string) string { return percentEncode(strings.Join(cleanLines(keys), "\n")) }

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

// percentEncode escapes for PVE's format "urlencoded".
func percentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if isLetter(c) || isDigit(c) || strings.IndexByte("-_.!~*'()", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}

// parseEscaped reads a sub-key of format "urlencoded".
func parseEscaped(s string) (string, bool) {
	plain, err := url.PathUnescape(s)
	return plain, err == nil
}
