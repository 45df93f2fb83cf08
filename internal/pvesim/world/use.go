package world

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Guests of third parties that use volumes of the VM at hand, or of the ids that are wanted.
const (
	ByPath     = 8710 // by paths
	ByPathCT   = 8711 // the same, a container
	Overlaying = 8720 // as backing files
	Binding    = 8730 // a container with the directories above the volumes
	Sharing    = 8731 // a VM with the same by virtiofs
	Keeping    = 8740 // in a snapshot, pending or detached alone
	HandMade   = 8750 // volumes whose names carry other ids
	OnSAN      = 8760 // on the second node, by that node's name of a group
)

func useAxes() []Axis {
	return []Axis{
		{
			Name: "devices by path",
			Sets: "`volumes` of the ids 100, 101, 200 and 300, and the disks of the VM at hand; VM 8710 and container 8711",
			Means: "Guests have the volumes by their paths: devices, files, arguments of QEMU, and raw lines and mount " +
				"points of a container.",
			Declare: byPaths, Arrange: byPath,
		},
		{
			Name:    "overlays",
			Sets:    "`volumes` of VM 8720 whose `backing` is a file of the VM at hand, or of the ids 100, 101, 200 and 300",
			Means:   "An administrator has made images with such a file as their backing file, also on another storage.",
			Declare: overlaysOf, Arrange: overlaid,
		},
		{
			Name: "bound directories", Sets: "container 8730 and VM 8731, which have the directories of the storages",
			Means:   "A share in which volumes lie is bound into guests, and nothing is refused for that.",
			Declare: bound,
		},
		{
			Name: "snapshots of others", Sets: "VM 8740, with the disks of the VM at hand in a snapshot, pending or detached",
			Means:   "A guest has the volumes of another one, and runs without them.",
			Declare: func(w *state.World) { guest(w, Keeping, "keeping", "local2") }, Arrange: kept,
		},
		{
			Name: "renamed by hand", Sets: "`volumes` of VM 8750, or of none, that carry the ids and that of the VM at hand",
			Means:   "An administrator has given volumes of other owners names that PVE gives to the VM's own.",
			Declare: named, Arrange: renamed,
		},
		{
			Name: "SAN", Sets: "`storages`: local-lvm is an LVM group on a LUN, which the second node has as san-b; VM 8760",
			Means:   "Another node reaches the volumes under another name, and nothing says that they are shared.",
			Declare: san, Arrange: overSAN,
		},
	}
}

// disk is a volume of a guest, and the storage under whose name the guest has it.
type disk struct {
	*state.Volume
	storage *state.Storage
}

// disksOf are the disks of the VM at hand, by slot.
func disksOf(w *state.World, vmid int) (all []disk) {
	g := w.Guests[vmid]
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		volid, _, _ := strings.Cut(g.Config[opt], ",")
		if v := w.Volume(g.Node, volid); v != nil && v.VMID == vmid && !strings.Contains(g.Config[opt], "media=cdrom") {
			storage, _, _ := strings.Cut(volid, ":")
			all = append(all, disk{v, w.Storages[storage]})
		}
	}
	return all
}

// some are one disk that is drawn, and about half of the others.
func some(all []disk, draw *rand.Rand) []disk {
	draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), 1+draw.IntN(max(1, (len(all)+2)/2)))]
}

// attach puts a text into the next free slot of a guest.
func attach(g *state.Guest, slot, value string) {
	n := 0
	for ; g.Config[slot+strconv.Itoa(n)] != ""; n++ {
	}
	g.Config[slot+strconv.Itoa(n)] = value
}

// container adds a third party's container on the first node.
func container(w *state.World, vmid int, name string) *state.Guest {
	v := &state.Volume{Storage: "local-zfs", Node: "pve1", Name: fmt.Sprintf("subvol-%d-disk-0", vmid)}
	put(w, v, vmid)
	v.Content, v.Format = "rootdir", "subvol"
	w.Guests[vmid] = &state.Guest{VMID: vmid, Type: "lxc", Node: "pve1", Config: map[string]string{"hostname": name,
		"arch": "amd64", "memory": "512", "ostype": "debian", "rootfs": v.Volid() + ",size=1G"}}
	return w.Guests[vmid]
}

// byPaths gives the guests volumes of the ids that are wanted: files, and images of Ceph under two of them. Others
// may use a shared storage, too.
func byPaths(w *state.World) {
	guest(w, ByPath, "by-path", "local2")
	container(w, ByPathCT, "by-path-ct")
	w.Storages["ceph"] = &state.Storage{ID: "ceph", Type: "rbd", Path: "rbd", Shared: true, Total: 100 * gib,
		Content: []string{"images"}}
	for n, id := range wanted() {
		file := &state.Volume{Storage: "local2", Node: "pve1", Name: fmt.Sprintf("%d/vm-%d-disk-6.raw", id, id)}
		put(w, file, id)
		useByPath(w, w.Storages["local2"].Paths(file.Name)[0], n)
		if n%2 == 0 {
			continue
		}
		image := &state.Volume{Storage: "ceph", Name: fmt.Sprintf("vm-%d-disk-6", id)}
		put(w, image, id)
		useByPath(w, w.Storages["ceph"].Paths(image.Name)[0], n+1)
	}
}

// useByPath has a guest use a path in one of these ways.
func useByPath(w *state.World, at string, way int) {
	g, ct := w.Guests[ByPath], w.Guests[ByPathCT]
	way %= 5
	if way == 4 && !strings.HasPrefix(at, "/dev/") || way == 3 && ct.Config["lxc.mount.entry"] != "" {
		way = 2
	}
	switch way {
	case 0:
		attach(g, "scsi", at+",size=1G")
	case 1:
		g.Config["args"] = strings.TrimSpace(fmt.Sprintf("%s -drive file=%s,if=virtio,format=raw", g.Config["args"], at))
	case 2:
		attach(ct, "mp", at+",mp=/mnt/"+strconv.Itoa(len(ct.Config)))
	case 3:
		ct.Config["lxc.mount.entry"] = at + " mnt/raw none bind,optional 0 0"
	case 4: // of devices alone (pve-container LXC/Config.pm $dev_desc)
		attach(ct, "dev", at+",mode=0660")
	}
}

func byPath(w *state.World, vmid int, draw *rand.Rand) {
	for _, d := range some(disksOf(w, vmid), draw) {
		paths := d.storage.Paths(d.Name)
		at := paths[draw.IntN(len(paths))]
		if strings.HasPrefix(at, "/dev/") && draw.IntN(3) == 0 {
			at += "-part1"
		}
		useByPath(w, at, draw.IntN(5))
	}
}

// overlay makes an image of VM 8720 with a volume as its backing file.
func overlay(w *state.World, storage string, of *state.Volume) {
	g, from := w.Guests[Overlaying], w.Storages[of.Storage]
	v := &state.Volume{Storage: storage, Node: w.Storages[storage].Key(g.Node, "").Node,
		Name: fmt.Sprintf("%d/vm-%d-disk-%d.qcow2", Overlaying, Overlaying, len(g.Config)), Backing: from.Paths(of.Name)[0]}
	if storage == of.Storage {
		v.Backing = path.Join("..", of.Name)
	}
	put(w, v, Overlaying)
	attach(g, "scsi", v.Volid()+",size=1G")
}

// overlaysOf makes overlays of files of the ids that are wanted, on the same storage and on another.
func overlaysOf(w *state.World) {
	guest(w, Overlaying, "overlaying", "local2")
	for n, id := range wanted() {
		v := &state.Volume{Storage: "local2", Node: "pve1", Name: fmt.Sprintf("%d/vm-%d-disk-5.qcow2", id, id)}
		put(w, v, id)
		overlay(w, []string{"local2", "local"}[n%2], v)
	}
}

func overlaid(w *state.World, vmid int, draw *rand.Rand) {
	files := slices.DeleteFunc(disksOf(w, vmid), func(d disk) bool { return !d.storage.IsDir() })
	for _, d := range some(files, draw) {
		overlay(w, []string{"local", "local2", "shared-nfs"}[draw.IntN(3)], d.Volume)
	}
}

// bound gives guests the directories of storages, and the pool itself.
func bound(w *state.World) {
	ct, g := container(w, Binding, "binding"), guest(w, Sharing, "sharing", "local2")
	for _, at := range []string{"/var/lib/vz", "/var/lib/vz2/images", "/mnt/pve/shared-nfs", "/rpool/data"} {
		attach(ct, "mp", at+",mp=/srv"+at)
	}
	attach(g, "virtiofs", "dirid=media")
}

// kept gives disks to another guest, but none of them in force.
func kept(w *state.World, vmid int, draw *rand.Rand) {
	g := w.Guests[Keeping]
	for _, d := range some(disksOf(w, vmid), draw) {
		volume := d.storage.Volid(d.Volume)
		switch draw.IntN(3) {
		case 0:
			if g.Snaps == nil {
				g.Config["parent"] = "before"
				g.Snaps = map[string]map[string]string{"before": {"memory": "512", "snaptime": "1767225600",
					"scsi0": g.Config["scsi0"]}}
			}
			g.Snaps["before"]["scsi"+strconv.Itoa(len(g.Snaps["before"]))] = volume + ",size=1G"
		case 1:
			if g.Pending == nil {
				g.Pending = map[string]string{}
			}
			g.Pending["scsi"+strconv.Itoa(1+len(g.Pending))] = volume + ",size=1G"
		case 2:
			attach(g, "unused", volume)
		}
	}
}

// named puts volumes of the ids that are wanted on a storage: for some one that VM 8750 has, for the others one that no
// guest has, and whose name PVE does not give.
func named(w *state.World) {
	g := guest(w, HandMade, "hand-made", "local2")
	for n, id := range wanted() {
		file := []string{"disk-7", "data"}[n%2]
		v := &state.Volume{Storage: "local2", Node: "pve1", Name: fmt.Sprintf("%d/vm-%d-%s.raw", id, id, file)}
		put(w, v, id)
		if file != "data" {
			attach(g, "scsi", v.Volid()+",size=1G")
		}
	}
}

// renamed puts volumes of the id of the VM at hand beside its own: a dataset without a guest, and a linked clone of the
// template, which VM 8750 has.
func renamed(w *state.World, vmid int, draw *rand.Rand) {
	g := w.Guests[HandMade]
	data := &state.Volume{Storage: "local-zfs", Node: g.Node, Name: fmt.Sprintf("vm-%d-data", vmid)}
	put(w, data, vmid)
	const base = "base-9000-disk-0"
	clone := &state.Volume{Storage: "local-zfs", Node: g.Node, Name: fmt.Sprintf("%s/vm-%d-disk-%d", base, vmid,
		4+draw.IntN(4))}
	if w.Volumes[state.VolumeKey{Storage: "local-zfs", Node: g.Node, Name: base}] != nil {
		put(w, clone, vmid)
		clone.Parent = base
		attach(g, "scsi", clone.Volid()+",size=1G")
	}
}

// san makes a group on a LUN of the volume group. An administrator has made it by hand, on several paths, so that its
// entry has no base.
func san(w *state.World) {
	group := w.Storages["local-lvm"]
	group.Type, group.Path, group.LUN, group.Nodes = "lvm", "san", true, []string{"pve1"}
	for _, v := range w.Volumes {
		if v.Storage == group.ID {
			delete(w.Volumes, state.VolumeKey{Storage: v.Storage, Node: v.Node, Name: v.Name})
			w.Put(v)
		}
	}
	twin := *group
	twin.ID, twin.Same, twin.Nodes = "san-b", group.ID, []string{"pve2"}
	w.Storages[twin.ID] = &twin
	w.Storages["san"] = &state.Storage{ID: "san", Type: "iscsi", Path: "iqn.2001-05.example:san", Shared: true,
		Content: []string{"images"}, Total: 1000 * gib}
	lun := &state.Volume{Storage: "san", Name: "0.0.1.scsi-36001405a000000000000000000000001"}
	put(w, lun, 0)
	g := guest(w, OnSAN, "on-san", "local2")
	own := w.Volumes[w.Storages["local2"].Key("pve1", fmt.Sprintf("%d/vm-%d-disk-0.raw", OnSAN, OnSAN))]
	delete(w.Volumes, state.VolumeKey{Storage: own.Storage, Node: own.Node, Name: own.Name})
	own.Node, g.Node = "pve2", "pve2"
	w.Put(own)
	attach(g, "scsi", lun.Volid()+",size=1G")
}

// overSAN gives the first disk of the VM at hand that lies in the group to the guest of the other node.
func overSAN(w *state.World, vmid int, _ *rand.Rand) {
	for _, d := range disksOf(w, vmid) {
		if d.Storage == "local-lvm" {
			attach(w.Guests[OnSAN], "scsi", "san-b:"+d.Name+",size=1G")
			return
		}
	}
}
