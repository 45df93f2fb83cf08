package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

const volumeOf300 = `"local-zfs:vm-300-disk-0"`

// TestDiskSurvivesOthers: a disk that another guest has, in whatever way, is neither destroyed nor given to a VM; where that cannot be told
// neither. The VM that was to have it leaves nothing behind, and the disk is protected as before.
func TestDiskSurvivesOthers(t *testing.T) {
	t.Parallel()
	const volume = "local-zfs:vm-300-disk-0"
	other := func(change func(g *state.Guest)) func(*state.World) {
		return func(world *state.World) {
			g := &state.Guest{VMID: 777, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "other", "memory": "512",
				"smbios1": "uuid=77777777-2222-3333-4444-555555555555"}}
			change(g)
			world.Guests[777] = g
		}
	}
	for name, c := range map[string]struct {
		change  func(*state.World)
		attach  string // the message of the attachment
		destroy string // and the outcome of the destroy
	}{
		"in force": {other(func(g *state.Guest) { g.Config["virtio3"] = volume + ",size=1G" }), "on node pve1 (virtio3)", "VM 777"},
		"pending":  {other(func(g *state.Guest) { g.Pending = map[string]string{"scsi5": volume} }), "scsi5, pending", "VM 777"},
		"detached": {other(func(g *state.Guest) { g.Config["unused0"] = volume }), "unused0", "unused0"},
		"in a snapshot": {other(func(g *state.Guest) {
			g.Config["parent"] = "old"
			g.Snaps = map[string]map[string]string{"old": {"scsi1": volume + ",size=1G", "snaptime": "5"}}
		}), "snapshot old", "snapshot old"},
		"in a container": {other(func(g *state.Guest) {
			g.Type, g.Config = "lxc", map[string]string{"hostname": "other", "arch": "amd64", "rootfs": "local-zfs:subvol-777-disk-0,size=1G", "mp0": volume + ",mp=/x"}
		}), "container 777", "container 777"},
		"its description was changed": {func(world *state.World) { world.Guests[300].Config["description"] = "mine" }, "no proxmox_disk holds it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk))
			d.World.Change(c.change)
			d.World.Mark()
			if c.destroy != "" {
				d.Configure("")
				rig.MustRefuse(t, d.Session.Run(t.Context()), []string{c.destroy, "not touched"})
				d.Survives()
				d.World.MustBeClean(t)
			}
			for _, hcl := range []string{rig.DiskBlock(rig.SmallDisk) + rig.DiskAttached("a", 400, rig.DiskVolume), rig.DiskAttached("a", 400, volumeOf300)} {
				d.Configure(hcl)
				if !strings.Contains(hcl, rig.DiskAddress) {
					d.Session.Forget(rig.DiskAddress)
				}
				rig.MustRefuse(t, d.Session.Run(t.Context()), []string{c.attach})
				if v := d.Volume(); v.Data != "of the database" {
					t.Errorf("the disk holds %q", v.Data)
				}
				if g := rig.GuestOf(d.World, 400); len(g.Config) > 0 {
					t.Errorf("VM 400 is there: %v", g.Config)
				}
			}
		})
	}
}

// TestDiskSurvivesMistakes: a mistake in a VM that is to have a disk is refused before anything is made or lost.
func TestDiskSurvivesMistakes(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk))
	sized := func(vm string) string {
		return strings.Replace(vm, volumeOf300+" }", volumeOf300+" }, size = \"2G\"", 1)
	}
	const volume = `disks["scsi1"].imported_disk.volume`
	for name, c := range map[string]struct{ vm, attribute, want string }{
		"size":      {sized(rig.DiskAttached("a", 400, volumeOf300)), `disks["scsi1"].size`, "which says how large it is"},
		"storage":   {strings.Replace(rig.DiskAttached("a", 400, volumeOf300), volumeOf300+" }", volumeOf300+" }, storage = \"local-lvm\"", 1), `disks["scsi1"].storage`, "which says where it is"},
		"template":  {rig.DiskAttached("a", 400, volumeOf300, "template = true", `power_state = "stopped"`), volume, "PVE renames the disks of a template"},
		"another's": {rig.DiskAttached("a", 400, `"local-zfs:base-9000-disk-0"`), volume, "carries the id 9000"},
	} {
		d.World.Mark()
		d.Configure(rig.DiskBlock(rig.SmallDisk) + c.vm)
		_, err := d.Session.Plan(t.Context())
		errs := d.Session.Diagnostics().Errors()
		if len(errs) != 1 || errs[0].Attribute != c.attribute || !strings.Contains(errs[0].Detail, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		d.World.MustBeClean(t)
	}
	d.Survives()
	d.To(rig.DiskBlock(rig.SmallDisk) + rig.DiskAttached("a", 400, rig.DiskVolume, `power_state = "stopped"`))
	for name, c := range map[string]struct{ hcl, want string }{
		"template of a VM": {rig.DiskBlock(rig.SmallDisk) + rig.DiskAttached("a", 400, rig.DiskVolume, "template = true", `power_state = "stopped"`), "300"},
		"move":             {strings.Replace(rig.DiskBlock(rig.SmallDisk), "local-zfs", "local-lvm", 1) + rig.DiskAttached("a", 400, rig.DiskVolume, `power_state = "stopped"`), "VM 400"},
		"second VM":        {rig.DiskBlock(rig.SmallDisk) + rig.DiskAttached("a", 400, rig.DiskVolume, `power_state = "stopped"`) + rig.DiskAttached("b", 401, rig.DiskVolume), "VM 400"},
	} {
		d.World.Mark()
		d.Configure(c.hcl)
		rig.MustRefuse(t, d.Session.Run(t.Context()), []string{c.want})
		d.Survives()
		if name != "template of a VM" {
			d.World.MustBeClean(t)
		}
	}
	if disk := rig.GuestOf(d.World, 400).Config["scsi1"]; !strings.Contains(disk, "vm-300-disk-0") {
		t.Errorf("VM 400 has %q", disk)
	}
}

// TestDiskSurvivesSnapshots: a snapshot of the VM that has the disk keeps it from being destroyed, and is named.
func TestDiskSurvivesSnapshots(t *testing.T) {
	t.Parallel()
	snapshot := "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.a.vmid\n  name = \"before\"\n}\n"
	d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk)+rig.DiskAttached("a", 400, rig.DiskVolume)+snapshot)
	d.To(rig.DiskBlock(rig.SmallDisk) + rig.DiskReleased("a", 400) + snapshot)
	d.Configure(rig.DiskReleased("a", 400) + snapshot)
	rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"VM 400", "snapshot before"})
	d.Survives()
	d.Configure(rig.DiskBlock(rig.SmallDisk) + rig.DiskReleased("a", 400) + snapshot + rig.DiskAttached("b", 401, rig.DiskVolume))
	rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"VM 400", "snapshot before"})
	d.Survives()
	d.To(rig.DiskBlock(rig.SmallDisk) + rig.DiskReleased("a", 400))
	if unused := rig.GuestOf(d.World, 400).Config["unused1"] + rig.GuestOf(d.World, 400).Config["unused0"]; !strings.Contains(unused, "vm-300-disk-0") {
		t.Errorf("the removal of the snapshot has noted %q", unused)
	}
	d.Configure(rig.DiskReleased("a", 400))
	rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"VM 400", "unused"})
	d.Survives()
	d.To(rig.DiskBlock(rig.SmallDisk)) // VM 400 goes
	d.Survives()
	d.Must(d.Session.Destroy(t.Context()))
	d.World.MustBeClean(t)
}

// TestDiskSurvivesWhereItCanBe makes, attaches, grows and removes a disk as each identity, on each kind of storage and with one version of
// PVE for each of the pairs; in the whole with every version.
func TestDiskSurvivesWhereItCanBe(t *testing.T) {
	t.Parallel()
	profiles := []string{"8.0", "8.2", "8.4", "9.2"}
	for n, id := range rig.Identities() {
		for m, storage := range []string{"local-zfs", "local-lvm", "local2", "shared-nfs", "ceph"} {
			for i, profile := range profiles {
				if i != (n+m)%len(profiles) && !share.IsWhole() {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", id, storage, profile), func(t *testing.T) {
					t.Parallel()
					w := rig.NewWorld(t, pvesim.Options{Profile: profile})
					w.Change(addMatrixSources)
					(&rig.DataDisk{T: t, World: w}).Lives(id, storage, storage == "shared-nfs" || storage == "ceph")
				})
			}
		}
	}
}

// TestPlanRefusesToMoveADiskInUse: a disk that a VM has, or a snapshot of one, goes to no other storage. The plan says so,
// also where the format of the disk is left to PVE, and names the snapshot only where there is one.
func TestPlanRefusesToMoveADiskInUse(t *testing.T) {
	t.Parallel()
	snapshot := "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.a.vmid\n  name = \"before\"\n}\n"
	const detach, remove = "detach it there in an apply of its own", "remove the snapshot"
	for name, c := range map[string]struct{ second, third, says, not string }{
		"attached": {"", rig.DiskAttached("a", 400, rig.DiskVolume), "(scsi1). Nothing was changed. Next step: " + detach + "; then", remove},
		"attached, with a snapshot": {rig.DiskAttached("a", 400, rig.DiskVolume) + snapshot,
			rig.DiskAttached("a", 400, rig.DiskVolume) + snapshot, "Next step: " + detach + ", and " + remove + "; then", "none"},
		"a snapshot only": {rig.DiskReleased("a", 400) + snapshot, rig.DiskReleased("a", 400) + snapshot,
			"(snapshot before). Nothing was changed. Next step: " + remove + "; then", detach},
	} {
		d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk)+rig.DiskAttached("a", 400, rig.DiskVolume))
		if c.second != "" {
			d.To(rig.DiskBlock(rig.SmallDisk) + rig.DiskAttached("a", 400, rig.DiskVolume) + snapshot)
			d.To(rig.DiskBlock(rig.SmallDisk) + c.second)
		}
		d.Configure(strings.Replace(rig.DiskBlock(rig.SmallDisk), "local-zfs", "local-lvm", 1) + c.third)
		_, err := d.Session.Plan(t.Context())
		rig.MustSay(t, err, "VM 400 (a) on node pve1", c.says)
		if err != nil && strings.Contains(err.Error(), c.not) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
