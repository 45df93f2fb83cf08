package task

import (
	"slices"
	"strconv"
	"strings"
)

// TellsNotFreed tells whether the log of a task says that a volume could not be freed, which some tasks do and end
// with OK (qemu-server API2/Qemu.pm move_vm_disk). Whatever the storage's tool says, it names the volume, or the lock
// of the storage that was not had (pve-storage Plugin.pm cluster_lock_storage).
func TellsNotFreed(log []string, volume string) bool {
	storage, name, _ := strings.Cut(volume, ":")
	name = name[strings.LastIndex(name, "/")+1:]
	return slices.ContainsFunc(log, func(line string) bool {
		about := isAbout(line, storage, name) || strings.Contains(line, "storage-"+storage+"'")
		return about && slices.ContainsFunc([]string{"error", "failed", "busy", "in use", "can't", "cannot", "unable"},
			func(word string) bool {
				return strings.Contains(line, word)
			})
	})
}

// isAbout tells whether a line has the name of a volume, and not as part of the id of one on another storage.
func isAbout(line, storage, name string) bool {
	before, rest, has := strings.Cut(line, name)
	if !has || rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return false
	}
	id := before[strings.LastIndexAny(before, " '\"")+1:]
	other, _, isID := strings.Cut(id, ":")
	return !isID || other == storage
}

// VolumesMade are the volumes that the log of a task says it has made, in its order: by id where the line has it
// ("local-zfs:vm-100-disk-0"), else by name ("vm-100-disk-0", "100/vm-100-disk-0.qcow2"). Which storage a name
// is of only the other lines may tell. Volumes that it says it has removed again are not among them.
func VolumesMade(log []string) (ids, names []string) {
	for _, line := range log {
		for _, before := range []string{
			": successfully created disk '", // qemu-server API2/Qemu.pm create_disks
			"allocated target volume '",     // qemu-server QemuServer.pm clone_disk, since 473b6774 (April 2026)
			"new volume ID is '",            // qemu-server QemuServer.pm, restore_allocate_devices
		} {
			if _, rest, ok := strings.Cut(line, before); ok {
				ids = append(ids, rest[:strings.IndexAny(rest+"'", ",'")])
			}
		}
		if volume, ok := strings.CutPrefix(line, "finished extracting to "); ok { // qemu-server API2/Qemu.pm create_disks
			ids = append(ids, volume)
		}
		if gone := removedAgain(line); gone != "" {
			ids, names = less(ids, gone), less(names, gone[strings.Index(gone, ":")+1:])
		}
		if rest, ok := strings.CutPrefix(line, "Formatting '"); ok { // qemu-img create, pve-storage Plugin.pm alloc_image
			path, _, _ := strings.Cut(rest, "'")
			parts := strings.Split(path, "/")
			names = append(names, strings.Join(parts[max(0, len(parts)-2):], "/"))
		}
		if _, rest, ok := strings.Cut(line, `Logical volume "`); ok && strings.Contains(rest, `" created`) { // lvcreate
			name, _, _ := strings.Cut(rest, `"`)
			names = append(names, name)
		}
	}
	return ids, names
}

// VolumesCopied are the volumes that the log of a migration says it has copied, by their ids on the target (qemu-server
// QemuMigrate.pm sync_offline_local_volumes).
func VolumesCopied(log []string) (ids []string) {
	for _, line := range log {
		if _, id := copied(line); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// NamesOnTarget are those volumes by their ids on the node that they have left.
func NamesOnTarget(log []string) map[string]string {
	names := map[string]string{}
	for _, line := range log {
		if was, id := copied(line); id != "" {
			names[was] = id
		}
	}
	return names
}

// copied is the volume that a line of a migration tells of, and its id on the target; "" for any other line.
func copied(line string) (was, id string) {
	before, rest, is := strings.Cut(line, "' is '")
	_, was, isVolume := strings.Cut(before, " volume '")
	id, isCopy := strings.CutSuffix(rest, "' on the target")
	if !is || !isVolume || !isCopy {
		return "", ""
	}
	return was, id
}

// IsSafeToStop tells by the log of a running task that cleans up after itself whether it can be stopped now. It cannot
// while QEMU copies the disk of a running guest and the end may be near: a signal after QEMU has changed over to the
// new volume frees that volume, and the configuration has the old one; one at the end of a clone leaves its source
// paused, or its filesystems frozen (qemu-server QemuServer/BlockJob.pm monitor, API2/Qemu.pm move_vm_disk). A disk
// that is moved holds data, and a guest that migrates may have gone over (QemuMigrate.pm phase3_cleanup: the signal
// takes the tunnel away through which it is resumed), so these are never safe from there on. Nor is an upload that says
// its target: it copies over a file that another run may have put there since, and unlinks it at a signal (pve-storage
// API2/Storage/Status.pm upload).
func IsSafeToStop(typ string, log []string) bool {
	isLive := func(line string) bool {
		return strings.HasPrefix(line, "drive mirror is starting for ") ||
			strings.Contains(line, "starting VM ") && strings.Contains(line, " on remote node '")
	}
	if typ == "imgcopy" {
		return TargetOf(log) == ""
	}
	if !slices.ContainsFunc(log, isLive) {
		return true
	}
	if typ == "qmmove" || typ == "qmigrate" {
		return false
	}
	for _, line := range slices.Backward(log) {
		_, rest, _ := strings.Cut(line, ": transferred ")
		_, rest, _ = strings.Cut(rest, "(")
		percent, _, ok := strings.Cut(rest, "%")
		if !ok {
			continue
		}
		done, err := strconv.ParseFloat(percent, 64)
		return err == nil && done < nearlyDone && !strings.HasSuffix(line, ", ready")
	}
	return false
}

// nearlyDone is the share, in percent, from which on a copy may end at any moment: PVE looks once a second.
const nearlyDone = 80

// DisksMade are the volumes that the log of a task says it has made, by the slot that it says it has made them for.
func DisksMade(log []string) map[string]string {
	disks := DrivesMade(log)
	for slot, value := range disks {
		disks[slot], _, _ = strings.Cut(value, ",")
	}
	return disks
}

// DrivesMade are the same with their options, such as the size (qemu-server API2/Qemu.pm create_disks).
func DrivesMade(log []string) map[string]string {
	drives := map[string]string{}
	for _, line := range log {
		if slot, rest, ok := strings.Cut(line, ": successfully created disk '"); ok {
			drives[slot], _, _ = strings.Cut(rest, "'")
		}
	}
	return drives
}

// SlotsFilled are the slots that the log of a clone or a move says it fills with a copy: until April 2026 it does not
// name the new volume, and a linked clone never does (qemu-server QemuServer.pm clone_disk). The log of an import has
// the same line with the slot of its source. A cloud-init drive is no copy, but a new one.
func SlotsFilled(log []string) (slots []string) {
	for _, line := range log {
		for _, how := range []string{"full", "linked"} {
			if rest, ok := strings.CutPrefix(line, "create "+how+" clone of drive "); ok {
				slot, source, _ := strings.Cut(rest, "(")
				if !strings.Contains(source, "-cloudinit") {
					slots = append(slots, strings.TrimSpace(slot))
				}
			}
		}
	}
	return slots
}

// CopiesOf are the volumes that the log of a move says it has made on a storage for the disk in a slot. ZFS and RBD say
// nothing until April 2026 (qemu-server QemuServer.pm clone_disk).
func CopiesOf(log []string, slot, storage string) []string {
	isIts := func(line string) bool { return strings.HasPrefix(line, "create full clone of drive "+slot+" (") }
	if !slices.ContainsFunc(log, isIts) {
		return nil
	}
	ids, names := VolumesMade(log)
	for _, name := range names {
		ids = append(ids, storage+":"+name)
	}
	return ids
}

// removedAgain is the volume that a line of a failed restore's log says it has removed (qemu-server QemuServer.pm,
// restore_destroy_volumes), or that of an import out of an OVA (API2/Qemu.pm, create_disks).
func removedAgain(line string) string {
	if volume, ok := strings.CutPrefix(line, "cleaned up extracted image "); ok {
		return volume
	}
	_, rest, _ := strings.Cut(line, "temporary volume '")
	volume, ok := strings.CutSuffix(rest, "' successfully removed")
	if !ok {
		return ""
	}
	return volume
}

// less is a list less one entry, once.
func less(all []string, one string) []string {
	if n := slices.Index(all, one); n >= 0 {
		return slices.Delete(all, n, n+1)
	}
	return all
}

// HadAlready tells whether the log of a download says that the file was there with the right checksum, and nothing
// was downloaded (pve-common Tools.pm download_file_from_url).
func HadAlready(log []string) bool {
	return slices.ContainsFunc(log, func(line string) bool {
		return strings.Contains(line, "OK, got correct file already, no "+
			"need to download")
	})
}

// TargetOf is the path of the file that a download or an upload makes, by the log of its task; "" where it does not
// say (pve-common Tools.pm download_file_from_url; pve-storage API2/Storage/Status.pm upload).
func TargetOf(log []string) string {
	for _, line := range log {
		if _, path, ok := strings.Cut(line, "target file: "); ok {
			return path
		}
		if rest, ok := strings.CutPrefix(line, "downloading "); ok {
			if i := strings.LastIndex(rest, " to "); i >= 0 {
				return rest[i+len(" to "):]
			}
		}
	}
	return ""
}

// TargetNode is the node that an upload copies its file to, by the log of its task; "" where it does not say. The task
// is on the node that took the request (pve-storage API2/Storage/Status.pm upload, which has no proxyto; pve-manager
// HTTPServer.pm rest_handler).
func TargetNode(log []string) string {
	for _, line := range log {
		if node, ok := strings.CutPrefix(line, "target node: "); ok {
			return node
		}
	}
	return ""
}

// LeftTemporary tells whether the log of a download or an upload says that its worker could not remove what it had of
// the file (the same places).
func LeftTemporary(log []string) bool {
	return slices.ContainsFunc(log, func(line string) bool {
		return strings.Contains(line, "could not cleanup temporary file") ||
			strings.Contains(line, "unable to clean up temporary file") ||
			strings.HasPrefix(line, "cleanup failed: ")
	})
}

// UploadedTo is the path where the node that took an upload keeps it until it is copied; "" where the log does not
// say (pve-storage API2/Storage/Status.pm upload).
func UploadedTo(log []string) string {
	for _, line := range log {
		if path, ok := strings.CutPrefix(line, "starting file import from: "); ok {
			return path
		}
	}
	return ""
}
