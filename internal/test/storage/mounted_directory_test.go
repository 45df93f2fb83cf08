package storage_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// mountByHand makes local2 a directory that an administrator has mounted on every node, in a cluster without shared storages. A VM of
// the other node has a volume on it.
func mountByHand(volume string) func(*state.World) {
	return func(world *state.World) {
		for id, s := range world.Storages {
			if s.Shared {
				delete(world.Storages, id)
			}
		}
		world.Storages["local2"].Options = map[string]string{"is_mountpoint": "yes"}
		world.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "other",
			"memory": "512", "scsi1": volume + ",size=1G", "smbios1": "uuid=66666666-2222-3333-4444-555555555555"}}
	}
}

// TestDiskOnAMountedDirectory: a directory with is_mountpoint may be one share on every node. A disk that a VM of the other node has is
// neither destroyed nor moved away.
func TestDiskOnAMountedDirectory(t *testing.T) {
	t.Parallel()
	vm := func(storage string) string {
		return rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\ndisks = { scsi0 = { storage = \"" + storage +
			"\", size = \"1G\", format = \"raw\" } }\n")
	}
	for name, c := range map[string]struct{ before, after string }{
		"destroy of a VM":   {vm("local2"), ""},
		"move of its disk":  {vm("local2"), vm("local")},
		"destroy of a disk": {rig.DiskBlock(`storage = "local2"`, `size = "1G"`, `format = "raw"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, c.before)
			rig.Must(t, s.Converge(t.Context()))
			const volume = "local2:300/vm-300-disk-0.raw"
			w.Change(mountByHand(volume))
			w.Reconfigure(t, s, rig.TokenNoSSH, c.after)
			rig.MustSay(t, s.Run(t.Context()), "VM 600", volume)
			if w.Sim.World().Volume("pve1", volume) == nil {
				t.Error("the disk is gone")
			}
		})
	}
}
