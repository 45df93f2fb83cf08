package storage_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// diskOn is a disk of VM 300; node "" configures none.
func diskOn(node, storage, size, more string) string {
	block := rig.DiskBlock(`storage = "`+storage+`"`, `size = "`+size+`"`, more)
	if node == "" {
		return strings.Replace(block, `node = "pve1"`, "", 1)
	}
	return strings.Replace(block, `"pve1"`, `"`+node+`"`, 1)
}

const described = `description = "new"`

// dataOf300 are the contents of the volumes with the id of the holder, by node and name.
func dataOf300(w *rig.World) map[string]string {
	all := map[string]string{}
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == 300 {
				all[v.Node+" "+v.Volid()] = v.Data
			}
		}
	})
	return all
}

// TestDiskMovedSinceThePlan: a disk that an administrator moves between plan and apply is not taken back by a plan that
// shows no move, and no other volume is changed in its place. The next plan shows the move, or says who has the disk.
func TestDiskMovedSinceThePlan(t *testing.T) {
	t.Parallel()
	drain := func(t *testing.T, d *rig.DataDisk) { rig.MigrateByHand(t, d.World, 300, "pve2") }
	const vm, since, inUse = "attached", "was moved outside Terraform since the plan", "VM 300 does not hold the disk that is in use"
	for name, c := range map[string]struct {
		storage, is, with string
		move              func(*testing.T, *rig.DataDisk)
		says, then        string // then: where the next apply has the disk, or its error
	}{
		"described":            {"local-zfs", diskOn("pve1", "local-zfs", "1G", described), "", drain, since, "pve1"},
		"grown":                {"local-zfs", diskOn("pve1", "local-zfs", "2G", ""), "", drain, since, "pve1"},
		"no node configured":   {"local-zfs", diskOn("", "local-zfs", "1G", described), "", drain, since, "pve2"},
		"grown without a node": {"local-zfs", diskOn("", "local-zfs", "2G", ""), "", drain, since, "pve2"},
		"on a shared storage":  {"shared-nfs", diskOn("pve1", "shared-nfs", "1G", described), "", drain, since, "pve1"},
		"to go elsewhere":      {"local-zfs", diskOn("pve1", "local-lvm", "1G", ""), "", drain, since, "pve1"},
		"on another storage": {"local-zfs", diskOn("pve1", "local-zfs", "2G", ""), "", func(t *testing.T, d *rig.DataDisk) {
			rig.RunTask(t, d.World, "/nodes/pve1/qemu/300/move_disk", "disk=scsi0&storage=local2&delete=1")
		}, since, "pve1"},
		"drained under a VM":                {"local-zfs", diskOn("pve1", "local-zfs", "1G", described), vm, astray()["bulk migration of the node"], inUse, inUse},
		"moved under a VM, source kept":     {"local-zfs", diskOn("pve1", "local-zfs", "2G", ""), vm, astray()["moved, the source kept"], inUse, inUse},
		"moved under a VM, the source busy": {"local-zfs", diskOn("pve1", "local-zfs", "1G", described), vm, astray()["moved, the source busy"], inUse, inUse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			more := ""
			if c.with != "" {
				more = rig.DiskAttached("a", 400, rig.DiskVolume)
			}
			d := newDataDisk(t, diskOn("pve1", c.storage, "1G", "")+more)
			d.Configure(c.is + more)
			planned, err := d.Session.Plan(t.Context())
			rig.Must(t, err)
			c.move(t, d)
			holder, data := rig.GuestOf(d.World, 300), dataOf300(d.World)
			rig.MustRefuse(t, d.Session.Apply(t.Context(), planned), []string{c.says, "Nothing was changed"})
			if is := rig.GuestOf(d.World, 300); is.Node != holder.Node || !maps.Equal(is.Config, holder.Config) ||
				!maps.Equal(dataOf300(d.World), data) {
				t.Errorf("VM 300 was %v, and is %v; its disks were %v, and are %v", holder, is, data, dataOf300(d.World))
			}
			if c.then == inUse {
				rig.MustRefuse(t, d.Session.Run(t.Context()), []string{inUse})
				return
			}
			d.Converge()
			d.Survives()
			if is := rig.GuestOf(d.World, 300).Node; is != c.then {
				t.Errorf("VM 300 is on %s", is)
			}
		})
	}
}

// TestDiskAtThePlannedPlace: an apply goes on where the disk is where the plan has seen it, or where the plan takes it.
func TestDiskAtThePlannedPlace(t *testing.T) {
	t.Parallel()
	there := func(t *testing.T, d *rig.DataDisk) { rig.MigrateByHand(t, d.World, 300, "pve2") }
	for name, c := range map[string]struct {
		is, node string
		move     func(*testing.T, *rig.DataDisk)
	}{
		"not moved":               {diskOn("pve1", "local-zfs", "2G", described), "pve1", func(*testing.T, *rig.DataDisk) {}},
		"not moved, no node":      {diskOn("", "local-zfs", "2G", described), "pve1", func(*testing.T, *rig.DataDisk) {}},
		"planned to another node": {diskOn("pve2", "local-zfs", "2G", described), "pve2", func(*testing.T, *rig.DataDisk) {}},
		"there already":           {diskOn("pve2", "local-zfs", "2G", described), "pve2", there},
		"on the planned storage already": {diskOn("pve1", "local2", "2G", described), "pve1", func(t *testing.T, d *rig.DataDisk) {
			rig.RunTask(t, d.World, "/nodes/pve1/qemu/300/move_disk", "disk=scsi0&storage=local2&delete=1")
		}},
		"back again": {diskOn("pve1", "local-zfs", "2G", described), "pve1", func(t *testing.T, d *rig.DataDisk) {
			there(t, d)
			rig.MigrateByHand(t, d.World, 300, "pve1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDataDisk(t, diskOn("pve1", "local-zfs", "1G", ""))
			d.Configure(c.is)
			planned, err := d.Session.Plan(t.Context())
			rig.Must(t, err)
			c.move(t, d)
			rig.Must(t, d.Session.Apply(t.Context(), planned))
			d.Converge()
			d.Survives()
			if is := rig.GuestOf(d.World, 300); is.Node != c.node || d.Attr("node") != c.node || d.Attr("size") != "2G" {
				t.Errorf("VM 300 is on %s, in state on %s with %s", is.Node, d.Attr("node"), d.Attr("size"))
			}
		})
	}
}
