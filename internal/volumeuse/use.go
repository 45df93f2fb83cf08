// Package volumeuse says which guests use which volumes: virtual machines and containers, what is in force, what is
// pending, and what snapshots keep. It reads, and knows nothing of the reasons for the question.
package volumeuse

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Use is one reading of the guests of a node, or of all: which volumes their configurations name.
type Use struct {
	// Resources is the listing by which the guests were found.
	Resources pve.Resources
	// Unseen is why there may be guests that this identity does not see; nil: there are none.
	Unseen error

	scope    string            // the node whose guests were read, "" for all
	at       time.Time         // when it ended
	readings map[int]Reading   // by VMID
	users    map[string][]User // by key
}

// Reading is a guest as it was read.
type Reading struct {
	Guest  pve.Resource
	Config pve.PendingConfig
	// Snapshots are the options that each snapshot keeps.
	Snapshots map[string]map[string]string
	// At is when it was read.
	At time.Time
}

// User is a guest that uses a volume, and in which option or snapshot.
type User struct {
	Guest pve.Resource
	Where string
}

// String names the guest for people.
func (u User) String() string {
	kind := "VM"
	if u.Guest.Type == "lxc" {
		kind = "container"
	}
	name := ""
	if u.Guest.Name != "" {
		name = " (" + u.Guest.Name + ")"
	}
	return fmt.Sprintf("%s %d%s on node %s (%s)", kind, u.Guest.VMID, name, u.Guest.Node, u.Where)
}

// UsersOf are the guests other than vmid that use a volume.
func (s *Use) UsersOf(volume string, vmid int) []User {
	var all []User
	for _, by := range [][]User{s.users[key(volume)], s.users["/"+LastPart(volume)]} {
		for _, other := range by {
			if other.Guest.VMID != vmid {
				all = append(all, other)
			}
		}
	}
	return all
}

// Namesakes are the guests that use a volume of the same name on another storage, by that storage: it is the same
// file where both storages are one directory.
func (s *Use) Namesakes(volume string) map[string][]User {
	all := map[string][]User{}
	if s == nil {
		return all
	}
	for key, users := range s.users {
		storage, name, ok := strings.Cut(key, ":")
		if ok && name == LastPart(volume) && storage != volid.Storage(volume) {
			all[storage] = users
		}
	}
	return all
}

// Of is what was read of a guest, if there is a read, and the guest in it.
func (s *Use) Of(vmid int) (Reading, bool) {
	if s == nil {
		return Reading{}, false
	}
	reading, ok := s.readings[vmid]
	return reading, ok
}

// Answers reports whether the read, if there is one, tells who uses volumes that only guests of a node can use (""
// for all), and is not older than life.
func (s *Use) Answers(node string, now time.Time, life time.Duration) bool {
	return s != nil && (s.scope == "" || s.scope == node) && now.Sub(s.at) <= life
}

// add takes in what was read of a guest. Its configuration knows its name; a listing learns it late.
func (s *Use) add(r Reading) {
	config := r.Config.Current()
	r.Guest.Name = cmp.Or(config["name"], config["hostname"], r.Guest.Name)
	s.readings[r.Guest.VMID] = r
	note := func(option, value, where string) {
		for _, key := range keysIn(option, value) {
			s.users[key] = append(s.users[key], User{Guest: r.Guest, Where: where})
		}
	}
	for _, e := range r.Config.Entries {
		note(e.Key, e.Value, e.Key)
		note(e.Key, e.Pending, e.Key+", pending")
	}
	for name, options := range r.Snapshots {
		for option, value := range options {
			note(option, value, "snapshot "+name)
		}
	}
}

// LastPart is the name of a volume without directories and storage.
func LastPart(volume string) string { return volume[strings.LastIndexAny(volume, "/:")+1:] }

// key is what two names of one volume have in common: a linked clone may be named with its base in front or without it
// (pve-storage ZFSPoolPlugin.pm parse_volname).
func key(volume string) string { return volid.Storage(volume) + ":" + LastPart(volume) }

// keysIn are the keys of the volumes in an option: volume ids, and block devices or files by path, which are known by
// the last part of their name.
func keysIn(option, value string) []string {
	if slices.Contains([]string{"description", "name", "hostname", "tags", "cipassword", "sshkeys", "digest"}, option) {
		return nil
	}
	var keys []string
	for _, part := range strings.Split(value, ",") {
		part = strings.TrimPrefix(strings.TrimPrefix(part, "file="), "volume=")
		if option == "cicustom" { // user=, network=, meta=, vendor= (qemu-server QemuServer.pm $cicustom_fmt)
			_, part, _ = strings.Cut(part, "=")
		}
		switch {
		case strings.HasPrefix(part, "/"):
			keys = append(keys, "/"+LastPart(part))
		case volid.Valid(part):
			keys = append(keys, key(part))
		}
	}
	return keys
}
