package state

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
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
		for key, value := range g.Running.Booted {
			if strings.HasPrefix(key, "unused") || key == "vmstate" {
				continue // known to the configuration, not to the process
			}
			file, _, _ := strings.Cut(value, ",")
			if w.Volume(g.Node, strings.TrimPrefix(file, "file=")) == v {
				return g.VMID
			}
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
	for _, p := range w.Pools {
		p.Guests = slices.DeleteFunc(p.Guests, func(id int) bool { return id == vmid })
	}
	path := fmt.Sprintf("/vms/%d", vmid)
	w.ACL = slices.DeleteFunc(w.ACL, func(e ACLEntry) bool { return e.Path == path })
	delete(w.Firewall, vmid)
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
