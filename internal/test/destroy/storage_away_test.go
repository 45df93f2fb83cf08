package destroy_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDestroyWaitsForTheStorage: PVE removes the configuration of a VM although it could not remove a volume on a storage
// that is away. Such a destroy is refused before anything happens, and goes through when the storage is back.
func TestDestroyWaitsForTheStorage(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(s *state.Storage, away bool){
		"not available": func(s *state.Storage, away bool) { s.Offline = away },
		"disabled":      func(s *state.Storage, away bool) { s.Disabled = away },
	} {
		for _, id := range rig.Identities() {
			t.Run(name+", "+string(id), func(t *testing.T) {
				w := rig.NewWorld(t)
				s := w.Session(t, id, rig.GuardedVM)
				if err := s.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.Change(func(world *state.World) { away(world.Storages["local-zfs"], true) })
				w.Sim.Advance(20e9)
				w.Mark()
				err := s.Destroy(t.Context())
				if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "local-zfs:vm-400-disk-0") {
					t.Errorf("want an error that names the volume and its storage as %s, got %v", name, err)
				}
				w.MustBeClean(t)
				w.Change(func(world *state.World) { away(world.Storages["local-zfs"], false) })
				w.Sim.Advance(20e9)
				if err := s.Destroy(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.Change(func(world *state.World) {
					for _, v := range world.Volumes {
						if v.VMID == 400 {
							t.Errorf("left: %s", v.Name)
						}
					}
				})
			})
		}
	}
}
