package pve

import (
	"crypto/sha1" //nolint:gosec // it is PVE's digest, which is compared and protects nothing here
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MayHaveSnapshots reports whether there may be snapshots, or anything else that GET pending does not show. The digest is that of
// the guest's file, all sections of it, as PVE wrote it (qemu-server QemuServer.pm parse_vm_config and write_vm_config,
// pve-container LXC/Config.pm). So where a file of nothing but the options shown has that digest, there is no further section.
// Values that PVE hides, pending ones and a file that was written by hand leave it open.
func (p PendingConfig) MayHaveSnapshots() bool {
	for _, e := range p.Entries {
		if e.HasPending || e.Delete != 0 {
			return true
		}
	}
	return digestOf(p.Current()) != p.Digest
}

// Foretell is the configuration once PVE has given one option another value and changed nothing else. Its digest is "" where that cannot
// be told beforehand: the file has something that is not shown.
func (c GuestConfig) Foretell(option, value string) GuestConfig {
	after := GuestConfig{Values: maps.Clone(c.Values)}
	after.Values[option] = value
	if c.Digest != "" && digestOf(c.Values) == c.Digest {
		after.Digest = digestOf(after.Values)
	}
	return after
}

// digestOf is the digest of a file that has nothing but these options.
func digestOf(values map[string]string) string {
	var file strings.Builder
	if text := strings.TrimRight(values["description"], "\n"); text != "" {
		for _, line := range strings.Split(text, "\n") {
			file.WriteString("#" + encodeText(line) + "\n")
		}
	}
	for _, option := range slices.Sorted(maps.Keys(values)) {
		if option != "description" {
			file.WriteString(option + ": " + values[option] + "\n")
		}
	}
	sum := sha1.Sum([]byte(file.String())) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// encodeText is a line of a description as the file has it (pve-common Tools.pm encode_text).
func encodeText(line string) string {
	var text strings.Builder
	for i := range len(line) {
		if c := line[i]; c < 0x20 || c > 0x7e || c == '%' || c == ':' {
			fmt.Fprintf(&text, "%%%02X", c)
		} else {
			text.WriteByte(c)
		}
	}
	return text.String()
}
