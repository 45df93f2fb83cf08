package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// passes bounds a removal: each pass looks anew and does what is next, so a lost answer, a failed task or a stranger in
// between only costs a further pass.
const passes = 12

// removal takes a VM of ours away until nothing of it is left: the undo of a create, and the destroy of a VM in state.
// It never acts on what an earlier pass saw.
type removal struct {
	s      *Service
	vmid   int
	nodes  []string // where its configuration can be
	fence  *fence   // what was there before us
	ledger *ledger
	stamp  stamp
	// owns reports whether a configuration without our stamp is ours (identity of a VM in state); nil: the stamp decides.
	owns func(config map[string]string) bool
	// lost says that the answer to our create was lost and no task of it was found: a half-made VM may be ours.
	lost bool

	ended  map[pve.UPID]bool // tasks of ours that have ended, and whether they were killed
	tried  map[string]int    // volumes that were to go with the VM, and how often
	failed int               // attempts to attach them that failed
	stuck  error             // why the guest cannot be removed by us
	looked bool              // the last look at the configuration was answered
	at     string            // node where our configuration was last seen, "" when it is gone
	lock   string            // the lock that holds it
	shield bool              // it is protected
	strays []string
	notes  []string // what people should know although nothing is left
}

// found is our configuration, or who has the id instead.
type found int

const (
	nobody found = iota
	ours
	stranger
)

// run removes, and returns what is left of ours.
func (r *removal) run(ctx context.Context) error {
	r.tried, r.ended = map[string]int{}, map[pve.UPID]bool{}
	if err := retry(ctx, r.s, func() error { return r.fence.sees(ctx, r.s) }); err != nil {
		for _, storage := range r.fence.storages {
			r.fence.blind[storage] = err
		}
		r.fence.storages = nil
	}
	r.notes = r.fence.notes()
	var failed error
	for attempt, failures := 0, 0; attempt < passes && failures < 5; attempt++ {
		clean, err := r.pass(ctx)
		if clean {
			return nil
		}
		failed = err
		if err == nil {
			continue
		}
		failures++
		if r.stuck != nil || r.s.pause(ctx, failures) != nil {
			break
		}
	}
	return r.account(ctx, failed)
}

// account looks once more, so that what is named as left is what is there, and names it.
func (r *removal) account(ctx context.Context, failed error) error {
	killed := slices.Contains(slices.Collect(maps.Values(r.ended)), true)
	_, _, who, err := r.find(ctx, killed)
	if strays, listErr := r.fence.strays(ctx, r.s); err == nil && listErr == nil && who != stranger {
		r.strays = strays
	}
	left := r.residues(failed)
	if len(left) == 0 {
		return nil
	}
	return &tx.LeftError{Left: left, Err: failed}
}

func retry(ctx context.Context, s *Service, look func() error) error {
	var err error
	for attempt := range 3 {
		if s.pause(ctx, attempt) != nil {
			break
		}
		if err = look(); err == nil {
			return nil
		}
	}
	return err
}

// pass looks and does one thing. It is clean when there is nothing of ours any more.
func (r *removal) pass(ctx context.Context) (clean bool, err error) {
	killed, err := r.settle(ctx)
	if err != nil {
		return false, err
	}
	node, config, who, err := r.find(ctx, killed)
	if err != nil {
		return false, err
	}
	if who == stranger {
		return r.yield(ctx, node, config)
	}
	r.strays, err = r.fence.strays(ctx, r.s)
	switch {
	case err != nil:
		return false, err
	case who == ours:
		return false, r.destroy(ctx, node, config)
	case len(r.strays) == 0:
		return true, nil
	default:
		return false, r.hold(ctx)
	}
}

// settle stops our tasks that still run and awaits their end. killed says that one died without PVE's clean-up.
func (r *removal) settle(ctx context.Context) (killed bool, err error) {
	for _, upid := range r.ledger.upids {
		if _, known := r.ended[upid]; !known {
			if err := r.end(ctx, upid); err != nil {
				return false, err
			}
		}
		killed = killed || r.ended[upid]
	}
	return killed, nil
}

// end sees to it that a task is over, and notes how. PVE forgets tasks in time; one that it does not know is over.
func (r *removal) end(ctx context.Context, upid pve.UPID) error {
	status, err := r.s.api.TaskStatus(ctx, upid)
	if err == nil && status.Running {
		if err := r.s.api.StopTask(ctx, upid); err != nil {
			return err
		}
		_, err = r.s.api.Wait(ctx, upid)
		var ended *pve.TaskError
		if err != nil && !errors.As(err, &ended) {
			return err
		}
		status, err = r.s.api.TaskStatus(ctx, upid)
	}
	if err != nil && !pve.IsKind(err, pve.NotFound) {
		return fmt.Errorf("look at task %s: %w", upid, err)
	}
	r.ended[upid] = err == nil && (&pve.TaskError{UPID: upid, ExitStatus: status.ExitStatus}).Killed()
	return nil
}

// find reads the configuration afresh and says whose it is: ours by stamp or identity; locked without a stamp, ours only
// if a task of ours was killed, since one that ended in any other way has removed its own already.
func (r *removal) find(ctx context.Context, killed bool) (string, map[string]string, found, error) {
	r.looked, r.at, r.lock = false, "", ""
	for _, node := range r.nodes {
		config, err := r.s.api.CurrentConfig(ctx, node, r.vmid)
		if pve.IsKind(err, pve.NotFound) {
			continue
		}
		if err != nil {
			return "", nil, nobody, err
		}
		values := config.Values
		_, stamped := parseStamp(values["description"])
		mine := r.stamp.proves(r.vmid, values) || r.owns != nil && r.owns(values) ||
			!stamped && killed && halfMade(values)
		if mine || r.lost && !stamped && halfMade(values) {
			r.at, r.lock, r.shield = node, values["lock"], values["protection"] == "1"
		}
		switch {
		case mine:
			return node, values, ours, nil
		case r.at != "":
			return "", nil, nobody, fmt.Errorf("VM %d is locked (%s), and whether our lost request made it cannot be told", r.vmid, r.lock)
		}
		r.looked = true
		return node, values, stranger, nil
	}
	r.looked = true
	return "", nil, nobody, nil
}

// ownLocks are the locks that a dead worker of ours leaves.
var ownLocks = []string{"create", "clone", "destroyed"}

// halfMade reports whether a configuration is what a dead worker leaves: locked, or, when the lock was taken away since,
// without the options that PVE writes into every VM that it finishes (qemu-server API2/Qemu.pm, smbios1 and meta).
func halfMade(config map[string]string) bool {
	return slices.Contains(ownLocks, config["lock"]) || config["lock"] == "" && config["smbios1"] == "" && config["meta"] == ""
}

// yield leaves the id to the stranger that has it now. Volumes that were seen here while nobody else had the id, and that
// the stranger does not use, are ours still: he came later, and PVE gives nobody a name that exists. They are freed one by
// one, unless they were to go with a VM of ours before: such a name may have become free, and his, in between.
func (r *removal) yield(ctx context.Context, node string, config map[string]string) (bool, error) {
	if len(r.strays) > 0 && slices.Contains(ownLocks, config["lock"]) {
		return false, fmt.Errorf("VM %d is somebody else's now and locked (%s): its volumes cannot be told from ours yet", r.vmid, config["lock"])
	}
	if err := r.unclaimed(ctx, config); err != nil {
		return false, err
	}
	for _, v := range r.strays {
		if r.tried[v] == 0 {
			if err := r.free(ctx, v); err != nil {
				r.stuck = fmt.Errorf("VM %d is somebody else's now, so the volume can only be removed by itself: %w", r.vmid, err)
			}
		}
	}
	if err := r.unclaimed(ctx, config); err != nil {
		return false, err
	}
	r.notes = append(r.notes, fmt.Sprintf("VM %d on node %s is somebody else's now; it was not touched", r.vmid, node))
	if len(r.strays) > 0 && r.stuck == nil {
		r.stuck = fmt.Errorf("VM %d is somebody else's now", r.vmid)
	}
	return len(r.strays) == 0, r.stuck
}

// unclaimed reduces the strays to those that still exist and that a stranger's configuration does not use.
func (r *removal) unclaimed(ctx context.Context, config map[string]string) error {
	if len(r.strays) == 0 {
		return nil
	}
	now, err := r.fence.strays(ctx, r.s)
	if err == nil {
		r.strays = slices.DeleteFunc(r.strays, func(v string) bool { return !slices.Contains(now, v) || uses(config, v) })
	}
	return err
}

// uses reports whether a configuration mentions a volume.
func uses(config map[string]string, volume string) bool {
	for _, value := range config {
		if id, _, _ := strings.Cut(value, ","); strings.TrimPrefix(id, "file=") == volume {
			return true
		}
	}
	return false
}

// hold takes the id with an empty VM of ours, so that its volumes can be attached to it and go with it, and no stranger
// can get the id, and with it the volumes' names, in between.
func (r *removal) hold(ctx context.Context) error {
	_, err := r.s.perform(ctx, r.ledger, job{node: r.fence.node, typ: "qmcreate", id: r.vmid,
		send: func(ctx context.Context) (pve.UPID, error) {
			return r.s.api.CreateVM(ctx, r.fence.node, pve.Params{"vmid": fmt.Sprint(r.vmid), "description": r.stamp.String()})
		}})
	return err
}

// residues names what is left. failed is why the last pass did not get on.
func (r *removal) residues(failed error) []tx.Residue {
	var left []tx.Residue
	reason := "the rollback did not get through"
	if failed != nil {
		reason = failed.Error()
	}
	switch {
	case r.at != "":
		left = append(left, r.guestResidue(r.at, reason))
	case !r.looked:
		r.lock, r.shield = "", false
		left = append(left, r.guestResidue(r.nodes[0], reason))
	}
	for _, v := range r.strays {
		left = append(left, volumeResidue(r.fence.node, v, reason))
	}
	return left
}

func (r *removal) guestResidue(node, reason string) tx.Residue {
	command := fmt.Sprintf("qm destroy %d --purge", r.vmid)
	if r.shield {
		command = fmt.Sprintf("qm set %d --protection 0 && %s", r.vmid, command)
	}
	if r.lock != "" {
		command = fmt.Sprintf("qm unlock %d && %s", r.vmid, command)
	}
	return tx.Residue{Kind: "guest", Node: node, ID: fmt.Sprint(r.vmid), Reason: reason, Command: command,
		What: fmt.Sprintf("VM %d on node %s", r.vmid, node)}
}

func volumeResidue(node, volume, reason string) tx.Residue {
	return tx.Residue{Kind: "volume", Node: node, ID: volume, Reason: reason, Command: "pvesm free " + volume,
		What: fmt.Sprintf("volume %s on node %s", volume, node)}
}

// lease is how long a create may take before others may take its leftovers for dead.
const lease = 30 * time.Minute
