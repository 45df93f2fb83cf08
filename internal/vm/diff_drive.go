package vm

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// attached is the part that disks, EFI disk, TPM state and cloud-init drive have in common.
type attached struct {
	storage, volume string
	format          *string
}

// names says that a's volume is meant as it stands. A volume id on another storage or of another format than is asked
// for is where the volume was before a move.
func (a attached) names() bool {
	return a.volume != "" && (a.storage == "" || a.storage == volid.Storage(a.volume)) &&
		(a.format == nil || *a.format == volid.Format(a.volume))
}

// carry gives what to's volume is before moves, and adds the move that is needed. replaced says that to names another
// volume: it is attached as it stands.
func (c *Change) carry(slot string, from, to attached) (_ attached, replaced bool) {
	if to.names() && to.volume != from.volume {
		return to, true
	}
	otherStorage := to.storage != "" && to.storage != from.storage
	otherFormat := to.format != nil && *to.format != "" && (from.format == nil || *from.format != *to.format)
	if from.volume != "" && (otherStorage || otherFormat) {
		m := Move{Slot: slot, Storage: from.storage}
		if to.storage != "" {
			m.Storage = to.storage
		}
		if otherFormat { // else PVE keeps the format if the storage has it
			m.Format = *to.format
		}
		c.Moves = append(c.Moves, m)
	}
	return from, false
}

// needsStorage complains about a volume to be made nowhere. It names the disks that are there, of which one may be
// meant.
func (c *Change) needsStorage(slot string, a attached, disks map[string]Disk) {
	if a.volume != "" || a.storage != "" {
		return
	}
	text := "a new volume needs a storage"
	if len(disks) > 0 {
		text += ". There are disks already, in " + strings.Join(slices.Sorted(maps.Keys(disks)), ", ") +
			": to grow or change one of them, name its slot"
	}
	c.problem(slot, "storage", text)
}

func carryDisks(c *Change, from, to map[string]Disk) map[string]Disk {
	to = maps.Clone(to)
	for slot, d := range to {
		if other := SlotOf(from, d.Volume); other != "" && d.Volume != from[slot].Volume {
			d = c.relocate(slot, from[other], d)
			to[slot] = d
		}
		if f, ok := from[slot]; ok {
			to[slot] = carryDisk(c, slot, f, d)
		} else {
			newDisk(c, slot, d, from)
		}
	}
	return to
}

// SlotOf is the slot of the disk with a volume, the first by name if there are several, "" if none has it.
func SlotOf(disks map[string]Disk, volume string) string {
	found := ""
	for slot, d := range disks {
		if volume != "" && d.Volume == volume && (found == "" || slot < found) {
			found = slot
		}
	}
	return found
}

// relocate makes d, which is to have the volume of f in another slot, as large as f is, and notes its growth.
func (c *Change) relocate(slot string, f, d Disk) Disk {
	if !(attached{d.Storage, d.Volume, d.Format}).names() {
		return d
	}
	d.ImportFrom = nil
	d.Size = c.grown(slot, f.Size, d.Size)
	return d
}

// grown notes that a disk grows. It gives the size that it has before.
func (c *Change) grown(slot string, has, want *int64) *int64 {
	switch {
	case want == nil:
	case has == nil || *want > *has:
		c.Grow = append(c.Grow, Growth{Slot: slot, Size: *want})
	case *want < *has:
		c.problem(slot, "size",
			"the disk has "+property.FormatSize(*has)+" and cannot be shrunk to "+property.FormatSize(*want))
	}
	return has
}

// newDisk checks a disk that the slot has not had, and grows an import to its size: PVE imports at the source's.
func newDisk(c *Change, slot string, d Disk, others map[string]Disk) {
	c.needsStorage(slot, attached{storage: d.Storage, volume: d.Volume}, others)
	switch {
	case d.Volume != "":
	case d.ImportFrom == nil && d.Size == nil:
		c.problem(slot, "", "a new disk needs a size or something to import")
	case d.ImportFrom != nil && d.Size != nil:
		c.Grow = append(c.Grow, Growth{Slot: slot, Size: *d.Size})
	}
}

func carryDisk(c *Change, slot string, f, d Disk) Disk {
	d.Rest = f.Rest
	a, replaced := c.carry(slot, attached{f.Storage, f.Volume, f.Format}, attached{d.Storage, d.Volume, d.Format})
	d.Storage, d.Volume, d.Format = a.storage, a.volume, a.format
	if replaced {
		return d
	}
	d.ImportFrom = f.ImportFrom
	sameText(&d.WWN, f.WWN)
	d.Size = c.grown(slot, f.Size, d.Size)
	if f.Volume == "" && encodeDisk(d) != encodeDisk(f) { // written again it would allocate another volume
		c.problem(slot, "", "the disk's volume is not known yet, so its options cannot be changed")
		return f
	}
	return d
}

func carryEFIDisk(c *Change, f, to *EFIDisk) *EFIDisk {
	if to == nil {
		return nil
	}
	d := *to
	if f == nil {
		c.needsStorage(efiSlot, attached{storage: d.Storage, volume: d.Volume}, nil)
		return to
	}
	d.Rest = f.Rest
	a, replaced := c.carry(efiSlot, attached{f.Storage, f.Volume, f.Format}, attached{d.Storage, d.Volume, d.Format})
	d.Storage, d.Volume, d.Format = a.storage, a.volume, a.format
	if replaced {
		return &d
	}
	if d.Type != nil && *d.Type != valueOr(f.Type, "2m") {
		c.problem(efiSlot, "type", "the EFI disk was made with efitype "+valueOr(f.Type, "2m")+
			", which cannot be changed to "+*d.Type)
	}
	if d.PreEnrolledKeys != nil && *d.PreEnrolledKeys != valueOr(f.PreEnrolledKeys, false) {
		c.problem(efiSlot, "pre_enrolled_keys",
			"pre-enrolled keys are put on the EFI disk when it is made and cannot be changed afterwards")
	}
	d.Type, d.PreEnrolledKeys, d.ImportFrom = f.Type, f.PreEnrolledKeys, f.ImportFrom
	if d.MSCert == nil {
		d.MSCert = f.MSCert
	}
	return &d
}

func carryTPMState(c *Change, f, to *TPMState) *TPMState {
	if to == nil {
		return nil
	}
	d := *to
	if f == nil {
		c.needsStorage(tpmSlot, attached{storage: d.Storage, volume: d.Volume}, nil)
		return to
	}
	d.Rest = f.Rest
	a, replaced := c.carry(tpmSlot, attached{storage: f.Storage, volume: f.Volume},
		attached{storage: d.Storage, volume: d.Volume})
	d.Storage, d.Volume = a.storage, a.volume
	if replaced {
		return &d
	}
	if d.Version != nil && *d.Version != valueOr(f.Version, "v1.2") {
		c.problem(tpmSlot, "version",
			"the TPM state has version "+valueOr(f.Version, "v1.2")+", which cannot be changed to "+*d.Version)
	}
	d.Version, d.ImportFrom = f.Version, f.ImportFrom
	return &d
}

func carryCloudInitDrive(c *Change, f CloudInit, to *CloudInit) {
	have := attached{f.Storage, f.Volume, f.Format}
	want := attached{to.Storage, to.Volume, to.Format}
	switch {
	case to.Slot == "":
	case f.Slot == "":
		c.needsStorage(to.Slot, want, nil)
	case f.Slot != to.Slot: // its content is generated: destroy it and make it again
		c.DeleteFirst = []string{f.Slot}
		to.Volume, to.Rest = "", nil
		if to.Storage == "" {
			to.Storage = f.Storage
		}
	default:
		to.Rest = f.Rest
		a, _ := c.carry(to.Slot, have, want)
		to.Storage, to.Volume, to.Format = a.storage, a.volume, a.format
	}
}

func valueOr[V string | bool](p *V, otherwise V) V {
	if p == nil {
		return otherwise
	}
	return *p
}
