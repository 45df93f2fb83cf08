package storage_test

import (
	"cmp"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestRawLinesOfContainers: a disk or a snippet that a container names in its raw lines, now or in a snapshot, is in
// use, and neither destroyed nor given to a VM. Other raw lines stop nothing.
func TestRawLinesOfContainers(t *testing.T) {
	t.Parallel()
	const entry, device = "lxc.mount.entry", "/dev/zvol/rpool/data/vm-300-disk-0 srv/db none bind,optional,create=file"
	vm := rig.VMBlock("node = \"pve1\"\nvmid = 300\nname = \"x\"\npower_state = \"stopped\"\n" +
		"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n")
	script := rig.SnippetBlock("#!/bin/sh\nexit 0\n")
	for name, c := range map[string]struct {
		hcl, option, value string
		snapshot           bool
		stays              string // "": nothing does
		node               string // of the container, "" for pve1
	}{
		"disk":                    {hcl: vm, option: entry, value: device, stays: "container 8100"},
		"disk, in a snapshot":     {hcl: vm, option: entry, value: device, snapshot: true, stays: "container 8100"},
		"disk of a proxmox_disk":  {hcl: rig.DiskBlock(rig.SmallDisk), option: entry, value: device, stays: "container 8100"},
		"snippet":                 {hcl: script, option: "lxc.hook.pre-start", value: "/var/lib/vz/snippets/web.yaml", stays: "container 8100"},
		"disk of another":         {hcl: vm, option: entry, value: "/dev/zvol/rpool/data/vm-301-disk-0 srv none bind"},
		"disk, other lines":       {hcl: vm, option: "lxc.cgroup2.devices.allow", value: "c 226:0 rwm"},
		"snippet, other lines":    {hcl: script, option: "lxc.apparmor.profile", value: "unconfined"},
		"a loop device":           {hcl: rig.DiskBlock(rig.SmallDisk), option: entry, value: "/dev/loop0 dev/loop0 none bind", stays: "/dev/loop0"},
		"one of another node":     {hcl: rig.DiskBlock(rig.SmallDisk), option: entry, value: "/dev/loop0 dev/loop0 none bind", node: "pve2"},
		"a number of another":     {hcl: rig.DiskBlock(rig.SmallDisk), option: entry, value: "/dev/dm-0 dev/dm-0 none bind", node: "pve2"},
		"proxmox_disk, of others": {hcl: rig.DiskBlock(rig.SmallDisk), option: entry, value: "/srv srv none bind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenSSH, c.hcl)
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				g := world.Guests[8100]
				if g.Node = cmp.Or(c.node, g.Node); c.hcl == script {
					g.Node = "pve2"
				}
				if c.snapshot {
					g.Snaps = map[string]map[string]string{"old": {c.option: c.value, "snaptime": "5"}}
					return
				}
				g.Config[c.option] = c.value
			})
			if c.stays == "" {
				rig.Must(t, s.Destroy(t.Context()))
				return
			}
			rig.MustSay(t, s.Destroy(t.Context()), c.stays)
			if c.hcl == script && snippetOn(w, "pve2") == "" || c.hcl != script && !volumeThere(w, "vm-300-disk-0") {
				t.Error("it is gone")
			}
		})
	}
}

func volumeThere(w *rig.World, name string) (there bool) {
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			there = there || v.Name == name
		}
	})
	return there
}

// TestDiskThatArgumentsName: a disk that another VM has by its path in the arguments of QEMU stays, also one of btrfs,
// whose file is in a directory of the disk's name.
func TestDiskThatArgumentsName(t *testing.T) {
	t.Parallel()
	vm := func(disks, rest string) string {
		return rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\n" + rest + "disks = { " + disks + " }\n")
	}
	const disk = `scsi1 = { storage = "local2", size = "1G", format = "raw" }`
	for typ, path := range map[string]string{"dir": "/mnt/fast/images/300/vm-300-disk-0.raw",
		"btrfs": "/mnt/fast/images/300/vm-300-disk-0/disk.raw"} {
		for name, c := range map[string]struct{ before, after string }{
			"destroyed with its VM": {before: vm(disk, "")},
			"removed":               {before: vm(disk, "removed_disks = \"destroy\"\n"), after: vm("", "removed_disks = \"destroy\"\n")},
			"moved":                 {before: vm(disk, ""), after: vm(`scsi1 = { storage = "local-zfs", size = "1G", format = "raw" }`, "")},
			"of a proxmox_disk":     {before: rig.DiskBlock(`storage = "local2"`, `size = "1G"`, `format = "raw"`)},
		} {
			t.Run(typ+", "+name, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				w.Change(func(world *state.World) {
					world.Storages["local2"].Type, world.Storages["local2"].Path = typ, "/mnt/fast"
				})
				s := w.Session(t, rig.TokenNoSSH, c.before)
				rig.Must(t, s.Converge(t.Context()))
				w.Change(func(world *state.World) {
					world.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "other",
						"memory": "512", "args": "-drive file=" + path + ",format=raw,if=virtio"}}
				})
				w.Reconfigure(t, s, rig.TokenNoSSH, c.after)
				rig.MustSay(t, s.Run(t.Context()), "VM 600 (other) on node pve1")
				if w.Sim.World().Volume("pve1", "local2:300/vm-300-disk-0.raw") == nil {
					t.Error("it is gone")
				}
			})
		}
	}
}
