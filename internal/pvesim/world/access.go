package world

import (
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Guests of third parties that axes declare.
const (
	Hidden   = 8666 // no token sees it
	Aliasing = 8700 // has a disk of the VM at hand under the second name of its storage
	Forged   = 8800 // bears the forged mark
	Hostile  = 8900 // bears the hostile texts
)

// clients are the users and tokens of the default world whose rights the axes change.
func clients() []string {
	return []string{"terraform@pve", "terraform@pve!prov", "lite@pve", "lite@pve!prov"}
}

func accessAxes() []Axis {
	return []Axis{
		{
			Name: "rights below /vms", Sets: "`acl`: NoAccess on `/vms/8666` and on `/pool/sealed`",
			Means:   "A deeper entry takes away what the one on / gives, so a guest is there that the identity cannot see.",
			Declare: sealed,
		},
		{
			Name: "no Sys.Audit", Sets: "`roles`: the client's roles without Sys.Audit",
			Means: "The identity sees no other user's tasks, and no access list.",
			Declare: func(w *state.World) {
				for _, role := range []string{"TerraformProvider", "TerraformLite"} {
					w.Roles[role] = slices.DeleteFunc(slices.Clone(w.Roles[role]), func(p string) bool { return p == "Sys.Audit" })
				}
			},
		},
	}
}

func sealed(w *state.World) {
	guest(w, Hidden, "hidden", "local-zfs")
	w.Pools["sealed"] = &state.Pool{ID: "sealed", Guests: []int{Hidden}}
	for _, who := range clients() {
		w.ACL = append(w.ACL, state.ACLEntry{Path: "/vms/8666", Subject: who, Role: "NoAccess", Propagate: true},
			state.ACLEntry{Path: "/pool/sealed", Subject: who, Role: "NoAccess", Propagate: true})
	}
}
