package snapshot

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// TestNameOfABackup: PVE removes no snapshot with the name vzdump of a VM's disks (pve-guest-common AbstractConfig.pm
// snapshot_delete). Its comparison minds the case.
func TestNameOfABackup(t *testing.T) {
	for name, want := range map[string]bool{"vzdump": false, "Vzdump": true, "vzdump1": true, "current": false} {
		var resp validator.StringResponse
		notReserved().ValidateString(t.Context(), validator.StringRequest{ConfigValue: types.StringValue(name)}, &resp)
		if got := !resp.Diagnostics.HasError(); got != want {
			t.Errorf("%q is accepted: %t", name, got)
		}
	}
}

// TestDescriptionDoesNotEndWithWhiteSpace: PVE drops whatever Perl takes for white space (s/\s+$// of decoded text,
// qemu-server QemuServer.pm parse_vm_config), a no-break space as well as a form feed. Every plan after the apply would
// bring it back.
func TestDescriptionDoesNotEndWithWhiteSpace(t *testing.T) {
	for text, want := range map[string]bool{"one\u00a0": false, "one\u2003": false, "one\f": false, "one\u0085": false,
		"one ":   false,
		"\u00a0": false, "one\u00a0two": true, "\u00a0one": true, "eins ä": true, "one\u200b": true} {
		var resp validator.StringResponse
		trimmed().ValidateString(t.Context(), validator.StringRequest{ConfigValue: types.StringValue(text)}, &resp)
		if got := !resp.Diagnostics.HasError(); got != want {
			t.Errorf("%q is accepted: %t", text, got)
		}
	}
}
