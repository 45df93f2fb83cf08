package capture

import (
	"context"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// storages are those of storage.cfg, with their sizes where one is active. Nothing else of an entry comes along:
// servers, user names, keys and fingerprints are not asked about in any test.
func (l *look) storages(ctx context.Context) error {
	list, err := l.list(ctx, "/storage")
	if err != nil {
		return err
	}
	for _, r := range by("storage", list) {
		s := state.FileStorage{ID: r.text("storage"), Type: r.text("type"), Content: r.words("content"),
			Nodes:  r.words("nodes"),
			Shared: r.flag("shared"), Disabled: r.flag("disable")}
		slices.Sort(s.Content)
		slices.Sort(s.Nodes)
		if !slices.Contains(state.StorageTypes(), s.Type) {
			l.note("storage %s: the simulator has no storages of type %s", s.ID, s.Type)
			continue
		}
		switch s.Type {
		case "zfspool", "rbd":
			s.Path = r.text("pool")
		case "lvmthin":
			s.Path = r.text("vgname") + "/" + r.text("thinpool")
		case "lvm":
			s.Path = r.text("vgname")
		case "pbs", "esxi": // no path
		default:
			s.Path = r.text("path")
		}
		s.Nodes = slices.DeleteFunc(s.Nodes, func(name string) bool { return !l.hasNode(name) })
		l.file.Storages = append(l.file.Storages, s)
	}
	return l.storageSizes(ctx)
}

// storageSizes asks the nodes how large the storages are, and whether they can be reached at all.
func (l *look) storageSizes(ctx context.Context) error {
	active, seen := map[string]bool{}, map[string]bool{}
	for _, n := range l.file.Nodes {
		if n.Offline {
			continue
		}
		list, err := l.list(ctx, "/nodes/"+n.Name+"/storage")
		if err != nil {
			return err
		}
		for _, r := range list {
			id := r.text("storage")
			seen[id] = seen[id] || r.flag("enabled")
			active[id] = active[id] || r.flag("active")
			if s := l.storage(id); s != nil {
				s.Total = max(s.Total, state.FileSize(r.number("total")))
			}
		}
	}
	for i := range l.file.Storages {
		s := &l.file.Storages[i]
		s.Offline = seen[s.ID] && !active[s.ID]
	}
	return nil
}

// volumes are what lies on the storages; a shared one is looked at from one node.
func (l *look) volumes(ctx context.Context) error {
	for i := range l.file.Storages {
		s := &l.file.Storages[i]
		if s.Disabled || s.Offline {
			continue
		}
		for _, n := range l.file.Nodes {
			if n.Offline || len(s.Nodes) > 0 && !slices.Contains(s.Nodes, n.Name) {
				continue
			}
			list, err := l.list(ctx, "/nodes/"+n.Name+"/storage/"+escaped(s.ID)+"/content")
			if err != nil {
				return err
			}
			node := n.Name
			if everywhere(s) {
				node = ""
			}
			for _, r := range list {
				l.volume(s, node, r.text("volid"), r.number("size"))
			}
			if node == "" {
				break
			}
		}
	}
	return nil
}

// everywhere reports whether each node has the same volumes on a storage.
func everywhere(s *state.FileStorage) bool {
	return s.Shared || slices.Contains([]string{"nfs", "cifs", "cephfs", "glusterfs", "rbd", "esxi"}, s.Type)
}

func (l *look) volume(s *state.FileStorage, node, volid string, size int64) {
	_, name, ok := strings.Cut(volid, ":")
	if _, err := (&state.Storage{ID: s.ID, Type: s.Type}).ParseName(name); !ok || err != nil {
		l.note("volume %s: its name has no place in a world", volid)
		return
	}
	l.file.Volumes = append(l.file.Volumes, state.FileVolume{Volume: volid, Node: node, Size: state.FileSize(size)})
}

// sizeOf is the size in the options of a drive, 0 if it has none.
func sizeOf(options string) int64 {
	for _, part := range strings.Split(options, ",") {
		if word, ok := strings.CutPrefix(part, "size="); ok {
			var size state.FileSize
			if size.Parse(word) == nil {
				return int64(size)
			}
		}
	}
	return 0
}
