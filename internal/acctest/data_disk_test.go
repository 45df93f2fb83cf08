package acctest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func diskBlock(more ...string) string {
	return "resource \"proxmox_disk\" \"data\" {\n  node = \"pve1\"\n  vmid = 300\n  " + strings.Join(more, "\n  ") + "\n}\n"
}

const diskAddress = "proxmox_disk.data"

// dataDisk is a world with the disk of VM 300 in it, whose content is marked.
type dataDisk struct {
	*testing.T
	w *acctest.World
	s *drive.Session
}

func newDataDisk(t *testing.T, hcl string) *dataDisk {
	t.Helper()
	d := &dataDisk{T: t, w: acctest.NewWorld(t)}
	d.w.Mark()
	d.s = d.w.Session(t, acctest.TokenNoSSH, hcl)
	d.converge()
	d.mark()
	return d
}

// mark gives the disk a content.
func (d *dataDisk) mark() {
	d.w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == 300 {
				v.Data = "of the database"
			}
		}
	})
}

func (d *dataDisk) converge() {
	d.Helper()
	if err := d.s.Converge(d.Context()); err != nil {
		d.Fatal(err)
	}
}

func (d *dataDisk) configure(hcl string) {
	d.Helper()
	d.w.Reconfigure(d.T, d.s, acctest.TokenNoSSH, hcl)
}

func (d *dataDisk) to(hcl string) {
	d.Helper()
	d.configure(hcl)
	d.converge()
}

// volume is the one that carries the id of VM 300.
func (d *dataDisk) volume() (found state.Volume) {
	d.w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == 300 {
				found = *v
			}
		}
	})
	return found
}

// survives wants the disk to hold what was written, and its VM to be protected and off.
func (d *dataDisk) survives() {
	d.Helper()
	if v := d.volume(); v.Data != "of the database" {
		d.Errorf("the disk %s holds %q", v.Volid(), v.Data)
	}
	if g := guestOf(d.w, 300); g.Config["protection"] != "1" || g.Running != nil || !strings.HasPrefix(g.Config["scsi0"], d.attr("volume")) {
		d.Errorf("the VM that holds it: %v", g)
	}
}

func (d *dataDisk) attr(name string) string {
	return strings.Trim(drive.ShowValue(d.s.Attr(diskAddress, name)), `"`)
}

// TestDiskSurvivesItsOwnLife makes a disk, grows, describes, moves, imports and destroys it, on each kind of storage; each plan after is
// empty, and nothing is left.
func TestDiskSurvivesItsOwnLife(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"local-zfs", "local-lvm", "local2"} {
		t.Run(storage, func(t *testing.T) {
			t.Parallel()
			on := fmt.Sprintf("storage = %q", storage)
			d := newDataDisk(t, diskBlock(on, `size = "1G"`))
			d.survives()
			volume := d.attr("volume")
			d.to(diskBlock(on, `size = "3G"`, `name = "database"`, `description = "two\nlines"`))
			d.survives()
			if v := d.volume(); v.Size != 3<<30 || d.attr("volume") != volume || d.attr("size") != "3G" {
				t.Errorf("the disk is %s of %d bytes, in state %s of %s", v.Volid(), v.Size, d.attr("volume"), d.attr("size"))
			}
			d.s.Forget(diskAddress)
			if err := d.s.Import(t.Context(), diskAddress, "pve1/300"); err != nil {
				t.Fatal(err)
			}
			d.converge()
			d.to(diskBlock(`storage = "shared-nfs"`, `size = "3G"`, `format = "qcow2"`))
			d.survives()
			if d.attr("volume") != "shared-nfs:300/vm-300-disk-0.qcow2" {
				t.Errorf("the disk is %s", d.attr("volume"))
			}
			if err := d.s.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.w.MustBeClean(t)
		})
	}
}

// TestDiskSurvivesPlans: what would lose the disk, or cannot be done, is refused in the plan.
func TestDiskSurvivesPlans(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, diskBlock(`storage = "local-zfs"`, `size = "2G"`))
	for want, hcl := range map[string]string{
		"PVE shrinks no disk":     diskBlock(`storage = "local-zfs"`, `size = "1G"`),
		"keeps its id":            strings.Replace(diskBlock(`storage = "local-zfs"`, `size = "2G"`), "300", "301", 1),
		"does not end with a bla": diskBlock(`storage = "local-zfs"`, `size = "2G"`, `description = "a "`),
		"must be a DNS name":      diskBlock(`storage = "local-zfs"`, `size = "2G"`, `name = "a_b"`),
	} {
		d.configure(hcl)
		if _, err := d.s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	d.survives()
	whole := diskBlock(`storage = "local-zfs"`, `size = "2G"`)
	d.w.Change(func(world *state.World) { world.Guests[300].Config["description"] = "mine" })
	d.to(whole)
	if text := guestOf(d.w, 300).Config["description"]; !strings.Contains(text, "proxmox_disk") {
		t.Errorf("the VM is not marked again: %q", text)
	}
	d.w.Change(func(world *state.World) {
		g := world.Guests[300]
		g.Config["unused0"] = strings.Split(g.Config["scsi0"], ",")[0]
		delete(g.Config, "scsi0")
	})
	if _, err := d.s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "does not have it in scsi0 any more") {
		t.Errorf("the disk was detached: %v", err)
	}
	if v := d.volume(); v.Data != "of the database" {
		t.Errorf("the disk %s holds %q", v.Volid(), v.Data)
	}
}

// having is a VM with the disk, which is another resource's or named by its volume.
func having(name string, vmid int, volume string, more ...string) string {
	return fmt.Sprintf("resource \"proxmox_vm\" %q {\n  node = \"pve1\"\n  vmid = %d\n  name = %q\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, "+
		"scsi1 = { imported_disk = { volume = %s } } }\n  networks = { net0 = { bridge = \"vmbr0\" } }\n  %s\n}\n", name, vmid, name, volume, strings.Join(more, "\n  "))
}

// without is such a VM without the disk.
func letGo(name string, vmid int, more ...string) string {
	return strings.Replace(having(name, vmid, "", more...), ", scsi1 = { imported_disk = { volume =  } }", "", 1)
}

const ofDisk = diskAddress + ".volume"

// TestDiskSurvivesNothingToMake: what the server would refuse of a new disk, or of one that is to go elsewhere, is refused in the plan.
func TestDiskSurvivesNothingToMake(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, diskBlock(`storage = "local-zfs"`, `size = "1G"`))
	d.w.Change(func(world *state.World) { world.Storages["local2"].Content = []string{"iso"} })
	other := func(lines ...string) string {
		return diskBlock(`storage = "local-zfs"`, `size = "1G"`) +
			"resource \"proxmox_disk\" \"other\" {\n  size = \"1G\"\n  " + strings.Join(lines, "\n  ") + "\n}\n"
	}
	for hcl, want := range map[string]string{
		other(`node = "pve1"`, `storage = "local2"`):                                          "Storage local2 is not for disks",
		other(`node = "pve1"`, `storage = "none"`):                                            `Unknown storage "none"`,
		other(`node = "pve9"`, `storage = "local-zfs"`):                                       "pve9",
		other(`node = "pve1"`, `storage = "local-zfs"`, `pool = "nobody"`):                    "nobody",
		other(`node = "pve1"`, `storage = "local-zfs"`, `format = "qcow2"`):                   "There is no format qcow2 on storage local-zfs",
		other(`storage = "local-zfs"`):                                                        "node",
		strings.Replace(diskBlock(`storage = "local-zfs"`, `size = "1G"`), "pve1", "pve9", 1): "pve9",
		diskBlock(`storage = "local2"`, `size = "1G"`):                                        "Storage local2 is not for disks",
		diskBlock(`storage = "local-lvm"`, `size = "1G"`, `format = "qcow2"`):                 "There is no format qcow2 on storage local-lvm",
	} {
		d.w.Mark()
		d.configure(hcl)
		if _, err := d.s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", hcl, want, err)
		}
		d.w.MustBeClean(t)
	}
	d.survives()
}

// TestDiskSurvivesVMs: a disk goes from VM to VM with what is on it. It grows under the VM that has it, stays when that is replaced,
// destroyed, or lets go of it with removed_disks = "destroy", and is not destroyed while a guest has it.
func TestDiskSurvivesVMs(t *testing.T) {
	t.Parallel()
	disk := diskBlock(`storage = "local-zfs"`, `size = "1G"`)
	d := newDataDisk(t, disk+having("a", 400, ofDisk))
	d.survives()
	has := func(vmid int, slot string) bool {
		return strings.Contains(guestOf(d.w, vmid).Config[slot], "vm-300-disk-0")
	}
	if !has(400, "scsi1") || guestOf(d.w, 400).Running == nil {
		t.Fatalf("VM 400 is %v", guestOf(d.w, 400).Config)
	}
	grown := diskBlock(`storage = "local-zfs"`, `size = "2G"`)
	d.to(grown + having("a", 400, ofDisk, "cpu = { cores = 2 }"))
	d.survives()
	for vmid, slot := range map[int]string{300: "scsi0", 400: "scsi1"} {
		if is := guestOf(d.w, vmid).Config[slot]; !strings.Contains(is, "size=2G") {
			t.Errorf("%s of VM %d is %s", slot, vmid, is)
		}
	}
	d.to(grown + having("a", 401, ofDisk)) // another vmid replaces the VM
	d.survives()
	if !has(401, "scsi1") || len(guestOf(d.w, 400).Config) != 0 {
		t.Errorf("VM 401 is %v, VM 400 %v", guestOf(d.w, 401).Config, guestOf(d.w, 400).Config)
	}
	d.configure(having("a", 401, `"local-zfs:vm-300-disk-0"`))
	mustRefuse(t, d.s.Run(t.Context()), []string{"VM 401 (a) on node pve1 (scsi1)", "was not touched"})
	d.survives()
	d.to(grown + letGo("a", 401, `removed_disks = "destroy"`) + having("b", 402, ofDisk, "depends_on = [proxmox_vm.a]"))
	d.survives()
	if has(401, "scsi1") || has(401, "unused0") || !has(402, "scsi1") {
		t.Errorf("VM 401 is %v, VM 402 %v", guestOf(d.w, 401).Config, guestOf(d.w, 402).Config)
	}
	d.to(grown + letGo("a", 401))
	d.survives()
	if err := d.s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.w.MustBeClean(t)
}

// TestFoundUnknownVolumeOfAVM: a slot gets another disk, whose volume another resource makes in the same apply. What follows for the VM is
// open in the plan already; a plan that said it stays as it is would be refused once the volume is known.
func TestFoundUnknownVolumeOfAVM(t *testing.T) {
	t.Parallel()
	disk := diskBlock(`storage = "local-zfs"`, `size = "1G"`)
	d := newDataDisk(t, disk+having("a", 400, ofDisk))
	other := strings.NewReplacer(`"data"`, `"other"`, "300", "301").Replace(disk)
	d.to(disk + other + having("a", 400, "proxmox_disk.other.volume"))
	d.survives()
	if has := guestOf(d.w, 400).Config; !strings.HasPrefix(has["scsi1"], "local-zfs:vm-301-disk-0,") || has["unused0"] != "" {
		t.Errorf("VM 400 is %v", has)
	}
}

// TestFoundGrownDataDisk: a disk that somebody else has grown stays as it is, and stops neither a plan nor its destroy. A size that is
// lowered in the configuration is refused.
func TestFoundGrownDataDisk(t *testing.T) {
	t.Parallel()
	block := func(size string) string { return diskBlock(`storage = "local-zfs"`, `size = "`+size+`"`) }
	d := newDataDisk(t, block("1G"))
	grow := func(gib int64) {
		d.w.Change(func(world *state.World) {
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
		d.converge()
		d.survives()
	}
	if size := d.attr("size"); size != "3G" {
		t.Errorf("in state the disk has %s", size)
	}
	d.to(diskBlock(`storage = "local-zfs"`, `size = "3G"`, `description = "grown"`))
	d.configure(block("1G"))
	mustRefuse(t, d.s.Run(t.Context()), []string{"It has 3G, and PVE shrinks no disk"})
	d.configure(block("3G"))
	grow(4)
	if err := d.s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.w.MustBeClean(t)
}
