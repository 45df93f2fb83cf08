package storage_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// passed is a disk of the node.
const passed = "/dev/disk/by-id/ata-DISK_1"

// passing is the configuration of VM 400 with more disks than its own.
func passing(way, disks string) string {
	how := map[string]string{"clone": "clone = { vmid = 9000 }\n"}[way]
	return rig.VMBlock("name = \"x\"\nvmid = 400\nnode = \"pve1\"\n" + how +
		"disks = {\n scsi0 = { storage = \"local-zfs\", size = \"2G\" }\n" + disks + "}\n")
}

// device is a slot with a device of the node.
func device(slot, path string) string {
	return " " + slot + " = { imported_disk = { volume = \"" + path + "\" } }\n"
}

// passingTo is a session in which root gives VM 400 a device, and the cluster.
func passingTo(t *testing.T, way, path string) (*rig.World, *terraformtest.Session) {
	t.Helper()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) { world.Nodes["pve1"].WriteFile(path, "a disk") })
	s := w.Session(t, rig.RootTicket, passing(way, ""))
	if way == "update" {
		rig.Must(t, s.Converge(t.Context()))
	}
	w.Reconfigure(t, s, rig.RootTicket, passing(way, device("scsi1", path)))
	return w, s
}

// TestDeviceThatAnotherGuestHas: a device of the node that another guest of the node has, under whatever name, is not
// passed through to a VM, neither to a new one nor to one that is there.
func TestDeviceThatAnotherGuestHas(t *testing.T) {
	t.Parallel()
	const volume, lun = "/dev/zvol/rpool/data/vm-600-disk-0", "600140500000000000000000000000aa"
	for name, c := range map[string]struct {
		path, option, theirs, node string
		free                       bool
	}{
		"the device":                {path: passed, option: "scsi0", theirs: passed + ",size=1G"},
		"a partition of it":         {path: passed, option: "scsi0", theirs: passed + "-part1"},
		"its volume, by its id":     {path: volume, option: "scsi0", theirs: "local-zfs:vm-600-disk-0"},
		"a snapshot of it":          {path: "/dev/pve/snap_vm-600-disk-0_a", option: "scsi0", theirs: "local-lvm:vm-600-disk-0", free: true},
		"its volume has a snapshot": {path: "/dev/pve/vm-500-disk-0", option: "scsi0", theirs: "/dev/pve/snap_vm-500-disk-0_a", free: true},
		"the snapshot, mapped": {path: "/dev/pve/snap_vm-500-disk-0_a", option: "scsi0",
			theirs: "/dev/mapper/pve-snap_vm--500--disk--0_a"},
		"a number":                  {path: "/dev/zd16", option: "scsi0", theirs: "/dev/zd16"},
		"an argument of QEMU":       {path: passed, option: "args", theirs: "-drive file=" + passed + ",if=virtio"},
		"a disk over several paths": {path: "/dev/mapper/mpatha", option: "scsi0", theirs: "/dev/mapper/mpatha-part1"},
		"a disk of its partition":   {path: "/dev/mapper/mpatha-part1", option: "scsi0", theirs: "/dev/disk/by-id/dm-name-mpatha"},
		"a volume of a group":       {path: "/dev/mapper/pve-data", option: "scsi0", theirs: "/dev/pve/data-part1"},
		"a disk of the kernel":      {path: "/dev/sdb", option: "scsi0", theirs: "/dev/sdb1"},
		"a disk over NVMe":          {path: "/dev/nvme1n1", option: "scsi0", theirs: "/dev/nvme1n1p1"},
		"a LUN of another node":     {path: "/dev/disk/by-id/wwn-0x" + lun, option: "scsi0", theirs: "/dev/mapper/3" + lun, node: "pve2"},
		"a LUN with an EUI-64":      {path: "/dev/disk/by-id/scsi-2" + lun, option: "scsi0", theirs: "/dev/mapper/2" + lun, node: "pve2"},
		"a LUN of a target": {path: "/dev/disk/by-path/ip-10.0.0.5:3260-iscsi-iqn.2003-01.san:t1-lun-1", option: "scsi0",
			theirs: "/dev/disk/by-path/ip-10.0.0.6:3260-iscsi-iqn.2003-01.san:t1-lun-1", node: "pve2"},
		"another LUN": {path: "/dev/disk/by-id/wwn-0x" + lun, option: "scsi0", theirs: "/dev/mapper/360014051111111111111111111111111",
			node: "pve2", free: true},
		"another partition":          {path: passed + "-part2", option: "scsi0", theirs: passed + "-part1", free: true},
		"one of that name elsewhere": {path: passed, option: "scsi0", theirs: "/dev/vg/ata-DISK_1", free: true},
		"that path of another node":  {path: passed, option: "scsi0", theirs: passed, node: "pve2", free: true},
	} {
		for _, way := range []string{"create", "clone", "update"} {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				w, s := passingTo(t, way, c.path)
				w.Change(func(world *state.World) {
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-600-disk-0", Content: "images", VMID: 600,
						Format: "raw", Size: 1 << 30})
					world.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: cmp.Or(c.node, "pve1"), Config: map[string]string{
						"name": "other", "memory": "512", c.option: c.theirs, "smbios1": "uuid=66666666-2222-3333-4444-555555555555"}}
				})
				if c.free {
					rig.Must(t, s.Converge(t.Context()))
				} else {
					rig.MustRefuse(t, s.Run(t.Context()), []string{"VM 600 (other) on node " + cmp.Or(c.node, "pve1"), c.path,
						`disks["scsi1"].imported_disk.volume`})
				}
				has, _, _ := strings.Cut(rig.GuestOf(w, 400).Config["scsi1"], ",")
				if c.free != (has == c.path) {
					t.Errorf("scsi1 is %q", has)
				}
			})
		}
	}
}

// TestDeviceComesAndGoes: a VM that is there gets a device of the node, has it in another slot, and lets go of it.
func TestDeviceComesAndGoes(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		w, s := passingTo(t, "update", passed)
		more := map[bool]string{true: "", false: "power_state = \"stopped\"\n"}[running]
		for _, disks := range []string{device("scsi1", passed), device("scsi2", passed), "",
			" scsi1 = { storage = \"local-zfs\", size = \"1G\" }\n", device("scsi1", passed), device("scsi1", passed+"-part1"), ""} {
			w.Change(func(world *state.World) { world.Nodes["pve1"].WriteFile(passed+"-part1", "a part") })
			w.Reconfigure(t, s, rig.RootTicket, strings.Replace(passing("", disks), "disks = {", more+"removed_disks = \"destroy\"\ndisks = {", 1))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatalf("running %t, with %q: %v", running, disks, err)
			}
			for slot, value := range rig.GuestOf(w, 400).Config {
				if strings.HasPrefix(value, passed) && !strings.Contains(disks, slot) {
					t.Errorf("running %t, with %q: %s is %s", running, disks, slot, value)
				}
			}
		}
	}
}

// TestDeviceThatWasExchanged: a third party has put another device into the slot. The next apply puts the one of the
// configuration there.
func TestDeviceThatWasExchanged(t *testing.T) {
	t.Parallel()
	w, s := passingTo(t, "create", passed)
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) { world.Guests[400].Config["scsi1"] = "/dev/disk/by-id/ata-DISK_2" })
	rig.Must(t, s.Converge(t.Context()))
	if is := rig.GuestOf(w, 400).Config["scsi1"]; is != passed {
		t.Errorf("scsi1 is %s", is)
	}
}

// TestDeviceThatWasRestored: a restore makes a volume of a device, with the data of the backup. The next apply leaves it in
// its slot, as one of an imported VM, of which nothing shows that it was the device.
func TestDeviceThatWasRestored(t *testing.T) {
	t.Parallel()
	for _, imported := range []bool{false, true} {
		w, s := passingTo(t, "create", passed)
		rig.Must(t, s.Converge(t.Context()))
		w.Change(func(world *state.World) {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-5", Content: "images", VMID: 400,
				Format: "raw", Size: 1 << 30})
			world.Guests[400].Config["scsi1"] = "local-zfs:vm-400-disk-5,size=1G"
		})
		if imported {
			s.Forget(rig.VMAddress)
			rig.Must(t, s.Import(t.Context(), rig.VMAddress, "400"))
			rig.MustRefuse(t, s.Run(t.Context()), []string{passed, "nothing shows whether"})
		} else {
			rig.Must(t, s.Converge(t.Context()))
		}
		if is := rig.GuestOf(w, 400).Config["scsi1"]; !strings.HasPrefix(is, "local-zfs:vm-400-disk-5,") {
			t.Errorf("imported %t: scsi1 is %s", imported, is)
		}
	}
}
