package storage_test

import (
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
	}{
		"disk":                    {hcl: vm, option: entry, value: device, stays: "container 8100"},
		"disk, in a snapshot":     {hcl: vm, option: entry, value: device, snapshot: true, stays: "container 8100"},
		"disk of a proxmox_disk":  {hcl: rig.DiskBlock(rig.SmallDisk), option: entry, value: device, stays: "container 8100"},
		"snippet":                 {hcl: script, option: "lxc.hook.pre-start", value: "/var/lib/vz/snippets/web.yaml", stays: "container 8100"},
		"disk of another":         {hcl: vm, option: entry, value: "/dev/zvol/rpool/data/vm-301-disk-0 srv none bind"},
		"disk, other lines":       {hcl: vm, option: "lxc.cgroup2.devices.allow", value: "c 226:0 rwm"},
		"snippet, other lines":    {hcl: script, option: "lxc.apparmor.profile", value: "unconfined"},
		"proxmox_disk, of others": {hcl: rig.DiskBlock(rig.SmallDisk), option: entry, value: "/srv srv none bind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenSSH, c.hcl)
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				g := world.Guests[8100]
				if c.hcl == script {
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
