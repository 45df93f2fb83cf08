package destroy_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDestroyBesideAnotherNodesOverlay: an image on the other node keeps the file that it is based on, and no file of the same name on a
// storage that each node has for itself. A directory that an administrator mounts may be one share.
func TestDestroyBesideAnotherNodesOverlay(t *testing.T) {
	t.Parallel()
	const disk = "300/vm-300-disk-0.raw"
	for name, c := range map[string]struct{ storages, overlaid, backing, refused string }{
		"that node's own file":             {"local", "local", "../" + disk, ""},
		"the same beside a share":          {"local shared-nfs", "local", "../" + disk, ""},
		"a share":                          {"local shared-nfs", "local", "/mnt/pve/shared-nfs/images/" + disk, "shared-nfs:"},
		"a directory mounted on each node": {"local2", "local2", "../" + disk, "local2:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) { world.Storages["local2"].Options = map[string]string{"is_mountpoint": "yes"} })
			disks := ""
			for i, storage := range strings.Fields(c.storages) {
				disks += "scsi" + string(rune('0'+i)) + " = { storage = \"" + storage + "\", size = \"1G\", format = \"raw\" }\n"
			}
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\ndisks = {\n"+disks+"}\n"))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				if c.refused != "shared-nfs:" {
					world.Put(&state.Volume{Storage: c.overlaid, Node: "pve2", Name: disk, VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
				}
				world.Put(&state.Volume{Storage: c.overlaid, Node: "pve2", Name: "600/vm-600-disk-0.qcow2", VMID: 600, Content: "images",
					Format: "qcow2", Size: 1 << 30, Backing: c.backing})
			})
			err := s.Destroy(t.Context())
			if c.refused == "" {
				rig.Must(t, err)
			} else if rig.MustSay(t, err, c.refused+disk+" is also used by VM 600", "on node pve2, which a move"); w.Sim.World().Guests[300] == nil {
				t.Error("VM 300 is gone")
			}
		})
	}
}
