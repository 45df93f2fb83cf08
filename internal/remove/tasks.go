package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// awaitLost looks once more, and longer, for what a lost request of ours did. It may have been cut off by an interrupt, or its
// handler may still be at work behind a timeout.
func (r *removal) awaitLost(ctx context.Context) {
	if r.Lost == nil || r.Lost.Request.Type == "" {
		return
	}
	for attempt := range r.Lost.Patience {
		if r.s.jobs.Pause(ctx, attempt) != nil {
			return
		}
		if upid, err := r.s.jobs.Search(ctx, r.Tasks, r.Lost.Request, r.Lost.Since, 1); err == nil && upid != "" {
			r.Tasks.Guess(upid)
			r.Lost = nil
			return
		}
		if found, err := r.find(ctx, cleanedUp); err == nil && found.owner != guest.Nobody {
			return
		}
	}
	r.notes = append(r.notes, Note{Doubt: true, Text: fmt.Sprintf("The answer to the request that was to make VM %d was lost, "+
		"and nothing of it was found. Should the VM appear after all, its description names transaction %s, "+
		"and the next create with its id or name removes it", r.VMID, r.Stamp.TX)})
}

// endTasks stops our tasks that still run and awaits their end, and tells the gravest.
func (r *removal) endTasks(ctx context.Context) (ending, error) {
	for _, upid := range r.Tasks.UPIDs {
		if _, known := r.ended[upid]; known {
			continue
		}
		if err := r.endTask(ctx, upid); err != nil {
			return cleanedUp, err
		}
	}
	return r.worst(), nil
}

// worst is the gravest end of our tasks. How one ended that could not be looked at is not known.
func (r *removal) worst() ending {
	worst := cleanedUp
	for _, upid := range r.Tasks.UPIDs {
		if how, known := r.ended[upid]; known {
			worst = max(worst, how)
		} else {
			worst = max(worst, unknownEnd)
		}
	}
	return worst
}

// noteEnds notes how those of our tasks have ended of which that is not known yet.
func (r *removal) noteEnds(ctx context.Context) {
	for _, upid := range r.Tasks.UPIDs {
		if _, known := r.ended[upid]; known {
			continue
		}
		if status, err := r.s.api.TaskStatus(ctx, upid); err == nil && !status.Running {
			_ = r.noteEnd(upid, status, nil) // which fails only where the status is not known
		}
	}
}

// endTask sees to it that a task is over, and notes how. One that a search took for ours is awaited, not stopped.
func (r *removal) endTask(ctx context.Context, upid pve.UPID) error {
	status, err := r.s.api.TaskStatus(ctx, upid)
	if err == nil && status.Running {
		if !r.Tasks.Guessed[upid] && upid.Type() != "qmdestroy" { // which does what we want, and better undisturbed
			if err := r.s.api.StopTask(ctx, upid); err != nil {
				return err
			}
		}
		_, err = r.s.api.Wait(ctx, upid)
		var ended *pve.TaskError
		if err != nil && !errors.As(err, &ended) && !pve.IsKind(err, pve.Ambiguous) {
			return err
		}
		status, err = r.s.api.TaskStatus(ctx, upid)
	}
	if err := r.noteEnd(upid, status, err); err != nil {
		return err
	}
	return r.noteRestore(ctx, upid)
}

// noteRestore notes whether a restore of ours that ended half-way had begun to make volumes. Before that its configuration says even less,
// as that of a VM does which somebody else begins to make under the id (qemu-server QemuServer.pm, restore_vma_archive).
func (r *removal) noteRestore(ctx context.Context, upid pve.UPID) error {
	if upid.Type() != "qmrestore" || r.ended[upid] != killed {
		return nil
	}
	log, err := r.s.api.TaskLog(ctx, upid, makerLines)
	if err != nil && !pve.IsKind(err, pve.NotFound) {
		delete(r.ended, upid) // it is asked once more
		return fmt.Errorf("look how far task %s came: %w", upid, err)
	}
	r.restoring = slices.ContainsFunc(log, func(line string) bool { return strings.Contains(line, "new volume ID is '") })
	return nil
}

// noteEnd notes how a task has ended, as its status, or why that cannot be had, tells.
func (r *removal) noteEnd(upid pve.UPID, status pve.TaskStatus, err error) error {
	switch {
	case pve.IsKind(err, pve.NotFound):
		r.ended[upid] = unknownEnd
	case err != nil:
		return fmt.Errorf("look at task %s: %w", upid, err)
	default:
		r.ended[upid] = endingOf(upid, status.ExitStatus)
		if r.ended[upid] == killed && r.Stub != nil && !r.Stub.kills[upid] {
			r.Stub.kills[upid], r.justKilled = true, true
		}
	}
	return nil
}

// NoteStub looks what killed tasks of ours have left, right after that, where it is to be kept: nothing else will show later that it is
// still the same.
func (s *Remover) NoteStub(ctx context.Context, t Target) {
	r := &removal{s: s, Target: t, ended: map[pve.UPID]ending{}}
	r.noteEnds(ctx)
	if r.justKilled {
		_, _ = r.find(ctx, killed) // what cannot be seen is not known again
	}
}

// couldNot is what a destroy says in its log of a volume that it could not free; it ends well all the same. Until
// qemu-server 9.1.19 it does not even count as a warning (qemu-server QemuServer.pm destroy_vm).
const couldNot = "Could not remove disk '"

// logLines is more than a destroy of 256 volumes says.
const logLines = 500

// readDestroyLog notes what the log of a destroy says of volumes that stayed, and why.
func (r *removal) readDestroyLog(log []string) map[string]string {
	stayed := map[string]string{}
	for _, line := range log {
		_, rest, found := strings.Cut(line, couldNot)
		volume, why, closed := strings.Cut(rest, "'")
		if found && closed {
			stayed[volume] = "PVE removed the VM and said of it: could not remove disk" + why
			r.why[volume] = stayed[volume]
		}
	}
	return stayed
}

// readUnseen reads in the log of the last destroy what this identity may not see on the storages.
func (r *removal) readUnseen(ctx context.Context) {
	upid := r.lastDestroy()
	if upid == "" {
		return
	}
	log, err := r.s.api.TaskLog(ctx, upid, logLines)
	if err == nil {
		r.Fence.Unremoved, r.Fence.HasLog = r.readDestroyLog(log), true
	}
}

// explain reads why volumes outlived the VM, once for each destroy.
func (r *removal) explain(ctx context.Context) {
	if upid := r.lastDestroy(); upid != "" && upid != r.explained {
		r.explained = upid
		if log, err := r.s.api.TaskLog(ctx, upid, logLines); err == nil {
			r.readDestroyLog(log)
		}
	}
}

func (r *removal) lastDestroy() pve.UPID {
	for i := len(r.Tasks.UPIDs) - 1; i >= 0; i-- {
		if upid := r.Tasks.UPIDs[i]; upid.Type() == "qmdestroy" {
			return upid
		}
	}
	return ""
}

// listOwn lists the volumes of ours that are there now. What is new beside them is remembered, to be named.
func (r *removal) listOwn(ctx context.Context) ([]string, error) {
	found, err := r.Fence.OwnVolumes(ctx, r.s.guests)
	if err == nil && r.Made != nil {
		r.readDestroyed(ctx, found)
		if len(r.Made.rest(found)) > 0 {
			r.readMakers(ctx, found)
		}
		r.Made.addUnderWay(found)
		r.unproven = idsOf(r.Made.rest(found))
		found = slices.DeleteFunc(found, func(v pve.Volume) bool { return !r.Made.known[v.ID] })
	}
	return idsOf(found), err
}

// readDestroyed forgets the volumes that PVE has destroyed together with our VM: what has such a name now is somebody else's. Which
// stayed its log says (see couldNot).
func (r *removal) readDestroyed(ctx context.Context, found []pve.Volume) {
	went := func(v pve.Volume) bool { return guest.Uses(r.had, v.ID) }
	if r.destroyed == "" || r.Made.read[r.destroyed] || !slices.ContainsFunc(found, went) {
		return
	}
	log, err := r.s.api.TaskLog(ctx, r.destroyed, logLines)
	if err != nil {
		return
	}
	r.Made.read[r.destroyed] = true
	stayed := r.readDestroyLog(log)
	for volume := range r.Made.known {
		if guest.Uses(r.had, volume) && stayed[volume] == "" {
			delete(r.Made.known, volume)
		}
	}
}

// readMakers reads what the logs of our tasks that have ended say of volumes.
func (r *removal) readMakers(ctx context.Context, found []pve.Volume) {
	for _, upid := range r.Tasks.UPIDs {
		how, ended := r.ended[upid]
		if !ended || how == unknownEnd || upid.Type() == "qmdestroy" || r.Made.read[upid] {
			continue
		}
		log, err := r.s.api.TaskLog(ctx, upid, makerLines)
		if err != nil {
			continue // they are not known to be ours
		}
		r.Made.read[upid] = true
		r.Made.died = r.Made.died || how == killed
		r.readMaker(log, how == killed, found)
	}
	for _, c := range r.Tasks.Commands[r.Made.commands:] {
		r.Made.commands++
		r.Made.died = r.Made.died || c.Died
		r.readMaker(c.Log, c.Died, found)
	}
}

// readMaker reads one log.
func (r *removal) readMaker(log []string, died bool, found []pve.Volume) {
	made := logged(log, found, r.Fence)
	for _, v := range found {
		if died && made[v.ID] || tellsNotFreed(log, v.ID, made[v.ID]) {
			r.Made.known[v.ID] = true
		}
	}
}

// makerLines is more than a create of many disks says; a copy has a line for each percent, or each second.
const makerLines = 50_000

// noteUnproven names the volumes that were left alone since nothing shows whose they are.
func (r *removal) noteUnproven() {
	if len(r.unproven) == 0 {
		return
	}
	r.notes = append(r.notes, Note{Doubt: true, Text: fmt.Sprintf("Volumes with the id of VM %d came to node %s while the VM was made, "+
		"and nothing shows that this create has made them: %s. They were left alone. "+
		"Look whose they are (`pvesm list STORAGE --vmid %d`) before you remove any",
		r.VMID, r.Fence.Node, strings.Join(r.unproven, ", "), r.VMID)})
}
