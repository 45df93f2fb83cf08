// Package volid reads volume ids: storage, owner, format and kind of the volume that an id names.
package volid

import (
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// splitVolume takes a volume id apart (pve-storage, Plugin.pm parse_volume_id). An allocation ("local-zfs:32",
// "local-zfs:cloudinit") is no volume id.
func splitVolume(volid string) (storage, name string, ok bool) {
	storage, name, found := strings.Cut(volid, ":")
	if !found || name == "" || name == "cloudinit" || !isStorage(storage) {
		return "", "", false
	}
	if _, isSize := property.ParseDecimal(name); isSize {
		return "", "", false
	}
	return storage, name, true
}

func isStorage(s string) bool {
	if len(s) < 2 || !property.IsLetter(s[0]) || !property.IsLetter(s[len(s)-1]) && !property.IsDigit(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !property.IsLetter(s[i]) && !property.IsDigit(s[i]) && !strings.ContainsRune("-_.", rune(s[i])) {
			return false
		}
	}
	return true
}

// Valid says whether s is a volume id ("local-zfs:vm-100-disk-0", "local:iso/debian.iso"), not a path, "none", or a
// request to allocate ("local-zfs:32").
func Valid(s string) bool {
	_, _, ok := splitVolume(s)
	return ok
}

// Storage is the storage of a volume id, "" if s is none.
func Storage(s string) string {
	storage, _, _ := splitVolume(s)
	return storage
}

// IsDevice tells whether what is in a drive is a device or a file of the node, by its path, and no volume of a storage.
func IsDevice(file string) bool { return strings.HasPrefix(file, "/") }

// Owner is the VMID that a guest volume carries in its name. Linked clones ("base-100-disk-0/vm-303-disk-0",
// "100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2") belong to the last one. ISO images, backups and other files that
// belong to no guest give false.
func Owner(volid string) (vmid int, ok bool) {
	_, name, ok := splitVolume(volid)
	if !ok {
		return 0, false
	}
	parts := strings.Split(name, "/")
	last := len(parts) - 1
	if last > 0 && property.AllDigits(parts[last-1]) { // directory storages: any file name in the directory of the VMID
		return parseVMID(parts[last-1])
	}
	if last > 0 && !strings.HasPrefix(parts[last-1], "base") { // iso/…, backup/…, snippets/…, import/…
		return 0, false
	}
	kind, rest, _ := strings.Cut(parts[last], "-")
	switch kind {
	case "vm", "base", "subvol", "basevol":
		id, _, more := strings.Cut(rest, "-")
		if more {
			return parseVMID(id)
		}
	}
	return 0, false
}

// BackedUp is the VMID of the VM that a backup is of: "local:backup/vzdump-qemu-100-….vma.zst", "pbs:backup/vm/100/…"
// (pve-storage Plugin.pm and PBSPlugin.pm, parse_volname).
func BackedUp(archive string) (vmid int, ok bool) {
	_, name, _ := splitVolume(archive)
	for _, kind := range []string{"backup/vzdump-qemu-", "backup/vm/"} {
		if rest, is := strings.CutPrefix(name, kind); is {
			return parseVMID(rest[:max(strings.IndexAny(rest, "-/"), 0)])
		}
	}
	return 0, false
}

// IsNameOfPVE tells whether PVE itself gives a volume of its owner such a name: vm-100-disk-0 and its like (pve-storage
// 9.1.7 Plugin.pm get_next_vm_diskname), a cloud-init drive, saved memory, a fleecing image (qemu-server 9.2.6
// QemuServer.pm, QemuConfig.pm, VZDump/QemuServer.pm). Other programs choose names of their own.
func IsNameOfPVE(volid string) bool {
	owner, ok := Owner(volid)
	_, name, _ := strings.Cut(volid, ":")
	name = strings.TrimSuffix(trimFormat(name[strings.LastIndexByte(name, '/')+1:]), ".subvol")
	kind, rest, _ := strings.Cut(name, "-")
	id, rest, _ := strings.Cut(rest, "-")
	if !ok || id != strconv.Itoa(owner) {
		return false
	}
	what, n, _ := strings.Cut(rest, "-")
	switch {
	case what == "disk":
		return slices.Contains([]string{"vm", "base", "subvol", "basevol"}, kind) && property.AllDigits(n)
	case kind != "vm":
		return false
	case what == "state":
		return n != ""
	case what == "fleece":
		return property.AllDigits(n)
	}
	return rest == "cloudinit"
}

// Base is the volume that a linked clone has in front of its name, "" if the name has none: "local-zfs:base-100-disk-0"
// of "local-zfs:base-100-disk-0/vm-303-disk-0". LVM-thin and btrfs do not record it in names.
func Base(volid string) string {
	storage, name, _ := splitVolume(volid)
	name = name[:max(strings.LastIndexByte(name, '/'), 0)]
	if at := strings.LastIndexByte(name, '/'); property.AllDigits(name[at+1:]) { // the directory of the clone's VMID
		name = name[:max(at, 0)]
	}
	base := storage + ":" + name
	if _, ok := Owner(base); !ok {
		return ""
	}
	return base
}

func parseVMID(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && property.AllDigits(s)
}

// IsCloudInit says whether a drive's file is a cloud-init drive, existing or to be allocated (qemu-server
// Drive.pm drive_is_cloudinit).
func IsCloudInit(file string) bool {
	_, name, found := strings.Cut(file, ":")
	if !found {
		return false
	}
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = trimFormat(name)
	if rest, ok := strings.CutPrefix(name, "vm-"); ok {
		id, tail, _ := strings.Cut(rest, "-")
		return property.AllDigits(id) && tail == "cloudinit"
	}
	return name == "cloudinit"
}

func trimFormat(name string) string {
	for _, ext := range []string{".raw", ".qcow2", ".vmdk"} {
		if base, ok := strings.CutSuffix(name, ext); ok {
			return base
		}
	}
	return name
}

// Same tells whether two ids name one volume: with the conversion to a template "vm-100-disk-0" is renamed to
// "base-100-disk-0" (pve-storage, create_base).
func Same(a, b string) bool {
	plain := func(id string) string {
		n := strings.LastIndexAny(id, ":/") + 1
		if rest, ok := strings.CutPrefix(id[n:], "base-"); ok {
			return id[:n] + "vm-" + rest
		}
		return id
	}
	return plain(a) == plain(b)
}

// Format is the image format of an existing volume: the file extension where there is one, else raw, which is all
// that block storages have.
func Format(file string) string {
	if base := trimFormat(file); base != file {
		return file[len(base)+1:]
	}
	return "raw"
}

// IsInOVA tells whether a volume is a disk in an OVA: "local:import/web.ova/disk1.vmdk" (pve-storage DirPlugin.pm,
// parse_volname).
func IsInOVA(volume string) bool {
	_, name, _ := strings.Cut(volume, ":")
	return strings.HasPrefix(name, "import/") && strings.Contains(name, ".ova/")
}
