package vm

import (
	"reflect"
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

// TestBlankOptions: a blank is no value of an option, whatever type the option has. PVE keeps one that a file has behind the colon
// (qemu-server PVE/QemuServer.pm parse_vm_config: `:\s*(.+?)\s*$`). An empty boot order is a value.
func TestBlankOptions(t *testing.T) {
	rows := 0
	for key := range optionsByKey() {
		if key == "boot" {
			continue
		}
		for _, blank := range []string{"", " ", "\t "} {
			rows++
			if got, want := Decode(map[string]string{key: blank}), Decode(map[string]string{}); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q is read as %+v", key, blank, got)
			}
		}
	}
	t.Logf("%d rows", rows)
}

// TestEmptyDescriptionIsNone: a text of which PVE keeps nothing is no description, whichever way it is read.
func TestEmptyDescriptionIsNone(t *testing.T) {
	for _, text := range []string{"", "0", "\n", " \t\n"} {
		if s := Decode(map[string]string{"description": text}); s.Description != nil {
			t.Errorf("%q is read as %q", text, *s.Description)
		}
	}
}
