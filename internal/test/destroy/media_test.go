package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestMediumWithTheIDOfTheVMStays: a destroy and a replacement leave a volume that a third party has put into an optical
// drive, before the plan or since, as PVE does (qemu-server QemuServer.pm destroy_vm, drive_is_cdrom), and name it.
func TestMediumWithTheIDOfTheVMStays(t *testing.T) {
	t.Parallel()
	const medium = "local-zfs:vm-300-disk-7"
	for _, before := range []bool{true, false} {
		for _, replaced := range []bool{true, false} {
			w, s := rig.Applied(t, rig.TokenNoSSH, rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\n"+
				"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"))
			insert := func() {
				w.Change(func(world *state.World) {
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-7", VMID: 300, Content: "images",
						Format: "raw", Size: 2 << 30, Data: "theirs"})
					world.Guests[300].Config["ide2"] = medium + ",media=cdrom,size=2G"
				})
			}
			var options []terraformtest.PlanOption
			if !replaced {
				options = append(options, terraformtest.ToDestroy())
			}
			for _, address := range s.Addresses() {
				s.Taint(address, replaced)
			}
			if before {
				insert()
			}
			plan, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			if !before {
				insert()
			}
			err = s.Apply(t.Context(), plan)
			said, kept, is := fmt.Sprint(s.Diagnostics()), false, false
			w.Change(func(world *state.World) {
				v := world.Volume("pve1", medium)
				kept, is = v != nil && v.Data == "theirs", world.Guests[300] != nil
			})
			if err != nil || !kept || is != replaced || !strings.Contains(said, medium) {
				t.Errorf("before the plan %t, replaced %t: %v, the medium is there %t, a VM %t: %s", before, replaced, err, kept, is, said)
			}
		}
	}
}
