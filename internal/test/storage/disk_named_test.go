package storage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestHeldDiskStaysNamed: a slot that keeps the disk of another VM keeps imported_disk. Without it a disk that is moved within the
// VM afterwards would be taken for the VM's own, and destroyed with it.
func TestHeldDiskStaysNamed(t *testing.T) {
	t.Parallel()
	disk, vm := rig.DiskBlock(rig.SmallDisk), rig.DiskAttached("a", 400, rig.DiskVolume)
	const named = "imported_disk = { volume = proxmox_disk.data.volume }"
	for name, instead := range map[string]string{
		"storage and size": `storage = "local-zfs", size = "1G"`,
		"another storage":  `storage = "local-lvm", size = "2G"`,
		"a size":           `size = "1G"`,
		"an image":         `storage = "local-zfs", import_from = "local:import/disk.qcow2"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDataDisk(t, disk+vm)
			d.World.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			d.Configure(disk + strings.Replace(vm, named, instead, 1))
			rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"scsi1 has local-zfs:vm-300-disk-0", "Keep imported_disk", "take the slot out of disks"})
			takes(t, d, "1")
			d.Configure(disk)
			rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"scsi1 of VM 400 has the data of a disk that VM 300 holds"})
			if volume, where := holdsData(d.World); where != "VM scsi1" {
				t.Errorf("the data are in %q of %q", volume, where)
			}
		})
	}
}

// TestHeldDiskMakesRoom: the way out of that error, and a VM that was imported with such a volume.
func TestHeldDiskMakesRoom(t *testing.T) {
	t.Parallel()
	disk, vm := rig.DiskBlock(rig.SmallDisk), rig.DiskAttached("a", 400, rig.DiskVolume)
	own := strings.Replace(rig.DiskReleased("a", 400), "disks = { ", `disks = { scsi1 = { storage = "local-zfs", size = "1G" }, `, 1)
	d := newDataDisk(t, disk+vm)
	d.World.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
	d.To(disk + rig.DiskReleased("a", 400))
	d.To(disk + own)
	if has := rig.GuestOf(d.World, 400).Config["scsi1"]; !strings.HasPrefix(has, "local-zfs:vm-400-disk-1,") {
		t.Errorf("VM 400 has %s", has)
	}
	d.Survives()
	for name, hcl := range map[string]string{"with a size": own, "left out": rig.DiskReleased("a", 400)} {
		d := newDataDisk(t, disk+vm)
		d.Session.Forget("proxmox_vm.a")
		d.Configure(disk + hcl)
		rig.Must(t, d.Session.Import(t.Context(), "proxmox_vm.a", "400"))
		if err := d.Session.Converge(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		d.Survives()
	}
}

// TestEqualDisksOfTwoConfigurations: two configurations have a proxmox_disk each of one storage and size, and the second is applied some
// minutes after the first. Without a name, or with a guest that has the first one's, it is not told of as one that a killed run may have
// left. With a name of its own, and in no guest, it is; the warning never advises to remove it.
func TestEqualDisksOfTwoConfigurations(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		name  string
		used  bool
		named bool
	}{
		"without a name":           {},
		"without a name, in use":   {used: true},
		"with its own name":        {name: "archive", named: true},
		"with its own, and in use": {name: "archive", used: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			hcl := "resource \"proxmox_disk\" \"data\" {\n  node = \"pve1\"\n  storage = \"local-zfs\"\n  size = \"1G\"\n"
			if c.name != "" {
				hcl += "  name = \"" + c.name + "\"\n"
			}
			hcl += "}\n"
			one := w.Session(t, rig.TokenNoSSH, hcl)
			if c.used {
				rig.Must(t, one.Configure(w.ProviderBlock(rig.TokenNoSSH), hcl+rig.DiskAttached("a", 400, rig.DiskVolume)))
			}
			rig.Must(t, one.Run(t.Context()))
			w.Sim.Advance(10 * time.Minute)
			two := w.Session(t, rig.TokenNoSSH, hcl)
			rig.Must(t, two.Run(t.Context()))
			said := two.Diagnostics().String()
			if strings.Contains(said, "may be this one") != c.named || strings.Contains(said, "terraform import") != c.named ||
				strings.Contains(said, "remove it") {
				t.Errorf("the second one is told %q", said)
			}
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			rig.Must(t, two.Destroy(t.Context()))
			rig.Must(t, one.Destroy(t.Context()))
		})
	}
}

// TestPlanTellsOfARenamedDisk: a disk's block got another name without a moved block, so the plan destroys the disk and makes an empty one.
// Whichever plan Terraform shows second says so. Another disk, one that only goes or comes, and a tainted one are no such ones.
func TestPlanTellsOfARenamedDisk(t *testing.T) {
	t.Parallel()
	block := func(label, more string) string {
		return "resource \"proxmox_disk\" \"" + label + "\" {\nnode = \"pve1\"\nstorage = \"local-zfs\"\n" + more + "}\n"
	}
	const plain, id, named, large = "size = \"2G\"\n", "size = \"2G\"\nvmid = 300\n", "size = \"2G\"\nname = \"d\"\n", "size = \"3G\"\n"
	for name, c := range map[string]struct {
		was, is string
		tells   bool
	}{
		"alike":                {block("a", plain), block("b", plain), true},
		"alike, planned first": {block("b", plain), block("a", plain), true},
		"its vmid":             {block("a", id), block("b", "size = \"3G\"\nvmid = 300\n"), true},
		"its name":             {block("a", named), block("b", named), true},
		"another size":         {block("a", plain), block("b", large), false},
		"another name":         {block("a", plain), block("b", named), false},
		"goes":                 {block("a", plain), "", false},
		"one more":             {block("a", plain), block("a", plain) + block("b", plain), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, c.was)
			rig.Must(t, s.Converge(t.Context()))
			w.Sim.Advance(20e9)
			if name == "goes" {
				s.Taint("proxmox_disk.a", true)
				if _, err := s.Plan(t.Context()); err != nil || strings.Contains(s.Diagnostics().String(), "made under another address") {
					t.Errorf("tainted: %v; it says %s", err, s.Diagnostics())
				}
				s.Taint("proxmox_disk.a", false)
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, c.is)
			_, err := s.Plan(t.Context())
			if said := s.Diagnostics().String(); err != nil || strings.Contains(said, "made under another address") != c.tells {
				t.Errorf("%v; it says %s", err, said)
			}
		})
	}
}
