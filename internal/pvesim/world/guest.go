package world

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

func guestAxes() []Axis {
	return []Axis{
		{
			Name: "HA moves the VM", Sets: "`ha` for the VM at hand; actor: `ha-manager migrate`",
			Means:   "The manager takes the VM to another node while it is worked on.",
			Arrange: managed, Acts: []thirdparty.Order{{Act: thirdparty.HAMove}},
		},
		{
			Name: "HA rules", Sets: "`profile` 9.2, `ha` and `ha_rules` for the VM at hand",
			Means:   "Rules of an administrator name the VM, and PVE takes it out of them with its HA entry.",
			Declare: func(w *state.World) { w.Profile = "9.2" },
			Arrange: func(w *state.World, vmid int, draw *rand.Rand) {
				managed(w, vmid, draw)
				if w.HARules == nil {
					w.HARules = map[string]map[string]string{}
				}
				w.HARules["licence"] = map[string]string{"type": "node-affinity", "nodes": "pve1",
					"resources": fmt.Sprintf("vm:%d", vmid)}
			},
		},
		{
			Name: "backup starts the VM", Sets: "actor: a backup job that starts a stopped VM for a minute",
			Means: "A VM that nothing started runs, and is locked.",
			Acts:  []thirdparty.Order{{Act: thirdparty.BackupRun, ForMS: 60_000}},
		},
		{
			Name: "equal node names", Sets: "`guests`: the VM at hand is another cluster's",
			Means:    "The endpoint leads to another cluster with nodes of the same names and a VM of the same id.",
			Replaced: true, Arrange: replaced,
		},
		{
			Name: "imported, not yet applied", Sets: "the VM at hand is in state by an import alone",
			Means:    "State has every value, and nothing tells which ones the configuration ever had.",
			Imported: true,
		},
	}
}

// managed puts the VM at hand under HA in the state in which it is.
func managed(w *state.World, vmid int, _ *rand.Rand) {
	sid := fmt.Sprintf("vm:%d", vmid)
	if w.HA[sid] != nil || w.Guests[vmid].IsTemplate() {
		return
	}
	w.HA[sid] = &state.HAResource{SID: sid, State: "stopped"}
	if w.Guests[vmid].Running != nil {
		w.HA[sid].State = "started"
	}
}

// replaced puts another cluster's VM, with disks of its own, in the place of the one at hand.
func replaced(w *state.World, vmid int, _ *rand.Rand) {
	g := w.Guests[vmid]
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		volid, _, _ := strings.Cut(g.Config[opt], ",")
		if v := w.Volume(g.Node, volid); v != nil {
			v.Data = "another cluster's data in " + v.Name
		}
	}
	g.Config["smbios1"], g.Config["vmgenid"] = "uuid="+w.UUID(), w.UUID()
	g.Config["meta"] = "creation-qemu=9.2.0,ctime=1767225600"
}
