package firewall

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// listSecurityGroups is GET /cluster/firewall/groups (pve-firewall API2/Firewall/Groups.pm). The rules of a group are
// not simulated.
func listSecurityGroups(r *engine.Request) (any, error) {
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(r.W.SecurityGroups)) {
		row := map[string]any{"group": name, "digest": objectsDigest(r.W.SecurityGroups)}
		if c := r.W.SecurityGroups[name]; c != "" {
			row["comment"] = c
		}
		list = append(list, row)
	}
	return list, nil
}

func createSecurityGroup(r *engine.Request) (any, error) {
	name, old := r.Params["group"], r.Params["rename"]
	next := maps.Clone(r.W.SecurityGroups)
	if next == nil {
		next = map[string]string{}
	}
	_, exists := next[name]
	_, known := next[old]
	switch {
	case old != "" && !known:
		return nil, perl.Invalid("group", "Security group '"+old+"' does not exist")
	case exists && old != name:
		return nil, perl.Invalid("group", "Security group '"+name+"' already exists")
	}
	comment := next[old]
	if c, ok := r.Params["comment"]; ok {
		comment = c
	}
	if old != "" {
		delete(next, old)
	}
	next[name], r.W.SecurityGroups = comment, next
	return nil, nil
}

// deleteSecurityGroup is content with a group that is not there.
func deleteSecurityGroup(r *engine.Request) (any, error) {
	r.W.SecurityGroups = maps.Clone(r.W.SecurityGroups)
	delete(r.W.SecurityGroups, r.Params["group"])
	return nil, nil
}
