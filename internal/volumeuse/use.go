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
	users    map[string][]User // by the last part of the volume's name
	places   Places
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
	// As is how the guest names the volume: by a volume id or, if it begins with "/", by a path or in another form.
	As string
	// Unclear: As is on another storage, and whether that is the same place cannot be told.
	Unclear bool
	// alias: As is on another storage.
	alias bool
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
	as := ""
	switch {
	case u.Unclear:
		as = ", as " + u.As + ", which may be the same volume"
	case u.alias:
		as = ", as " + u.As
	}
	return fmt.Sprintf("%s %d%s on node %s (%s%s)", kind, u.Guest.VMID, name, u.Guest.Node, u.Where, as)
}

// UsersOf are the guests other than vmid that use a volume, or may, under whatever name: another storage can be the
// same place, and a path or an argument of QEMU can name the volume.
func (s *Use) UsersOf(volume string, vmid int) []User {
	var all []User
	for _, user := range s.users[nameOf(volume)] {
		if user.Guest.VMID == vmid {
			continue
		}
		switch s.places.CompareVolumes(volume, user.As) {
		case Apart:
			continue
		case Unclear:
			user.Unclear = true
		}
		user.alias = volid.Valid(user.As) && volid.Storage(user.As) != volid.Storage(volume)
		all = append(all, user)
	}
	return all
}

// Namesakes are the guests that use a volume of that name on another storage, whatever that is: links and mounts of the
// node, of which PVE does not know, can make one directory of two.
func (s *Use) Namesakes(volume string) []User {
	var all []User
	for _, user := range s.users[nameOf(volume)] {
		if storage := volid.Storage(user.As); storage != "" && storage != volid.Storage(volume) {
			all = append(all, user)
		}
	}
	return all
}

// Doubt returns why nothing that was read proves that no guest uses a volume: guests may be hidden, or one names a
// device by a number, which may be the volume. Nil: nothing.
func (s *Use) Doubt(volume string) error {
	if by := s.users[numberedKey]; s.Unseen == nil && len(by) > 0 && !volid.IsImageFile(volume) {
		return fmt.Errorf("%s has %s, which may be any volume of its node", by[0], by[0].As)
	}
	return s.Unseen
}

// numberedKey is no name of a volume.
const numberedKey = "/"

// IsUnclear reports whether nothing but a likeness of names speaks for all of some users.
func IsUnclear(users []User) bool {
	return !slices.ContainsFunc(users, func(u User) bool { return !u.Unclear })
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
		for _, as := range namesIn(option, value) {
			name := nameOf(as)
			if isNumbered(as) {
				name = numberedKey
			}
			s.users[name] = append(s.users[name], User{Guest: r.Guest, Where: where, As: as})
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

// namesIn are the names of volumes in an option: volume ids, and paths. In the arguments of QEMU everything that may be
// a name is one, in the form of a path.
func namesIn(option, value string) []string {
	if slices.Contains([]string{"description", "name", "hostname", "tags", "cipassword", "sshkeys", "digest"}, option) {
		return nil
	}
	var names []string
	if option == "args" {
		isBetween := func(r rune) bool { return strings.ContainsRune(" \t,=:\"'{}[]", r) }
		for _, word := range strings.FieldsFunc(value, isBetween) {
			names = append(names, "/"+strings.TrimPrefix(word, "/"))
		}
		return names
	}
	for _, part := range strings.Split(value, ",") {
		part = strings.TrimPrefix(strings.TrimPrefix(part, "file="), "volume=")
		if option == "cicustom" { // user=, network=, meta=, vendor= (qemu-server QemuServer.pm $cicustom_fmt)
			_, part, _ = strings.Cut(part, "=")
		}
		if strings.HasPrefix(part, "/") || volid.Valid(part) {
			names = append(names, part)
		}
	}
	return names
}
