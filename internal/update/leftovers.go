package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// nameLeftovers warns of volumes that the task of a failed step has left. PVE frees the volumes of a failed task, but
// not if its worker was killed or a storage is busy. The volumes are named and not removed: those of an import by hand
// that is under way look the same.
func (v volumes) nameLeftovers(ctx context.Context, t todo, failed error) {
	var died *pve.TaskError
	made := errors.As(failed, &died) && slices.Contains([]string{"qmmove", "qmconfig", "qmigrate", "qmtemplate"},
		died.UPID.Type())
	if !made && len(v.view.Tasks.Commands) == 0 {
		return
	}
	late, cancel := v.changer.jobs.LookAfter(ctx)
	defer cancel()
	left, unclear, err := v.leftovers(late, t, died)
	what := "task"
	if !made {
		what = "command"
	}
	if err != nil {
		v.warn(fmt.Sprintf("The failed %s may have left volumes of VM %d behind", what, v.vmid),
			fmt.Sprintf("Its storages could not be looked at: %v. `pvesm list` shows the volumes with the id %d on one; "+
				"a later destroy of the VM names them too.", err, v.vmid))
	}
	if len(left) > 0 {
		v.warn(fmt.Sprintf("The failed %s has left volumes of VM %d behind", what, v.vmid),
			fmt.Sprintf("They carry its id, and its configuration does not name them. If no other task or command is at work "+
				"on VM %d, clear up:\n  %s", v.vmid, strings.Join(left, "\n  ")))
	}
	if len(unclear) > 0 {
		v.warn(fmt.Sprintf("The failed %s may have left volumes of VM %d behind", what, v.vmid),
			fmt.Sprintf("They carry its id, and its configuration does not name them. Whether they were there before is not "+
				"known, so look at them before anything is destroyed:\n  %s", strings.Join(unclear, "\n  ")))
	}
}

// origin is how a volume stands to the update.
type origin int

const (
	unclearOrigin origin = iota
	madeBefore
	madeSince
)

// ageOf tells how a volume stands to the update. isNamed is true for one whose name a volume of the VM has too.
type ageOf func(node string, shared, isNamed bool, of pve.Volume) origin

// whatIsNew returns a function that tells whether a volume has come since the update began. One that the log of the
// failed task names has, unless it says that it exists already. The log names the volumes too that the task copies
// (qemu-server QemuServer.pm clone_disk, QemuMigrate.pm scan_local_volumes), so it proves nothing of a name that the VM
// has, on whatever storage or node, but for a line about a copy on the target. The date of a volume counts on a storage
// that only one node has, and by the clock of that node, which dates it: no two clocks are compared. ZFS and RBD tell
// no date (pve-storage ZFSPoolPlugin.pm, RBDPlugin.pm list_images).
func (v volumes) whatIsNew(ctx context.Context, failed *pve.TaskError) ageOf {
	lines := map[string]time.Time{}
	return func(node string, shared, isNamed bool, of pve.Volume) origin {
		line, known := lines[node]
		if !known && !shared && !of.CreatedAt.IsZero() {
			line = v.beganOn(ctx, node)
			lines[node] = line
		}
		switch {
		case shared || of.CreatedAt.IsZero() || line.IsZero():
		case of.CreatedAt.Before(line):
			return madeBefore
		default:
			return madeSince
		}
		if failed != nil && failed.UPID.Node() != node && slices.Contains(task.VolumesCopied(failed.Log), of.ID) {
			return madeSince
		}
		makesIt := func(said string) bool { return makes(said, of.ID) }
		if failed != nil && !isNamed && slices.ContainsFunc(failed.Log, makesIt) {
			return madeSince
		}
		return unclearOrigin
	}
}

// beganOn is when the update began by the clock of a node, as far as that is known: its first task there, or the time
// that the node tells.
func (v volumes) beganOn(ctx context.Context, node string) time.Time {
	for _, upid := range v.view.Tasks.UPIDs {
		if upid.Node() == node && !v.view.Tasks.Guessed[upid] {
			return upid.Start()
		}
	}
	line, err := v.changer.jobs.NodeTime(ctx, node, v.began)
	if err != nil {
		return time.Time{}
	}
	return line
}

// makes reports whether a line of a task's log names a volume that the task has made: by its whole id, or by its name
// where the line has no storage before it.
func makes(line, volume string) bool {
	words := strings.FieldsFunc(line, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:/", r)
	})
	isName := func(word string) bool {
		word = strings.Trim(word, ".:")
		return word == volume || !strings.Contains(word, ":") && path.Base(word) == nameOf(volume)
	}
	return slices.ContainsFunc(words, isName) && !strings.Contains(line, "exist")
}

// nameOf is the name of a volume without its storage and folder.
func nameOf(volume string) string {
	_, name, _ := strings.Cut(volume, ":")
	return path.Base(name)
}

// leftovers returns the volumes of the VM's VMID which no configuration names, on the storages of the change: those
// that have come since the update began, with the commands that remove them, and those of which that is not known.
func (v volumes) leftovers(ctx context.Context, t todo, failed *pve.TaskError) (left, unclear []string, err error) {
	age := v.whatIsNew(ctx, failed)
	config, err := v.view.Fresh(ctx)
	if err != nil {
		return nil, nil, err
	}
	resources, err := v.changer.api.Cluster().Resources(ctx)
	if err != nil {
		return nil, nil, err
	}
	named, err := v.namedVolumes(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	names := map[string]bool{}
	for volume := range named {
		names[nameOf(volume)] = true
	}
	places, err := v.changer.destroyer.Places(ctx)
	if err != nil {
		return nil, nil, err
	}
	merged, node := vm.Decode(config.Merged()), v.view.Node()
	involved := slices.Concat(merged.Storages(), t.planned.Storages(), []string{v.r.ImportStorage})
	for _, at := range v.nodes() {
		for _, storage := range resources.Storages(at) {
			if !slices.Contains(involved, storage.Storage) || storage.Shared && at != node {
				continue
			}
			volumes, err := v.changer.api.Storage(at, storage.Storage).Content(ctx, "images", v.vmid)
			if err != nil {
				return nil, nil, err
			}
			for _, found := range volumes {
				_, same := places.Likest(found.ID, maps.Keys(named))
				from := age(at, storage.Shared, names[nameOf(found.ID)], found)
				renamed, replica := v.renamed(config, found.ID, at), unlessReplica(named, found.ID, at)
				switch {
				case at == node && same == volumeuse.Unclear:
					unclear = append(unclear, fmt.Sprintf("volume %s may be a disk of this VM under another name: leave it until "+
						"that is known", found.ID))
				case at == node && same != volumeuse.Apart:
				case renamed != "":
					left = append(left, renamed+replica)
				case from == madeSince:
					left = append(left, v.nextStep(ctx, found.ID, at, failed)+replica)
				case from == unclearOrigin:
					unclear = append(unclear, fmt.Sprintf("%s on node %s%s", found.ID, at, replica))
				}
			}
		}
	}
	return left, unclear, nil
}

// mayRunOn reports whether the guest may run on a volume that a failed task has made, or change over to it yet. QEMU
// mirrors the disk of a running guest, and goes on with that where PVE's worker is killed. It has changed over before
// PVE writes the configuration (qemu-server QemuServer/BlockJob.pm monitor, API2/Qemu.pm move_vm_disk).
func (v volumes) mayRunOn(ctx context.Context, failed *pve.TaskError) bool {
	if failed == nil || failed.UPID.Type() != "qmmove" || !failed.Killed() && !failed.IsUntold() {
		return false
	}
	status, err := v.changer.api.QEMU(v.view.Node(), v.vmid).Status(ctx)
	return err != nil || status.IsRunning()
}

// unlessReplica warns of a volume on another node whose name is that of a disk of the VM. A failed migration leaves
// such a volume, but a replication job keeps its copies under the same name (pve-guest-common Replication.pm
// replicate_volume).
func unlessReplica(named map[string]bool, volume, node string) string {
	if !named[volume] {
		return ""
	}
	return fmt.Sprintf("; leave it if a replication job of the VM copies to node %s (`pvesr list`)", node)
}

// nodes are those that the VM is or was on, or was to move to.
func (u *update) nodes() []string {
	nodes := []string{u.view.Node()}
	for _, other := range []string{u.r.Ref.Node, u.r.Node} {
		if other != "" && !slices.Contains(nodes, other) {
			nodes = append(nodes, other)
		}
	}
	return nodes
}

// renamed is the command that names a disk in the configuration again which a conversion to a template has renamed
// before it died (qemu-server QemuServer.pm template_create), "" if the volume is no such disk.
func (v volumes) renamed(config pve.PendingConfig, volume, node string) string {
	was := strings.Replace(volume, "base-", "vm-", 1)
	for _, e := range config.Entries {
		if rest, ok := strings.CutPrefix(e.Value+",", was+","); ok && was != volume {
			command := shell.VM("qm set {vmid} --{} {}", v.vmid, e.Key, strings.TrimSuffix(volume+","+rest, ","))
			if command == "" {
				return shell.ByHand
			}
			return "`" + command + "` on node " + node + "; the unused entry that comes of it names no volume"
		}
	}
	return ""
}

// nextStep tells an operator how to free a volume that a failed task has made, or to look where the guest may run on
// it.
func (v volumes) nextStep(ctx context.Context, volume, node string, failed *pve.TaskError) string {
	if node != v.view.Node() || !v.mayRunOn(ctx, failed) {
		return v.freeCommand(ctx, volume, node)
	}
	return fmt.Sprintf("%s on node %s: leave it until it is known that the guest does not run on it, for QEMU goes on "+
		"where PVE's task was killed. `%s` there: \"info block\" has the volumes that the guest runs on, and "+
		"\"info block-jobs\" a copy that is at work. If it runs on this one, shut it down, and put the volume into its "+
		"slot before it starts",
		volume, node, shell.VM("qm monitor {vmid}", v.vmid))
}

// freeCommand tells an operator how to free a volume. It never tells to free one that another guest uses; if that is
// unknown, the command checks it.
func (v volumes) freeCommand(ctx context.Context, volume, node string) string {
	where := v.inState()
	where.VolumesAt = node
	_, err := v.changer.destroyer.ProveInState(ctx, where, []string{volume})
	var inUse *guard.InUseError
	if errors.As(err, &inUse) {
		return fmt.Sprintf("on node %s %s; detach it there first", node, err)
	}
	command := shell.Free(volume)
	if err != nil {
		command = shell.FreeUnused(volume)
	}
	return shell.Or(command, shell.ByHand) + " on node " + node
}

// namedVolumes are the volumes that the configuration names, pending values and snapshots included.
func (u *update) namedVolumes(ctx context.Context, config pve.PendingConfig) (map[string]bool, error) {
	snapshots, err := u.changer.api.QEMU(u.view.Node(), u.vmid).SnapshotNames(ctx)
	if err != nil {
		return nil, err
	}
	configs, err := u.changer.guests.SnapshotConfigs(ctx, u.view.Node(), u.vmid, snapshots)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, values := range append(configs, config.Current(), config.Merged()) {
		for _, volume := range guest.Volumes(values) {
			named[volume] = true
		}
	}
	return named, nil
}
