package pve

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
)

const (
	// firstPause is how old a task of a type that this Client has not seen end yet is when it is looked at first. A
	// worker that has to be forked, loaded and locked is never faster.
	firstPause = 200 * time.Millisecond
	shortPause = 100 * time.Millisecond
	longPause  = 2 * time.Second
	// An outage of the API of minTimeLost is survived, and one of a share of the task's age: the roll-back of a clone of
	// hours would await its end, and then destroy it.
	minTimeLost   = 2 * time.Minute
	shareTimeLost = 4
	minPollsLost  = 10 // a machine that sleeps loses time without a poll
	logTail       = 10
)

// TaskResult is a task that succeeded.
type TaskResult struct {
	// Warnings is how many PVE counted; a warning is a success.
	Warnings int
	// Log is the last lines of the log, fetched only with warnings.
	Log []string
}

// Wait looks at a task again and again until it has ended. A failed task is a *TaskError with the end of its log; an
// empty UPID is a task that has ended well. Failed looks are survived for minutes (lostPolls): the error is then
// Ambiguous, since the task may go on. So is a task that PVE no longer knows. A ctx that ends leaves the task running.
func (t TaskReader) Wait(ctx context.Context, upid UPID) (TaskResult, error) {
	if upid == "" {
		return TaskResult{}, nil
	}
	if !upid.Valid() {
		return TaskResult{}, &Error{Op: "wait for " + upid.Describe(), Kind: Invalid, Message: "not a UPID"}
	}
	ctx, over := oplog.Wait(ctx, oplog.Task, "task "+string(upid), oplog.Text("pve.upid", string(upid)),
		oplog.Text("pve.node", upid.Node()))
	defer over()
	defer t.client.waits.begin(upid)()
	defer t.client.noteTask(upid)
	begin, lost := t.client.clock.Now(), lostPolls{}
	for look := 0; ; look++ {
		due, err := t.client.untilDue(ctx, upid, begin, look)
		if err != nil {
			return TaskResult{}, waitEnded(upid, err)
		}
		status, err := t.client.look(ctx, upid, due, look)
		switch {
		case err == nil && !status.Running:
			if status.ExitStatus == "OK" {
				t.client.waits.learn(upid.Type(), due.Sub(begin)+t.client.waits.lead(), look)
			}
			return t.client.result(ctx, status)
		case err == nil:
			lost = lostPolls{}
		case ctx.Err() != nil:
			return TaskResult{}, waitEnded(upid, ctx.Err())
		case IsKind(err, NotFound):
			return TaskResult{}, waitLost(upid, "its outcome is unknown", err)
		case !isLostPoll(err):
			return TaskResult{}, err
		default:
			if now := t.client.clock.Now(); lost.isEnough(begin, now) {
				why := fmt.Sprintf("%d polls in a row failed, for %s", lost.polls, now.Sub(lost.since).Round(time.Second))
				return TaskResult{}, waitLost(upid, why, err)
			}
		}
	}
}

// lostPolls are looks at a task that failed in a row.
type lostPolls struct {
	polls int
	since time.Time
}

// isEnough counts one more, and reports whether the task is given up that has been waited for since begin.
func (l *lostPolls) isEnough(begin, now time.Time) bool {
	if l.polls++; l.polls == 1 {
		l.since = now
	}
	borne := max(minTimeLost, l.since.Sub(begin)/shareTimeLost)
	return l.polls >= minPollsLost && now.Sub(l.since) >= borne
}

// untilDue waits for the next look at a task and says for when it was due. The first one is sent so that PVE makes it
// when tasks of this type have mostly ended; later ones come after a share of the time that has passed, so that a
// task of any length costs few looks and is noticed soon after its end.
func (c *Client) untilDue(ctx context.Context, upid UPID, begin time.Time, look int) (time.Time, error) {
	usual, known := c.waits.usual(upid.Type())
	now := c.clock.Now()
	pause := now.Sub(begin) / 2
	switch {
	case look == 0 && c.ServerTime().Sub(upid.Start()) > longPause: // it runs since long, or has ended
		pause = 0
	case look == 0:
		pause = max(min(usual, longPause)-c.waits.lead(), 0)
	case known:
		pause = max(min(pause, usual/8), pause/4, shortPause)
	default:
		pause = max(pause, shortPause)
	}
	due := c.waits.together(upid.Node(), now.Add(min(pause, longPause)))
	return due, c.clock.Sleep(ctx, due.Sub(now))
}

// look asks for a task by itself, or finds it in a listing that serves all waits for tasks of the node.
func (c *Client) look(ctx context.Context, upid UPID, due time.Time, look int) (TaskStatus, error) {
	if look%ownLook != ownLook-1 {
		if status, ok := c.listed(ctx, upid, due); ok {
			return status, nil
		}
	}
	return c.taskStatus(ctx, upid, true)
}

// isLostPoll tells whether the next poll may succeed: no answer, a proxy's 59x, or a 5xx that says nothing known.
func isLostPoll(err error) bool {
	switch KindOf(err) {
	case Unavailable, Ambiguous, Unhealthy, Locked:
		return true
	case Unknown:
		return true
	}
	return false
}

func waitEnded(upid UPID, err error) error {
	return &Error{Op: "wait for " + upid.Describe(), Message: "stopped waiting, the task may still run: " + err.Error(),
		Err: err}
}

func waitLost(upid UPID, why string, err error) error {
	return &Error{Op: "wait for " + upid.Describe(), Kind: Ambiguous, Message: why + ": " + err.Error(), Err: err}
}

// result judges the exit status (pve-common Tools.pm upid_read_status, upid_status_is_error).
func (c *Client) result(ctx context.Context, s TaskStatus) (TaskResult, error) {
	if s.ExitStatus == "OK" {
		return TaskResult{}, nil
	}
	// Without the log the outcome is still known: its loss is no error.
	log, err := c.Tasks().Log(ctx, s.UPID, logTail)
	if err != nil {
		log = nil
	}
	if n, ok := warningCount(s.ExitStatus); ok {
		return TaskResult{Warnings: n, Log: log}, nil
	}
	return TaskResult{}, &TaskError{
		Op: s.UPID.Describe(), UPID: s.UPID, ExitStatus: c.exitText(s.ExitStatus), Log: log,
		Kind: fault.KindOfExit(s.ExitStatus),
	}
}

func warningCount(exitStatus string) (int, bool) {
	text, ok := strings.CutPrefix(exitStatus, "WARNINGS: ")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

const (
	// manyWaits is from how many tasks on a node on they are looked at by a listing of the node's tasks instead of one
	// by one.
	manyWaits = 3
	// togetherEach is how far apart such listings are.
	togetherEach = 120 * time.Millisecond
	// ownLook is which look of each task is at the task itself all the same. The listing says that a task runs until the
	// process that started it, which may be busy, has noticed its end (pve-common RESTEnvironment.pm, worker_reaper).
	ownLook = 3
)

// taskWaits are the tasks that a Client waits for, and the facts that it has learned so.
type taskWaits struct {
	mu    sync.Mutex // guards the maps and nodeWaits.tasks
	nodes map[string]*nodeWaits
	took  map[string]time.Duration // how long tasks of a type mostly take
	quick time.Duration            // the time of the quickest read so far
}

// nodeWaits are those of one node.
type nodeWaits struct {
	tasks map[UPID]int   // how many wait for each
	turn  transport.Turn // guards everything below
	list  map[UPID]string
	at    time.Time // when the listing was asked for
}

// begin notes that a caller waits for a task; the function that it returns notes the end of the wait.
func (t *taskWaits) begin(upid UPID) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	node := t.nodes[upid.Node()]
	if node == nil {
		node = &nodeWaits{tasks: map[UPID]int{}, turn: transport.NewTurn()}
		t.nodes[upid.Node()] = node
	}
	node.tasks[upid]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if node.tasks[upid]--; node.tasks[upid] == 0 {
			delete(node.tasks, upid)
		}
	}
}

// many gives the waits of a node, and when the first of its tasks began, if a listing is worth its while.
func (t *taskWaits) many(name string) (node *nodeWaits, since time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	node = t.nodes[name]
	if node == nil || len(node.tasks) < manyWaits {
		return nil, since, false
	}
	for upid := range node.tasks {
		if start := upid.Start(); since.IsZero() || start.Before(since) {
			since = start
		}
	}
	return node, since, true
}

// together moves a look to the next common moment of all waits for tasks of the node, where there are many.
func (t *taskWaits) together(node string, due time.Time) time.Time {
	if _, _, ok := t.many(node); !ok {
		return due
	}
	if moment := due.Truncate(togetherEach); moment.Before(due) {
		return moment.Add(togetherEach)
	}
	return due
}

// usual is how long tasks of a type mostly take; known is whether one has been seen.
func (t *taskWaits) usual(typ string) (took time.Duration, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if took, known = t.took[typ]; known {
		return took, true
	}
	return firstPause, false
}

// answered notes how long a read took.
func (t *taskWaits) answered(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.quick == 0 || took < t.quick {
		t.quick = took
	}
}

// lead is how long before PVE is to make a look it is sent. PVE looks near the end of the time that a request takes;
// a look that comes a little late costs less than one that comes too early.
func (t *taskWaits) lead() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(t.quick-t.quick/8, firstPause/2)
}

// learn takes in that a task had ended after a time, at the latest. One that had ended at the first look may have
// been over long before, so the next one of its type is looked at a little earlier than is usual: how late that look
// was, since it was taken together with others, says nothing about the task.
func (t *taskWaits) learn(typ string, took time.Duration, look int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.took[typ]
	switch {
	case look == 0 && known:
		took = was - was/16
	case look == 0:
		took -= took / 16
	case known:
		took = (was + took) / 2
	}
	t.took[typ] = max(took, firstPause)
}

// listed finds a task in a listing that was asked for at due or later, and makes one if there is none. It says
// nothing about a task that did not end well, or that is not listed.
func (c *Client) listed(ctx context.Context, upid UPID, due time.Time) (TaskStatus, bool) {
	node, since, ok := c.waits.many(upid.Node())
	if !ok || node.turn.Take(ctx) != nil {
		return TaskStatus{}, false
	}
	defer node.turn.Give()
	if node.at.Before(due) {
		now := c.clock.Now()
		user, _, _ := strings.Cut(c.Identity().User, "!")
		oplog.From(ctx).Poll()
		tasks, err := c.Tasks().List(ctx, upid.Node(), TaskFilter{Since: since, User: user})
		if ctx.Err() != nil {
			return TaskStatus{}, false
		}
		node.at, node.list = now, map[UPID]string{}
		if err != nil { // each wait asks for its own task
			return TaskStatus{}, false
		}
		for _, t := range tasks {
			node.list[t.UPID] = t.Status
			if t.Running() {
				node.list[t.UPID] = "RUNNING"
			}
		}
	}
	status, ok := node.list[upid]
	return TaskStatus{UPID: upid, Running: status == "RUNNING", ExitStatus: status}, ok &&
		(status == "RUNNING" || status == "OK")
}
