// Package shell makes the commands that the provider prints for root on a node. Names in them come from the server,
// where third parties choose them: PVE lets everyone with Datastore.AllocateSpace name a volume "vm-777-x;id;#.raw"
// (pve-storage 9.1.7 Plugin.pm, parse_name_dir). A command with such a name is not printed at all: a quoted one would
// be right for a shell and wrong for a reader.
package shell

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ByHand stands where a command would be if a name in it were not unusual.
const ByHand = "its name is unusual, so no command is given: look at it by hand"

// plain is a word that every shell takes for itself, and no program for an option. withToken is one that names an API
// token, as the UPIDs of its tasks do: bash looks for the word after "!" in its history unless it is in single quotes.
var (
	plain     = regexp.MustCompile(`^[A-Za-z0-9_.:/+@][A-Za-z0-9_.:/+@=,-]*$`)
	withToken = regexp.MustCompile(`^[A-Za-z0-9_.:/+@][A-Za-z0-9_.:/+@=,!-]*$`)
)

// IsPlain reports whether a word can stand in a printed command.
func IsPlain(word string) bool { return withToken.MatchString(word) }

// Command returns a command line with each "{}" of line replaced by the next of words, or "" if a word is not plain.
// line itself is a constant of the program.
func Command(line string, words ...string) string {
	var b strings.Builder
	for _, word := range words {
		before, after, ok := strings.Cut(line, "{}")
		if !ok || !IsPlain(word) {
			return ""
		}
		if !plain.MatchString(word) {
			word = "'" + word + "'"
		}
		b.WriteString(before + word)
		line = after
	}
	return b.String() + line
}

// VM is Command with each "{vmid}" of line replaced by the id of a VM.
func VM(line string, vmid int, words ...string) string {
	return Command(strings.ReplaceAll(line, "{vmid}", strconv.Itoa(vmid)), words...)
}

// BootOrder returns the command that sets the boot order of a VM.
func BootOrder(vmid int, order []string) string {
	words := strings.Join(slices.Repeat([]string{"{}"}, len(order)), ";")
	return VM("qm set {vmid} --boot 'order="+words+"'", vmid, order...)
}

// Or returns a command in backquotes, or otherwise if there is none.
func Or(command, otherwise string) string {
	if command == "" {
		return otherwise
	}
	return "`" + command + "`"
}

// Free returns the command that removes a volume.
func Free(volume string) string { return Command("pvesm free {}", volume) }

// FreeUnused returns the command that removes a volume which no configuration of the cluster mentions. grep ends with
// 1 only if it has read everything and found nothing, with 2 if something could not be read.
func FreeUnused(volume string) string {
	return Command("grep -rF -- {} /etc/pve/nodes; [ $? = 1 ] && pvesm free {}", volume, volume)
}

// IfMarked returns the command that ends well only if the configuration of a VM mentions a word, such as its uuid in
// any case. It goes before "&&".
func IfMarked(word, node string, vmid int) string {
	return VM("grep -qiF -- {} /etc/pve/nodes/{}/qemu-server/{vmid}.conf", vmid, word, node)
}

// DropSnapshot returns the command that removes a snapshot of a volume which its VM does not have. PVE has none of its
// own, but for snapshots of VMs (pve-storage Storage.pm volume_snapshot_delete).
func DropSnapshot(node string, vmid int, name, volume string) string {
	return VM("grep -xF -- '['{}']' /etc/pve/nodes/{}/qemu-server/{vmid}.conf; [ $? = 1 ] && perl -MPVE::Storage -e "+
		"'PVE::Storage::volume_snapshot_delete(PVE::Storage::config(), @ARGV)' {} {}", vmid, name, node, volume, name)
}

// And returns a command line that runs second if first ends well. It is "" if one of them is.
func And(first, second string) string {
	if first == "" || second == "" {
		return ""
	}
	return first + " && " + second
}

// TaskStatus names, for a sentence, the place that shows how a task stands.
func TaskStatus(upid, node string) string {
	return Or(Command("pvenode task status {}", upid), "the list of tasks") + " on node " + node
}
