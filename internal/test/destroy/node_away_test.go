package destroy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDestroyWithANodeAway: a destroy removes the VMs of the other nodes, and keeps that of a node which is away in state.
// Where a VM there has a change in the configuration, the plan before the destroy is refused with the ways out, of which
// -refresh=false is one. When the node is back the destroy goes through. The storage of a backup server, which all nodes have, holds no
// disk of a guest.
func TestDestroyWithANodeAway(t *testing.T) {
	t.Parallel()
	const config = `resource "proxmox_vm" "a" {
  for_each = toset(["pve1", "pve2"])
  node     = each.key
  memory   = { size = 512 }
  disks    = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`
	for name, c := range map[string]struct {
		configured string // by the time of the destroy
		refused    bool
	}{
		"unchanged": {config, false},
		"changed":   {strings.Replace(config, "512", "1024", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Storages["pbs"] = &state.Storage{ID: "pbs", Type: "pbs", Shared: true, Content: []string{"backup"}, Total: 1 << 40}
			})
			w.Mark()
			s := w.Session(t, rig.TokenNoSSH, config)
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) { world.Nodes["pve2"].Online = false })
			w.Reconfigure(t, s, rig.TokenNoSSH, c.configured)
			err := s.Destroy(t.Context())
			if c.refused {
				if err == nil || !strings.Contains(err.Error(), "Node pve2 is not online") ||
					!strings.Contains(err.Error(), "-refresh=false") || len(s.Addresses()) != 2 {
					t.Errorf("%v are in state, and the destroy says %v", s.Addresses(), err)
				}
				pl, planned := s.Plan(t.Context(), terraformtest.ToDestroy(), terraformtest.WithoutRefresh())
				rig.Must(t, planned)
				err = s.Apply(t.Context(), pl)
			}
			if err == nil || !strings.Contains(err.Error(), "destroy again when the node is back") {
				t.Errorf("the destroy says %v", err)
			}
			if got := s.Addresses(); !slices.Equal(got, []string{`proxmox_vm.a["pve2"]`}) {
				t.Errorf("in state: %v", got)
			}
			w.Change(func(world *state.World) { world.Nodes["pve2"].Online = true })
			rig.Must(t, s.Destroy(t.Context()))
			w.MustBeClean(t)
		})
	}
}
