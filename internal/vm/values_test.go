package vm

import (
	"slices"
	"testing"
)

func TestSlots(t *testing.T) {
	config := map[string]string{}
	for _, key := range []string{
		"tpmstate0", "scsi10", "scsi2", "virtio0", "ide2", "sata5", "efidisk0", "ide0", "scsi30",
		"scsi31", "ide4", "sata6", "virtio16", "scsi02", "unused0", "scsihw", "net0", "scsi", "ide-1",
	} {
		config[key] = "x"
	}
	want := []string{"ide0", "ide2", "scsi2", "scsi10", "scsi30", "virtio0", "sata5", "efidisk0", "tpmstate0"}
	if got := Slots(config); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestIdentity(t *testing.T) {
	config := map[string]string{
		"smbios1": "base64=1,manufacturer=UVZN,uuid=7D4E83A9-947b-41d9-acb7-93796cdd896b",
		"meta":    "creation-qemu=7.2.22,ctime=1795182638",
	}
	if got := UUID(config); got != "7d4e83a9-947b-41d9-acb7-93796cdd896b" {
		t.Errorf("uuid %q", got)
	}
	if got := CTime(config); got != "1795182638" {
		t.Errorf("ctime %q", got)
	}
	if UUID(nil) != "" || CTime(nil) != "" || UUID(map[string]string{"smbios1": "a=b,a=c,,"}) != "" {
		t.Error("an identity out of nothing")
	}
}
