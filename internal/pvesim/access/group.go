package access

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// GroupRoutes are those of groups of users (access-control API2/Group.pm).
func GroupRoutes() engine.Routes {
	const base = "/access/groups"
	return engine.Routes{
		"GET " + base: listGroups, "POST " + base: createGroup, "GET " + base + "/{groupid}": readGroup,
		"PUT " + base + "/{groupid}": updateGroup, "DELETE " + base + "/{groupid}": deleteGroup,
	}
}

func membersOf(w *state.World, group string) []string {
	list := []string{}
	for _, id := range slices.Sorted(maps.Keys(w.Users)) {
		if slices.Contains(w.Users[id].Groups, group) {
			list = append(list, id)
		}
	}
	return list
}

func listGroups(r *engine.Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Groups)) {
		if r.CheckAny("/access/groups/"+id, "User.Modify", "Sys.Audit", "Group.Allocate") != nil {
			continue
		}
		row := map[string]any{"groupid": id, "users": strings.Join(membersOf(r.W, id), ",")}
		if c := r.W.Groups[id].Comment; c != "" {
			row["comment"] = c
		}
		list = append(list, row)
	}
	return list, nil
}

func group(r *engine.Request, failed string) (*state.Group, error) {
	if g := r.W.Groups[r.Params["groupid"]]; g != nil {
		return g, nil
	}
	return nil, perl.Die("%sgroup '%s' does not exist", failed, r.Params["groupid"])
}

func readGroup(r *engine.Request) (any, error) {
	g, err := group(r, "")
	if err != nil {
		return nil, err
	}
	data := map[string]any{"members": membersOf(r.W, g.ID)}
	if g.Comment != "" {
		data["comment"] = g.Comment
	}
	return data, nil
}

func createGroup(r *engine.Request) (any, error) {
	id := r.Params["groupid"]
	if r.W.Groups[id] != nil {
		return nil, perl.Die("create group failed: group '%s' already exists", id)
	}
	if r.W.Groups == nil {
		r.W.Groups = map[string]*state.Group{}
	}
	r.W.Groups[id] = &state.Group{ID: id, Comment: r.Params["comment"]}
	return nil, nil
}

func updateGroup(r *engine.Request) (any, error) {
	g, err := group(r, "update group failed: ")
	if err != nil {
		return nil, err
	}
	if c, ok := r.Params["comment"]; ok {
		g.Comment = c
	}
	return nil, nil
}

// deleteGroup takes the group away from its users and out of the access list.
func deleteGroup(r *engine.Request) (any, error) {
	g, err := group(r, "delete group failed: ")
	if err != nil {
		return nil, err
	}
	delete(r.W.Groups, g.ID)
	for _, u := range r.W.Users {
		u.Groups = perl.Without(u.Groups, g.ID)
	}
	r.W.ACL = slices.DeleteFunc(r.W.ACL, func(e state.ACLEntry) bool { return e.Subject == "@"+g.ID })
	return nil, nil
}
