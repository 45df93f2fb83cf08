package cluster

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// MappingRoutes are the routes of resource mappings (pve-manager API2/Cluster/Mapping).
func MappingRoutes() engine.Routes {
	routes := engine.Routes{}
	for _, kind := range []string{"pci", "usb", "dir"} {
		base := "/cluster/mapping/" + kind
		routes["GET "+base] = listMappings(kind)
		routes["POST "+base] = createMapping(kind)
		routes["GET "+base+"/{id}"] = readMapping(kind)
		routes["PUT "+base+"/{id}"] = updateMapping(kind)
		routes["DELETE "+base+"/{id}"] = deleteMapping(kind)
	}
	return routes
}

// describeMapping is an entry of the file. The devices of the nodes of a mapping that a world declares are made up.
func describeMapping(w *state.World, m *state.Mapping) map[string]any {
	entries := slices.Clone(m.Entries)
	if len(entries) == 0 {
		for _, n := range m.Nodes {
			entries = append(entries, "node="+n)
		}
	}
	row := map[string]any{"type": m.Kind, "map": entries, "digest": mappingDigest(w, m.Kind)}
	if m.Description != "" {
		row["description"] = m.Description
	}
	if m.LiveMigration {
		row["live-migration-capable"] = 1
	}
	if m.Mediated {
		row["mdev"] = 1
	}
	return row
}

func mappingDigest(w *state.World, kind string) string {
	sum := sha1.New()
	for _, m := range w.Mappings {
		if m.Kind == kind {
			_, _ = fmt.Fprintln(sum, *m) // never fails
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func listMappings(kind string) engine.Func {
	return func(r *engine.Request) (any, error) {
		check := r.Params["check-node"]
		if check != "" && r.W.Nodes[check] == nil {
			return nil, engine.UnknownNode(check)
		}
		list := []any{}
		for _, m := range r.W.Mappings {
			if m.Kind != kind || r.CheckAny("/mapping/"+kind+"/"+m.ID, "Mapping.Modify", "Mapping.Use", "Mapping.Audit") != nil {
				continue
			}
			row := describeMapping(r.W, m)
			row["id"] = m.ID
			if check != "" {
				row["checks"] = []any{}
				if !m.On(check) {
					row["checks"] = []any{map[string]any{"severity": "warning", "message": "No mapping for node " + check + "."}}
				}
			}
			list = append(list, row)
		}
		return list, nil
	}
}

func readMapping(kind string) engine.Func {
	return func(r *engine.Request) (any, error) {
		m := r.W.Mapping(kind, r.Params["id"])
		if m == nil {
			return nil, perl.Die("mapping '%s' not found", r.Params["id"])
		}
		return describeMapping(r.W, m), nil
	}
}

// fillMapping takes over what the request says of a mapping.
func fillMapping(r *engine.Request, m *state.Mapping) {
	if entries, ok := r.Params["map"]; ok {
		m.Entries, m.Nodes = strings.Split(entries, "\x00"), nil
		for _, e := range m.Entries {
			if n := perl.Subvalue(e, "node", false); n != "" && !slices.Contains(m.Nodes, n) {
				m.Nodes = append(m.Nodes, n)
			}
		}
	}
	if d, ok := r.Params["description"]; ok {
		m.Description = d
	}
	if _, ok := r.Params["live-migration-capable"]; ok {
		m.LiveMigration = r.Flag("live-migration-capable")
	}
	if _, ok := r.Params["mdev"]; ok {
		m.Mediated = r.Flag("mdev")
	}
	for _, k := range perl.ListItems(r.Params["delete"]) {
		switch k {
		case "mdev":
			m.Mediated = false
		case "description":
			m.Description = ""
		case "live-migration-capable":
			m.LiveMigration = false
		}
	}
}

func createMapping(kind string) engine.Func {
	return func(r *engine.Request) (any, error) {
		id := r.Params["id"]
		if r.W.Mapping(kind, id) != nil {
			return nil, perl.Die("create hardware mapping failed: %s ID '%s' already defined", kind, id)
		}
		m := &state.Mapping{Kind: kind, ID: id}
		fillMapping(r, m)
		r.W.Mappings = append(r.W.Mappings, m)
		return nil, nil
	}
}

func updateMapping(kind string) engine.Func {
	return func(r *engine.Request) (any, error) {
		if want := r.Params["digest"]; want != "" && want != mappingDigest(r.W, kind) {
			return nil, perl.Die("update hardware mapping failed: detected modified configuration - file changed by other " +
				"user? Try again.")
		}
		m := r.W.Mapping(kind, r.Params["id"])
		if m == nil {
			return nil, perl.Die("update hardware mapping failed: %s ID '%s' does not exist", kind, r.Params["id"])
		}
		next := *m
		fillMapping(r, &next)
		*m = next
		return nil, nil
	}
}

// deleteMapping is content with a mapping that is not there.
func deleteMapping(kind string) engine.Func {
	return func(r *engine.Request) (any, error) {
		r.W.Mappings = slices.DeleteFunc(slices.Clone(r.W.Mappings), func(m *state.Mapping) bool {
			return m.Kind == kind && m.ID == r.Params["id"]
		})
		return nil, nil
	}
}
