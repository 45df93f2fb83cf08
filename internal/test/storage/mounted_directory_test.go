package storage_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// withoutShares takes the shared storages from a cluster, and gives its other node a guest without a disk.
func withoutShares(world *state.World) {
	for id, s := range world.Storages {
		if s.Shared {
			delete(world.Storages, id)
		}
	}
	world.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "other",
		"memory": "512", "smbios1": "uuid=66666666-2222-3333-4444-555555555555"}}
}

// mountByHand makes local2 a directory that an administrator has mounted on every node, in a cluster without shared storages. A VM of
// the other node has a volume on it.
func mountByHand(volume string) func(*state.World) {
	return func(world *state.World) {
		withoutShares(world)
		world.Storages["local2"].Options = map[string]string{"is_mountpoint": "yes"}
		world.Guests[600].Config["scsi1"] = volume + ",size=1G"
	}
}

// TestDiskOnAMountedDirectory: a directory with is_mountpoint may be one share on every node. A disk that a VM of the other node has is
// neither destroyed nor moved away.
func TestDiskOnAMountedDirectory(t *testing.T) {
	t.Parallel()
	vm := func(storage string) string {
		return rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\ndisks = { scsi0 = { storage = \"" + storage +
			"\", size = \"1G\", format = \"raw\" } }\n")
	}
	for name, c := range map[string]struct {
		before, after string
		nodes         []string
	}{
		"destroy of a VM":                         {before: vm("local2")},
		"destroy of a VM, where PVE mounts disks": {before: vm("local2"), nodes: []string{"pve1", "pve2"}},
		"move of its disk":                        {before: vm("local2"), after: vm("local")},
		"destroy of a disk":                       {before: rig.DiskBlock(`storage = "local2"`, `size = "1G"`, `format = "raw"`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, c.before)
			rig.Must(t, s.Converge(t.Context()))
			const volume = "local2:300/vm-300-disk-0.raw"
			w.Change(mountByHand(volume))
			if c.nodes != nil {
				w.Change(func(world *state.World) {
					world.Storages["local2"].Path, world.Storages["local2"].Nodes = "/mnt/pve/local2", c.nodes
				})
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, c.after)
			rig.MustSay(t, s.Run(t.Context()), "VM 600", volume)
			if w.Sim.World().Volume("pve1", volume) == nil {
				t.Error("the disk is gone")
			}
		})
	}
}

// TestDiskOnAMountThatAnotherStorageIs: an administrator has mounted a share on one node. The other node has it as a storage that the
// identity may not see, and PVE lists only what it may see. A disk that a VM of the other node has there is kept.
func TestDiskOnAMountThatAnotherStorageIs(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]state.Storage{
		"an export":      {Type: "nfs", Shared: true, Path: "/mnt/pve/other", Options: map[string]string{"server": "nas", "export": "/tank"}},
		"the same mount": {Type: "dir", Path: "/mnt/data", Options: map[string]string{"is_mountpoint": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			const file, volume = "300/vm-300-disk-0.raw", "local2:300/vm-300-disk-0.raw"
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\n"+
				"disks = { scsi0 = { storage = \"local2\", size = \"1G\", format = \"raw\" } }\n"))
			w.Change(func(world *state.World) {
				withoutShares(world)
				l := world.Storages["local2"]
				l.Path, l.Nodes, l.Options = "/mnt/data", []string{"pve1"}, map[string]string{"is_mountpoint": "1"}
				other.ID, other.Nodes, other.Content, other.Total = "other", []string{"pve2"}, []string{"images"}, 1<<40
				world.Storages["other"] = &other
				for _, e := range world.ACL {
					if e.Path == "/" {
						e.Path, e.Role = "/storage/other", "NoAccess"
						world.ACL = append(world.ACL, e)
					}
				}
			})
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				node := "pve2"
				if other.Shared {
					node = ""
				}
				world.Put(&state.Volume{Storage: "other", Node: node, Name: file, Content: "images", VMID: 300, Format: "raw", Size: 1 << 30})
				world.Guests[600].Config["scsi1"] = "other:" + file + ",size=1G"
			})
			w.Reconfigure(t, s, rig.TokenNoSSH, "")
			rig.MustSay(t, s.Run(t.Context()), "VM 600", volume)
			if w.Sim.World().Volume("pve1", volume) == nil {
				t.Error("the disk is gone")
			}
		})
	}
}

// TestDiskOfAnotherNodeToo: no entry says that a storage is shared, and yet the other node has it, under this or another name. A disk that a
// VM of that node has there is kept. An administrator makes a volume group on a LUN over several paths by hand, since PVE takes no base there.
func TestDiskOfAnotherNodeToo(t *testing.T) {
	t.Parallel()
	group := func(nodes ...string) state.Storage {
		return state.Storage{Type: "lvm", Nodes: nodes, Options: map[string]string{"vgname": "san"}}
	}
	nfs := func(id, export string) state.Storage {
		return state.Storage{Type: "nfs", Shared: true, Path: "/mnt/pve/" + id, Options: map[string]string{"server": "nas", "export": export}}
	}
	target := state.Storage{Type: "iscsi", Shared: true, Options: map[string]string{"portal": "192.0.2.1", "target": "iqn.2003-01.org.example:t"}}
	for name, c := range map[string]struct {
		storages   map[string]state.Storage
		disk, name string // the storage by which VM 600 has it, and the volume's name
	}{
		"a group beside a target":           {map[string]state.Storage{"target": target, "own": group()}, "own", "vm-300-disk-0"},
		"such a group, a storage of a node": {map[string]state.Storage{"target": target, "own": group("pve1"), "other": group("pve2")}, "other", "vm-300-disk-0"},
		"a part of an export": {map[string]state.Storage{"nfs": nfs("nfs", "/export"), "other": nfs("other", "/export/proj"),
			"own": {Type: "dir", Path: "/mnt/pve/nfs/proj"}}, "other", "300/vm-300-disk-0.raw"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				withoutShares(world)
				for id, s := range c.storages {
					s.ID, s.Content, s.Total = id, []string{"images"}, 1<<40
					world.Storages[id] = &s
				}
			})
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\n"+
				"disks = { scsi0 = { storage = \"own\", size = \"1G\", format = \"raw\" } }\n"))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) { world.Guests[600].Config["scsi1"] = c.disk + ":" + c.name + ",size=1G" })
			w.Reconfigure(t, s, rig.TokenNoSSH, "")
			rig.MustSay(t, s.Run(t.Context()), "VM 600", "own:"+c.name)
			if w.Sim.World().Volume("pve1", "own:"+c.name) == nil {
				t.Error("the disk is gone")
			}
		})
	}
}

// TestDirectoryOfADiskWithANodeOff: PVE's interface makes a directory of a disk of one node with is_mountpoint (Disks, Directory). While
// the other node is off its guests cannot be read, and none of them can have a volume there.
func TestDirectoryOfADiskWithANodeOff(t *testing.T) {
	t.Parallel()
	vm := func(disks string) string {
		return rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\nremoved_disks = \"destroy\"\ndisks = {\n" + disks + "\n}\n")
	}
	const small, first = `scsi0 = { storage = "local-zfs", size = "1G" }` + "\n", `scsi1 = { storage = "ssd", size = "1G", format = "raw" }`
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": rig.QCOW2("one")})
	for name, c := range map[string]struct{ before, after, left, fails string }{
		"destroy of a VM":        {before: vm(small + first)},
		"destroy of a disk":      {before: rig.DiskBlock(`storage = "ssd"`, `size = "1G"`, `format = "raw"`)},
		"destroy of an image":    {before: strings.Replace(rig.DownloadedImage(url+"/debian.qcow2", ""), `"local"`, `"ssd"`, 1)},
		"move of a disk":         {before: vm(small + first), after: vm(small + strings.Replace(first, "ssd", "local-lvm", 1))},
		"removal of a disk":      {before: vm(small + first), after: vm(small)},
		"a disk that comes back": {before: vm(small), after: vm(small + `scsi1 = { imported_disk = { volume = "ssd:300/vm-300-disk-1.raw" } }`), left: "ssd:300/vm-300-disk-1.raw"},
		"a create that fails":    {after: vm(small + first), fails: "no KVM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				withoutShares(world)
				world.Storages["ssd"] = &state.Storage{ID: "ssd", Type: "dir", Content: []string{"images", "import"}, Path: "/mnt/pve/ssd",
					Nodes: []string{"pve1"}, Total: 1 << 40, Options: map[string]string{"is_mountpoint": "1"}}
			})
			s := w.Session(t, rig.TokenNoSSH, c.before)
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				if c.left != "" {
					world.Put(&state.Volume{Storage: "ssd", Node: "pve1", Name: strings.TrimPrefix(c.left, "ssd:"), Content: "images",
						VMID: 300, Format: "raw", Size: 1 << 30})
					world.Guests[300].Config["unused0"] = c.left
				}
				world.Nodes["pve2"].Online = false
			})
			if c.fails != "" {
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"},
					Phase: fault.Task, Times: -1, Reason: c.fails}})
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, c.after)
			if err := s.Run(t.Context()); c.fails == "" {
				rig.Must(t, err)
			} else {
				rig.MustSay(t, err, c.fails)
			}
			w.Change(func(world *state.World) {
				if g := world.Guests[300]; g != nil && (c.fails != "" || !strings.HasPrefix(g.Config["scsi1"], c.left)) {
					t.Errorf("VM 300 is %v", g.Config)
				}
				for _, v := range world.Volumes {
					if v.Storage == "ssd" && v.Volid() != c.left {
						t.Errorf("%s is left", v.Volid())
					}
				}
			})
		})
	}
}
