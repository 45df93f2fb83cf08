package ha

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// GroupRoutes are the routes of HA groups.
func GroupRoutes() engine.Routes {
	const base = "/cluster/ha/groups"
	return engine.Routes{
		"GET " + base:                 unmigrated("index groups", listHAGroups),
		"POST " + base:                unmigrated("create group", createHAGroup),
		"GET " + base + "/{group}":    unmigrated("read group", readHAGroup),
		"PUT " + base + "/{group}":    unmigrated("update group", updateHAGroup),
		"DELETE " + base + "/{group}": unmigrated("delete group", deleteHAGroup),
	}
}

// unmigrated refuses what is about groups where they have become rules (pve-ha-manager API2/HA/Groups.pm): the routes
// stay.
func unmigrated(what string, f engine.Func) engine.Func {
	return func(r *engine.Request) (any, error) {
		if r.W.Has(state.GroupsAreRules) {
			return nil, perl.Die("cannot %s: ha groups have been migrated to rules", what)
		}
		return f(r)
	}
}

func describeHAGroup(w *state.World, g *state.HAGroup) map[string]any {
	row := map[string]any{"group": g.ID, "type": "group", "nodes": strings.Join(g.Nodes, ","), "digest": haDigest(w)}
	if g.Comment != "" {
		row["comment"] = g.Comment
	}
	for name, flag := range map[string]bool{"restricted": g.Restricted, "nofailback": g.NoFailback} {
		if flag {
			row[name] = 1
		}
	}
	return row
}

func listHAGroups(r *engine.Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.HAGroups)) {
		list = append(list, describeHAGroup(r.W, r.W.HAGroups[id]))
	}
	return list, nil
}

func readHAGroup(r *engine.Request) (any, error) {
	g := r.W.HAGroups[r.Params["group"]]
	if g == nil {
		return nil, perl.Die("no such ha group '%s'", r.Params["group"])
	}
	return describeHAGroup(r.W, g), nil
}

func fillHAGroup(r *engine.Request, g *state.HAGroup) {
	if nodes, ok := r.Params["nodes"]; ok {
		g.Nodes = perl.ListItems(nodes)
	}
	for name, flag := range map[string]*bool{"restricted": &g.Restricted, "nofailback": &g.NoFailback} {
		if _, ok := r.Params[name]; ok {
			*flag = r.Flag(name)
		}
		if slices.Contains(perl.ListItems(r.Params["delete"]), name) {
			*flag = false
		}
	}
	if c, ok := r.Params["comment"]; ok {
		g.Comment = c
	}
	if slices.Contains(perl.ListItems(r.Params["delete"]), "comment") {
		g.Comment = ""
	}
}

func createHAGroup(r *engine.Request) (any, error) {
	id := r.Params["group"]
	if r.W.HAGroups[id] != nil {
		return nil, perl.Die("create ha group failed: ha group ID '%s' already defined", id)
	}
	g := &state.HAGroup{ID: id}
	fillHAGroup(r, g)
	r.W.HAGroups[id] = g
	return nil, nil
}

func updateHAGroup(r *engine.Request) (any, error) {
	g := r.W.HAGroups[r.Params["group"]]
	if g == nil {
		return nil, perl.Die("update ha group failed: no such ha group '%s'", r.Params["group"])
	}
	for _, k := range perl.ListItems(r.Params["delete"]) {
		switch k {
		case "restricted", "nofailback", "comment":
		case "nodes":
			return nil, perl.Die("update ha group failed: unable to delete required option '%s'", k)
		default:
			return nil, perl.Die("update ha group failed: no such option '%s'", k)
		}
	}
	fillHAGroup(r, g)
	return nil, nil
}

func deleteHAGroup(r *engine.Request) (any, error) {
	id := r.Params["group"]
	for _, sid := range slices.Sorted(maps.Keys(r.W.HA)) {
		if r.W.HA[sid].Group == id {
			return nil, perl.Die("delete ha group failed: ha group is used by service '%s'", sid)
		}
	}
	delete(r.W.HAGroups, id)
	return nil, nil
}
