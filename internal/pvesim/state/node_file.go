package state

import (
	"path"
	"slices"
	"strings"
)

// NodeFile is what a node has at a path: a snippet of one of its storages, or a file that is no volume. ok is false
// where nothing is.
func (w *World) NodeFile(node, name string) (data string, ok bool) {
	if s, volume := snippetAt(w, node, name); s != nil {
		if v := w.Volumes[s.Key(node, volume)]; v != nil {
			return v.Data, true
		}
		return "", false
	}
	data, ok = w.Nodes[node].Files[name]
	return data, ok
}

// HasDirectory reports whether a file can be made at a path: in the directory of a storage's snippets, which PVE makes
// when it activates the storage (pve-storage Plugin.pm activate_storage), or in one that every node has.
func (w *World) HasDirectory(node, name string) bool {
	dir := path.Dir(name)
	return slices.Contains([]string{"/root", "/tmp", "/var/tmp"}, dir) || snippetsIn(w, node, dir) != nil
}

// PutNodeFile makes or overwrites a file.
func (w *World) PutNodeFile(node, name, data string) {
	s, volume := snippetAt(w, node, name)
	if s == nil {
		w.Nodes[node].Files[name] = data
		return
	}
	if v := w.Volumes[s.Key(node, volume)]; v != nil {
		v.Data, v.Size, v.Created = data, int64(len(data)), w.Clock.Now()
		return
	}
	w.Put(&Volume{Storage: s.ID, Node: s.Key(node, "").Node, Name: volume, Content: "snippets", Format: "snippet",
		Size: int64(len(data)),
		Data: data, Created: w.Clock.Now()})
}

// RemoveNodeFile removes a file that is there.
func (w *World) RemoveNodeFile(node, name string) {
	if s, volume := snippetAt(w, node, name); s != nil {
		delete(w.Volumes, s.Key(node, volume))
		return
	}
	delete(w.Nodes[node].Files, name)
}

// snippetAt is the storage of which a path is a snippet, and its name there. A name that begins with a dot is
// none: PVE does not list it (Plugin.pm get_subdir_files goes through "*").
func snippetAt(w *World, node, name string) (s *Storage, volume string) {
	base := path.Base(name)
	if strings.HasPrefix(base, ".") {
		return nil, ""
	}
	return snippetsIn(w, node, path.Dir(name)), "snippets/" + base
}

// snippetsIn is the storage whose snippets are in a directory.
func snippetsIn(w *World, node, dir string) *Storage {
	for _, s := range w.Storages {
		if s.IsDir() && s.Has("snippets") && dir == s.Path+"/snippets" {
			if active, err := w.StorageActive(node, s.ID); err == nil {
				return active
			}
		}
	}
	return nil
}
