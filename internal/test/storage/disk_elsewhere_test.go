package storage_test

import (
	"fmt"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPlanRefusesADiskOfAnotherNode: a storage that is not shared is another one on each node. The plan refuses to attach
// a proxmox_disk there to a VM of another node, where both are known, and nothing that the apply could do.
func TestPlanRefusesADiskOfAnotherNode(t *testing.T) {
	t.Parallel()
	disk := func(node, storage string) string {
		return fmt.Sprintf("resource \"proxmox_disk\" \"d\" {\n vmid = 600\n node = %q\n storage = %q\n size = \"1G\"\n}\n", node,
			storage)
	}
	vm := func(node, more string) string {
		return rig.VMBlock(fmt.Sprintf("name = \"x\"\nvmid = 400\nnode = %q\n"+
			"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } %s }", node, more))
	}
	const attached = `, scsi1 = { imported_disk = { volume = proxmox_disk.d.volume } }`
	local := disk("pve1", "local-zfs")
	for name, c := range map[string]struct {
		before, after string
		refused       bool
	}{
		"a VM of another node":        {local + vm("pve2", ""), local + vm("pve2", attached), true},
		"a new VM of another node":    {local, local + vm("pve2", attached), true},
		"a VM that leaves the node":   {local + vm("pve1", ""), local + vm("pve2", attached), true},
		"a VM of the node":            {local + vm("pve1", ""), local + vm("pve1", attached), false},
		"a new VM of the node":        {local, local + vm("pve1", attached), false},
		"a VM that comes to the node": {local + vm("pve2", ""), local + vm("pve1", attached), false},
		"a disk that comes to the VM": {local + vm("pve2", ""), disk("pve2", "local-zfs") + vm("pve2", attached), false},
		"a shared storage": {disk("pve1", "shared-nfs") + vm("pve2", ""),
			disk("pve1", "shared-nfs") + vm("pve2", attached), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, c.before)
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, c.after)
			pl, err := s.Plan(t.Context())
			if c.refused {
				rig.MustSay(t, err, `disks["scsi1"].imported_disk.volume`, "local-zfs:vm-600-disk-0 is on another node",
					"node pve1", "node pve2", "Next step")
				return
			}
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), pl))
		})
	}
}
