package plan_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// addSources adds what the cases name.
func addSources(world *state.World) {
	world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/debian.iso", Content: "iso", Format: "iso", Size: 1 << 20})
	world.Put(state.WebBackup("pve1"))
	world.Pools["web"] = &state.Pool{ID: "web"}
	world.Pools["db"] = &state.Pool{ID: "db"}
}

// privilegeCases are the changes of each attribute, the creations with it, and the operations on other objects.
func privilegeCases(t *testing.T) []allowedCase {
	t.Helper()
	var all []allowedCase
	vmOf := func(config flat) func(*terraformtest.Session) error {
		return func(s *terraformtest.Session) error { return s.SetResource(driftAddress, config.tree()) }
	}
	changes := oneChanges(t)
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		before, after := changes[path].configs(500)
		all = append(all, allowedCase{name: "create with " + path, is: vmOf(after)},
			allowedCase{name: "update of " + path, was: vmOf(before), is: vmOf(after)},
			allowedCase{name: "destroy with " + path, was: vmOf(before)})
	}
	return all
}
