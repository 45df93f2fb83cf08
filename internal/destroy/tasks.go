package destroy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// ending is how a task of ours ended, from harmless to grave.
type ending int

const (
	cleanedUp   ending = iota // well, or with PVE's own clean-up
	volumesStay               // its guest's configuration is gone, the volumes that it has made are there
	unknownEnd                // its log is lost, cannot be read, or does not say whether the task cleaned up
	killed                    // without clean-up
)

func endingOf(upid pve.UPID, exitStatus string) ending {
	ended := &pve.TaskError{UPID: upid, ExitStatus: exitStatus}
	switch {
	case ended.Killed() || ended.LeavesHalf():
		return killed
	case ended.LeavesVolumes():
		return volumesStay
	case exitStatus == "" || !ended.CleansUp():
		return unknownEnd
	}
	return cleanedUp
}

// endings are the tasks of a removal, and how they have ended.
type endings struct {
	tasks    *request.Tasks
	halfMade *HalfMade // whose kills were handled
	ended    map[pve.UPID]ending
	done     pve.UPID // a destroy that was found to have ended well

	made       bool // a task of ours has made the VM
	justKilled bool // a task was found killed a moment ago: the configuration that is there now is what it left
	restoring  bool // a killed restore got as far as its volumes, for which it has written memory into the configuration
	othersWork bool // a task that is not ours may hold the lock
}

// end stops our tasks that still run, awaits their end, and returns the gravest.
func (e *endings) end(ctx context.Context, api *pve.Client) (ending, error) {
	for _, upid := range e.tasks.UPIDs {
		if _, known := e.ended[upid]; known {
			continue
		}
		if err := e.endTask(ctx, api, upid); err != nil {
			return cleanedUp, err
		}
	}
	return e.worst(), nil
}

// leavesHalf reports whether a task that dies can leave a VM half made, or half destroyed. The others find it whole.
func leavesHalf(upid pve.UPID) bool {
	return slices.Contains([]string{"qmcreate", "qmclone", "qmrestore", "qmdestroy"}, upid.Type())
}

// worst is the gravest end of our tasks that can leave a half-made VM. A task that could not be looked at counts as
// unknownEnd.
func (e *endings) worst() ending {
	worst := cleanedUp
	for _, upid := range e.tasks.UPIDs {
		if !leavesHalf(upid) {
			continue
		}
		if how, known := e.ended[upid]; known {
			worst = max(worst, how)
		} else {
			worst = max(worst, unknownEnd)
		}
	}
	return worst
}

// mayHaveLeft reports whether a task of ours may have left a lock: one of a migration only where such a task of ours
// was killed, since others migrate VMs, too.
func (e *endings) mayHaveLeft(lock string) bool {
	wasKilled := func(upid pve.UPID) bool { return upid.Type() == "qmigrate" && e.ended[upid] == killed }
	return guest.IsOwnLock(lock) || lock == "migrate" && slices.ContainsFunc(e.tasks.UPIDs, wasKilled)
}

// noteCopies notes the volumes that a killed migration of ours has copied to the node of the baseline, and those that a
// failed one could not free. The VM is still where it was, and so are the disks that it names: PVE destroys none of the
// copies with it.
func noteCopies(ctx context.Context, r *removal) error {
	if r.view.at() == r.Baseline.Node { // it has arrived, and has the copies
		return nil
	}
	for _, upid := range r.Tasks.UPIDs {
		how, ended := r.tasks.ended[upid]
		if upid.Type() != "qmigrate" || !ended || upid.Node() == r.Baseline.Node {
			continue
		}
		log, err := r.d.api.Tasks().Log(ctx, upid, makerLines)
		if err != nil && !pve.IsKind(err, pve.NotFound) { // a log that PVE has removed proves nothing
			return fmt.Errorf("look which volumes task %s has copied: %w", upid, err)
		}
		for _, volume := range task.VolumesCopied(log) {
			isGone := r.deleted.task.Node() == r.Baseline.Node && guest.Uses(r.deleted.config, volume)
			if !isGone && (how == killed || tellsNotFreed(log, volume, false)) {
				r.of(volume).copied = true
			}
		}
	}
	return nil
}

// ofSource is the log of a task, of a migration the lines about disks on the node that the VM has left (qemu-server
// QemuMigrate.pm phase3_cleanup). A copy that could not be freed mostly has the name of such a disk
// (cleanup_remotedisks).
func ofSource(upid pve.UPID, log []string) []string {
	isOther := func(line string) bool { return !strings.Contains(line, "removing local copy of '") }
	if upid.Type() != "qmigrate" {
		return log
	}
	return slices.DeleteFunc(slices.Clone(log), isOther)
}

// noteAll notes how those of our tasks have ended of which that is not known yet.
func (e *endings) noteAll(ctx context.Context, api *pve.Client) {
	for _, upid := range e.tasks.UPIDs {
		if _, known := e.ended[upid]; known {
			continue
		}
		if status, err := api.Tasks().Status(ctx, upid); err == nil && !status.Running {
			_ = e.note(upid, status, nil) // fails only where the status is not known
		}
	}
}

// endTask ends one task. A task that a search took for ours is awaited, not stopped.
func (e *endings) endTask(ctx context.Context, api *pve.Client, upid pve.UPID) error {
	status, err := api.Tasks().Status(ctx, upid)
	if err == nil && status.Running {
		if !e.tasks.Guessed[upid] && upid.Type() != "qmdestroy" { // a destroy does what we want, and better undisturbed
			log, err := api.Tasks().Log(ctx, upid, makerLines)
			if err == nil && task.IsSafeToStop(upid.Type(), log) { // else it is about to end
				err = api.Tasks().Stop(ctx, upid)
			}
			if err != nil {
				return err
			}
		}
		_, err = api.Tasks().Wait(ctx, upid)
		var ended *pve.TaskError
		if err != nil && !errors.As(err, &ended) && !pve.IsKind(err, pve.Ambiguous) {
			return err
		}
		status, err = api.Tasks().Status(ctx, upid)
	}
	if err := e.note(upid, status, err); err != nil {
		return err
	}
	return e.noteRestore(ctx, api, upid)
}

// noteRestore notes whether a killed restore of ours had begun to make volumes. Before that its configuration says
// nothing, as that of a VM does which another user begins to restore under the VMID (qemu-server QemuServer.pm,
// restore_vma_archive).
func (e *endings) noteRestore(ctx context.Context, api *pve.Client, upid pve.UPID) error {
	if upid.Type() != "qmrestore" || e.ended[upid] != killed {
		return nil
	}
	log, err := api.Tasks().Log(ctx, upid, makerLines)
	if err != nil && !pve.IsKind(err, pve.NotFound) {
		delete(e.ended, upid) // it is asked once more
		return fmt.Errorf("look how far task %s came: %w", upid, err)
	}
	e.restoring = slices.ContainsFunc(log, func(line string) bool { return strings.Contains(line, "new volume ID is '") })
	return nil
}

// note notes how a task has ended, by its status or by why that cannot be had.
func (e *endings) note(upid pve.UPID, status pve.TaskStatus, err error) error {
	switch {
	case pve.IsKind(err, pve.NotFound):
		e.ended[upid] = unknownEnd
	case err != nil:
		return fmt.Errorf("look at task %s: %w", upid, err)
	default:
		e.ended[upid] = endingOf(upid, status.ExitStatus)
		e.made = e.made || leavesHalf(upid) && upid.Type() != "qmdestroy" && status.HasSucceeded()
		if upid.Type() == "qmdestroy" && status.HasSucceeded() {
			e.done = upid
		}
		if e.ended[upid] == killed && leavesHalf(upid) && e.halfMade != nil && !e.halfMade.kills[upid] {
			e.halfMade.kills[upid], e.justKilled = true, true
		}
	}
	return nil
}

// lastDestroy is the last destroy among our tasks, "" if there is none.
func (e *endings) lastDestroy() pve.UPID {
	for _, upid := range slices.Backward(e.tasks.UPIDs) {
		if upid.Type() == "qmdestroy" {
			return upid
		}
	}
	return ""
}

// awaitLost looks once more, and longer, for the effect of a lost request of ours. An interrupt may have cut the
// request off, or its handler may still be at work behind a timeout.
func (r *removal) awaitLost(ctx context.Context) {
	if r.Lost == nil || r.Lost.Request.Type == "" {
		return
	}
	for attempt := range r.Lost.Patience {
		if r.d.jobs.Pause(ctx, attempt) != nil {
			return
		}
		if upid, err := r.d.jobs.Search(ctx, r.Tasks, r.Lost.Request, r.Lost.Since, 1); err == nil && upid != "" {
			r.Tasks.Guess(upid)
			r.Lost = nil
			return
		}
		if err := r.find(ctx, cleanedUp); err == nil && r.view.owner != guest.NoGuest {
			return
		}
	}
	r.notes = append(r.notes, Note{Doubt: true, Text: fmt.Sprintf("The answer to the request that was to make VM %d was "+
		"lost, and nothing of it was found. Should the VM appear after all, its description names transaction %s, and the "+
		"next create with its id or name removes it", r.VMID, r.Mark.Saga)})
}

// RecordHalfMade keeps what the configuration looks like that killed tasks of ours have left, right after that:
// nothing else shows later that it is still the same.
func (d *Destroyer) RecordHalfMade(ctx context.Context, t Target) {
	r := d.newRemoval(t, policy{})
	r.tasks.noteAll(ctx, d.api)
	if r.tasks.justKilled {
		_ = r.find(ctx, killed) // an unseen configuration is not recognized later
	}
}

// couldNot are the beginnings of the lines in which a destroy says that it has left a volume; the task still ends well.
// Until qemu-server 9.1.19 the first does not even count as a warning, and the second ends the task (qemu-server
// QemuServer.pm destroy_vm, 2e85e6d7). The last is about an image of a backup that was killed, which the configuration
// names apart (QemuConfig.pm cleanup_fleecing_images).
func couldNot() []string {
	return []string{"Could not remove disk '", "failed to get path and owner of volume '",
		"error removing fleecing image '"}
}

// logLines is more than a destroy of 256 volumes says.
const logLines = 500

// notRemoved returns the volumes that stayed by the log of a destroy, and why.
func notRemoved(log []string) map[string]string {
	stayed := map[string]string{}
	for _, line := range log {
		for _, words := range couldNot() {
			_, rest, found := strings.Cut(line, words)
			if volume, why, closed := strings.Cut(rest, "'"); found && closed {
				stayed[volume] = "PVE removed the VM and said of it: " + strings.ToLower(words[:1]) +
					strings.TrimSuffix(words[1:], " '") + why
			}
		}
	}
	return stayed
}

// noteFleecing notes the fleecing images that stayed by the log of the destroy: their record went with the
// configuration, and their storage may have no other volume of the VM (qemu-server VZDump/QemuServer.pm
// allocate_fleecing_images).
func noteFleecing(r *removal, destroyed pve.UPID, stayed map[string]string) {
	for _, volume := range slices.Sorted(maps.Keys(stayed)) {
		if owner, _ := volid.Owner(volume); owner == r.VMID && strings.Contains(volume, "-fleece-") {
			r.deleted.strays = append(r.deleted.strays, stray{destroyed.Node(), volume, stayed[volume]})
		}
	}
}

// tellsNotFreed reports whether a task says of a volume that it could not be freed: by name or, of a volume that it
// has made, by the lock of its storage.
func tellsNotFreed(log []string, volume string, made bool) bool {
	if made {
		return task.TellsNotFreed(log, volume)
	}
	name := volume[strings.LastIndexAny(volume, ":/")+1:]
	isOther := func(line string) bool { return !strings.Contains(line, name) }
	return task.TellsNotFreed(slices.DeleteFunc(slices.Clone(log), isOther), volume)
}

// logged returns the volumes that a log says were made. A line with nothing but a name stands for one volume of that
// name; where several have it, none is known to be meant.
func logged(log []string, found []pve.Volume, b *guest.Baseline) map[string]bool {
	ids, names := task.VolumesMade(log)
	made, lines, same := map[string]bool{}, map[string]int{}, map[string][]string{}
	for _, name := range names {
		lines[name]++
	}
	for _, id := range ids {
		made[id] = true
		if listed, _ := b.Resources.Storage(b.Node, volid.Storage(id)); !slices.Contains([]string{"zfspool", "rbd"},
			listed.PluginType) {
			lines[nameOf(id)]-- // such a storage has said so itself before
		}
	}
	for _, v := range found {
		if !made[v.ID] {
			same[nameOf(v.ID)] = append(same[nameOf(v.ID)], v.ID)
		}
	}
	for name, ids := range same {
		for _, id := range ids {
			made[id] = lines[name] >= len(ids)
		}
	}
	return made
}

// nameOf is the name of a volume as PVE's tools print it: that of the file with its directory, or that of the logical
// volume.
func nameOf(volume string) string {
	_, path, _ := strings.Cut(volume, ":")
	parts := strings.Split(path, "/")
	last := len(parts) - 1
	if last > 0 && strings.Trim(parts[last-1], "0123456789") == "" {
		return parts[last-1] + "/" + parts[last]
	}
	return parts[last]
}
