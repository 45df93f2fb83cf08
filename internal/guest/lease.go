package guest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// A run on another host, in another container or of another boot shows that it lives by what the server sees of it: tasks of its VM, one
// soon after the other, and a stamp that it renews while it has none. So it is dead when its lease is over and no task has run for as long.

// NewStamp marks the VM of a new transaction of this process.
func (s *Guests) NewStamp(cluster string, vmid int) Stamp {
	mark := NewStamp(cluster, vmid, s.Deadline(0))
	mark.Process, mark.User = s.Process, s.user()
	return s.Renewed(mark)
}

// Renewed is a stamp with a lease that begins now. Where the server does not tell its time, which alone two machines have in common, it
// stays as it is.
func (s *Guests) Renewed(mark Stamp) Stamp {
	if now := s.api.ServerTime(); !now.IsZero() {
		mark.Deadline, mark.Leased = now.Add(Lease).UTC().Truncate(time.Second), true
	}
	return mark
}

// IsToRenew reports whether so little is left of a lease that whoever goes on working renews it first.
func (s *Guests) IsToRenew(mark Stamp) bool {
	return mark.Leased && mark.Deadline.Sub(s.api.ServerTime()) < Lease/2
}

// user is this identity, without its token: several of one user work for the same people.
func (s *Guests) user() string { return userOf(s.api.Identity().User) }

func userOf(identity string) string {
	user, _, _ := strings.Cut(identity, "!")
	return user
}

// IsOurs reports whether a stamp was made by this identity.
func (s *Guests) IsOurs(mark Stamp) bool { return mark.User != "" && mark.User == s.user() }

// Verdict is what is known of the run that made a stamped VM.
type Verdict struct {
	Dead bool
	// Kept: what it left is to stay.
	Kept bool
	// Seen says by what that is known.
	Seen string
	// Until is when the run counts as dead if nothing more is seen of it; zero where that does not end it, or cannot be told.
	Until time.Time
}

// Judge says whether the run that made a VM is over, by what is known of its process and by what the server has seen of it. It asks the
// server only where the process is not known and the lease is over. What could not be looked at is an error.
func (s *Guests) Judge(ctx context.Context, resources pve.Resources, life Life, mark Stamp, config map[string]string) (Verdict, error) {
	switch now := s.Now(); {
	case life == Alive:
		return Verdict{Seen: "its process is at work on this host"}, nil
	case mark.IsKept(now) && life == Dead:
		return Verdict{Kept: true, Seen: "its create was told to keep it, and has failed or was killed"}, nil
	case mark.IsKept(now):
		return Verdict{Kept: true, Seen: "its create was told to keep it, and has failed or was killed, if it is not at work elsewhere"}, nil
	case life == Dead:
		return Verdict{Dead: true, Seen: "its process is gone"}, nil
	case !mark.Leased:
		return Verdict{Dead: !mark.Deadline.After(now), Until: mark.Deadline, Seen: "it may take until then"}, nil
	}
	return s.judgeLease(ctx, resources, mark, config["lock"])
}

// judgeLease judges a run of which only the server can tell something.
func (s *Guests) judgeLease(ctx context.Context, resources pve.Resources, mark Stamp, lock string) (Verdict, error) {
	now := s.api.ServerTime()
	switch {
	case now.IsZero():
		return Verdict{Seen: "the server does not tell its time"}, nil
	case mark.Deadline.After(now):
		return Verdict{Until: mark.Deadline, Seen: fmt.Sprintf("it was last seen at %s", mark.Deadline.Add(-Lease).Format(time.RFC3339))}, nil
	case lock != "": // PVE changes nothing of a VM that is locked, so a run that waits cannot renew the stamp
		until := mark.Deadline.Add(lease)
		return Verdict{Dead: !until.After(now), Until: until, Seen: fmt.Sprintf("its VM is locked (%s), and it may be waiting", lock)}, nil
	}
	last, err := s.lastTask(ctx, resources, mark)
	if err != nil {
		return Verdict{Seen: "its tasks cannot be seen"}, err
	}
	end := last.EndTime.Add(Lease)
	switch {
	case last.UPID == "":
		return Verdict{Dead: true, Seen: fmt.Sprintf("nothing has been seen of it since %s", mark.Deadline.Add(-Lease).Format(time.RFC3339))}, nil
	case last.Running():
		return Verdict{Seen: fmt.Sprintf("task %s is running", last.UPID)}, nil
	}
	return Verdict{Dead: !end.After(now), Until: end,
		Seen: fmt.Sprintf("task %s ended at %s", last.UPID, last.EndTime.UTC().Format(time.RFC3339))}, nil
}

// lastTask is the task of a stamped VM that runs, or else the one that ended last. Without Sys.Audit an identity sees its own tasks
// (pve-manager API2/Tasks.pm), which are those of the run if it was of the same identity; of another's it cannot judge.
func (s *Guests) lastTask(ctx context.Context, resources pve.Resources, mark Stamp) (pve.Task, error) {
	var last pve.Task
	tasks, err := s.tasksOf(ctx, resources, s.IsOurs(mark), fmt.Sprintf("whether a task of VM %d runs", mark.VMID))
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

// tasksOf are the tasks of all nodes. Unless those of this identity are enough it has to see everybody's; where it does not, the error says
// what cannot be told.
func (s *Guests) tasksOf(ctx context.Context, resources pve.Resources, ownAreEnough bool, what string) (all []pve.Task, err error) {
	for _, node := range resources.Nodes() {
		audits, err := s.jobs.Audits(ctx, node.Node)
		if err != nil {
			return nil, err
		}
		if !audits && !ownAreEnough {
			return nil, fmt.Errorf("%s cannot be seen without Sys.Audit on /nodes/%s", what, node.Node)
		}
		tasks, err := s.api.Tasks(ctx, node.Node, pve.TaskFilter{})
		if err != nil {
			return nil, err
		}
		all = append(all, tasks...)
	}
	return all, nil
}

// mayBeOf reports whether a task may be of the run that made the stamp, or have held it up. The clone that made the VM names its source
// only; it has ended, since it held a lock until then. A backup of many guests names none.
func (s Stamp) mayBeOf(t pve.Task) bool {
	const slack = time.Minute // between the clocks of two nodes
	id, typ := t.UPID.ID(), t.UPID.Type()
	switch {
	case typ == "qmclone":
		return !t.Running() && !t.StartTime.After(s.Deadline.Add(slack)) && t.StartTime.After(s.Deadline.Add(-Lease-slack))
	case typ == "vzdump" && id == "":
		return true
	case slices.Contains([]string{"vncproxy", "spiceproxy"}, typ): // somebody looks at its console
		return false
	}
	return id == strconv.Itoa(s.VMID)
}
