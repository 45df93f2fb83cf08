package acctest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const smallDisk = `storage = "local-zfs"` + "\n  " + `size = "1G"`

const volumeOf300 = `"local-zfs:vm-300-disk-0"`

// TestDiskSurvivesOthers: a disk that somebody has, in whatever way, is neither destroyed nor given to a VM; where that cannot be told
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
		attach  string // what the attach says
		destroy string // and what the destroy does
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
			d := newDataDisk(t, diskBlock(smallDisk))
			d.w.Change(c.change)
			d.w.Mark()
			if c.destroy != "" {
				d.configure("")
				mustRefuse(t, d.s.Run(t.Context()), []string{c.destroy, "not touched"})
				d.survives()
				d.w.MustBeClean(t)
			}
			for _, hcl := range []string{diskBlock(smallDisk) + having("a", 400, ofDisk), having("a", 400, volumeOf300)} {
				d.configure(hcl)
				if !strings.Contains(hcl, diskAddress) {
					d.s.Forget(diskAddress)
				}
				mustRefuse(t, d.s.Run(t.Context()), []string{c.attach})
				if v := d.volume(); v.Data != "of the database" {
					t.Errorf("the disk holds %q", v.Data)
				}
				if g := guestOf(d.w, 400); len(g.Config) > 0 {
					t.Errorf("VM 400 is there: %v", g.Config)
				}
			}
		})
	}
}

func (d *dataDisk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// TestDiskSurvivesMistakes: what is wrong with a VM that is to have a disk is refused before anything is made or lost.
func TestDiskSurvivesMistakes(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, diskBlock(smallDisk))
	sized := func(vm string) string {
		return strings.Replace(vm, volumeOf300+" }", volumeOf300+" }, size = \"2G\"", 1)
	}
	for name, c := range map[string]struct{ vm, want string }{
		"size":      {sized(having("a", 400, volumeOf300)), "which says how large it is"},
		"storage":   {strings.Replace(having("a", 400, volumeOf300), volumeOf300+" }", volumeOf300+" }, storage = \"local-lvm\"", 1), "which says where it is"},
		"template":  {having("a", 400, volumeOf300, "template = true", `power_state = "stopped"`), "PVE renames the disks of a template"},
		"another's": {having("a", 400, `"local-zfs:base-9000-disk-0"`), "carries the id 9000"},
	} {
		d.w.Mark()
		d.configure(diskBlock(smallDisk) + c.vm)
		if _, err := d.s.Plan(t.Context()); err == nil || !strings.Contains(strings.Join(strings.Fields(err.Error()), " "), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		d.w.MustBeClean(t)
	}
	d.survives()
	d.to(diskBlock(smallDisk) + having("a", 400, ofDisk, `power_state = "stopped"`))
	for name, c := range map[string]struct{ hcl, want string }{
		"template of a VM": {diskBlock(smallDisk) + having("a", 400, ofDisk, "template = true", `power_state = "stopped"`), "300"},
		"move":             {strings.Replace(diskBlock(smallDisk), "local-zfs", "local-lvm", 1) + having("a", 400, ofDisk, `power_state = "stopped"`), "VM 400"},
		"second VM":        {diskBlock(smallDisk) + having("a", 400, ofDisk, `power_state = "stopped"`) + having("b", 401, ofDisk), "VM 400"},
	} {
		d.w.Mark()
		d.configure(c.hcl)
		mustRefuse(t, d.s.Run(t.Context()), []string{c.want})
		d.survives()
		if name != "template of a VM" {
			d.w.MustBeClean(t)
		}
	}
	if disk := guestOf(d.w, 400).Config["scsi1"]; !strings.Contains(disk, "vm-300-disk-0") {
		t.Errorf("VM 400 has %q", disk)
	}
}

// TestDiskSurvivesSnapshots: a snapshot of the VM that has the disk keeps it from being destroyed, and is named.
func TestDiskSurvivesSnapshots(t *testing.T) {
	t.Parallel()
	snapshot := "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.a.vmid\n  name = \"before\"\n}\n"
	d := newDataDisk(t, diskBlock(smallDisk)+having("a", 400, ofDisk)+snapshot)
	d.to(diskBlock(smallDisk) + letGo("a", 400) + snapshot)
	d.configure(letGo("a", 400) + snapshot)
	mustRefuse(t, d.s.Run(t.Context()), []string{"VM 400", "snapshot before"})
	d.survives()
	d.configure(diskBlock(smallDisk) + letGo("a", 400) + snapshot + having("b", 401, ofDisk))
	mustRefuse(t, d.s.Run(t.Context()), []string{"VM 400", "snapshot before"})
	d.survives()
	d.to(diskBlock(smallDisk) + letGo("a", 400))
	if unused := guestOf(d.w, 400).Config["unused1"] + guestOf(d.w, 400).Config["unused0"]; !strings.Contains(unused, "vm-300-disk-0") {
		t.Errorf("the removal of the snapshot has noted %q", unused)
	}
	d.configure(letGo("a", 400))
	mustRefuse(t, d.s.Run(t.Context()), []string{"VM 400", "unused"})
	d.survives()
	d.to(diskBlock(smallDisk)) // VM 400 goes
	d.survives()
	d.must(d.s.Destroy(t.Context()))
	d.w.MustBeClean(t)
}

// TestDiskSurvivesWhereItCanBe makes, attaches, grows and removes a disk as each identity, on each kind of storage and with one version of
// PVE for each of the pairs; with DESTROY_ALL=1 with every version.
func TestDiskSurvivesWhereItCanBe(t *testing.T) {
	t.Parallel()
	profiles := []string{"8.0", "8.2", "8.4", "9.2"}
	for n, id := range acctest.Identities() {
		for m, storage := range []string{"local-zfs", "local-lvm", "local2", "shared-nfs", "ceph"} {
			for i, profile := range profiles {
				if i != (n+m)%len(profiles) && os.Getenv("DESTROY_ALL") == "" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", id, storage, profile), func(t *testing.T) {
					t.Parallel()
					w := acctest.NewWorld(t, pvesim.Options{Profile: profile})
					w.Change(addMatrixSources)
					(&dataDisk{T: t, w: w}).lives(id, storage, storage == "shared-nfs" || storage == "ceph")
				})
			}
		}
	}
}

// lives makes a disk and a VM that has it, on the disk's node or on the other one where its storage is shared, grows it and removes both.
func (d *dataDisk) lives(id acctest.Identity, storage string, shared bool) {
	ctx, w := d.Context(), d.w
	w.Mark()
	disk := func(size string) string { return diskBlock(fmt.Sprintf("storage = %q", storage), "size = "+size) }
	vm := having("a", 400, ofDisk)
	elsewhere := strings.Replace(vm, `node = "pve1"`, `node = "pve2"`, 1)
	if shared {
		vm = elsewhere
	}
	s := w.Session(d.T, id, disk(`"1G"`)+vm)
	d.must(s.Converge(ctx))
	w.Reconfigure(d.T, s, id, disk(`"2G"`)+vm)
	d.must(s.Converge(ctx))
	d.must(s.Refresh(ctx))
	if size := drive.ShowValue(s.Attr("proxmox_vm.a", "disks.scsi1.size")); size != `"2G"` {
		d.Errorf("the VM has a disk of %s", size)
	}
	d.must(s.Destroy(ctx))
	w.MustBeClean(d.T)
	if shared {
		return
	}
	w.Reconfigure(d.T, s, id, disk(`"1G"`)+elsewhere)
	mustRefuse(d.T, s.Run(ctx), []string{"is not among the guests that can use it"})
	mustRefuse(d.T, s.Run(ctx), []string{"is not among the guests that can use it"}) // now in the plan
	w.Reconfigure(d.T, s, id, disk(`"1G"`))
	d.must(s.Destroy(ctx))
	w.MustBeClean(d.T)
}
