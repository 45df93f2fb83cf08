package vm

import (
	"maps"
	"slices"
	"testing"
)

// TestNormalForms: PVE reads several spellings of one value. Each is decoded as the one that is encoded.
func TestNormalForms(t *testing.T) {
	for name, c := range map[string]struct{ spelt, normal map[string]string }{
		"a NIC with nothing but a MAC address": {map[string]string{"net0": "virtio=BC:24:11:00:00:01"},
			map[string]string{"net0": "virtio=BC:24:11:00:00:01"}},
		"a NIC in other words": {map[string]string{"net0": "model=virtio,macaddr=BC:24:11:00:00:01"},
			map[string]string{"net0": "virtio=BC:24:11:00:00:01"}},
		"a blank part of a property string": {map[string]string{"net0": "virtio=BC:24:11:00:00:01, ,bridge=vmbr0"},
			map[string]string{"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0"}},
		"a boolean in capitals": {map[string]string{"net0": "virtio=BC:24:11:00:00:01,firewall=ON"},
			map[string]string{"net0": "virtio=BC:24:11:00:00:01,firewall=1"}},
		"hotplug of nothing":   {map[string]string{"hotplug": " 0 "}, map[string]string{"hotplug": "0"}},
		"hotplug of the usual": {map[string]string{"hotplug": " 1"}, map[string]string{"hotplug": "disk,network,usb"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Encode(Decode(c.spelt)); !maps.Equal(got, c.normal) {
				t.Errorf("%v is encoded as %v, want %v", c.spelt, got, c.normal)
			}
			if d := Diff(Decode(c.spelt), Decode(c.normal)); !d.Empty() {
				t.Errorf("%v and %v differ by %+v", c.spelt, c.normal, d)
			}
		})
	}
}

// TestSMBIOSTextsThatNeedNoBase64: PVE takes a text of letters and digits that ends in two "=" as it is.
func TestSMBIOSTextsThatNeedNoBase64(t *testing.T) {
	for serial, want := range map[string]string{"ab==": "serial=ab==", "ab===": "base64=1,serial=YWI9PT0=", "a b": "base64=1,serial=YSBi"} {
		if got := Encode(Spec{SMBIOS: SMBIOS{Serial: new(serial)}})["smbios1"]; got != want {
			t.Errorf("%q is sent as %q, want %q", serial, got, want)
		}
	}
}

// TestLegacyBootOfABlankOption: a blank boot order is none, so no order in the old notation either.
func TestLegacyBootOfABlankOption(t *testing.T) {
	for _, c := range []struct {
		config map[string]string
		legacy bool
	}{
		{map[string]string{"boot": "  "}, false},
		{map[string]string{"boot": " cd "}, true},
		{map[string]string{"boot": "order=scsi0"}, false},
		{map[string]string{bootDiskOption: "scsi0"}, true},
		{map[string]string{bootDiskOption: "scsi0", "boot": " "}, false},
	} {
		if got := IsLegacyBoot(c.config); got != c.legacy {
			t.Errorf("%v: old notation %t, want %t", c.config, got, c.legacy)
		}
	}
	if got := Decode(map[string]string{"hotplug": "0"}).Hotplug; got == nil || !slices.Equal(got, []string{}) {
		t.Errorf("hotplug of nothing is %v", got)
	}
}
