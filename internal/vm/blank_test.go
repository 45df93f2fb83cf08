package vm

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// TestDescriptionEndsWithAnyBlank: PVE drops what Perl takes for a blank at the end, a no-break space as well, and writes no "0"; each
// would be a change in every plan.
func TestDescriptionEndsWithAnyBlank(t *testing.T) {
	for text, want := range map[string]string{"one\u00a0": "one", "one \u2003\n": "one", "one\f": "one", "\u00a0": "", "0": "", "0\n": "",
		"00": "00", "one\u200b": "one\u200b", "\u00a0one": "\u00a0one"} {
		got := ""
		if read := Decode(map[string]string{"description": text}).Description; read != nil {
			got = *read
		}
		if got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
		if got := property.TrimDescription(text); got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
}
