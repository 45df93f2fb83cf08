package state

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Clone copies the guest with everything that its configuration file holds.
func (g *Guest) Clone() *Guest {
	c := *g
	c.Config, c.Pending, c.Deletes = maps.Clone(g.Config), maps.Clone(g.Pending), maps.Clone(g.Deletes)
	c.Cloudinit = maps.Clone(g.Cloudinit)
	c.Snaps = map[string]map[string]string{}
	for k, v := range g.Snaps {
		c.Snaps[k] = maps.Clone(v)
	}
	return &c
}

// Lock is the configuration's lock, "" if none.
func (g *Guest) Lock() string { return g.Config["lock"] }

// SetLock writes the lock and who did it; an empty lock takes it away.
func (g *Guest) SetLock(lock, cause string) {
	if lock == "" {
		delete(g.Config, "lock")
		g.LockCause = ""
		return
	}
	g.Config["lock"], g.LockCause = lock, cause
}

// IsTemplate reports whether the guest is a template.
func (g *Guest) IsTemplate() bool { return g.Config["template"] == "1" }

// Text is the configuration file: sections sorted by name, keys sorted.
func (g *Guest) Text() string {
	var b strings.Builder
	section(&b, g.Config)
	if len(g.Pending) > 0 || len(g.Deletes) > 0 {
		b.WriteString("\n[PENDING]\n")
		for _, k := range slices.Sorted(maps.Keys(g.Deletes)) {
			fmt.Fprintf(&b, "delete: %d %s\n", g.Deletes[k], k)
		}
		section(&b, g.Pending)
	}
	if len(g.Cloudinit) > 0 {
		b.WriteString("\n[special:cloudinit]\n")
		section(&b, g.Cloudinit)
	}
	for _, name := range slices.Sorted(maps.Keys(g.Snaps)) {
		fmt.Fprintf(&b, "\n[%s]\n", name)
		section(&b, g.Snaps[name])
	}
	return b.String()
}

func section(b *strings.Builder, values map[string]string) {
	if d, ok := values["description"]; ok {
		for _, line := range strings.Split(d, "\n") {
			b.WriteString("#" + encodeText(line) + "\n")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if k != "description" {
			b.WriteString(k + ": " + values[k] + "\n")
		}
	}
}

// encodeText is a line of a description as the file has it (pve-common Tools.pm encode_text).
func encodeText(line string) string {
	var b strings.Builder
	for _, c := range []byte(line) {
		if c < ' ' || c > '~' || c == '%' || c == ':' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Digest is the SHA1 of the configuration file, as GET config answers it.
func (g *Guest) Digest() string {
	sum := sha1.Sum([]byte(g.Text()))
	return hex.EncodeToString(sum[:])
}

// openedBy is the VMID of a running guest on node that uses the volume, 0 if none.
func openedBy(w *World, node string, v *Volume) int {
	for _, g := range w.Guests {
		if g.Running == nil || (g.Node != node && v.Node != "") {
			continue
		}
		booted := maps.Clone(g.Running.Booted)
		maps.DeleteFunc(booted, func(key, _ string) bool { // known to the configuration, not to the process
			return strings.HasPrefix(key, "unused") || key == "vmstate"
		})
		if slices.Contains(usedIn(w, g.Node, booted), v) {
			return g.VMID
		}
	}
	return 0
}

// OpenedBy is the VMID of a running guest on node that has the volume open, 0 if none.
func (w *World) OpenedBy(node string, v *Volume) int { return openedBy(w, node, v) }

// PoolOf names the pool of a guest, "" if it has none.
func (w *World) PoolOf(vmid int) string {
	for _, id := range slices.Sorted(maps.Keys(w.Pools)) {
		if slices.Contains(w.Pools[id].Guests, vmid) {
			return id
		}
	}
	return ""
}

// ForgetGuest takes a VMID out of all pools and access lists (PVE::AccessControl::remove_vm_access) and removes its
// firewall file, as a destroy does.
func ForgetGuest(w *World, vmid int) {
	LeaveAccess(w, vmid)
	delete(w.Firewall, vmid)
}

// LeaveAccess takes a guest's id out of pools and permissions.
func LeaveAccess(w *World, vmid int) {
	for _, p := range w.Pools {
		p.Guests = slices.DeleteFunc(p.Guests, func(id int) bool { return id == vmid })
	}
	path := fmt.Sprintf("/vms/%d", vmid)
	w.ACL = slices.DeleteFunc(w.ACL, func(e ACLEntry) bool { return e.Path == path })
}

// NextConfig is the configuration that the guest has after its next start: with what waits for it.
func (g *Guest) NextConfig() map[string]string {
	next := maps.Clone(g.Config)
	for opt := range g.Deletes {
		delete(next, opt)
	}
	maps.Copy(next, g.Pending)
	return next
}

// Paths are the paths under which a node has a volume, that of PVE first: udev and the device mapper give block devices
// others (pve-storage filesystem_path of the plugins; RBDPlugin.pm get_rbd_dev_path; lvm2's 13-dm-disk.rules).
func (s *Storage) Paths(name string) []string {
	n, err := s.ParseName(name)
	if err != nil {
		return nil
	}
	paths := []string{s.VolumePath(name)}
	switch s.Type {
	case "zfspool":
		if strings.HasPrefix(n.File, "subvol-") {
			paths = []string{"/" + s.Path + "/" + n.File}
		}
	case "rbd":
		paths = []string{"/dev/rbd/" + s.Path + "/" + n.File}
	case "lvm", "lvmthin":
		double := func(name string) string { return strings.ReplaceAll(name, "-", "--") }
		mapped := double(s.VG()) + "-" + double(n.File)
		paths = append(paths, "/dev/mapper/"+mapped, "/dev/disk/by-id/dm-name-"+mapped)
	}
	return paths
}

// UsedBy are the volumes that a guest's configuration refers to, also in its pending changes and its snapshots: by
// their ids and by paths, with those that are the base or the backing file of one.
func UsedBy(w *World, g *Guest) []*Volume {
	var all []*Volume
	for _, section := range append(sectionsOf(g), g.Config, g.Pending) {
		for _, v := range usedIn(w, g.Node, section) {
			if !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
	}
	return all
}

func sectionsOf(g *Guest) []map[string]string {
	var all []map[string]string
	for _, section := range g.Snaps {
		all = append(all, section)
	}
	return all
}

// usedIn are the volumes that one section of a guest's configuration refers to.
func usedIn(w *World, node string, section map[string]string) (all []*Volume) {
	for opt, value := range section {
		if slices.Contains([]string{"description", "name", "hostname", "tags"}, opt) {
			continue
		}
		file, _, _ := strings.Cut(value, ",")
		v := w.Volume(node, strings.TrimPrefix(strings.TrimPrefix(file, "file="), "volume="))
		if strings.HasPrefix(opt, "net") {
			v = nil
		}
		found := atPaths(w, node, value)
		for _, v := range append(found, v) {
			for v != nil && !slices.Contains(all, v) {
				all = append(all, v)
				v = below(w, node, v)
			}
		}
	}
	return all
}

// below is the base of a volume, or its backing file; nil: it has none here.
func below(w *World, node string, v *Volume) *Volume {
	if v.Backing == "" {
		return w.Volumes[VolumeKey{v.Storage, v.Node, v.Parent}]
	}
	file := v.Backing
	if s := w.Storages[v.Storage]; !strings.HasPrefix(file, "/") && s != nil {
		file = path.Join(path.Dir(s.VolumePath(v.Name)), file)
	}
	for _, found := range atPaths(w, node, file) {
		return found
	}
	return nil
}

// atPaths are the volumes of which a text has a path: that of the volume, of a part of it, or of a snapshot.
func atPaths(w *World, node, text string) (all []*Volume) {
	if !strings.Contains(text, "/") {
		return nil
	}
	isBetween := func(r rune) bool { return strings.ContainsRune(" \t,=\"'{}[]", r) }
	for _, word := range strings.FieldsFunc(text, isBetween) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		for key, v := range w.Volumes {
			s := w.Storages[v.Storage]
			if s == nil || key.Node != "" && key.Node != node || v.Content != "images" && v.Content != "rootdir" {
				continue
			}
			if slices.ContainsFunc(s.Paths(v.Name), func(p string) bool { return isAt(word, p) }) {
				all = append(all, v)
			}
		}
	}
	return all
}

// isAt reports whether a path leads to a volume, or into it.
func isAt(file, volume string) bool {
	rest, ok := strings.CutPrefix(path.Clean(file), volume)
	return ok && volume != "" && (rest == "" || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "-part") ||
		strings.HasPrefix(rest, "@"))
}
