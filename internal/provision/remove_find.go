package provision

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// ending is how a task of ours ended, from harmless to grave.
type ending int

const (
	tidy   ending = iota // well, or with PVE's own clean-up
	untold               // PVE does not know any more: its log is lost, or cannot be read
	killed               // without clean-up
)

// await looks once more, and longer, for what a lost request of ours did. It may have been cut off by an interrupt, or its
// handler may still be at work behind a timeout.
func (r *removal) await(ctx context.Context) {
	if r.lost == nil || r.lost.job.typ == "" {
		return
	}
	for attempt := range r.lost.patience {
		if r.s.pause(ctx, attempt) != nil {
			return
		}
		if upid, err := r.s.search(ctx, r.ledger, r.lost.job, r.lost.since, 1); err == nil && upid != "" {
			r.ledger.guess(upid)
			r.lost = nil
			return
		}
		if _, _, who, err := r.find(ctx, tidy); err == nil && who != nobody {
			return
		}
	}
	r.notes = append(r.notes, fmt.Sprintf("The answer to the request that was to make VM %d was lost, and nothing of it was found. "+
		"Should the VM appear after all, its description names transaction %s, and the next create with its id or name removes it", r.vmid, r.stamp.TX))
}

// settle stops our tasks that still run and awaits their end, and tells the gravest.
func (r *removal) settle(ctx context.Context) (ending, error) {
	for _, upid := range r.ledger.upids {
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
		if !r.ledger.guessed[upid] && upid.Type() != "qmdestroy" { // which does what we want, and better undisturbed
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
	}
	return nil
}

func endingOf(upid pve.UPID, exitStatus string) ending {
	ended := &pve.TaskError{UPID: upid, ExitStatus: exitStatus}
	switch {
	case ended.Killed():
		return killed
	case exitStatus == "" || ended.IsUntold():
		return untold
	}
	return tidy
}

// find reads the configuration afresh and says whose it is: ours by stamp or identity; locked without a stamp, ours only
// if a task of ours was killed, since one that ended in any other way has removed its own already.
func (r *removal) find(ctx context.Context, how ending) (string, map[string]string, found, error) {
	r.looked, r.at, r.lock, r.hidden = false, "", "", false
	for _, node := range r.nodes {
		config, err := r.s.api.CurrentConfig(ctx, node, r.vmid)
		if pve.IsKind(err, pve.NotFound) || pve.IsKind(err, pve.Denied) { // who may not read a VM is refused before PVE looks for it
			continue
		}
		if err != nil {
			return "", nil, nobody, err
		}
		return r.judge(node, config.Values, how)
	}
	return r.elsewhere(ctx, how)
}

// elsewhere looks for the id where we did not put it: the VM may have been migrated meanwhile, and a stranger may have
// taken the id on another node, whose volumes on shared storages look like ours.
func (r *removal) elsewhere(ctx context.Context, how ending) (string, map[string]string, found, error) {
	free, err := r.s.api.IsFreeID(ctx, r.vmid)
	if err != nil {
		return "", nil, nobody, err
	}
	if free {
		r.looked = true
		return "", nil, nobody, nil
	}
	resources, err := r.s.api.Resources(ctx)
	if err != nil {
		return "", nil, nobody, err
	}
	guest, ok := resources.Guest(r.vmid)
	switch {
	case !ok:
		r.hidden = true
		return "", nil, nobody, fmt.Errorf("somebody has VM %d, but this identity may not see where (VM.Audit)", r.vmid)
	case guest.Type != "qemu":
		r.looked = true
		return guest.Node, nil, stranger, nil
	}
	config, err := r.s.api.CurrentConfig(ctx, guest.Node, r.vmid)
	if err != nil {
		return "", nil, nobody, err
	}
	return r.judge(guest.Node, config.Values, how)
}

// judge says whose a configuration is.
func (r *removal) judge(node string, config map[string]string, how ending) (string, map[string]string, found, error) {
	_, stamped := parseStamp(config["description"])
	half := !stamped && halfMade(config)
	mine := r.stamp.proves(r.vmid, config) || r.owns != nil && r.owns(config) || half && how == killed
	unsure := !mine && half && (how == untold || r.lost != nil)
	if mine || unsure {
		r.at, r.has, r.lock, r.shield = node, config, config["lock"], config["protection"] == "1"
	}
	if unsure {
		return "", nil, nobody, fmt.Errorf("VM %d on node %s is half made (lock %q), and whether our request made it cannot be told: "+
			"its answer or the log of its task was lost. Look at the node's task list before removing it", r.vmid, node, r.lock)
	}
	r.looked = true
	if mine {
		return node, config, ours, nil
	}
	return node, config, stranger, nil
}

// isOwnLock reports whether a lock is one that a dead worker of ours leaves.
func isOwnLock(lock string) bool { return lock == "create" || lock == "clone" || lock == "destroyed" }

// halfMade reports whether a configuration is what a dead worker leaves: locked, or, when the lock was taken away since,
// without the options that PVE writes into every VM that it finishes (qemu-server API2/Qemu.pm, smbios1 and meta).
func halfMade(config map[string]string) bool {
	return isOwnLock(config["lock"]) || config["lock"] == "" && config["smbios1"] == "" && config["meta"] == ""
}
