package vm

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Change is what turns one Spec into another in place. It is to be carried out in this order: DeleteFirst in a request
// of its own; Set and Delete together, in one; then Moves; then Grow. Set names volumes as they are before Moves, so
// sending it later would attach the old volume again.
type Change struct {
	// DeleteFirst are options that must be gone before Set is sent: the old slot of a cloud-init drive that changes it,
	// since PVE allows only one and its volume has a fixed name, and a balloon that is larger than the new memory.
	DeleteFirst []string
	// Set holds whole options to write, Delete options to reset or slots to empty; no key is in both.
	Set    map[string]string
	Delete []string
	Moves  []Move
	// Grow holds the sizes that disks must have; one that has it already is left alone.
	Grow []Growth
	// ImportStorage is where a disk of an OVA is unpacked; "" is the storage of the OVA.
	ImportStorage string
	// Problems are differences that cannot be made in place. They are in none of the other fields.
	Problems []Problem
}

// Growth is a disk that must become larger. Size is absolute, in bytes.
type Growth struct {
	Slot string
	Size int64
}

// Move is a disk that changes storage or format (POST …/move_disk). Format is "" if the storage is to choose.
type Move struct {
	Slot    string
	Storage string
	Format  string
}

// Problem says why a difference cannot be made in place. Option is the slot or option of PVE, At the dotted path of the
// attribute that says otherwise: "disks.scsi0.size".
type Problem struct {
	Option string
	At     string
	Text   string
}

// Empty says that there is nothing to do and nothing to complain about.
func (c Change) Empty() bool {
	return len(c.DeleteFirst)+len(c.Set)+len(c.Delete)+len(c.Moves)+len(c.Grow)+len(c.Problems) == 0
}

// MeansSame reports whether PVE has an option as it was written: it may spell a value differently, and adds what it
// makes itself, such as a MAC address. It does not show a password, so that counts as the same.
func MeansSame(option, has, written string) bool {
	one := func(value string) Spec { return Decode(map[string]string{option: value}) }
	return Diff(one(has), one(written)).Empty()
}

// Allocates says that Set makes or imports a volume. Such a change must go through POST …/config, which is a task: PUT
// is cut off by the proxy after 30 s while it goes on.
func (c Change) Allocates() bool {
	for key, value := range c.Set {
		if _, isDrive := slotRank(key); !isDrive {
			continue
		}
		file, properties, ok := parseDrive(value)
		_, _, isNew := allocation(file)
		if ok && (isNew || properties["import-from"] != "" || strings.HasSuffix(file, ":cloudinit")) {
			return true
		}
	}
	return false
}

// Copies are the volumes that Set copies drives of, by the slots of the copies.
func (c Change) Copies() map[string]string {
	all := map[string]string{}
	for option, value := range c.Set {
		_, isDrive := slotRank(option)
		if _, properties, ok := parseDrive(value); isDrive && ok && properties["import-from"] != "" {
			all[option] = properties["import-from"]
		}
	}
	return all
}

// Unpacks says that Set imports a disk of an OVA, which PVE unpacks first.
func (c Change) Unpacks() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(c.Copies())), volid.IsInOVA)
}

// ImportsPath tells whether an option is a drive that is to be made of a file which is named by its path.
func ImportsPath(option, value string) bool {
	_, isDrive := slotRank(option)
	_, properties, ok := parseDrive(value)
	return isDrive && ok && strings.HasPrefix(properties["import-from"], "/")
}

// problem notes one; key is the attribute of the device that is concerned, "" where it is more than one.
func (c *Change) problem(option, key, text string) {
	a, _ := AttributeOf(option)
	at := strings.Replace(a.Path, "*", option, 1)
	if key != "" {
		at += "." + key
	}
	c.Problems = append(c.Problems, Problem{Option: option, At: at, Text: text})
}

// sort makes a Change comparable and its requests repeatable.
func (c *Change) sort() {
	slices.Sort(c.Delete)
	slices.SortFunc(c.Moves, func(a, b Move) int { return strings.Compare(a.Slot, b.Slot) })
	slices.SortFunc(c.Grow, func(a, b Growth) int { return strings.Compare(a.Slot, b.Slot) })
	slices.SortFunc(c.Problems, func(a, b Problem) int {
		return strings.Compare(a.Option+"\x00"+a.Text, b.Option+"\x00"+b.Text)
	})
}
