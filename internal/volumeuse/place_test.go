package volumeuse

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestPlaces: when two storages are one place, by what each type points to.
func TestPlaces(t *testing.T) {
	dir := func(path string) pve.StorageConfig { return pve.StorageConfig{Type: "dir", Path: path} }
	mount := func(path string) pve.StorageConfig {
		return pve.StorageConfig{Type: "dir", Path: path, Mountpoint: "1"}
	}
	disk := mount("/mnt/pve/ssd")
	disk.ID, disk.Nodes = "ssd", "pve1,pve2"
	nowhere := disk
	nowhere.Nodes = ""
	named := disk
	named.Mountpoint = "/mnt/pve/ssd"
	nfs := func(server, export string) pve.StorageConfig {
		return pve.StorageConfig{Type: "nfs", Server: server, Export: export, Path: "/mnt/pve/" + server + export}
	}
	lvm := func(kind, group string) pve.StorageConfig { return pve.StorageConfig{Type: kind, VGName: group} }
	rbd := func(pool, space, monitors string) pve.StorageConfig {
		return pve.StorageConfig{Type: "rbd", Pool: pool, Namespace: space, Monitors: monitors}
	}
	zfs := func(kind, pool, portal string) pve.StorageConfig {
		return pve.StorageConfig{Type: kind, Pool: pool, Portal: portal, Target: "iqn"}
	}
	oneNode := lvm("lvm", "san")
	oneNode.Nodes = "pve1"
	twoNodes := oneNode
	twoNodes.Nodes = "pve1,pve2"
	own := dir("/srv/a")
	own.ContentDirs = `{"images":"disks"}`
	for name, c := range map[string]struct {
		a, b pve.StorageConfig
		want Likeness
	}{
		"one directory":                                     {dir("/srv/a"), dir("/srv/a/"), Same},
		"two directories":                                   {dir("/srv/a"), dir("/srv/b"), Apart},
		"one in the other":                                  {dir("/srv/a"), dir("/srv/a/b"), Apart},
		"one with directories of its own":                   {dir("/srv/a"), own, Unclear},
		"the mount of an export":                            {dir("/mnt/pve/nas/tank"), nfs("nas", "/tank"), Same},
		"an export, mounted by hand":                        {mount("/mnt/a"), nfs("nas", "/tank"), Unclear},
		"an export and a disk that PVE's interface mounted": {disk, nfs("nas", "/tank"), Apart},
		"an export, mounted where PVE mounts disks":         {nowhere, nfs("nas", "/tank"), Unclear},
		"an export, mounted there for some nodes":           {named, nfs("nas", "/tank"), Unclear},
		"an export and a file system of one machine": {pve.StorageConfig{Type: "btrfs", Path: "/mnt/a", Mountpoint: "1"},
			nfs("nas", "/tank"), Apart},
		"an export and a directory":                  {dir("/srv/a"), nfs("nas", "/tank"), Apart},
		"one export":                                 {nfs("nas", "/tank"), nfs("nas", "/tank"), Same},
		"two exports":                                {nfs("nas", "/tank"), nfs("nas", "/pool"), Apart},
		"an export in the other":                     {nfs("nas", "/tank"), nfs("nas", "/tank/a"), Unclear},
		"an export of another name":                  {nfs("nas", "/tank"), nfs("192.0.2.1", "/tank"), Unclear},
		"two protocols":                              {nfs("nas", "/tank"), pve.StorageConfig{Type: "cifs", Server: "nas", Export: "tank", Path: "/mnt/pve/c"}, Unclear},
		"one volume group":                           {lvm("lvm", "pve"), lvm("lvmthin", "pve"), Same},
		"two volume groups":                          {lvm("lvm", "pve"), lvm("lvm", "san"), Apart},
		"one dataset":                                {zfs("zfspool", "tank", ""), zfs("zfspool", "tank", ""), Same},
		"two datasets":                               {zfs("zfspool", "tank/a", ""), zfs("zfspool", "tank/b", ""), Apart},
		"a dataset over iSCSI":                       {zfs("zfspool", "tank", ""), zfs("zfs", "tank", "192.0.2.1"), Unclear},
		"one target":                                 {zfs("zfs", "tank", "192.0.2.1"), zfs("zfs", "tank", "192.0.2.1"), Same},
		"one pool of Ceph":                           {rbd("", "", "a,b"), rbd("rbd", "", "a,b"), Same},
		"one pool by other monitors":                 {rbd("rbd", "", "a,b"), rbd("rbd", "", ""), Unclear},
		"two namespaces":                             {rbd("rbd", "x", "a"), rbd("rbd", "y", "a"), Apart},
		"a file and a device":                        {dir("/srv/a"), lvm("lvm", "pve"), Apart},
		"a target, by either plugin":                 {pve.StorageConfig{Type: "iscsi"}, pve.StorageConfig{Type: "iscsidirect"}, Unclear},
		"a target and a group":                       {pve.StorageConfig{Type: "iscsi"}, lvm("lvm", "san"), Unclear},
		"a target and a group of nodes":              {pve.StorageConfig{Type: "iscsi"}, twoNodes, Unclear},
		"a target and a group of a node":             {pve.StorageConfig{Type: "iscsi"}, oneNode, Apart},
		"a target and a thin pool":                   {pve.StorageConfig{Type: "iscsi"}, lvm("lvmthin", "san"), Apart},
		"a target that QEMU alone opens and a group": {pve.StorageConfig{Type: "iscsidirect"}, lvm("lvm", "san"), Apart},
		"a backup server and a group":                {pve.StorageConfig{Type: "pbs"}, lvm("lvm", "san"), Apart},
		"a backup server and a plugin":               {pve.StorageConfig{Type: "pbs"}, pve.StorageConfig{Type: "linstor"}, Unclear},
		"a plugin of another program":                {pve.StorageConfig{Type: "linstor"}, lvm("lvm", "pve"), Unclear},
	} {
		places := Places{"a": c.a, "b": c.b}
		if got, back := places.Compare("a", "b"), places.Compare("b", "a"); got != c.want || back != c.want {
			t.Errorf("%s: %d and %d, want %d", name, got, back, c.want)
		}
	}
	if got := (Places{}).Compare("a", "b"); got != Unclear {
		t.Errorf("storages that are not visible: %d", got)
	}
}

// TestComparePaths: two paths of one node name the same device, or a part of it. Likenesses of paths that tell nothing
// keep no device from a guest.
func TestComparePaths(t *testing.T) {
	const disk = "/dev/disk/by-id/ata-DISK_1"
	for name, c := range map[string]struct {
		a, b string
		want Likeness
	}{
		"one path":                      {disk, "/dev/disk//by-id/ata-DISK_1", Same},
		"a partition and its disk":      {disk, disk + "-part1", Same},
		"one partition":                 {disk + "-part1", disk + "-part1", Same},
		"two partitions":                {disk + "-part1", disk + "-part2", Apart},
		"two disks":                     {disk, "/dev/disk/by-id/ata-DISK_2", Apart},
		"one volume of a group":         {"/dev/my-group/data", "/dev/mapper/my--group-data", Same},
		"one volume, by an id":          {"/dev/my-group/data", "/dev/disk/by-id/dm-name-my--group-data", Same},
		"one name in two groups":        {"/dev/a/data", "/dev/b/data", Apart},
		"a disk over several paths":     {"/dev/mapper/mpatha", "/dev/disk/by-id/dm-name-mpatha", Same},
		"a volume of PVE":               {"/dev/zvol/rpool/data/vm-300-disk-0", "/dev/zvol/rpool/other/vm-300-disk-0", Same},
		"two partitions of such":        {"/dev/zvol/a/vm-300-disk-0-part1", "/dev/zvol/a/vm-300-disk-0-part2", Apart},
		"a number":                      {"/dev/zd16", "/dev/zd16", Same},
		"a partition of a number":       {"/dev/zd16", "/dev/zd16p1", Same},
		"two numbers":                   {"/dev/zd16", "/dev/zd160", Apart},
		"over several paths":            {"/dev/mapper/mpatha", "/dev/mapper/mpatha-part1", Same},
		"of kpartx":                     {"/dev/mapper/mpatha1", "/dev/mapper/mpatha-part1", Same},
		"two of kpartx":                 {"/dev/mapper/mpatha1", "/dev/mapper/mpatha2", Apart},
		"of the kernel":                 {"/dev/sdb", "/dev/sdb1", Same},
		"two of the kernel":             {"/dev/sdb1", "/dev/sdb2", Apart},
		"two disks of the kernel":       {"/dev/sdb", "/dev/sdba", Apart},
		"of NVMe":                       {"/dev/nvme1n1", "/dev/nvme1n1p1", Same},
		"two disks of NVMe":             {"/dev/nvme1n1", "/dev/nvme1n2", Apart},
		"two names of an id":            {"/dev/mapper/36001405000000000", "/dev/disk/by-id/scsi-36001405000000000-part1", Same},
		"two ids":                       {"/dev/mapper/36001405000000000", "/dev/disk/by-id/wwn-0x6001405000000001", Apart},
		"of kpartx, of an id":           {"/dev/mapper/360014050000000aa", "/dev/mapper/360014050000000aa1", Same},
		"two names of an EUI-64":        {"/dev/mapper/26c9ce900a1b2c3d4", "/dev/disk/by-id/scsi-26c9ce900a1b2c3d4", Same},
		"two portals of a target":       {"/dev/disk/by-path/ip-10.0.0.5:3260-iscsi-iqn.x:a-lun-1", "/dev/disk/by-path/ip-10.0.0.6:3260-iscsi-iqn.x:a-lun-1", Same},
		"two LUNs of it":                {"/dev/disk/by-path/ip-10.0.0.5:3260-iscsi-iqn.x:a-lun-1", "/dev/disk/by-path/ip-10.0.0.5:3260-iscsi-iqn.x:a-lun-2", Apart},
		"in a volume of containers":     {"/rpool/data/subvol-300-disk-0/srv", "zfs:subvol-300-disk-0", Same},
		"a raw volume of btrfs":         {"/mnt/images/300/vm-300-disk-0/disk.raw", "dir:300/vm-300-disk-0.raw", Same},
		"another one":                   {"/mnt/images/300/vm-300-disk-0/disk.raw", "dir:300/vm-300-disk-1.raw", Apart},
		"a path and the id of a volume": {"/dev/zvol/rpool/data/vm-300-disk-0", "zfs:vm-300-disk-0", Same},
	} {
		if got, back := (Places{}).CompareVolumes(c.a, c.b), (Places{}).CompareVolumes(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%s: %d and %d, want %d", name, got, back, c.want)
		}
	}
}

// TestScope: the guests of other nodes count too if other nodes may have the place, as a storage that is shared or by a mount.
func TestScope(t *testing.T) {
	mount := func(path string, nodes ...string) func(*state.World) {
		return func(all *state.World) {
			s := all.Storages["local2"]
			s.Path, s.Nodes, s.Options = path, nodes, map[string]string{"is_mountpoint": "1"}
		}
	}
	alone := func(change func(*state.World)) func(*state.World) {
		return func(all *state.World) { delete(all.Storages, "shared-nfs"); change(all) }
	}
	for name, c := range map[string]struct {
		change func(*state.World)
		want   string
	}{
		"a directory of the node":  {func(*state.World) {}, "pve1"},
		"the directory of a share": {func(all *state.World) { all.Storages["local2"].Path = "/mnt/pve/shared-nfs" }, ""},
		"a directory of a share":   {func(all *state.World) { all.Storages["local2"].Path = "/mnt/pve/shared-nfs/vms" }, ""},
		"a volume group on iSCSI": {func(all *state.World) {
			s := all.Storages["local2"]
			s.Type, s.Path, s.Options = "lvm", "san", map[string]string{"base": "target:0.0.1.scsi-36001405"}
		}, ""},
		"a volume group beside a target of iSCSI": {func(all *state.World) {
			all.Storages["target"] = &state.Storage{ID: "target", Type: "iscsi", Shared: true}
			s := all.Storages["local2"]
			s.Type, s.Path, s.Options = "lvm", "san", nil
		}, ""},
		"a directory beside a backup server, a hypervisor and a target of iSCSI": {func(all *state.World) {
			for _, typ := range []string{"pbs", "esxi", "iscsi", "iscsidirect"} {
				all.Storages[typ] = &state.Storage{ID: typ, Type: typ, Shared: true}
			}
		}, "pve1"},
		"a directory beside a storage of another program": {func(all *state.World) {
			all.Storages["drbd"] = &state.Storage{ID: "drbd", Type: "linstor", Shared: true}
		}, ""},
		"a mount on every node":              {alone(mount("/mnt/data")), ""},
		"a mount on one node":                {alone(mount("/mnt/data", "pve1")), ""},
		"disks that PVE's interface mounted": {mount("/mnt/pve/local2", "pve1", "pve2"), "pve1"},
		"a directory that is none": {func(all *state.World) {
			all.Storages["local2"].Options = map[string]string{"is_mountpoint": "Off"}
		}, "pve1"},
		"a mount where PVE mounts disks": {alone(mount("/mnt/pve/local2")), ""},
	} {
		w := newWorld(t)
		w.change(c.change)
		resources, err := w.s.api.Cluster().Resources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.s.Scope(t.Context(), resources, "pve1", []string{"local2:300/vm-300-disk-0.raw"})
		if got != c.want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestDoubt: a device that a guest has by a number may be any volume that is a device, or any at all that its node
// reaches.
func TestDoubt(t *testing.T) {
	volumes := []string{"lvm:vm-300-disk-0", "lvm:vm-300-disk-0.qcow2", "dir:300/vm-300-disk-0.raw",
		"hidden:300/vm-300-disk-0.raw"}
	for device, want := range map[string]string{"none": "", "/dev/dm-4": volumes[0] + volumes[1] + volumes[3],
		"/dev/loop3": strings.Join(volumes, ""), "/dev/nbd0p1": strings.Join(volumes, "")} {
		s := &Use{base: newIndex(), replaced: map[int]bool{}, places: Places{"lvm": {Type: "lvm"}, "dir": {Type: "dir"}}}
		s.add(Reading{Guest: pve.Resource{Type: "qemu", VMID: 600, Node: "pve1"}, Config: pve.PendingConfig{
			Entries: []pve.PendingValue{{Key: "scsi0", Value: device, HasValue: true}}}}, true)
		got := ""
		for _, volume := range volumes {
			if s.Doubt(volume, "pve1") != nil {
				got += volume
			}
			if (s.Doubt(volume, "") != nil) != (s.Doubt(volume, "pve1") != nil) || s.Doubt(volume, "pve2") != nil {
				t.Errorf("%s: %s is a device of the node alone", device, volume)
			}
		}
		if got != want {
			t.Errorf("%s: %s", device, got)
		}
		s.Unseen = ErrUnseen
		if device == "none" && !errors.Is(s.Doubt(volumes[2], "pve2"), ErrUnseen) {
			t.Error("hidden guests may use a file, too")
		}
	}
}

// TestStoragesForImages: those of files that a node may use for images of guests.
func TestStoragesForImages(t *testing.T) {
	p := PlacesOf([]pve.StorageConfig{
		{ID: "dir", Type: "dir", Content: "iso,images"}, {ID: "nfs", Type: "nfs", Content: "images", Nodes: "pve2,pve1"},
		{ID: "other-node", Type: "nfs", Content: "images", Nodes: "pve2"}, {ID: "disabled", Type: "dir", Content: "images", Disabled: true},
		{ID: "iso", Type: "dir", Content: "iso"}, {ID: "pool", Type: "zfspool", Content: "images"}, {ID: "pbs", Type: "pbs", Content: "backup"},
	})
	if got := p.ForImages("pve1"); !slices.Equal(got, []string{"dir", "nfs"}) {
		t.Errorf("got %v", got)
	}
}
