package storage

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// configEntry is an entry of storage.cfg.
func configEntry(s *state.Storage) map[string]any {
	out := map[string]any{"storage": s.ID, "type": s.Type, "content": strings.Join(s.Content, ",")}
	switch s.Type {
	case "zfspool":
		out["pool"], out["sparse"] = s.Path, 1
	case "lvmthin":
		_, thin, _ := strings.Cut(s.Path, "/")
		out["vgname"], out["thinpool"] = s.VG(), thin
	case "lvm":
		out["vgname"] = s.VG()
	case "rbd":
		out["pool"] = s.Path
	case "iscsi":
		out["portal"], out["target"] = "san.example", s.Path
	case "nfs":
		out["path"], out["server"], out["export"] = s.Path, "nas.example", cmp.Or(s.Export, "/export/"+s.ID)
	default:
		out["path"] = s.Path
	}
	for k, v := range s.Options {
		out[k] = v
		if n, ok := perl.ParseNumber(v); ok {
			out[k] = n
		}
	}
	if s.Shared {
		out["shared"] = 1
	}
	if s.Disabled {
		out["disable"] = 1
	}
	if len(s.Nodes) > 0 {
		out["nodes"] = strings.Join(s.Nodes, ",")
	}
	return out
}

func storageConfigs(r *engine.Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Storages)) {
		s := r.W.Storages[id]
		if t := r.Params["type"]; t != "" && t != s.Type {
			continue
		}
		if r.CheckAny("/storage/"+id, "Datastore.Audit", "Datastore.AllocateSpace") == nil {
			list = append(list, storageEntry(r, s))
		}
	}
	return list, nil
}

func storageConfig(r *engine.Request) (any, error) {
	s, err := r.W.StorageConfig(r.Params["storage"])
	if err != nil {
		return nil, err
	}
	return storageEntry(r, s), nil
}

// storageEntry is an entry with the digest of the whole file.
func storageEntry(r *engine.Request, s *state.Storage) map[string]any {
	sum := sha1.New()
	for _, id := range slices.Sorted(maps.Keys(r.W.Storages)) {
		_, _ = fmt.Fprintln(sum, configEntry(r.W.Storages[id])) // fmt prints maps in the order of their keys
	}
	out := configEntry(s)
	out["digest"] = hex.EncodeToString(sum.Sum(nil))
	return out
}

// createStorage is POST /storage (API2/Storage/Config.pm) for the types that the simulator knows. It does not look
// at the disk or share below the storage.
func createStorage(r *engine.Request) (any, error) {
	p := r.Params
	if r.W.Storages[p["storage"]] != nil {
		return nil, perl.Die("create storage failed: storage ID '%s' already defined", p["storage"])
	}
	s := &state.Storage{ID: p["storage"], Type: p["type"], Content: perl.SplitList(p["content"]),
		Nodes: perl.SplitList(p["nodes"]), Total: 100 << 30,
		Shared: r.Flag("shared"), Disabled: r.Flag("disable")}
	if err := storageProperties(p); err != nil {
		return nil, err
	}
	required := map[string]string{"dir": "path", "btrfs": "path", "nfs": "export", "zfspool": "pool", "lvm": "vgname",
		"lvmthin": "thinpool"}[s.Type]
	switch {
	case required == "":
		return nil, &perl.Error{Status: 501, Message: "Storages of type '" + s.Type + "' not simulated"}
	case p[required] == "":
		return nil, perl.Die("missing value for required option '%s'", required)
	}
	switch s.Type {
	case "nfs":
		s.Path, s.Export, s.Shared = "/mnt/pve/"+s.ID, p["export"], true
	case "lvmthin":
		s.Path = p["vgname"] + "/" + p["thinpool"]
	default:
		s.Path = p[required]
	}
	if len(s.Content) == 0 {
		s.Content = []string{"images", "rootdir"}
	}
	if s.Type == "dir" && !makesDirectory(p) && !hasDirectory(r, s) {
		return nil, perl.Die("create storage failed: unable to activate storage '%s' - directory '%s' does not exist or is "+
			"unreachable", s.ID, s.Path)
	}
	keepOptions(s, p)
	s.Same = sameDirectory(r.W, s)
	r.W.Storages[s.ID] = s
	return map[string]any{"storage": s.ID, "type": s.Type}, nil
}

// sameDirectory is the storage of directories whose path a new one has, too: PVE does not look for it. Empty: none.
func sameDirectory(w *state.World, s *state.Storage) string {
	for _, id := range slices.Sorted(maps.Keys(w.Storages)) {
		other := w.Storages[id]
		if s.Type == "dir" && other.Type == "dir" && other.Same == "" && path.Clean(other.Path) == path.Clean(s.Path) {
			return id
		}
	}
	return ""
}

// keptOptions are the properties that the simulator only keeps (pve-storage Plugin.pm and the plugins' properties).
var keptOptions = []string{
	"base", "blocksize", "bwlimit", "content-dirs", "create-base-path", "create-subdirs", "is_mountpoint", "krbd",
	"max-protected-backups", "mkdir", "monhost", "mountpoint", "nocow", "options", "preallocation", "prune-backups",
	"saferemove", "saferemove_throughput", "snapshot-as-volume-chain", "subdir", "tagged_only", "username",
}

// keepOptions takes over the properties of a request, and those that it takes away.
func keepOptions(s *state.Storage, given map[string]string) {
	options := maps.Clone(s.Options)
	if options == nil {
		options = map[string]string{}
	}
	for _, k := range keptOptions {
		if v, ok := given[k]; ok {
			options[k] = v
		}
		if slices.Contains(perl.ListItems(given["delete"]), k) {
			delete(options, k)
		}
	}
	if s.Options = options; len(options) == 0 {
		s.Options = nil
	}
}

// makesDirectory reports whether the directory of a storage is made if it is not there (DirPlugin.pm,
// activate_storage).
func makesDirectory(p map[string]string) bool {
	if v, ok := p["create-base-path"]; ok {
		return v == "1"
	}
	return p["mkdir"] != "0"
}

// hasDirectory reports whether the directory is there: that of another storage, or one with a file in it.
func hasDirectory(r *engine.Request, s *state.Storage) bool {
	for _, other := range r.W.Storages {
		if other.IsDir() && other.Path == s.Path {
			return true
		}
	}
	for _, n := range r.W.Nodes {
		for path := range n.Files {
			if strings.HasPrefix(path, strings.TrimSuffix(s.Path, "/")+"/") {
				return true
			}
		}
	}
	return false
}

// storageProperties refuses properties that belong to other types, as pve-common's SectionConfig.pm (check_config)
// does. Those that every type has are not looked at.
func storageProperties(p map[string]string) error {
	of := map[string][]string{
		"path": {"dir", "btrfs", "nfs", "cifs"}, "is_mountpoint": {"dir", "btrfs"}, "mkdir": {"dir", "btrfs", "nfs", "cifs"},
		"pool": {"zfspool", "rbd", "zfs"}, "sparse": {"zfspool", "zfs"}, "blocksize": {"zfspool",
			"zfs"}, "mountpoint": {"zfspool"},
		"vgname": {"lvm", "lvmthin"}, "thinpool": {"lvmthin"}, "saferemove": {"lvm"}, "base": {"lvm"},
		"export": {"nfs"}, "server": {"nfs", "cifs", "pbs"}, "options": {"nfs",
			"cifs"}, "share": {"cifs"}, "krbd": {"rbd"}, "monhost": {"rbd"},
	}
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if types, ok := of[k]; ok && !slices.Contains(types, p["type"]) {
			return perl.Die("unexpected property '%s'", k)
		}
	}
	return nil
}

// updateStorage is PUT /storage/{storage}, of what the simulator knows of every storage: content, nodes, disable,
// shared.
func updateStorage(r *engine.Request) (any, error) {
	s, err := r.W.StorageConfig(r.Params["storage"])
	if err != nil {
		return nil, perl.Die("update storage failed: %s", err)
	}
	if want := r.Params["digest"]; want != "" && want != storageEntry(r, s)["digest"] {
		return nil, perl.Die("update storage failed: detected modified configuration - file changed by other user? Try " +
			"again.")
	}
	given := maps.Clone(r.Params)
	given["type"] = s.Type
	if err := storageProperties(given); err != nil {
		return nil, perl.Die("update storage failed: %s", perl.Message(err))
	}
	next := *s
	for _, k := range perl.ListItems(given["delete"]) {
		switch _, set := given[k]; {
		case !slices.Contains([]string{"content", "nodes", "disable", "shared"}, k) && !slices.Contains(keptOptions, k):
			return nil, perl.Die("update storage failed: no such option '%s'", k)
		case set:
			return nil, perl.Die("update storage failed: cannot set and delete property '%s' at the same time!", k)
		}
		given[k] = ""
	}
	change := func(k string, do func(value string)) {
		if v, ok := given[k]; ok {
			do(v)
		}
	}
	change("content", func(v string) { next.Content = perl.SplitList(v) })
	change("nodes", func(v string) { next.Nodes = perl.SplitList(v) })
	change("disable", func(v string) { next.Disabled = v == "1" })
	change("shared", func(v string) { next.Shared = v == "1" })
	keepOptions(&next, r.Params)
	if next.Shared != s.Shared {
		share(r.W, s, next.Shared)
	}
	if len(next.Content) == 0 {
		next.Content = []string{"images", "rootdir"}
	}
	*s = next
	return map[string]any{"storage": s.ID, "type": s.Type}, nil
}

// share moves what lies on a storage to where it is looked for: a shared one has one content for all nodes, as seen
// from the first; one that is not has it on the first node.
func share(w *state.World, s *state.Storage, shared bool) {
	home := engine.NodeNames(w)[0]
	moved := state.Volumes{}
	for key, v := range w.Volumes {
		if key.Storage != s.ID {
			continue
		}
		delete(w.Volumes, key)
		switch {
		case shared && key.Node == home:
			v.Node = ""
		case !shared:
			v.Node = home
		default:
			continue
		}
		moved[state.VolumeKey{Storage: s.ID, Node: v.Node, Name: v.Name}] = v
	}
	maps.Copy(w.Volumes, moved)
}

// deleteStorage is DELETE /storage/{storage}: it only takes the entry out. A volume cannot be without its storage here,
// so that the simulator forgets what lies there.
func deleteStorage(r *engine.Request) (any, error) {
	id := r.Params["storage"]
	if r.W.Storages[id] == nil {
		return nil, perl.Die("delete storage failed: storage '%s' does not exist", id)
	}
	for _, v := range r.W.Volumes {
		if key := strings.TrimSuffix(v.Parent, "/"); v.Storage == id && key != "" && r.W.Volume(v.Node, id+":"+key) != nil {
			return nil, perl.Die("delete storage failed: can't remove storage - storage is used as base of another storage")
		}
	}
	delete(r.W.Storages, id)
	if heir := handOver(r.W, id); heir == "" {
		maps.DeleteFunc(r.W.Volumes, func(k state.VolumeKey, _ *state.Volume) bool { return k.Storage == id })
	}
	return nil, nil
}

// handOver files the volumes of a storage that is gone under the second name of its place; empty: it has none.
func handOver(w *state.World, id string) (heir string) {
	for _, other := range slices.Sorted(maps.Keys(w.Storages)) {
		switch s := w.Storages[other]; {
		case s.Same != id:
		case heir == "":
			heir, s.Same = other, ""
		default:
			s.Same = heir
		}
	}
	if heir == "" {
		return ""
	}
	for key, v := range maps.Clone(w.Volumes) {
		if key.Storage == id {
			delete(w.Volumes, key)
			v.Storage = heir
			w.Put(v)
		}
	}
	return heir
}
