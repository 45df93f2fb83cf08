// Package storage has the storages, their contents, uploads and downloads.
package storage

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Routes are the routes of storages and their contents.
func Routes() engine.Routes {
	const base = "/nodes/{node}/storage"
	return engine.Routes{
		"GET /storage":                                   storageConfigs,
		"GET /storage/{storage}":                         storageConfig,
		"POST /storage":                                  createStorage,
		"PUT /storage/{storage}":                         updateStorage,
		"DELETE /storage/{storage}":                      deleteStorage,
		"GET " + base:                                    storageList,
		"GET " + base + "/{storage}":                     storageIndex,
		"GET " + base + "/{storage}/status":              storageStatus,
		"GET " + base + "/{storage}/content":             contentList,
		"POST " + base + "/{storage}/content":            contentAlloc,
		"GET " + base + "/{storage}/content/{volume}":    contentInfo,
		"PUT " + base + "/{storage}/content/{volume}":    contentUpdate,
		"DELETE " + base + "/{storage}/content/{volume}": DeleteContent,
		"GET " + base + "/{storage}/prunebackups":        pruneDryRun,
		"DELETE " + base + "/{storage}/prunebackups":     pruneBackups,
		"POST " + base + "/{storage}/upload":             contentUpload,
		"POST " + base + "/{storage}/download-url":       contentDownload,
		"GET " + base + "/{storage}/import-metadata":     importMetadata,
	}
}

func storageIndex(*engine.Request) (any, error) {
	return engine.Subdirs("content", "download-url", "file-restore", "import-metadata", "prunebackups", "rrd", "rrddata",
		"status", "upload"), nil
}

// storageInfo is a storage's state on a node (PVE::Storage::storage_info). An unusable one has no sizes.
func storageInfo(w *state.World, node string, s *state.Storage) map[string]any {
	_, off := w.StorageEnabled(node, s.ID)
	out := map[string]any{
		"type": s.Type, "content": strings.Join(s.Content,
			","), "enabled": perl.Flag(off == nil), "shared": perl.Flag(s.Shared),
		"active": perl.Flag(off == nil && !s.Offline), "total": int64(0), "used": int64(0), "avail": int64(0),
	}
	if _, err := w.StorageActive(node, s.ID); err == nil {
		used := w.Used(node, s)
		out["total"], out["used"], out["avail"] = s.Total, used, max(0, s.Total-used)
	}
	return out
}

func storageList(r *engine.Request) (any, error) {
	node := r.Node()
	if target := r.Params["target"]; target != "" && target != node && r.W.Nodes[target] == nil {
		return []any{}, nil // no storage is shared with a node that is none
	}
	if want := r.Params["storage"]; want != "" && r.W.Storages[want] == nil {
		return nil, perl.Invalid("storage", "No such storage.")
	}
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Storages)) {
		s := r.W.Storages[id]
		if want := r.Params["storage"]; want != "" && want != id {
			continue
		}
		if r.CheckAny("/storage/"+id, "Datastore.Audit", "Datastore.AllocateSpace") != nil ||
			!storageHas(s, r.Params["content"]) {
			continue
		}
		info := storageInfo(r.W, node, s)
		// one that other nodes have is listed as not enabled (pve-storage Storage.pm storage_info)
		if r.Flag("enabled") && s.Disabled || r.Params["content"] != "" && info["enabled"] == 0 {
			continue
		}
		if target := r.Params["target"]; target != "" {
			if _, err := r.W.StorageEnabled(target, id); err != nil {
				continue
			}
		}
		info["storage"] = id
		if r.Flag("format") && info["active"] == 1 && s.Has("images") && (s.IsDir() || s.Type == "zfspool") {
			info["format"] = formatsOf(s)
		}
		if s.Total > 0 && info["active"] == 1 {
			info["used_fraction"] = float64(r.W.Used(node, s)) / float64(s.Total)
		}
		list = append(list, info)
	}
	return list, nil
}

// formatsOf are the formats of a storage that has several, and its default one (PVE::Storage, storage_info).
func formatsOf(s *state.Storage) []any {
	all := map[string]any{"subvol": 1}
	for _, f := range s.Formats() {
		all[f] = 1
	}
	return []any{all, "raw"}
}

func storageHas(s *state.Storage, contents string) bool {
	wanted := perl.SplitList(contents)
	return len(wanted) == 0 || slices.ContainsFunc(wanted, s.Has)
}

func storageStatus(r *engine.Request) (any, error) {
	s := r.W.Storages[r.Params["storage"]]
	if s == nil {
		return nil, perl.Invalid("storage", "No such storage.")
	}
	return storageInfo(r.W, r.Node(), s), nil
}
