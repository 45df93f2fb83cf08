package orphan

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestVolumeOnAMountedDirectory is not known for an orphan: with is_mountpoint the directory may be a share, which another host uses. That
// also holds where it looks like the disk of a node that PVE's interface has mounted.
func TestVolumeOnAMountedDirectory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, value string }{
		"by hand":                    {"/mnt/nas", "yes"},
		"by hand, where PVE mounts":  {"/mnt/pve/nas", "yes"},
		"as PVE's interface does it": {"/mnt/pve/nas", "1"},
	} {
		r := newRig(t)
		r.change(func(w *state.World) {
			w.Storages["nas"] = &state.Storage{ID: "nas", Type: "dir", Path: c.path, Content: []string{"images"},
				Nodes: []string{"pve1"}, Total: 1 << 40, Options: map[string]string{"is_mountpoint": c.value}}
		})
		r.volume("nas", "777/vm-777-disk-0.raw", 777)
		r.mustFind(name, r.find(), "volume nas:777/vm-777-disk-0.raw unknown")
	}
}

// TestVolumeOfAGroupBesideATarget is not known for an orphan: the group may be on a LUN of the target, which another host may have, too.
// That also holds where it looks like the group of one node's disk that PVE's interface has made.
func TestVolumeOfAGroupBesideATarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		target bool
		nodes  []string
		want   string
	}{
		"made by hand":               {target: true, want: "unknown"},
		"as PVE's interface does it": {target: true, nodes: []string{"pve1"}, want: "unknown"},
		"no target":                  {want: "certain pvesm free san:vm-777-disk-0"},
	} {
		r := newRig(t)
		r.change(func(w *state.World) {
			if c.target {
				w.Storages["target"] = &state.Storage{ID: "target", Type: "iscsi", Shared: true, Content: []string{"images"}}
			}
			w.Storages["san"] = &state.Storage{ID: "san", Type: "lvm", Content: []string{"images"}, Nodes: c.nodes, Total: 1 << 40,
				Options: map[string]string{"vgname": "san"}}
		})
		r.volume("san", "vm-777-disk-0", 777)
		r.mustFind(name, r.find(), "volume san:vm-777-disk-0 "+c.want)
	}
}
