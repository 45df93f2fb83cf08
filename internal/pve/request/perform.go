package request

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// lookups is how often a lost answer is looked up in the task list before it counts as "nothing happened". A request
// that PVE's own proxy gave up on (596) goes on in the daemon for as long as it takes.
const lookups = 5

// Perform sends a request and awaits its task. While a third party's lock proves that nothing was done, it sends the
// request again.
func (r *Runner) Perform(ctx context.Context, tasks *Tasks, j Request) (pve.TaskResult, error) {
	var result pve.TaskResult
	err := r.Contend(ctx, j.Node, j.ID, func(ctx context.Context) error {
		var err error
		result, err = r.Once(ctx, tasks, j)
		return err
	})
	return result, err
}

// Once sends a job and awaits its task. When the answer was lost, it looks before it goes on: exactly one task of our
// own, begun since the request, is the one; with none, the job counts as not begun and the lost answer is the error.
func (r *Runner) Once(ctx context.Context, tasks *Tasks, j Request) (pve.TaskResult, error) {
	over, err := r.turnToBegin(ctx, j)
	if err != nil {
		return pve.TaskResult{}, err
	}
	defer over()
	since := r.Clock.Now()
	upid, err := j.Send(ctx)
	if pve.IsKind(err, pve.Ambiguous) {
		return r.lookUp(ctx, tasks, j, since, err)
	}
	if err != nil || upid == "" {
		return pve.TaskResult{}, err
	}
	tasks.Add(upid)
	r.known(upid)
	return r.outcome(ctx, tasks, upid)
}

// lookUp looks what a request did whose answer was lost, and goes on with its task.
func (r *Runner) lookUp(ctx context.Context, tasks *Tasks, j Request, since time.Time, lost error) (pve.TaskResult,
	error) {
	look, cancel := r.LookAfter(ctx)
	defer cancel()
	found, err := r.Search(look, tasks, j, since, lookups)
	if found == "" && j.Done != nil {
		ok, doneErr := j.Done(ctx)
		if ctx.Err() != nil {
			ok, doneErr = j.Done(look)
		}
		if ok && doneErr == nil {
			return pve.TaskResult{}, nil
		}
	}
	if found == "" {
		return pve.TaskResult{}, errors.Join(lost, err)
	}
	tasks.Guess(found)
	return r.outcome(ctx, tasks, found)
}

// Settle is Once for a request that nothing is looked at after, so that its error has to say what became of it: where
// the answer was lost and no task was found it looks on, as long as PVE may take to begin one.
func (r *Runner) Settle(ctx context.Context, tasks *Tasks, j Request) (pve.TaskResult, error) {
	since, before := r.Clock.Now(), len(tasks.UPIDs)
	result, err := r.Once(ctx, tasks, j)
	if !pve.IsKind(err, pve.Ambiguous) || len(tasks.UPIDs) > before {
		return result, err
	}
	found, lookErr := r.Search(ctx, tasks, j, since, Patience(err))
	switch {
	case lookErr != nil:
		return pve.TaskResult{}, fmt.Errorf("%w. Whether it was done could not be looked up: %w", err, lookErr)
	case found == "":
		return pve.TaskResult{}, fmt.Errorf("%w. Node %s has begun no task %s of %s since, so it was not done: run "+
			"Terraform again", notDone(err), j.Node, j.Type, r.API.Identity().User)
	}
	tasks.Guess(found)
	return r.outcome(ctx, tasks, found)
}

// notDone is the error of a request whose answer was lost, where it is certain that it had no effect: its cause stays,
// and it is no longer Ambiguous.
func notDone(err error) error {
	var answer *pve.Error
	if !errors.As(err, &answer) {
		return errors.New(err.Error())
	}
	known := *answer
	known.Kind = pve.Unknown
	return &known
}

// blur is what a time on a node's clock may be wrong by: it and a task's beginning are whole seconds, and time
// passes while a node tells its time.
const blur = 2 * time.Second

// NodeTime is what the clock of a node showed at a time of our own clock: its time now, less what has passed here
// since. So no clock is compared with that of another machine. It needs Sys.Audit on the node. The zero time stays.
func (r *Runner) NodeTime(ctx context.Context, node string, at time.Time) (time.Time, error) {
	if at.IsZero() {
		return at, nil
	}
	ahead, err := r.aheadOf(ctx, node)
	return at.Add(ahead - blur), err
}

// aheadOf is how far the clock of a node is ahead of ours.
func (r *Runner) aheadOf(ctx context.Context, node string) (time.Duration, error) {
	return r.ahead.Get(ctx, r.Clock, node, func(ctx context.Context) (time.Duration, error) {
		now, err := r.API.Node(node).Time(ctx)
		return now.Sub(r.Clock.Now()), err
	})
}

// Search finds the task that a request with a lost answer began, or "" if there is none or more than one. Tasks that
// answered another request of this process are none. since is the time before the request, by our own clock.
func (r *Runner) Search(ctx context.Context, l *Tasks, j Request, since time.Time, times int) (pve.UPID, error) {
	var task pve.UPID
	var failed error
	look := func(ctx context.Context) (bool, error) {
		var own []pve.UPID
		failed = nil
		for _, node := range r.nodesOf(ctx, j) {
			line, err := r.NodeTime(ctx, node, since)
			var tasks []pve.Task
			if err == nil {
				tasks, err = r.API.Tasks().List(ctx, node, pve.TaskFilter{VMID: j.ID, Type: j.Type, Since: line})
			}
			if err != nil {
				failed = err // the next look may succeed; Search returns the last failure
			}
			own = append(own, r.unclaimed(ctx, l, j, tasks)...)
		}
		if len(own) > 1 {
			failed = fmt.Errorf("%d tasks %s of %s began since the request: cannot tell which is this one",
				len(own), j.Type, r.API.Identity().User)
			if j.IsOther == nil { // else they may tell later
				return false, failed
			}
			return false, nil
		}
		if len(own) == 1 {
			task = own[0]
		}
		return len(own) == 1, nil
	}
	found, err := r.Poll(ctx, Policy{Tries: times}, look)
	if err == nil && !found {
		err = failed
	}
	return task, err
}

// unclaimed are the tasks of this identity that may be the answer to a request: it is known of each other one which
// request it answers.
func (r *Runner) unclaimed(ctx context.Context, l *Tasks, j Request, tasks []pve.Task) (own []pve.UPID) {
	for _, t := range tasks {
		if j.Name != "" && t.UPID.ID() != j.Name {
			continue
		}
		if t.UPID.User() == r.API.Identity().User && !slices.Contains(l.UPIDs, t.UPID) && !r.IsKnown(t.UPID) &&
			(j.IsOther == nil || !j.IsOther(ctx, t.UPID)) {
			own = append(own, t.UPID)
		}
	}
	return own
}

// nodesOf are the nodes on which the task of a request may be.
func (r *Runner) nodesOf(ctx context.Context, j Request) []string {
	nodes := []string{j.Node}
	if !j.IsElsewhere {
		return nodes
	}
	resources, err := r.API.Listing().Shared(ctx)
	for _, n := range resources.Nodes() {
		if err == nil && n.Node != j.Node && n.Status == "online" {
			nodes = append(nodes, n.Node)
		}
	}
	return nodes
}

// Lost is a first request whose answer was lost and whose task was not found at once.
type Lost struct {
	Request  Request
	Since    time.Time
	Patience int // lookups until it counts as never done
}

// Patience is how long to go on looking for what a lost request did. A line that broke leaves a request that PVE either
// has or has not; behind a timeout its handler may be at work for minutes (596 comes after 30 s, pve-http-server
// AnyEvent.pm proxy_request).
func Patience(err error) int {
	var answer *pve.Error
	if errors.As(err, &answer) && answer.Status == 0 && answer.Err != nil && !isTimeout(answer.Err) {
		return 8 // about 15 s
	}
	return 25 // about two minutes
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
