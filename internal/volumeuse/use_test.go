package volumeuse

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// TestNamesIn: what names a volume in an option of a VM or container, and what only looks like it.
func TestNamesIn(t *testing.T) {
	for _, c := range []struct{ option, value, want string }{
		{"scsi0", "zfs:vm-100-disk-0,size=1G", "zfs:vm-100-disk-0"},
		{"scsi0", "file=zfs:vm-100-disk-0,size=1G", "zfs:vm-100-disk-0"},
		{"scsi0", "zfs:base-9000-disk-0/vm-100-disk-0,size=1G", "zfs:base-9000-disk-0/vm-100-disk-0"},
		{"scsi0", "dir:100/vm-100-disk-0.qcow2,cache=none", "dir:100/vm-100-disk-0.qcow2"},
		{"scsi0", "/dev/zvol/rpool/data/vm-100-disk-0,size=1G", "/dev/zvol/rpool/data/vm-100-disk-0"},
		{"unused0", "zfs:vm-100-disk-0", "zfs:vm-100-disk-0"},
		{"vmstate", "zfs:vm-100-state-one", "zfs:vm-100-state-one"},
		{"rootfs", "volume=zfs:subvol-200-disk-0,size=8G", "zfs:subvol-200-disk-0"},
		{"mp0", "zfs:vm-100-disk-0,mp=/data,size=1G", "zfs:vm-100-disk-0"},
		{"dev0", "path=/dev/zvol/rpool/data/vm-100-disk-0,mode=0660", "/dev/zvol/rpool/data/vm-100-disk-0"},
		{"efidisk0", "zfs:vm-100-disk-1,efitype=4m", "zfs:vm-100-disk-1"},
		{"ide2", "none,media=cdrom", ""},
		{"cicustom", "user=local:snippets/u.yaml,meta=nfs:snippets/m", "local:snippets/u.yaml nfs:snippets/m"},
		{"hookscript", "local:snippets/hook.pl", "local:snippets/hook.pl"},
		{"net0", "virtio=BC:24:11:00:BD:1D,bridge=vmbr0", ""},
		{"description", "zfs:vm-100-disk-0", ""},
		{"name", "zfs", ""},
		{"memory", "512", ""},
		{"args", "-drive file=/dev/pve/vm-1-disk-0,if=none", "/-drive /file /dev/pve/vm-1-disk-0 /if /none"},
		{"args", `-blockdev {"driver":"rbd","image":"vm-1-disk-0"}`, "/-blockdev /driver /rbd /image /vm-1-disk-0"},
	} {
		if got := strings.Join(namesIn(c.option, c.value), " "); got != c.want {
			t.Errorf("%s: %s: got %q, want %q", c.option, c.value, got, c.want)
		}
	}
}

// TestUsersOf: everything that a guest has counts, but for the guest in question.
func TestUsersOf(t *testing.T) {
	s := &Use{base: newIndex(), replaced: map[int]bool{}, places: Places{
		"zfs": {Type: "zfspool", Pool: "tank"}, "twin": {Type: "zfspool", Pool: "tank"}, "lvm": {Type: "lvm", VGName: "pve"}}}
	vm := pve.Resource{Type: "qemu", VMID: 600, Node: "pve1", Name: "theirs"}
	s.add(Reading{Guest: vm, Config: pve.PendingConfig{Entries: []pve.PendingValue{
		{Key: "scsi0", Value: "zfs:vm-600-disk-0", HasValue: true},
		{Key: "scsi1", Value: "none", Pending: "zfs:vm-300-disk-0", HasValue: true, HasPending: true},
		{Key: "scsi3", Value: "zfs:base-300-disk-4/vm-600-disk-1", HasValue: true},
	}}, Snapshots: map[string]map[string]string{"one": {"scsi2": "zfs:vm-300-disk-1"}}}, true)
	s.add(Reading{Guest: pve.Resource{Type: "lxc", VMID: 700, Node: "pve2"}, Config: pve.PendingConfig{Entries: []pve.PendingValue{
		{Key: "mp0", Value: "/dev/zvol/tank/vm-300-disk-2,mp=/x", HasValue: true}}}}, true)
	for volume, want := range map[string]string{
		"zfs:vm-300-disk-0":                  "[VM 600 (theirs) on node pve1 (scsi1, pending)]",
		"zfs:base-9000-disk-0/vm-300-disk-0": "[VM 600 (theirs) on node pve1 (scsi1, pending)]",
		"zfs:vm-300-disk-1":                  "[VM 600 (theirs) on node pve1 (snapshot one)]",
		"zfs:vm-300-disk-2":                  "[container 700 on node pve2 (mp0)]",
		"lvm:vm-300-disk-0":                  "[]",
		"twin:vm-300-disk-0":                 "[VM 600 (theirs) on node pve1 (scsi1, pending, as zfs:vm-300-disk-0)]",
		"hidden:vm-300-disk-1": "[VM 600 (theirs) on node pve1 (snapshot one, as zfs:vm-300-disk-1, which may be " +
			"the same volume)]",
		"zfs:vm-300-disk-3": "[]",
		"twin:base-300-disk-4": "[VM 600 (theirs) on node pve1 (scsi3, as zfs:base-300-disk-4, the linked clone " +
			"zfs:base-300-disk-4/vm-600-disk-1 of it)]",
		"zfs:base-300-disk-4/vm-601-disk-0": "[]",
	} {
		if got := fmt.Sprint(s.UsersOf(volume, 300)); got != want {
			t.Errorf("%s: %s, want %s", volume, got, want)
		}
	}
	if got := s.UsersOf("zfs:vm-600-disk-0", 600); len(got) > 0 {
		t.Errorf("its own: %v", got)
	}
	if _, ok := s.Of(700); !ok {
		t.Error("container 700 was not read")
	}
	if _, ok := (*Use)(nil).Of(700); ok {
		t.Error("read without a survey")
	}
}

// TestAnswers: a read of a node answers for that node only, and for a while.
func TestAnswers(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, c := range []struct {
		scope, node string
		age         time.Duration
		want        bool
	}{
		{"", "", 0, true}, {"", "pve1", time.Second, true}, {"pve1", "pve1", time.Minute, true},
		{"pve1", "pve2", 0, false}, {"pve1", "", 0, false}, {"", "", time.Minute + 1, false},
	} {
		s := &Use{scope: c.scope, at: now.Add(-c.age)}
		if got := s.Answers(c.node, now, time.Minute); got != c.want {
			t.Errorf("%+v: got %t", c, got)
		}
	}
	if (*Use)(nil).Answers("", now, time.Minute) {
		t.Error("none answers")
	}
}

func TestLastPart(t *testing.T) {
	got := []string{LastPart("zfs:base-1-disk-0/vm-2-disk-0"), LastPart("zfs:vm-2-disk-0"), LastPart("dir:2/vm-2-disk-0.raw"), LastPart("/dev/x/y")}
	if want := []string{"vm-2-disk-0", "vm-2-disk-0", "vm-2-disk-0.raw", "y"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
