package rig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// DisksWithoutVM puts volumes of a VM 200 on the storages whose configuration is gone, and another user's VM that has nothing to do with it.
func DisksWithoutVM(t *testing.T, names ...string) *World {
	t.Helper()
	w := NewWorld(t)
	w.Change(func(world *state.World) {
		for _, name := range names {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, Content: "images", VMID: 200, Format: "raw", Size: 4 << 30,
				Data: "data of " + name})
		}
	})
	w.Mark()
	return w
}

// DataOf is the content of a volume, "" if it does not exist.
func DataOf(w *World, name string) (data string) {
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.Name == name {
				data = v.Data
			}
		}
	})
	return data
}

// Adopting returns a VM 300 that adopts a volume as its disk; more is added to the resource.
func Adopting(disk, more string) string {
	return "resource \"proxmox_vm\" \"x\" {\n  node = \"pve1\"\n  vmid = 200\n  name = \"x\"\n  disks = { scsi0 = " + disk + " }\n" +
		"  networks = { net0 = { bridge = \"vmbr0\" } }\n" + more + "\n}\n"
}

// AdoptedDisk is the disk that Adopting takes over.
const AdoptedDisk = `{ imported_disk = { volume = "local-zfs:vm-200-disk-0", source = "the VM before" } }`

// SmallDisk are the lines of a disk of one gigabyte, for DiskBlock.
const SmallDisk = `storage = "local-zfs"` + "\n  " + `size = "1G"`

// Must fails the test at once if err is not nil.
func (d *DataDisk) Must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// Lives makes a disk and a VM that has it, on the disk's node or on the other one where its storage is shared, grows it and removes both.
func (d *DataDisk) Lives(id Identity, storage string, shared bool) {
	ctx, w := d.Context(), d.World
	w.Mark()
	disk := func(size string) string { return DiskBlock(fmt.Sprintf("storage = %q", storage), "size = "+size) }
	vm := DiskAttached("a", 400, DiskVolume)
	elsewhere := strings.Replace(vm, `node = "pve1"`, `node = "pve2"`, 1)
	if shared {
		vm = elsewhere
	}
	s := w.Session(d.T, id, disk(`"1G"`)+vm)
	d.Must(s.Converge(ctx))
	w.Reconfigure(d.T, s, id, disk(`"2G"`)+vm)
	d.Must(s.Converge(ctx))
	d.Must(s.Refresh(ctx))
	if size := terraformtest.ShowValue(s.Attr("proxmox_vm.a", "disks.scsi1.size")); size != `"2G"` {
		d.Errorf("the VM has a disk of %s", size)
	}
	d.Must(s.Destroy(ctx))
	w.MustBeClean(d.T)
	if shared {
		return
	}
	w.Reconfigure(d.T, s, id, disk(`"1G"`)+elsewhere)
	MustRefuse(d.T, s.Run(ctx), []string{"is on another node"})
	MustRefuse(d.T, s.Run(ctx), []string{"is on another node"}) // now in the plan
	w.Reconfigure(d.T, s, id, disk(`"1G"`))
	d.Must(s.Destroy(ctx))
	w.MustBeClean(d.T)
}

// DiskBlock returns the disk with further lines in the place of its size.
func DiskBlock(more ...string) string {
	return "resource \"proxmox_disk\" \"data\" {\n  node = \"pve1\"\n  vmid = 300\n  " + strings.Join(more, "\n  ") + "\n}\n"
}

// DiskAddress is the address of the disk of DiskBlock.
const DiskAddress = "proxmox_disk.data"

// DataDisk is a world with the disk of VM 300 in it, whose content is marked.
type DataDisk struct {
	*testing.T
	World   *World
	Session *terraformtest.Session
}

// Mark gives the disk a content.
func (d *DataDisk) Mark() {
	d.World.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == 300 && v.Content == "images" {
				v.Data = "of the database"
			}
		}
	})
}

// Converge applies and wants an empty plan after it.
func (d *DataDisk) Converge() {
	d.Helper()
	if err := d.Session.Converge(d.Context()); err != nil {
		d.Fatal(err)
	}
}

// Configure replaces the configuration.
func (d *DataDisk) Configure(hcl string) {
	d.Helper()
	d.World.Reconfigure(d.T, d.Session, TokenNoSSH, hcl)
}

// To applies another configuration and wants an empty plan after it.
func (d *DataDisk) To(hcl string) {
	d.Helper()
	d.Configure(hcl)
	d.Converge()
}

// Volume is the one that carries the id of VM 300.
func (d *DataDisk) Volume() (found state.Volume) {
	d.World.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == 300 && v.Content == "images" {
				found = *v
			}
		}
	})
	return found
}

// Survives wants the disk to hold the written data, and its VM to be protected and off.
func (d *DataDisk) Survives() {
	d.Helper()
	if v := d.Volume(); v.Data != "of the database" {
		d.Errorf("the disk %s holds %q", v.Volid(), v.Data)
	}
	if g := GuestOf(d.World, 300); g.Config["protection"] != "1" || g.Running != nil || !strings.HasPrefix(g.Config["scsi0"], d.Attr("volume")) {
		d.Errorf("the VM that holds it: %v", g)
	}
}

// Attr returns an attribute of the disk as text.
func (d *DataDisk) Attr(name string) string {
	return strings.Trim(terraformtest.ShowValue(d.Session.Attr(DiskAddress, name)), `"`)
}

// DiskAttached is a VM with the disk, which is another resource's or named by its volume.
func DiskAttached(name string, vmid int, volume string, more ...string) string {
	return fmt.Sprintf("resource \"proxmox_vm\" %q {\n  node = \"pve1\"\n  vmid = %d\n  name = %q\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, "+
		"scsi1 = { imported_disk = { volume = %s } } }\n  networks = { net0 = { bridge = \"vmbr0\" } }\n  %s\n}\n", name, vmid, name, volume, strings.Join(more, "\n  "))
}

// DiskReleased is such a VM without the disk.
func DiskReleased(name string, vmid int, more ...string) string {
	return strings.Replace(DiskAttached(name, vmid, "", more...), ", scsi1 = { imported_disk = { volume =  } }", "", 1)
}

// DiskVolume refers to the volume of the disk of DiskBlock.
const DiskVolume = DiskAddress + ".volume"
