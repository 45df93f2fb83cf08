package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// attempts bounds the undo: each attempt looks again. The undo waits for a node that is away.
const (
	attempts = 5
	away     = 2 * time.Minute
)

// undo removes the snapshot with our mark, and the memory that a killed task may have left beside it.
func (t *taking) undo(ctx context.Context) error {
	if !t.sent {
		return nil
	}
	t.awaitLost(ctx)
	failed, began := errStays, t.jobs.Clock.Now()
	for attempt := 0; attempt < attempts && t.jobs.Pause(ctx, attempt) == nil; attempt++ {
		gone, err := t.remove(ctx)
		if gone {
			t.taken = Snapshot{}
			return t.withKept(t.undoMemory(ctx))
		}
		failed = err
		if pve.IsKind(err, pve.Unavailable) && t.jobs.Clock.Now().Sub(began) < away {
			attempt = min(attempt, attempts-2)
		}
	}
	return &saga.LeftError{Err: failed, Left: []saga.Residue{t.leftover(failed)}}
}

// leftover names the snapshot as a leftover. Its command checks for our mark first, so it removes no snapshot that a
// third party has taken under the name.
func (t *taking) leftover(failed error) saga.Residue {
	command := removal(t.want.VMID, t.want.Name)
	if t.isHeld {
		command = shell.And(shell.VM("qm unlock {vmid}", t.want.VMID), command)
	}
	reason := failed.Error()
	if t.taken.Taken == 0 {
		reason += "; it could not be looked at, and may not be there"
	}
	if t.taken.Taken == 0 || t.mark.isOn(t.taken.Description) {
		command = shell.And(shell.IfMarked(t.mark.id(), t.node, t.want.VMID), command)
	}
	return saga.Residue{Kind: "snapshot", Node: t.node, ID: fmt.Sprintf("%d/%s", t.want.VMID, t.want.Name), Reason: reason,
		Command: command,
		What:    fmt.Sprintf("snapshot %s of VM %d on node %s", t.want.Name, t.want.VMID, t.node)}
}

// remove removes our snapshot, if there is one. gone says that there is none any more.
func (t *taking) remove(ctx context.Context) (gone bool, err error) {
	if err := t.endTasks(ctx); err != nil {
		return false, err
	}
	found, err := t.ours(ctx)
	if pve.IsKind(err, pve.NotFound) { // the VM was moved, or went with its snapshots
		return t.follow(ctx)
	}
	if err != nil {
		return false, err
	}
	if found == nil {
		return true, nil
	}
	t.taken, t.isHeld = Snapshot{Snapshot: *found, VMID: t.want.VMID, Node: t.node, VM: t.vm}, found.State != ""
	t.kept, err = t.guard.Snapshots().Remove(ctx, t.claim())
	if errors.Is(err, guard.ErrNoSnapshot) {
		return true, nil
	}
	return err == nil, err
}

// withKept adds what volumes have kept of a snapshot that went by force to the result of the rest of the undo. The
// volume with the memory is the business of undoMemory.
func (t *taking) withKept(err error) error {
	kept := slices.DeleteFunc(t.kept, func(k guard.KeptSnapshot) bool { return t.isMemory(k.Volume) })
	if len(kept) == 0 {
		return err
	}
	all := &saga.LeftError{Left: keptBy(kept, t.node, t.want.VMID, t.want.Name)}
	var left *saga.LeftError
	if errors.As(err, &left) {
		all.Left, err = append(all.Left, left.Left...), left.Err
	}
	all.Err = err
	return all
}

// follow finds the node that the VM is on by now. gone says that no guest has the VMID.
func (t *taking) follow(ctx context.Context) (gone bool, err error) {
	free, err := t.api.Cluster().IsFreeID(ctx, t.want.VMID)
	if err != nil || free {
		return free, err
	}
	resources, err := t.api.Cluster().Resources(ctx)
	if err != nil {
		return false, err
	}
	listed, ok := resources.Guest(t.want.VMID)
	switch {
	case !ok:
		return false, fmt.Errorf("VM %d exists, but this identity may not see where (VM.Audit)", t.want.VMID)
	case listed.Type != "qemu":
		return true, nil
	}
	t.node = listed.Node
	return false, fmt.Errorf("VM %d has moved to node %s", t.want.VMID, t.node)
}

// awaitLost looks for the task of a request whose answer was lost: PVE may still be at work on it.
func (t *taking) awaitLost(ctx context.Context) {
	if t.lost == nil {
		return
	}
	if upid, err := t.jobs.Search(ctx, &t.tasks, t.lost.Request, t.lost.Since, t.lost.Patience); err == nil && upid != "" {
		t.tasks.Guess(upid)
	}
}

// endTasks awaits our running tasks. It stops none: what a killed one leaves takes root to unlock.
func (t *taking) endTasks(ctx context.Context) error {
	for _, upid := range t.tasks.UPIDs {
		status, err := t.api.Tasks().Status(ctx, upid)
		if err == nil && status.Running {
			_, err = t.api.Tasks().Wait(ctx, upid)
		}
		var ended *pve.TaskError
		if err != nil && !errors.As(err, &ended) && !pve.IsKind(err, pve.NotFound) {
			return fmt.Errorf("look at task %s: %w", upid, err)
		}
	}
	return nil
}

// undoMemory frees the volume of the guest's memory if a task died before the configuration named it (qemu-server
// QemuConfig.pm __snapshot_save_vmstate allocates it first).
func (t *taking) undoMemory(ctx context.Context) error {
	if !t.want.Memory {
		return nil
	}
	now, err := t.memory(ctx)
	if err != nil {
		return fmt.Errorf("look whether a volume for the memory of VM %d is left: %w", t.want.VMID, err)
	}
	var left []saga.Residue
	var failed error
	for _, volume := range now {
		if slices.Contains(t.memoryBefore, volume) {
			continue
		}
		err := t.guard.FreeInState(ctx, &t.tasks, guard.InState{Node: t.node, VMID: t.want.VMID,
			Identities: []guest.Identity{t.vm}}, volume)
		if err != nil {
			failed = errors.Join(failed, err)
			left = append(left, saga.Residue{Kind: "volume", Node: t.node, ID: volume,
				What:   fmt.Sprintf("volume %s on node %s", volume, t.node),
				Reason: err.Error(), Command: shell.FreeUnused(volume)})
		}
	}
	if len(left) > 0 {
		return &saga.LeftError{Left: left, Err: failed}
	}
	return nil
}

// memory lists the volumes that hold memory of this VM under this name (qemu-server QemuServer.pm, vm-N-state-NAME).
func (t *taking) memory(ctx context.Context) ([]string, error) {
	resources, err := t.api.Cluster().Resources(ctx)
	if err != nil {
		return nil, err
	}
	storages, err := t.guests.ImageStorages(ctx, resources, t.node)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, storage := range storages {
		volumes, err := t.api.Storage(t.node, storage).Content(ctx, "images", t.want.VMID)
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			if t.isMemory(v.ID) {
				all = append(all, v.ID)
			}
		}
	}
	return all, nil
}

func (t *taking) isMemory(volume string) bool {
	name := fmt.Sprintf("vm-%d-state-%s", t.want.VMID, t.want.Name)
	return strings.TrimSuffix(volumeuse.LastPart(volume), ".raw") == name
}
