package combination_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

const vmid = 400

// fate is what a change does with a disk.
type fate string

const (
	kept      fate = "kept"
	grown     fate = "grown"
	moved     fate = "moved"
	removed   fate = "removed"
	changes   fate = "changes its slot"
	copied    fate = "copied, and removed"
	doubled   fate = "copied"
	returning fate = "comes back" // its removal waits for a restart, and it is configured again
)

// disk is one of the VM, before and after the change.
type disk struct {
	label   string // its data
	slot    string
	storage string
	size    string
	options string

	fate   fate
	target string // the slot afterwards; "" if it leaves
	to     string // the storage afterwards
	grows  string // the size afterwards
}

// change is a change of a VM: several things at once.
type change struct {
	disks   []*disk
	shuffle []int // which disk gets the name of which
	running bool
	removes string // removed_disks
	policy  string // reboot_policy
	node    string // afterwards
	power   string // afterwards, an argument
	more    string // arguments that change
	fresh   string // the slot of a new disk, "" if none
	// firmware: the VM has an EFI disk and a TPM state; what becomes of them.
	firmware bool
	efi, tpm fate
	// twoNames: an NFS export has two storages, and what names a disk on it takes the other one. snapped: there is a snapshot.
	twoNames, snapped bool
	held              [2]string // the slots of a proxmox_disk, before and after; "" if it is in none
	parts             []*part
	leaving           string // the data of a disk whose removal by a third party waits
}

var slots = []string{"scsi1", "scsi2", "scsi3", "virtio1", "virtio2", "sata1", "sata2", "ide1"}

// draw draws a change. The same numbers draw the same one.
func draw(r *rand.Rand) *change {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	free := slices.Clone(slots)
	r.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	c := &change{running: r.IntN(3) > 0, removes: pick("destroy", "destroy", "detach"), policy: pick("auto", "never", "force"), node: pick("pve1", "pve1", "pve1", "pve2")}
	c.snapped = r.IntN(5) == 0
	c.twoNames = !c.snapped && r.IntN(6) == 0
	for i := range 2 + r.IntN(2) {
		d := &disk{label: fmt.Sprintf("data%d", i), slot: free[i], storage: c.drawStorage(r), size: pick("1G", "2G", "2G")}
		d.options = fmt.Sprintf(", serial = \"ser%d\", backup = false", i)
		if r.IntN(2) == 0 {
			d.options += `, cache = "writeback"`
		}
		c.disks = append(c.disks, d)
	}
	free = free[len(c.disks):]
	c.shuffle = r.Perm(len(c.disks))
	if !c.running && r.IntN(2) == 0 {
		c.power = "power_state = \"stopped\"\n"
	}
	if r.IntN(6) == 0 {
		c.power = fmt.Sprintf("power_state = %q\n", pick("stopped", "running"))
	}
	if r.IntN(4) == 0 {
		c.more = "cpu = { cores = 2 }\n"
	}
	c.drawFates(r, free)
	c.drawParts(r)
	c.firmware = r.IntN(3) == 0
	c.efi, c.tpm = []fate{kept, kept, moved, removed}[r.IntN(4)], []fate{kept, kept, moved, removed}[r.IntN(4)]
	return c
}

// drawStorage draws where a disk is, or goes.
func (c *change) drawStorage(r *rand.Rand) string {
	all := []string{"local-zfs", "local-zfs", "local-lvm", "shared-nfs"}
	switch {
	case c.snapped:
		all = all[:3] // raw files have no snapshots
	case c.twoNames:
		all = append(all, "shared-nfs", "shared-nfs", "shared-nfs")
	}
	return all[r.IntN(len(all))]
}

// drawFates draws what becomes of each disk, and the slots afterwards.
func (c *change) drawFates(r *rand.Rand, free []string) {
	left := []string{} // slots whose disk leaves, where import_from would copy nothing
	for _, d := range c.disks {
		d.fate = []fate{kept, grown, moved, removed, removed, changes, changes, copied, doubled, returning}[r.IntN(10)]
		d.target, d.to, d.grows = d.slot, d.storage, d.size
		if c.snapped && (d.fate == moved || d.fate == removed) && r.IntN(3) > 0 {
			d.fate = grown // PVE moves and destroys no disk that a snapshot has
		}
		unplugs := strings.HasPrefix(d.slot, "scsi") || strings.HasPrefix(d.slot, "virtio")
		switch d.fate {
		case grown:
			d.grows = "4G"
		case moved:
			d.to = c.drawStorage(r)
		case removed:
			d.target = ""
			left = append(left, d.slot)
		case returning:
			if unplugs || !c.running || c.snapped {
				d.fate = kept
			}
		}
	}
	for _, d := range c.disks {
		if d.fate == copied || d.fate == doubled {
			d.target, free = free[0], free[1:]
		}
		if d.fate == copied {
			left = append(left, d.slot)
		}
	}
	free = append(free, left...)
	r.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	for _, d := range c.disks {
		if d.fate == changes {
			d.target, free = free[0], append(free[1:], d.slot)
		}
	}
	if r.IntN(2) == 0 && !slices.Contains(left, free[0]) { // a slot that stays in the configuration keeps its disk
		c.fresh = free[0]
	}
}

// configuration is the VM with all that it has, on a node.
func (c *change) configuration(node string, p piece) string {
	return fmt.Sprintf(`
resource "proxmox_vm" "x" {
  name          = "x"
  vmid          = %d
  node          = %q
  reboot_policy = %q
  removed_disks = %q
  scsihw        = "virtio-scsi-pci"
  boot_order    = ["scsi0"]
%s  disks         = {
    scsi0 = { storage = "local-zfs", size = "1G" }
%s  }
}
%s`, vmid, node, c.policy, c.removes, p.arguments, p.disks, p.blocks)
}

// before is the configuration before the change, without the disks of that fate. first is that with which the VM is made.
func (c *change) before(power string, without fate, first bool) string {
	all := piece{arguments: power + c.firmwareOf(kept, kept)}
	for _, d := range c.disks {
		if d.fate != without {
			all.disks += fmt.Sprintf("    %s = { storage = %q, size = %q%s }\n", d.slot, d.storage, d.size, d.options)
		}
	}
	for _, p := range c.parts {
		if !first || !p.late {
			all.add(p.before)
		}
	}
	return c.configuration("pve1", all)
}

// after is the configuration afterwards; volumes are those of the disks by their data.
func (c *change) after(volumes map[string]string) string {
	all := piece{arguments: c.power + c.more + c.firmwareOf(c.efi, c.tpm)}
	for _, d := range c.disks {
		source := fmt.Sprintf("storage = %q, size = %q", d.to, d.grows)
		switch d.fate {
		case removed:
			continue
		case changes:
			source = fmt.Sprintf("imported_disk = { volume = %q }, size = %q", c.nameFor(d, volumes), d.grows)
		case doubled:
			all.disks += fmt.Sprintf("    %s = { storage = %q, size = %q%s }\n", d.slot, d.storage, d.size, d.options)
			fallthrough
		case copied:
			source = fmt.Sprintf("storage = \"local-lvm\", import_from = %q, size = %q", c.nameFor(d, volumes), d.grows)
		}
		all.disks += fmt.Sprintf("    %s = { %s%s }\n", d.target, source, d.options)
	}
	if c.fresh != "" {
		all.disks += fmt.Sprintf("    %s = { storage = \"local-zfs\", size = \"2G\" }\n", c.fresh)
	}
	for _, p := range c.parts {
		all.add(p.after(volumes))
	}
	return c.configuration(c.node, all)
}

// firmwareOf are the arguments for an EFI disk and a TPM state, if the VM has them.
func (c *change) firmwareOf(efi, tpm fate) string {
	if !c.firmware {
		return ""
	}
	text := "bios = \"ovmf\"\nmachine = \"q35\"\n"
	storages := map[fate]string{kept: "local-zfs", moved: "local-lvm"}
	if efi != removed {
		text += fmt.Sprintf("efi_disk = { storage = %q }\n", storages[efi])
	}
	if tpm != removed {
		text += fmt.Sprintf("tpm_state = { storage = %q }\n", storages[tpm])
	}
	return text
}

// String tells of the change.
func (c *change) String() string {
	text := fmt.Sprintf("running %t, removed_disks %s, reboot_policy %s, to %s, %q %q, a new disk in %q", c.running, c.removes, c.policy, c.node, c.power, c.more, c.fresh)
	if c.firmware {
		text += fmt.Sprintf("\n  efi_disk %s, tpm_state %s", c.efi, c.tpm)
	}
	for _, p := range c.parts {
		text += "\n  " + p.name
	}
	for _, d := range c.disks {
		text += fmt.Sprintf("\n  %s: %s (%s, %s) %s: %s (%s, %s)", d.label, d.slot, d.storage, d.size, d.fate, d.target, d.to, d.grows)
	}
	return text
}
