// Package volumeuse says which guests use which volumes: virtual machines and containers, what is in force, what is
// pending, and what snapshots keep. It reads, and knows nothing of the reasons for the question.
package volumeuse

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Use is one reading of the guests of a node, or of all: which volumes their configurations name.
type Use struct {
	// Resources is the listing by which the guests were found.
	Resources pve.Resources
	// Unseen is why there may be guests that this identity does not see; nil: there are none.
	Unseen error

	scope  string    // the node whose guests were read, "" for all
	at     time.Time // when it ended
	places Places
	// base is what was read of all guests at once, and never changes again. over is what was read instead since, of the
	// guests in replaced; those that are gone are in replaced alone.
	base, over index
	replaced   map[int]bool
	ended      time.Time // when base did
	place      uint64    // in the order: what follows the cluster's log from there has seen all changes since
	traced     bool      // the log can be followed
}

// index is what was read of guests.
type index struct {
	readings map[int]*Reading  // by VMID
	users    map[string][]User // by each name of the volume
}

func newIndex() index { return index{readings: map[int]*Reading{}, users: map[string][]User{}} }

// begin begins a reading: that of all guests, or that of those that have changed since the one before.
func (s *Use) begin(before *Use, renews bool) {
	s.base, s.over, s.replaced = newIndex(), newIndex(), map[int]bool{}
	if !renews {
		return
	}
	s.base, s.ended = before.base, before.ended
	s.replaced = maps.Clone(before.replaced)
	s.over.readings = maps.Clone(before.over.readings)
	for name, users := range before.over.users {
		s.over.users[name] = slices.Clone(users)
	}
}

// Reading is a guest as it was read.
type Reading struct {
	Guest  pve.Resource
	Config pve.PendingConfig
	// Listed is how the listing had it.
	Listed pve.Resource
	// Snapshots are the options that each snapshot keeps.
	Snapshots map[string]map[string]string
	// At is when it was asked for. It began at a place in the order.
	At, began time.Time
	place     uint64
}

// User is a guest that uses a volume, and in which option or snapshot.
type User struct {
	Guest pve.Resource
	Where string
	// As is how the guest names the volume: by a volume id or, if it begins with "/", by a path or in another form.
	As string
	// Attached: the guest has it now, if it runs; else it may get it, or only a snapshot or an unused disk names it.
	Attached bool
	// Clone is the guest's volume of which As is the base, "" if it has As itself.
	Clone string
	// Unclear: As is on another storage, and whether that is the same place cannot be told.
	Unclear bool
	// alias: As is on another storage.
	alias bool
}

// HasSnapshot reports whether the guest has a snapshot of the volume under a name: as its own, or by its device.
func (u User) HasSnapshot(name string) bool {
	return u.Where == "snapshot "+name || slices.Contains(snapshotsOf(u.As), name)
}

// HasVolume reports whether the guest has the volume itself, and not only snapshots of it.
func (u User) HasVolume() bool {
	return !strings.HasPrefix(u.Where, "snapshot ") && len(snapshotsOf(u.As)) == 0
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
	if u.Clone != "" {
		as += ", the linked clone " + u.Clone + " of it"
	}
	return fmt.Sprintf("%s %d%s on node %s (%s%s)", kind, u.Guest.VMID, name, u.Guest.Node, u.Where, as)
}

// UsersOf are the guests other than vmid that use a volume, or may, under whatever name: another storage can be the
// same place, and a path or an argument of QEMU can name the volume.
func (s *Use) UsersOf(volume string, vmid int) []User {
	var all []User
	for _, user := range s.named(keysOf(volume)...) {
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

// UsersOn are the guests other than vmid that use a volume as a guest of a node names it: a path is one of that node,
// unless it has the id of the device. A snapshot and its volume are two.
func (s *Use) UsersOn(node, volume string, vmid int) []User {
	return slices.DeleteFunc(s.UsersOf(volume, vmid), func(u User) bool {
		return volid.IsDevice(volume) && !isWorldwide(volume) && u.Guest.Node != node || !overlap(volume, u.As)
	})
}

// Namesakes are the guests that use a volume of that name on another storage, whatever that is: links and mounts of the
// node, of which PVE does not know, can make one directory of two.
func (s *Use) Namesakes(volume string) []User {
	var all []User
	for _, user := range s.named(LastPart(volume)) {
		if storage := volid.Storage(user.As); storage != "" && storage != volid.Storage(volume) {
			all = append(all, user)
		}
	}
	return all
}

// Doubt returns why nothing that was read proves that no guest uses a volume: guests may be hidden, or one names a
// device by a number, which may be the volume. Nil: nothing. scope is the only node that reaches the volume, "" if
// there are several.
func (s *Use) Doubt(volume, scope string) error {
	keys := []string{loopKey}
	if !s.places.isFile(volume) {
		keys = append(keys, numberedKey)
	}
	isApart := func(u User) bool { return scope != "" && u.Guest.Node != scope }
	by := slices.DeleteFunc(s.named(keys...), isApart)
	if s.Unseen == nil && len(by) > 0 {
		return fmt.Errorf("%s has %s, which may be any volume of its node", by[0], by[0].As)
	}
	return s.Unseen
}

// IsUnclear reports whether nothing but a likeness of names speaks for all of some users.
func IsUnclear(users []User) bool {
	return !slices.ContainsFunc(users, func(u User) bool { return !u.Unclear })
}

// Of is what was read of a guest, if there is a read, and the guest in it.
func (s *Use) Of(vmid int) (Reading, bool) {
	if s == nil {
		return Reading{}, false
	}
	if r := s.of(vmid); r != nil {
		return *r, true
	}
	return Reading{}, false
}

// of is what was read of a guest; nil: nothing.
func (s *Use) of(vmid int) *Reading {
	if s.replaced[vmid] {
		return s.over.readings[vmid]
	}
	return s.base.readings[vmid]
}

// HasReadSince reports whether a guest was read by a request that was sent after a place in the order.
func (s *Use) HasReadSince(vmid int, asked uint64) bool {
	r, ok := s.Of(vmid)
	return ok && r.place > asked
}

// named are the users of volumes with some names.
func (s *Use) named(names ...string) []User {
	var users []User
	for _, name := range names {
		before := users
		add := func(user User) {
			if !slices.ContainsFunc(before, user.same) {
				users = append(users, user)
			}
		}
		for _, user := range s.over.users[name] {
			add(user)
		}
		for _, user := range s.base.users[name] {
			if !s.replaced[user.Guest.VMID] {
				add(user)
			}
		}
	}
	return users
}

// drop forgets what was read of a guest.
func (s *Use) drop(vmid int) {
	if _, ok := s.over.readings[vmid]; ok {
		delete(s.over.readings, vmid)
		for name, users := range s.over.users {
			s.over.users[name] = slices.DeleteFunc(users, func(u User) bool { return u.Guest.VMID == vmid })
		}
	}
	s.replaced[vmid] = true
}

// dropAllBut forgets the guests that are not listed.
func (s *Use) dropAllBut(listed map[int]bool) {
	for _, read := range []index{s.base, s.over} {
		for vmid := range read.readings {
			if !listed[vmid] && s.of(vmid) != nil {
				s.drop(vmid)
			}
		}
	}
}

// Answers reports whether the read, if there is one, tells who uses volumes that only guests of a node can use (""
// for all), and is not older than life.
func (s *Use) Answers(node string, now time.Time, life time.Duration) bool {
	return s != nil && (s.scope == "" || s.scope == node) && pve.Elapsed(s.at, now) <= life
}

// add takes in what was read of a guest, and keeps the rest of it if told to. Its configuration knows its name; a
// listing learns it late.
func (s *Use) add(r Reading, keep bool) {
	config := r.Config.Current()
	r.Guest.Name = cmp.Or(config["name"], config["hostname"], r.Guest.Name)
	into := s.base
	delete(s.replaced, r.Guest.VMID)
	if !s.ended.IsZero() {
		s.drop(r.Guest.VMID)
		into = s.over
	}
	kept := r
	if !keep {
		kept.Config.Entries, kept.Snapshots = nil, nil
	}
	into.readings[r.Guest.VMID] = &kept
	note := func(option, value, where string, attached bool) {
		for _, as := range namesIn(option, value) {
			user := User{Guest: r.Guest, Where: where, As: as, Attached: attached}
			if base := volid.Base(as); base != "" { // a listing does not always tell that: see guard.IsBasedOn
				of := User{Guest: r.Guest, Where: where, As: base, Clone: as, Attached: attached}
				into.users[LastPart(base)] = append(into.users[LastPart(base)], of)
			}
			keys := keysOf(as)
			if key := numberKey(as); key != "" {
				keys = append(keys, key)
			}
			if owner := ownerOf(as); owner != 0 && owner != r.Guest.VMID {
				keys = append(keys, carrierKey(owner))
			}
			for _, key := range keys {
				into.users[key] = append(into.users[key], user)
			}
		}
	}
	for _, e := range r.Config.Entries {
		note(e.Key, e.Value, e.Key, !vm.IsUnused(e.Key))
		note(e.Key, e.Pending, e.Key+", pending", false)
	}
	for name, options := range r.Snapshots {
		for option, value := range options {
			note(option, value, "snapshot "+name, false)
		}
	}
}

// LastPart is the name of a volume without directories and storage.
func LastPart(volume string) string { return volume[strings.LastIndexAny(volume, "/:")+1:] }

// Named are the names of volumes in some options, each with its option.
func Named(options map[string]string) iter.Seq2[string, string] {
	return func(yield func(option, as string) bool) {
		for option, value := range options {
			for _, as := range namesIn(option, value) {
				if !yield(option, as) {
					return
				}
			}
		}
	}
}

// namesIn are the names of volumes in an option: volume ids, and paths. In the arguments of QEMU, and in the raw lines
// of a container, everything that may be a name is one, in the form of a path.
func namesIn(option, value string) []string {
	if slices.Contains([]string{"description", "name", "hostname", "tags", "cipassword", "sshkeys", "digest"}, option) {
		return nil
	}
	var names []string
	if option == "args" || option == pve.RawOption {
		isBetween := func(r rune) bool { return strings.ContainsRune(" \t,=:\"'{}[]", r) }
		for _, word := range strings.FieldsFunc(value, isBetween) {
			names = append(names, "/"+strings.TrimPrefix(word, "/"))
		}
		return names
	}
	for _, part := range strings.Split(value, ",") {
		for _, key := range []string{"file=", "volume=", "path="} { // path: pve-container LXC/Config.pm $dev_desc
			part = strings.TrimPrefix(part, key)
		}
		if option == "cicustom" { // user=, network=, meta=, vendor= (qemu-server QemuServer.pm $cicustom_fmt)
			_, part, _ = strings.Cut(part, "=")
		}
		if strings.HasPrefix(part, "/") || volid.Valid(part) {
			names = append(names, part)
		}
	}
	return names
}
