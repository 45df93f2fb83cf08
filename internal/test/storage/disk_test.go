package storage_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

func newDataDisk(t *testing.T, hcl string) *rig.DataDisk {
	t.Helper()
	d := &rig.DataDisk{T: t, World: rig.NewWorld(t)}
	d.World.Mark()
	d.Session = d.World.Session(t, rig.TokenNoSSH, hcl)
	d.Converge()
	d.Mark()
	return d
}

// TestDiskSurvivesItsOwnLife makes a disk, grows, describes, moves, imports and destroys it, on each kind of storage; each plan after is
// empty, and nothing is left.
func TestDiskSurvivesItsOwnLife(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"local-zfs", "local-lvm", "local2"} {
		t.Run(storage, func(t *testing.T) {
			t.Parallel()
			on := fmt.Sprintf("storage = %q", storage)
			d := newDataDisk(t, rig.DiskBlock(on, `size = "1G"`))
			d.Survives()
			volume := d.Attr("volume")
			d.To(rig.DiskBlock(on, `size = "3G"`, `name = "database"`, `description = "two\nlines"`))
			d.Survives()
			if v := d.Volume(); v.Size != 3<<30 || d.Attr("volume") != volume || d.Attr("size") != "3G" {
				t.Errorf("the disk is %s of %d bytes, in state %s of %s", v.Volid(), v.Size, d.Attr("volume"), d.Attr("size"))
			}
			d.Session.Forget(rig.DiskAddress)
			if err := d.Session.Import(t.Context(), rig.DiskAddress, "pve1/300"); err != nil {
				t.Fatal(err)
			}
			d.Converge()
			d.To(rig.DiskBlock(`storage = "shared-nfs"`, `size = "3G"`, `format = "qcow2"`))
			d.Survives()
			if d.Attr("volume") != "shared-nfs:300/vm-300-disk-0.qcow2" {
				t.Errorf("the disk is %s", d.Attr("volume"))
			}
			if err := d.Session.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.World.MustBeClean(t)
		})
	}
}

// TestDiskIsProtectedAgain: a third party switches the protection of the VM off that holds a disk. A refresh warns, and
// any update switches it on again. One of a VM that is protected does not send it.
func TestDiskIsProtectedAgain(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`))
	for n, c := range []struct {
		off        bool
		size, name string
	}{{false, "1G", "data"}, {true, "1G", "data-2"}, {true, "2G", "data-2"}} {
		if c.off {
			d.World.Change(func(world *state.World) { delete(world.Guests[300].Config, "protection") })
		}
		planned, err := d.Session.Plan(t.Context())
		rig.Must(t, err)
		if said := d.Session.Diagnostics().String(); !planned.Empty() || strings.Contains(said, "VM 300 is not protected") != c.off {
			t.Errorf("%d: the plan is %v, and says %q", n, planned, said)
		}
		d.World.ResetCalls()
		d.To(rig.DiskBlock(`storage = "local-zfs"`, fmt.Sprintf("size = %q\nname = %q", c.size, c.name)))
		d.Survives()
		sends := func(op pvesim.Op) bool { _, sent := op.Params["protection"]; return sent }
		if slices.ContainsFunc(d.World.Sim.Ops(), sends) != c.off {
			t.Errorf("%d: sent %v", n, d.World.Sim.Ops())
		}
	}
}

// TestDiskIsLeftOutOfBackupsAgain: an administrator has backups of the VM that holds a disk have the disk, too. A refresh warns, since any
// update takes that back.
func TestDiskIsLeftOutOfBackupsAgain(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`))
	const says = "A backup of VM 300 opens the disk"
	slot := func() (value string) {
		d.World.Change(func(world *state.World) { value = world.Guests[300].Config["scsi0"] })
		return value
	}
	for _, name := range []string{"data", "data-2", "data-3"} {
		d.World.Change(func(world *state.World) {
			c := world.Guests[300].Config
			switch name {
			case "data-2":
				c["scsi0"] = strings.Replace(c["scsi0"], "backup=0", "backup=1", 1)
			case "data-3":
				c["scsi0"] = strings.Replace(c["scsi0"], ",backup=0", "", 1)
			}
		})
		planned, err := d.Session.Plan(t.Context())
		rig.Must(t, err)
		if said := d.Session.Diagnostics().String(); !planned.Empty() || strings.Contains(said, says) != (name != "data") {
			t.Errorf("%s: the plan is %v, and says %q", name, planned, said)
		}
		d.To(rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`, fmt.Sprintf("name = %q", name)))
		d.Survives()
		if !strings.Contains(slot(), "backup=0") {
			t.Errorf("%s: the slot has %s", name, slot())
		}
	}
}

// TestDiskSurvivesPlans: what would lose the disk, or cannot be done, is refused in the plan.
func TestDiskSurvivesPlans(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, rig.DiskBlock(`storage = "local-zfs"`, `size = "2G"`))
	for want, hcl := range map[string]string{
		"PVE shrinks no disk":     rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`),
		"keeps its id":            strings.Replace(rig.DiskBlock(`storage = "local-zfs"`, `size = "2G"`), "300", "301", 1),
		"does not end with a bla": rig.DiskBlock(`storage = "local-zfs"`, `size = "2G"`, `description = "a "`),
		"must be a DNS name":      rig.DiskBlock(`storage = "local-zfs"`, `size = "2G"`, `name = "a_b"`),
	} {
		d.Configure(hcl)
		if _, err := d.Session.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	d.Survives()
	whole := rig.DiskBlock(`storage = "local-zfs"`, `size = "2G"`)
	d.World.Change(func(world *state.World) { world.Guests[300].Config["description"] = "mine" })
	d.To(whole)
	if text := rig.GuestOf(d.World, 300).Config["description"]; !strings.Contains(text, "proxmox_disk") {
		t.Errorf("the VM is not marked again: %q", text)
	}
	d.World.Change(func(world *state.World) {
		g := world.Guests[300]
		g.Config["unused0"] = strings.Split(g.Config["scsi0"], ",")[0]
		delete(g.Config, "scsi0")
	})
	if _, err := d.Session.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "does not have it in scsi0 any more") {
		t.Errorf("the disk was detached: %v", err)
	}
	if v := d.Volume(); v.Data != "of the database" {
		t.Errorf("the disk %s holds %q", v.Volid(), v.Data)
	}
}

// TestDiskRefusedInThePlan: the plan refuses a new or moved disk that the server would refuse.
func TestDiskRefusedInThePlan(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`))
	d.World.Change(func(world *state.World) { world.Storages["local2"].Content = []string{"iso"} })
	other := func(lines ...string) string {
		return rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`) +
			"resource \"proxmox_disk\" \"other\" {\n  size = \"1G\"\n  " + strings.Join(lines, "\n  ") + "\n}\n"
	}
	for hcl, want := range map[string]string{
		other(`node = "pve1"`, `storage = "local2"`):                                              "Storage local2 is not for disks",
		other(`node = "pve1"`, `storage = "none"`):                                                `Unknown storage "none"`,
		other(`node = "pve9"`, `storage = "local-zfs"`):                                           "pve9",
		other(`node = "pve1"`, `storage = "local-zfs"`, `pool = "absent"`):                        "absent",
		other(`node = "pve1"`, `storage = "local-zfs"`, `format = "qcow2"`):                       "There is no format qcow2 on storage local-zfs",
		other(`storage = "local-zfs"`):                                                            "node",
		strings.Replace(rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`), "pve1", "pve9", 1): "pve9",
		rig.DiskBlock(`storage = "local2"`, `size = "1G"`):                                        "Storage local2 is not for disks",
		rig.DiskBlock(`storage = "local-lvm"`, `size = "1G"`, `format = "qcow2"`):                 "There is no format qcow2 on storage local-lvm",
	} {
		d.World.Mark()
		d.Configure(hcl)
		if _, err := d.Session.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", hcl, want, err)
		}
		d.World.MustBeClean(t)
	}
	d.Survives()
}

// TestDiskSurvivesVMs: a disk goes from VM to VM with its data. It grows under the VM that has it, stays when that is replaced,
// destroyed, or lets go of it with removed_disks = "destroy", and is not destroyed while a guest has it.
func TestDiskSurvivesVMs(t *testing.T) {
	t.Parallel()
	disk := rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`)
	d := newDataDisk(t, disk+rig.DiskAttached("a", 400, rig.DiskVolume))
	d.Survives()
	has := func(vmid int, slot string) bool {
		return strings.Contains(rig.GuestOf(d.World, vmid).Config[slot], "vm-300-disk-0")
	}
	if !has(400, "scsi1") || rig.GuestOf(d.World, 400).Running == nil {
		t.Fatalf("VM 400 is %v", rig.GuestOf(d.World, 400).Config)
	}
	grown := rig.DiskBlock(`storage = "local-zfs"`, `size = "2G"`)
	d.To(grown + rig.DiskAttached("a", 400, rig.DiskVolume, "cpu = { cores = 2 }"))
	d.Survives()
	for vmid, slot := range map[int]string{300: "scsi0", 400: "scsi1"} {
		if is := rig.GuestOf(d.World, vmid).Config[slot]; !strings.Contains(is, "size=2G") {
			t.Errorf("%s of VM %d is %s", slot, vmid, is)
		}
	}
	d.To(grown + rig.DiskAttached("a", 401, rig.DiskVolume)) // another vmid replaces the VM
	d.Survives()
	if !has(401, "scsi1") || len(rig.GuestOf(d.World, 400).Config) != 0 {
		t.Errorf("VM 401 is %v, VM 400 %v", rig.GuestOf(d.World, 401).Config, rig.GuestOf(d.World, 400).Config)
	}
	d.Configure(rig.DiskAttached("a", 401, `"local-zfs:vm-300-disk-0"`))
	rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"VM 401 (a) on node pve1 (scsi1)", "was not touched"})
	d.Survives()
	d.To(grown + rig.DiskReleased("a", 401, `removed_disks = "destroy"`) + rig.DiskAttached("b", 402, rig.DiskVolume, "depends_on = [proxmox_vm.a]"))
	d.Survives()
	if has(401, "scsi1") || has(401, "unused0") || !has(402, "scsi1") {
		t.Errorf("VM 401 is %v, VM 402 %v", rig.GuestOf(d.World, 401).Config, rig.GuestOf(d.World, 402).Config)
	}
	d.To(grown + rig.DiskReleased("a", 401))
	d.Survives()
	if err := d.Session.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.World.MustBeClean(t)
}

// TestUnknownVolumeOfAVM: a slot gets another disk, whose volume another resource makes in the same apply. The plan leaves the
// effects on the VM unknown. Terraform would refuse a plan without a change once the volume is known.
func TestUnknownVolumeOfAVM(t *testing.T) {
	t.Parallel()
	disk := rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`)
	d := newDataDisk(t, disk+rig.DiskAttached("a", 400, rig.DiskVolume))
	other := strings.NewReplacer(`"data"`, `"other"`, "300", "301").Replace(disk)
	d.To(disk + other + rig.DiskAttached("a", 400, "proxmox_disk.other.volume"))
	d.Survives()
	if has := rig.GuestOf(d.World, 400).Config; !strings.HasPrefix(has["scsi1"], "local-zfs:vm-301-disk-0,") || has["unused0"] != "" {
		t.Errorf("VM 400 is %v", has)
	}
}

// TestDataDiskGrownByAnother: a disk that a third party has grown stays as it is, and stops neither a plan nor its destroy. A size that is
// lowered in the configuration is refused.
func TestDataDiskGrownByAnother(t *testing.T) {
	t.Parallel()
	block := func(size string) string { return rig.DiskBlock(`storage = "local-zfs"`, `size = "`+size+`"`) }
	d := newDataDisk(t, block("1G"))
	grow := func(gib int64) {
		d.World.Change(func(world *state.World) {
			for _, v := range world.Volumes {
				if v.VMID == 300 {
					v.Size = gib << 30
				}
			}
			world.Guests[300].Config["scsi0"] = fmt.Sprintf("local-zfs:vm-300-disk-0,size=%dG", gib)
		})
	}
	for _, gib := range []int64{2, 3} { // twice, with a state that is written between
		grow(gib)
		d.Converge()
		d.Survives()
	}
	if size := d.Attr("size"); size != "3G" {
		t.Errorf("in state the disk has %s", size)
	}
	d.To(rig.DiskBlock(`storage = "local-zfs"`, `size = "3G"`, `description = "grown"`))
	d.Configure(block("1G"))
	rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"It has 3G, and PVE shrinks no disk"})
	d.Configure(block("3G"))
	grow(4)
	if err := d.Session.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.World.MustBeClean(t)
}

// TestHolderIsLeftAloneByBackups: a backup of all guests opens no disk that a VM runs on through the VM that holds it,
// and nothing boots from it. A VM that an earlier version made is set apart by the next change of its disk.
func TestHolderIsLeftAloneByBackups(t *testing.T) {
	t.Parallel()
	disk := func(more ...string) string {
		return rig.DiskBlock(append([]string{`storage = "local-zfs"`}, more...)...) + rig.DiskAttached("a", 400, rig.DiskVolume)
	}
	d := newDataDisk(t, disk(`size = "1G"`))
	apart := func(when string) {
		t.Helper()
		held := rig.GuestOf(d.World, 300).Config
		if boot, is := held["boot"]; !strings.Contains(held["scsi0"], "backup=0") || !is || strings.TrimSpace(boot) != "" {
			t.Errorf("%s: scsi0 is %s, boot %q", when, held["scsi0"], boot)
		}
		log := strings.Join(rig.RunTask(t, d.World, "/nodes/pve1/vzdump", "all=1&storage=local").Log, "\n")
		_, of, found := strings.Cut(log, "Starting Backup of VM 300 ")
		of, _, _ = strings.Cut(of, "Finished Backup of VM 300 ")
		if !found || strings.Contains(of, "starting kvm") || !strings.Contains(of, "backup contains no disks") {
			t.Errorf("%s: the backup says:\n%s", when, of)
		}
		d.Survives()
	}
	apart("made")
	d.To(disk(`size = "2G"`)) // by way of VM 400
	apart("grown")
	d.World.Change(func(world *state.World) {
		g := world.Guests[300]
		g.Config["scsi0"] = strings.Replace(g.Config["scsi0"], ",backup=0", "", 1)
		g.Config["boot"] = "order=scsi0"
	})
	d.Converge() // a plan and a refresh write nothing
	if held := rig.GuestOf(d.World, 300).Config; strings.Contains(held["scsi0"], "backup=0") || held["boot"] != "order=scsi0" {
		t.Errorf("changed without a change: %v", held)
	}
	d.To(disk(`size = "2G"`, `name = "database"`))
	apart("of an earlier version, and renamed")
}

// TestHolderKeepsItsOptions: the growth of an attached disk leaves alone what an administrator has set at the holder's
// slot, also when the first answer is lost.
func TestHolderKeepsItsOptions(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		disk := func(size string) string {
			return rig.DiskBlock(`storage = "local-zfs"`, `size = "`+size+`"`) + rig.DiskAttached("a", 400, rig.DiskVolume)
		}
		d := newDataDisk(t, disk("1G"))
		d.World.Change(func(world *state.World) { world.Guests[300].Config["scsi0"] += ",replicate=0,mbps_wr=10" })
		if lost {
			d.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config", VMID: 300},
				Phase: fault.After}})
		}
		d.To(disk("2G"))
		d.Survives()
		for _, option := range []string{"replicate=0", "mbps_wr=10", "backup=0", "size=2G"} {
			if is := rig.GuestOf(d.World, 300).Config["scsi0"]; !strings.Contains(is, option) {
				t.Errorf("lost answer %t: want %s in %s", lost, option, is)
			}
		}
	}
}
