package state

import (
	"slices"
	"testing"
	"time"
)

// TestUsedBy: a guest uses a volume by its id, by each of its paths, by a part or a snapshot of it, and as a backing file; not by a
// directory above it.
func TestUsedBy(t *testing.T) {
	for name, c := range map[string]struct {
		config map[string]string
		want   []string
	}{
		"an id":            {map[string]string{"scsi0": "local-zfs:vm-300-disk-0,size=1G"}, []string{"vm-300-disk-0"}},
		"a device of ZFS":  {map[string]string{"scsi0": "/dev/zvol/rpool/data/vm-300-disk-0,size=1G"}, []string{"vm-300-disk-0"}},
		"a partition":      {map[string]string{"mp0": "/dev/zvol/rpool/data/vm-300-disk-0-part1,mp=/a"}, []string{"vm-300-disk-0"}},
		"a snapshot":       {map[string]string{"dev0": "path=/dev/zvol/rpool/data/vm-300-disk-0@a"}, []string{"vm-300-disk-0"}},
		"arguments":        {map[string]string{"args": "-drive file=/dev/pve/vm-300-disk-1,if=virtio"}, []string{"vm-300-disk-1"}},
		"the mapper":       {map[string]string{"scsi0": "/dev/mapper/pve-vm--300--disk--1"}, []string{"vm-300-disk-1"}},
		"udev":             {map[string]string{"scsi0": "/dev/disk/by-id/dm-name-pve-vm--300--disk--1"}, []string{"vm-300-disk-1"}},
		"a raw line":       {map[string]string{"lxc.mount.entry": "/rpool/data/subvol-300-disk-2/srv srv none bind 0 0"}, []string{"subvol-300-disk-2"}},
		"a file":           {map[string]string{"mp0": "/var/lib/vz/images/300/vm-300-disk-0.raw,mp=/a"}, []string{"300/vm-300-disk-0.raw"}},
		"a backing file":   {map[string]string{"scsi0": "local2:600/vm-600-disk-0.qcow2"}, []string{"600/vm-600-disk-0.qcow2", "300/vm-300-disk-0.raw"}},
		"a chain":          {map[string]string{"scsi0": "local2:600/vm-600-disk-1.qcow2"}, []string{"600/vm-600-disk-1.qcow2", "600/vm-600-disk-0.qcow2", "300/vm-300-disk-0.raw"}},
		"its directory":    {map[string]string{"mp0": "/var/lib/vz/images,mp=/a", "mp1": "/rpool/data,mp=/b"}, nil},
		"another name":     {map[string]string{"scsi0": "/dev/pve/vm-300-disk-11"}, nil},
		"a text":           {map[string]string{"description": "/dev/pve/vm-300-disk-1"}, nil},
		"of another place": {map[string]string{"scsi0": "/dev/vg/vm-300-disk-1"}, nil},
	} {
		w := Default([]string{"pve1", "pve2"})
		for _, v := range []*Volume{{Storage: "local-zfs", Name: "vm-300-disk-0"}, {Storage: "local-lvm", Name: "vm-300-disk-1"},
			{Storage: "local-zfs", Name: "subvol-300-disk-2"}, {Storage: "local", Name: "300/vm-300-disk-0.raw"},
			{Storage: "local2", Name: "600/vm-600-disk-0.qcow2", Backing: "/var/lib/vz/images/300/vm-300-disk-0.raw"},
			{Storage: "local2", Name: "600/vm-600-disk-1.qcow2", Backing: "vm-600-disk-0.qcow2"}} {
			v.Content, v.Node = "images", "pve1"
			w.Put(v)
		}
		var got []string
		for _, v := range UsedBy(w, &Guest{VMID: 600, Node: "pve1", Pending: c.config}) {
			got = append(got, v.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if far := UsedBy(w, &Guest{VMID: 600, Node: "pve2", Config: c.config}); len(far) > 0 {
			t.Errorf("%s, on another node: %v", name, far)
		}
	}
}

// TestDeviceByItsPathIsBusy: the kernel frees no device that a guest has open, by whatever name.
func TestDeviceByItsPathIsBusy(t *testing.T) {
	w := Default([]string{"pve1"})
	w.Put(&Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-300-disk-1", VMID: 300, Content: "images"})
	g := w.Guests[8000]
	g.Running = &Running{StartedAt: time.Now(), Booted: map[string]string{"scsi1": "/dev/mapper/pve-vm--300--disk--1,size=1G"}}
	if _, err := w.Free("pve1", "local-lvm", "vm-300-disk-1"); err == nil {
		t.Error("it was freed")
	}
	g.Running = nil
	if _, err := w.Free("pve1", "local-lvm", "vm-300-disk-1"); err != nil {
		t.Error(err)
	}
}
