package remove

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// ending is how a task of ours ended, from harmless to grave.
type ending int

const (
	tidy   ending = iota // well, or with PVE's own clean-up
	untold               // PVE does not know any more, since its log is lost or cannot be read, or does not say whether it cleaned up
	killed               // without clean-up
)

// await looks once more, and longer, for what a lost request of ours did. It may have been cut off by an interrupt, or its
// handler may still be at work behind a timeout.
func (r *removal) await(ctx context.Context) {
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
		if _, _, who, err := r.find(ctx, tidy); err == nil && who != guest.Nobody {
			return
		}
	}
	r.notes = append(r.notes, fmt.Sprintf("The answer to the request that was to make VM %d was lost, and nothing of it was found. "+
		"Should the VM appear after all, its description names transaction %s, and the next create with its id or name removes it", r.VMID, r.Stamp.TX))
}

// settle stops our tasks that still run and awaits their end, and tells the gravest.
func (r *removal) settle(ctx context.Context) (ending, error) {
	for _, upid := range r.Tasks.UPIDs {
		if _, known := r.ended[upid]; known {
			continue
		}
		if err := r.end(ctx, upid); err != nil {
			return tidy, err
		}
	}
	return r.worst(), nil
}

func (r *removal) worst() ending {
	worst := tidy
	for _, how := range r.ended {
		worst = max(worst, how)
	}
	return worst
}

// end sees to it that a task is over, and notes how. One that a search took for ours is awaited, not stopped.
func (r *removal) end(ctx context.Context, upid pve.UPID) error {
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
	switch {
	case pve.IsKind(err, pve.NotFound):
		r.ended[upid] = untold
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

func endingOf(upid pve.UPID, exitStatus string) ending {
	ended := &pve.TaskError{UPID: upid, ExitStatus: exitStatus}
	switch {
	case ended.Killed() || ended.LeavesHalf():
		return killed
	case exitStatus == "" || !ended.CleansUp():
		return untold
	}
	return tidy
}

// find reads the configuration afresh and says whose it is: ours by stamp or identity; locked without a stamp, ours only
// if a task of ours was killed, since one that ended in any other way has removed its own already, and as it was then.
func (r *removal) find(ctx context.Context, how ending) (string, map[string]string, guest.Owner, error) {
	r.looked, r.at, r.lock, r.hidden = false, "", "", false
	for _, node := range r.Nodes {
		config, err := r.s.api.CurrentConfig(ctx, node, r.VMID)
		if pve.IsKind(err, pve.NotFound) || pve.IsKind(err, pve.Denied) { // who may not read a VM is refused before PVE looks for it
			continue
		}
		if err != nil {
			return "", nil, guest.Nobody, err
		}
		return r.judge(node, config, how)
	}
	return r.elsewhere(ctx, how)
}

// elsewhere looks for the id where we did not put it: the VM may have been migrated meanwhile, and a stranger may have
// taken the id on another node, whose volumes on shared storages look like ours.
func (r *removal) elsewhere(ctx context.Context, how ending) (string, map[string]string, guest.Owner, error) {
	free, err := r.s.api.IsFreeID(ctx, r.VMID)
	if err != nil {
		return "", nil, guest.Nobody, err
	}
	if free {
		r.looked = true
		return "", nil, guest.Nobody, nil
	}
	resources, err := r.s.api.Resources(ctx)
	if err != nil {
		return "", nil, guest.Nobody, err
	}
	listed, ok := resources.Guest(r.VMID)
	switch {
	case !ok:
		r.hidden = true
		return "", nil, guest.Nobody, fmt.Errorf("somebody has VM %d, but this identity may not see where (VM.Audit)", r.VMID)
	case listed.Type != "qemu":
		r.looked = true
		return listed.Node, nil, guest.Stranger, nil
	}
	config, err := r.s.api.CurrentConfig(ctx, listed.Node, r.VMID)
	if err != nil {
		return "", nil, guest.Nobody, err
	}
	return r.judge(listed.Node, config, how)
}

// Stub is what a killed task of ours has left of a configuration, which nothing marks: it is ours only while it is as it was seen
// right after the kill. Whoever removes it and makes a VM of his own under the id has one that looks just like it at first.
type Stub struct {
	// Digest is that of the configuration then; "" if it was not seen.
	Digest string
	// kills are the tasks whose end was known before, or has been looked after.
	kills map[pve.UPID]bool
}

// NewStub makes the Stub of a removal. Those of an earlier run have a digest, or not, and tasks that ended then.
func NewStub(digest string, ended []pve.UPID) *Stub {
	s := &Stub{Digest: digest, kills: map[pve.UPID]bool{}}
	for _, upid := range ended {
		s.kills[upid] = true
	}
	return s
}

// isOurStub compares a half-made configuration with what was seen right after the kill, which may be now.
func (r *removal) isOurStub(digest string) bool {
	if r.Stub == nil || digest == "" {
		return false
	}
	if r.justKilled {
		r.Stub.Digest = digest
	}
	return r.Stub.Digest == digest
}

// judge says whose a configuration is.
func (r *removal) judge(node string, seen pve.GuestConfig, how ending) (string, map[string]string, guest.Owner, error) {
	config := seen.Values
	_, stamped := guest.ParseStamp(config["description"])
	half := !stamped && guest.HalfMade(config)
	mine := r.Stamp.Proves(r.VMID, config) || r.Owns != nil && r.Owns(config) || half && how == killed && r.isOurStub(seen.Digest)
	unsure := !mine && half && (how != tidy || r.Lost != nil)
	r.unsure = unsure && how == killed
	if mine || unsure {
		r.at, r.has, r.lock, r.shield = node, config, config["lock"], config["protection"] == "1"
	}
	switch {
	case r.unsure:
		return "", nil, guest.Nobody, fmt.Errorf("VM %d on node %s is half made (lock %q), but not as it was right after our task had died: somebody may have "+
			"removed what that left, and be making a VM of his own. It was not touched. Look at the node's task list before removing it", r.VMID, node, r.lock)
	case unsure:
		return "", nil, guest.Nobody, fmt.Errorf("VM %d on node %s is half made (lock %q), and whether our request made it cannot be told: "+
			"its answer or the log of its task was lost. Look at the node's task list before removing it", r.VMID, node, r.lock)
	}
	r.looked = true
	if mine {
		return node, config, guest.Ours, nil
	}
	return node, config, guest.Stranger, nil
}
