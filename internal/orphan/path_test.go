package orphan

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestVolumeThatAGuestHasByAPath is no orphan: a guest has it, a partition of it, or a directory in it, by a path of the
// node. With a number that the kernel gave it a guest may have any volume, so nothing is certain.
func TestVolumeThatAGuestHasByAPath(t *testing.T) {
	t.Parallel()
	const subvol, file, raw, thin, thick = "local-zfs:subvol-300-disk-0", "plain:300/subvol-300-disk-0.subvol",
		"fast:300/vm-300-disk-1.raw", "local-lvm:vm-300-disk-2", "thick:vm-300-disk-3.qcow2"
	all := []string{raw, thin, subvol, file, thick}
	mp := func(path string) map[string]string { return map[string]string{"arch": "amd64", "mp0": path + ",mp=/x"} }
	args := func(path string) map[string]string {
		return map[string]string{"args": "-drive file=" + path + ",if=virtio"}
	}
	slot := func(path string) map[string]string { return map[string]string{"scsi5": path + ",size=1G"} }
	for name, c := range map[string]struct {
		config map[string]string
		used   string
		doubts []string // of which nothing is known
	}{
		"another volume":               {config: mp("/rpool/data/subvol-301-disk-0/srv")},
		"a directory of it":            {config: mp("/rpool/data/subvol-300-disk-0/srv"), used: subvol},
		"a slash at its end":           {config: mp("/rpool/data/subvol-300-disk-0/"), used: subvol},
		"a directory of a file system": {config: mp("/mnt/plain/images/300/subvol-300-disk-0.subvol/srv"), used: file},
		"a raw line": {config: map[string]string{"arch": "amd64",
			"lxc": "lxc.mount.entry: /rpool/data/subvol-300-disk-0/srv srv none bind 0 0"}, used: subvol},
		"a raw volume of btrfs":    {config: args("/mnt/fast/images/300/vm-300-disk-1/disk.raw"), used: raw},
		"a snapshot of btrfs":      {config: args("/mnt/fast/images/300/vm-300-disk-1@a/disk.raw"), used: raw},
		"a partition":              {config: slot("/dev/mapper/pve-vm--300--disk--2-part1"), used: thin},
		"a partition of kpartx":    {config: slot("/dev/mapper/pve-vm--300--disk--2p1"), used: thin},
		"another of kpartx":        {config: slot("/dev/mapper/pve-vm--300--disk--2-p1"), used: thin},
		"a snapshot of thin LVM":   {config: slot("/dev/pve/snap_vm-300-disk-2_a"), used: thin},
		"a mapped one":             {config: slot("/dev/mapper/pve-snap_vm--300--disk--2_a"), used: thin},
		"a snapshot of thick LVM":  {config: slot("/dev/thick/snap_vm-300-disk-3_a.qcow2"), used: thick},
		"a snapshot of ZFS":        {config: slot("/dev/zvol/rpool/data/subvol-300-disk-0@a-part1"), used: subvol},
		"a loop device":            {config: slot("/dev/loop3"), doubts: all},
		"a network block device":   {config: slot("/dev/nbd0p1"), doubts: all},
		"a partition of a number":  {config: slot("/dev/zd16p1"), doubts: []string{thin, subvol, thick}},
		"an id of LVM":             {config: slot("/dev/disk/by-id/lvm-pv-uuid-Xg1-ab"), doubts: []string{thin, subvol, thick}},
		"a device of another name": {config: slot("/dev/disk/by-id/ata-DISK_1-part1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.change(func(w *state.World) {
				for id, typ := range map[string]string{"plain": "dir", "fast": "btrfs", "thick": "lvm"} {
					w.Storages[id] = &state.Storage{ID: id, Type: typ, Path: "/mnt/" + id, Content: []string{"images"},
						Nodes: []string{"pve1"}, Total: 1 << 40}
				}
			})
			for _, id := range all {
				storage, volume, _ := strings.Cut(id, ":")
				r.volume(storage, volume, 300)
			}
			guestThat(600, map[bool]string{true: "lxc", false: "qemu"}[c.config["arch"] != ""], c.config)(r)
			var found, doubted []string
			for _, i := range r.find().Items {
				found = append(found, i.ID)
				if i.Certainty == Unknown {
					doubted = append(doubted, i.ID)
				}
			}
			free := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == c.used })
			if !slices.Equal(found, free) || !slices.Equal(doubted, c.doubts) {
				t.Errorf("found %q, of which %q are unknown", found, doubted)
			}
		})
	}
}
