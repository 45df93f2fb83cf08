package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// NodeFile is what a node has at a path: a file in a content directory of one of its storages, or one that is no
// volume. ok is false where nothing is.
func (w *World) NodeFile(node, name string) (data string, ok bool) {
	if s, volume := contentAt(w, node, name); s != nil {
		v := w.Volumes[s.Key(node, volume)]
		switch {
		case v == nil:
			return "", false
		case v.Raw != nil:
			return string(v.Raw), true
		}
		return v.Data, true
	}
	data, ok = w.Nodes[node].Files[name]
	return data, ok
}

// Mode is the mode of a file that SFTP has made; zero is that of another file, which can be run.
type Mode fs.FileMode

// Bits are the bits of a mode.
func (m Mode) Bits() fs.FileMode { return cmp.Or(fs.FileMode(m), 0o755) }

// ModeOf is the mode of a file of a node that is there.
func ModeOf(w *World, node, name string) Mode {
	if s, volume := contentAt(w, node, name); s != nil {
		return w.Volumes[s.Key(node, volume)].Mode
	}
	return w.Nodes[node].Modes[name]
}

// SetMode sets the mode of a file of a node that is there.
func SetMode(w *World, node, name string, mode Mode) {
	if s, volume := contentAt(w, node, name); s != nil {
		w.Volumes[s.Key(node, volume)].Mode = mode
		return
	}
	n := w.Nodes[node]
	if n.Modes == nil {
		n.Modes = map[string]Mode{}
	}
	n.Modes[name] = mode
}

// HasDirectory reports whether a directory is on a node: one that every node has, one of a storage, one that was made,
// or one on the way to these.
func (w *World) HasDirectory(node, dir string) bool {
	if dir == "/" || slices.Contains([]string{"/root", "/tmp", "/var/tmp", "/etc/pve"}, dir) {
		return true
	}
	below := strings.TrimSuffix(dir, "/") + "/"
	for name := range w.Nodes[node].Files {
		if strings.HasPrefix(name, below) {
			return true
		}
	}
	for _, s := range w.Storages {
		if _, err := Reachable(w, node, s.ID); err != nil || !s.IsDir() {
			continue
		}
		if dir == s.Path || strings.HasPrefix(s.Path, below) {
			return true
		}
		for _, sub := range s.directories() {
			full := s.Path + "/" + sub
			if !s.dropped[s.Key(node, "").Node][sub] && (dir == full || strings.HasPrefix(full, below)) {
				return true
			}
		}
	}
	return false
}

// MakeDirectory makes a directory.
func (n *Node) MakeDirectory(dir string) {
	n.WriteFile(strings.TrimSuffix(dir, "/")+"/", "") // files have no such names
}

// contentDirectories are the directories of content types (pve-storage Plugin.pm, vtype_subdirs).
var contentDirectories = map[string]string{
	"images": "images", "rootdir": "private", "iso": "template/iso", "vztmpl": "template/cache", "backup": "dump",
	"snippets": "snippets", "import": "import",
}

// directories are those that PVE makes when it activates the storage (Plugin.pm, activate_storage).
func (s *Storage) directories() []string {
	if s.Options["create-subdirs"] == "0" || s.Options["mkdir"] == "0" {
		return nil
	}
	var list []string
	for _, content := range s.Content {
		if dir := contentDirectories[content]; dir != "" {
			list = append(list, dir)
		}
	}
	return list
}

// DropDirectory is what PVE does after it has removed a file of a storage: it removes its directory as well, if nothing
// else is in it (Plugin.pm, free_image). The directory comes back when the storage is activated.
func (s *Storage) DropDirectory(w *World, node, content string) {
	sub := contentDirectories[content]
	if !s.IsDir() || sub == "" || content == "images" {
		return
	}
	for _, v := range w.VolumesOn(node, s) {
		if v.Content == content {
			return
		}
	}
	made := s.Path + "/" + sub + "/"
	for name := range w.Nodes[node].Files {
		if strings.HasPrefix(name, made) && name != made {
			return
		}
	}
	delete(w.Nodes[node].Files, made)
	at := s.Key(node, "").Node
	if s.dropped == nil {
		s.dropped = map[string]map[string]bool{}
	}
	if s.dropped[at] == nil {
		s.dropped[at] = map[string]bool{}
	}
	s.dropped[at][sub] = true
}

// PutNodeFile makes or overwrites a file. Where a storage has its content it becomes a volume.
func (w *World) PutNodeFile(node, name, data string) {
	s, volume := contentAt(w, node, name)
	if s == nil {
		w.Nodes[node].WriteFile(name, data)
		return
	}
	n, _ := s.ParseName(volume)
	v := &Volume{
		Storage: s.ID, Node: s.Key(node, "").Node, Name: volume, Content: n.Content, Format: n.Format, VMID: n.VMID,
		Size: int64(len(data)), Data: data, Created: w.Clock.Now(),
	}
	if n.Content != "snippets" {
		v.Raw = []byte(data)
	}
	if n.Content == "import" && n.Format == "qcow2" && len(data) >= 32 {
		v.Size = int64(binary.BigEndian.Uint64([]byte(data[24:32])))
	}
	if old := w.Volumes[s.Key(node, volume)]; old != nil { // the same file, with whatever refers to it
		old.Data, old.Raw, old.Size, old.Created = v.Data, v.Raw, v.Size, v.Created
		return
	}
	w.Put(v)
}

// RemoveNodeFile removes a file that is there.
func (w *World) RemoveNodeFile(node, name string) {
	if s, volume := contentAt(w, node, name); s != nil {
		delete(w.Volumes, s.Key(node, volume))
		return
	}
	delete(w.Nodes[node].Files, name)
	delete(w.Nodes[node].Modes, name)
}

// contentAt is the storage of which a path is a volume, and its name there. A name that begins with a dot is
// none: PVE does not list it (Plugin.pm get_subdir_files goes through "*"); nor is one without the suffix of its kind.
func contentAt(w *World, node, name string) (s *Storage, volume string) {
	dir, base := path.Split(name)
	if strings.HasPrefix(base, ".") {
		return nil, ""
	}
	for _, s := range w.Storages {
		below, ok := strings.CutPrefix(strings.TrimSuffix(dir, "/"), s.Path+"/")
		if !ok || !s.IsDir() {
			continue
		}
		for _, kind := range []string{"iso", "vztmpl", "backup", "snippets", "import"} {
			if contentDirectories[kind] != below || !s.Has(kind) {
				continue
			}
			if _, err := s.ParseName(kind + "/" + base); err != nil {
				continue
			}
			if active, err := Reachable(w, node, s.ID); err == nil {
				return active, kind + "/" + base
			}
		}
	}
	return nil, ""
}

// Fingerprint is what PVE shows of the certificate that text stands for.
func Fingerprint(text string) string {
	parts := []string{}
	for _, b := range sha256.Sum256([]byte(text)) {
		parts = append(parts, fmt.Sprintf("%02X", b))
	}
	return strings.Join(parts, ":")
}

// Fingerprint is that of the node's certificate.
func (n *Node) Fingerprint() string { return Fingerprint("certificate of " + n.Name + n.Certificate) }
