package orphan

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestVolumeOnAMountedDirectory is not known for an orphan: with is_mountpoint the directory may be a share, which another host uses. The
// disk of a node that PVE's interface has mounted is none.
func TestVolumeOnAMountedDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.change(func(w *state.World) {
		w.Storages["nas"] = &state.Storage{ID: "nas", Type: "dir", Path: "/mnt/nas", Content: []string{"images"},
			Nodes: []string{"pve1"}, Total: 1 << 40, Options: map[string]string{"is_mountpoint": "yes"}}
	})
	r.volume("nas", "777/vm-777-disk-0.raw", 777)
	r.mustFind("mounted", r.find(), "volume nas:777/vm-777-disk-0.raw unknown")
	r.change(func(w *state.World) {
		w.Storages["nas"].Path, w.Storages["nas"].Options["is_mountpoint"] = "/mnt/pve/nas", "1"
	})
	r.as(r.sim.Credentials().Token)
	r.mustFind("a disk of the node, as PVE's interface mounts it", r.find(), "volume nas:777/vm-777-disk-0.raw certain pvesm free nas:777/vm-777-disk-0.raw")
}
