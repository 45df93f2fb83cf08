package volumeuse

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// taskOf is the task of which an entry says that it begins or ends (pve-common RESTEnvironment.pm fork_worker,
// $log_task_result).
func taskOf(message string) (upid pve.UPID, begins, ends bool) {
	rest, begins := strings.CutPrefix(message, "starting task ")
	if !begins {
		rest, ends = strings.CutPrefix(message, "end task ")
	}
	id, _, _ := strings.Cut(rest, " ")
	return pve.UPID(id), begins, ends
}

// harmless are the types of tasks that give a guest no volume which its configuration and pending changes did not name
// before. They switch it on or off, show its screen, back it up or remove it.
func harmless() []string {
	return []string{"qmstart", "qmstop", "qmshutdown", "qmreboot", "qmreset", "qmpause", "qmresume", "qmdestroy",
		"vzdump", "vncproxy", "vncshell", "spiceproxy", "termproxy", "hastart", "hastop", "hashutdown"}
}

// guestIn is the guest that an entry is about, such as "update VM 100: -cores 2"; 0: none.
func guestIn(message string) int {
	words := strings.Fields(message)
	for i, word := range words {
		if i > 0 && slices.Contains([]string{"VM", "CT", "LXC", "container"}, words[i-1]) {
			if vmid, err := strconv.Atoi(strings.TrimSuffix(word, ":")); err == nil {
				return vmid
			}
		}
	}
	return 0
}

// wholeEntry is a length of an entry's text that pmxcfs never cuts: an entry has 4096 bytes with its header and three
// names of 255 bytes at most (pve-cluster pmxcfs/logger.c clog_pack).
const wholeEntry = 3000

// givesNoVolume reports whether an entry about a VM tells of a change that gives it no volume of another guest, however
// late PVE writes it. The entry has each option as a word that begins with "-", followed by its value (qemu-server
// API2/Qemu.pm update_vm_api). A text among the values may look like an option, and never hides one.
func givesNoVolume(message string) bool {
	_, change, ok := strings.Cut(message, ": ")
	words := strings.Fields(change)
	if !ok || len(words) == 0 || !strings.HasPrefix(message, "update VM ") || len(message) > wholeEntry {
		return false
	}
	if words[0] == "resize" { // resize_vm: the volume stays
		return true
	}
	for i, word := range words {
		if option, ok := strings.CutPrefix(word, "-"); ok && mayGiveVolume(option, words[i+1:]) {
			return false
		}
	}
	return strings.HasPrefix(words[0], "-")
}

// mayGiveVolume reports whether an option, with the words that follow it, may give its VM a volume of another guest.
// After "delete" and "revert" of a drive the VM has no volume that its options, or its pending ones, did not name
// before; "force" and "skiplock" are no options either.
func mayGiveVolume(option string, rest []string) bool {
	switch {
	case slices.Contains([]string{"delete", "revert", "force", "skiplock"}, option):
		return false
	case vm.IsSlot(option) && len(rest) > 0:
		return !ownVolume.MatchString(rest[0])
	}
	return vm.NamesVolume(option)
}

// ownVolume is a drive for which PVE makes a volume under the VM's own id, or a drive without one (qemu-server Drive.pm
// $NEW_DISK_RE, API2/Qemu.pm create_disks).
var ownVolume = regexp.MustCompile(`^(file=)?(none|[A-Za-z][A-Za-z0-9._-]*:(cloudinit|[0-9]+(\.[0-9]+)?))(,|$)`)
