package pve

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

// shown is what GET pending shows of a guest with these options.
func shown(digest string, lines ...string) PendingConfig {
	p := PendingConfig{Digest: digest}
	for _, line := range lines {
		key, value, _ := strings.Cut(line, ": ")
		p.Entries = append(p.Entries, PendingValue{Key: key, Value: value, HasValue: true})
	}
	slices.SortFunc(p.Entries, func(a, b PendingValue) int { return strings.Compare(a.Key, b.Key) })
	return p
}

// TestMayHaveSnapshots: answers of an 8.4.21 with their digests, of a VM and of one with a description; and what must
// not be taken for a whole file.
func TestMayHaveSnapshots(t *testing.T) {
	plain := []string{"boot: order=scsi0;ide2;net0", "ide2: local-zfs:vm-301-cloudinit,media=cdrom,size=4M", "kvm: 0", "memory: 64",
		"meta: creation-qemu=7.2.22,ctime=1795182675", "name: c301", "net0: virtio=BC:24:11:8F:5D:DC,bridge=vmbr0",
		"scsi0: local-zfs:vm-301-disk-0,size=1G", "smbios1: uuid=1a04e7cf-30a4-47d0-a963-ca95e6fd43d5",
		"vmgenid: 42541d2f-9092-430d-b92b-ba2d91fd08f9"}
	described := []string{"boot: order=scsi0;net0", "description: stamp-like text", "memory: 64", "meta: creation-qemu=9.2.0,ctime=1795307343",
		"name: bk", "net0: virtio=BC:24:11:00:09:70,bridge=vmbr0", "scsi0: local-zfs:vm-970-disk-0,size=1G",
		"smbios1: uuid=11111111-2222-4333-8444-555555555555", "vmgenid: c97b8e38-05de-4444-8073-04d84e387a74"}
	const digest = "dd21d1050bf40c209757953f9f0bd408573eb45c"
	sum := func(file string) string {
		s := sha1.Sum([]byte(file))
		return hex.EncodeToString(s[:])
	}
	pending := shown(digest, plain...)
	pending.Entries[3].Pending, pending.Entries[3].HasPending = "96", true
	dropped := shown(digest, plain...)
	dropped.Entries[3].Delete = 1
	for what, c := range map[string]struct {
		config PendingConfig
		want   bool
	}{
		"recorded":               {shown(digest, plain...), false},
		"recorded, described":    {shown("5e1abd20223fff7f036c420a35c32e955eb248b8", described...), false},
		"an empty file":          {shown(sum("")), false},
		"text that is encoded":   {shown(sum("#a%3A 100%25 %C3%BC\n#\n#b\nmemory: 64\n"), "description: a: 100% ü\n\nb\n", "memory: 64"), false},
		"a snapshot":             {shown(sum(strings.Join(plain, "\n")+"\n\n[one]\nscsi5: local-zfs:vm-300-disk-0\n"), plain...), true},
		"an option that waits":   {pending, true},
		"an option that will go": {dropped, true},
		"a hidden value":         {shown(sum("cipassword: secret\n"), "cipassword: **********"), true},
		"no digest":              {shown("", plain...), true},
	} {
		if got := c.config.MayHaveSnapshots(); got != c.want {
			t.Errorf("%s: got %t", what, got)
		}
	}
}

// TestForetell: the digest that a file will have is known where the one that it has is that of the options shown.
func TestForetell(t *testing.T) {
	sum := func(file string) string {
		s := sha1.Sum([]byte(file))
		return hex.EncodeToString(s[:])
	}
	config := GuestConfig{Digest: sum("#mark\nmemory: 64\nscsi0: a:vm-1-disk-0,size=1G\n"),
		Values: map[string]string{"scsi0": "a:vm-1-disk-0,size=1G", "memory": "64", "description": "mark"}}
	after := config.Foretell("scsi0", "a:vm-1-disk-0,size=2G")
	want := sum("#mark\nmemory: 64\nscsi0: a:vm-1-disk-0,size=2G\n")
	if after.Digest != want || after.Values["scsi0"] != "a:vm-1-disk-0,size=2G" {
		t.Errorf("got %+v, want digest %s", after, want)
	}
	if config.Values["scsi0"] != "a:vm-1-disk-0,size=1G" {
		t.Error("what was read has changed")
	}
	config.Values["cipassword"] = "**********"
	if after := config.Foretell("scsi0", "a:vm-1-disk-0,size=2G"); after.Digest != "" {
		t.Errorf("foretold of a file that is not wholly shown: %s", after.Digest)
	}
	if after := (GuestConfig{Values: config.Values}).Foretell("memory", "1"); after.Digest != "" {
		t.Errorf("foretold without a digest: %s", after.Digest)
	}
}
