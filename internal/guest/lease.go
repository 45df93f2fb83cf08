package guest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// A run on another host, in another container or of another boot shows to the server that it lives. It has tasks of
// its VM, one soon after the other, and a mark that it renews while it has none. So it is dead when its lease is over
// and no task has run for as long.

// Runs judges the runs of creates by their marks, of one cluster.
type Runs struct {
	// Process names this process in the marks of its creates, "" where the system does not tell it from others.
	Process string

	api   *pve.Client
	clock pve.Clock
	jobs  *request.Runner
}

// NewMark makes the mark of a new create of this process.
func (r *Runs) NewMark(cluster string, vmid int) Mark {
	mark := NewMark(cluster, vmid, r.Deadline(0))
	mark.Process = r.Process
	if user := r.user(); userForm.MatchString(user) {
		mark.User = user
	}
	return r.Renewed(mark)
}

// Renewed is a mark with a lease that begins now. Where the server does not tell its time, which alone two machines
// have in common, it stays as it is.
func (r *Runs) Renewed(mark Mark) Mark {
	if now := r.api.ServerTime(); !now.IsZero() {
		mark.Deadline, mark.Leased = now.Add(Lease).UTC().Truncate(time.Second), true
	}
	return mark
}

// IsToRenew reports whether less than half of a lease is left, so that a run that goes on working renews it first.
func (r *Runs) IsToRenew(mark Mark) bool {
	return mark.Leased && mark.Deadline.Sub(r.api.ServerTime()) < Lease/2
}

// user is this identity without its token: several tokens of one user work for the same people.
func (r *Runs) user() string { return userOf(r.api.Identity().User) }

func userOf(identity string) string {
	user, _, _ := strings.Cut(identity, "!")
	return user
}

// IsOurs reports whether this identity made a mark.
func (r *Runs) IsOurs(mark Mark) bool { return mark.User != "" && mark.User == r.user() }

// Verdict is what is known of the run that made a marked VM.
type Verdict struct {
	Dead bool
	// Kept: the user wants the leftovers to stay.
	Kept bool
	// Seen is the reason of the verdict.
	Seen string
	// Until is when the run counts as dead if nothing more is seen of it; zero where that does not end it, or cannot be
	// told.
	Until time.Time
}

// JudgeRun says whether the run that made a VM is over, by the knowledge of its process and by the server's view of
// it. It asks the server only if the process is unknown and the lease is over. A failed look is an error.
func (r *Runs) JudgeRun(ctx context.Context, resources pve.Resources, life Life, mark Mark,
	config map[string]string) (Verdict, error) {
	switch now := r.Now(); {
	case life == Alive:
		return Verdict{Seen: "its process is at work on this host"}, nil
	case mark.IsKept(now) && life == Dead:
		return Verdict{Kept: true, Seen: "its create was told to keep it, and has failed or was killed"}, nil
	case mark.IsKept(now):
		return Verdict{Kept: true, Seen: "its create was told to keep it, and has failed or was killed, if it is not at " +
			"work elsewhere"}, nil
	case life == Dead:
		return Verdict{Dead: true, Seen: "its process is gone"}, nil
	case !mark.Leased:
		return Verdict{Dead: !mark.Deadline.After(now), Until: mark.Deadline, Seen: "it may take until then"}, nil
	}
	return r.judgeLease(ctx, resources, mark, config["lock"])
}

// judgeLease judges a run that only the server can tell something about.
func (r *Runs) judgeLease(ctx context.Context, resources pve.Resources, mark Mark, lock string) (Verdict, error) {
	now := r.api.ServerTime()
	switch {
	case now.IsZero():
		return Verdict{Seen: "the server does not tell its time"}, nil
	case mark.Deadline.After(now):
		return Verdict{Until: mark.Deadline, Seen: fmt.Sprintf("it was last seen at %s",
			mark.Deadline.Add(-Lease).Format(time.RFC3339))}, nil
	case lock != "": // PVE changes nothing of a VM that is locked, so a run that waits cannot renew the mark
		until := mark.Deadline.Add(lease)
		return Verdict{Dead: !until.After(now), Until: until, Seen: fmt.Sprintf("its VM is locked (%s), and it may be "+
			"waiting", lock)}, nil
	}
	last, err := r.lastTask(ctx, resources, mark)
	if err != nil {
		return Verdict{Seen: "its tasks cannot be seen"}, err
	}
	end := last.EndTime.Add(Lease)
	switch {
	case last.UPID == "":
		return Verdict{Dead: true, Seen: fmt.Sprintf("nothing has been seen of it since %s",
			mark.Deadline.Add(-Lease).Format(time.RFC3339))}, nil
	case last.Running():
		return Verdict{Seen: fmt.Sprintf("task %s is running", last.UPID)}, nil
	}
	return Verdict{Dead: !end.After(now), Until: end,
		Seen: fmt.Sprintf("task %s ended at %s", last.UPID, last.EndTime.UTC().Format(time.RFC3339))}, nil
}

// lastTask is the task of a marked VM that runs, or else the one that ended last. Without Sys.Audit an identity sees
// its own tasks (pve-manager API2/Tasks.pm), which are those of the run if it was of the same identity; of another's
// it cannot judge.
func (r *Runs) lastTask(ctx context.Context, resources pve.Resources, mark Mark) (pve.Task, error) {
	var last pve.Task
	tasks, err := r.tasksOf(ctx, resources, r.IsOurs(mark), fmt.Sprintf("whether a task of VM %d runs", mark.VMID))
	if err != nil {
		return last, err
	}
	for _, t := range tasks {
		if mark.mayBeOf(t) && (last.UPID == "" || t.Running() || !last.Running() && t.EndTime.After(last.EndTime)) {
			last = t
		}
	}
	return last, nil
}

// tasksOf returns the tasks of all nodes. The identity must see the tasks of all users, unless its own are enough.
// Otherwise the error says what cannot be told.
func (r *Runs) tasksOf(ctx context.Context, resources pve.Resources, ownAreEnough bool, what string) (all []pve.Task,
	err error) {
	for _, node := range resources.Nodes() {
		audits, err := r.jobs.Audits(ctx, node.Node)
		if err != nil {
			return nil, err
		}
		if !audits && !ownAreEnough {
			return nil, fmt.Errorf("%s cannot be seen without Sys.Audit on /nodes/%s", what, node.Node)
		}
		tasks, err := r.api.Tasks().List(ctx, node.Node, pve.TaskFilter{})
		if err != nil {
			return nil, err
		}
		all = append(all, tasks...)
	}
	return all, nil
}

// mayBeOf reports whether a task may be of the run that made the mark, or have held it up. The clone that made the VM
// names its source only; it has ended, since it held a lock until then. A backup of many guests names none.
func (s Mark) mayBeOf(t pve.Task) bool {
	const slack = time.Minute // between the clocks of two nodes
	id, typ := t.UPID.ID(), t.UPID.Type()
	switch {
	case typ == "qmclone":
		return !t.Running() && !t.StartTime.After(s.Deadline.Add(slack)) && t.StartTime.After(s.Deadline.Add(-Lease-slack))
	case typ == "vzdump" && id == "":
		return true
	case slices.Contains([]string{"vncproxy", "spiceproxy"}, typ): // a user looks at its console
		return false
	}
	return id == strconv.Itoa(s.VMID)
}
