package vm

import (
	"slices"
	"testing"
)

func TestSizes(t *testing.T) {
	for _, v := range []struct {
		text, printed string
		bytes         int64
	}{
		{"32G", "32G", 32 << 30}, {"10.5G", "10752M", 10752 << 20}, {"1024G", "1T", 1 << 40}, {"528K", "528K", 528 << 10},
		{"4194304", "4M", 4 << 20}, {"100", "100", 100}, {"2GiB", "2G", 2 << 30}, {"0.5K", "512", 512}, {"0T", "0", 0},
		{"2048T", "2048T", 2048 << 40},
	} {
		bytes, err := ParseSize(v.text)
		if err != nil || bytes != v.bytes || FormatSize(bytes) != v.printed {
			t.Errorf("%q: %d, %v, printed %q; want %d, %q", v.text, bytes, err, FormatSize(bytes), v.bytes, v.printed)
		}
	}
	for _, text := range []string{"", "G", "iB", "10iB", "-1G", "+1G", "1.G", ".5G", "1,5G", "1 G", "10g", "0.3", "0.1K", "9999999999T",
		"1e3"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("%q was read as %d", text, n)
		}
	}
}

func TestVolumes(t *testing.T) {
	for _, v := range []struct {
		volid, storage string
		owner          int
	}{
		{"local-zfs:vm-100-disk-0", "local-zfs", 100},
		{"local-zfs:base-100-disk-0", "local-zfs", 100},
		{"local-zfs:base-100-disk-0/vm-303-disk-0", "local-zfs", 303},
		{"local-zfs:vm-100-cloudinit", "local-zfs", 100},
		{"local-zfs:vm-100-state-before", "local-zfs", 100},
		{"local2:100/vm-100-disk-0.qcow2", "local2", 100},
		{"local2:100/mine.raw", "local2", 100},
		{"local2:100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2", "local2", 101},
		{"local-zfs:subvol-105-disk-1", "local-zfs", 105},
		{"local:iso/vm-100-disk-0.iso", "local", 0},
		{"local:backup/vzdump-qemu-100-2024.vma", "local", 0},
		{"local:import/vm-100-disk-0.qcow2", "local", 0},
		{"local-zfs:vm-abc-disk-0", "local-zfs", 0},
		{"local-zfs:vm-100", "local-zfs", 0},
		{"local-zfs:vm-99999999999999999999-disk-0", "local-zfs", 0},
	} {
		owner, ok := VolumeOwner(v.volid)
		if !IsVolume(v.volid) || VolumeStorage(v.volid) != v.storage || owner != v.owner && ok || ok != (v.owner > 0) {
			t.Errorf("%s: storage %q, owner %d, %t", v.volid, VolumeStorage(v.volid), owner, ok)
		}
	}
	for _, s := range []string{"", "none", "cdrom", "/dev/sdb", "local-zfs:32", "local-zfs:10.5", "local-zfs:cloudinit", "local-zfs:", ":32",
		"-a:vm-1-disk-0", "a:vm-1-disk-0"} {
		if IsVolume(s) || VolumeStorage(s) != "" {
			t.Errorf("%q was taken for a volume", s)
		}
		if _, ok := VolumeOwner(s); ok {
			t.Errorf("%q has an owner", s)
		}
	}
}

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
