package orphan

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestVolumeOnAMountedDirectory is not known for an orphan: with is_mountpoint the directory may be a share, which another host uses.
func TestVolumeOnAMountedDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.change(func(w *state.World) {
		w.Storages["nas"] = &state.Storage{ID: "nas", Type: "dir", Path: "/mnt/nas", Content: []string{"images"},
			Nodes: []string{"pve1"}, Total: 1 << 40, Options: map[string]string{"is_mountpoint": "yes"}}
	})
	r.volume("nas", "777/vm-777-disk-0.raw", 777)
	r.mustFind("mounted", r.find(), "volume nas:777/vm-777-disk-0.raw unknown")
}
