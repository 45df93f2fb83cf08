package pve

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
)

const (
	// manyWaits is from how many tasks on a node on they are looked at by a listing of the node's tasks instead of one by one.
	manyWaits = 3
	// togetherEach is how far apart such listings are.
	togetherEach = 120 * time.Millisecond
	// ownLook is which look of each task is at the task itself all the same. The listing says that a task runs until the process
	// that started it, which may be busy, has noticed its end (pve-common RESTEnvironment.pm, worker_reaper).
	ownLook = 3
)

// taskWaits are the tasks that a Client waits for, and what it has learned by that.
type taskWaits struct {
	mu    sync.Mutex // guards the maps and nodeWaits.tasks
	nodes map[string]*nodeWaits
	took  map[string]time.Duration // how long tasks of a type mostly take
	quick time.Duration            // what the quickest read has taken so far
}

// nodeWaits are those of one node.
type nodeWaits struct {
	tasks map[UPID]int // how many wait for each
	turn  turn         // guards everything below
	list  map[UPID]string
	at    time.Time // when the listing was asked for
}

// begin notes that somebody waits for a task; the function that it returns, that he does so no more.
func (w *taskWaits) begin(upid UPID) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	node := w.nodes[upid.Node()]
	if node == nil {
		node = &nodeWaits{tasks: map[UPID]int{}, turn: newTurn()}
		w.nodes[upid.Node()] = node
	}
	node.tasks[upid]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if node.tasks[upid]--; node.tasks[upid] == 0 {
			delete(node.tasks, upid)
		}
	}
}

// many gives the waits of a node, and when the first of its tasks began, if a listing is worth its while.
func (w *taskWaits) many(name string) (node *nodeWaits, since time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	node = w.nodes[name]
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

// together moves a look to the next of the moments at which everybody looks who waits for a task of the node, if many do.
func (w *taskWaits) together(node string, due time.Time) time.Time {
	if _, _, ok := w.many(node); !ok {
		return due
	}
	if moment := due.Truncate(togetherEach); moment.Before(due) {
		return moment.Add(togetherEach)
	}
	return due
}

// usual is how long tasks of a type mostly take; known is whether one has been seen.
func (w *taskWaits) usual(typ string) (took time.Duration, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if took, known = w.took[typ]; known {
		return took, true
	}
	return firstPause, false
}

// answered notes how long a read took.
func (w *taskWaits) answered(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quick == 0 || took < w.quick {
		w.quick = took
	}
}

// lead is how long before PVE is to make a look it is sent. PVE looks near the end of the time that a request takes; a look that comes a
// little late costs less than one that comes too early.
func (w *taskWaits) lead() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(w.quick-w.quick/8, firstPause/2)
}

// learn takes in that a task had ended after a time, at the latest. One that had ended at the first look may have been over long
// before, so the next one of its type is looked at a little earlier than is usual: how late that look was, since it was taken
// together with others, says nothing about the task.
func (w *taskWaits) learn(typ string, took time.Duration, look int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, known := w.took[typ]
	switch {
	case look == 0 && known:
		took = was - was/16
	case look == 0:
		took -= took / 16
	case known:
		took = (was + took) / 2
	}
	w.took[typ] = max(took, firstPause)
}

// listed finds a task in a listing that was asked for at due or later, and makes one if there is none. It says nothing about a
// task that did not end well, or that is not listed.
func (c *Client) listed(ctx context.Context, upid UPID, due time.Time) (TaskStatus, bool) {
	node, since, ok := c.waits.many(upid.Node())
	if !ok || node.turn.take(ctx) != nil {
		return TaskStatus{}, false
	}
	defer node.turn.give()
	if node.at.Before(due) {
		now := c.clock.Now()
		user, _, _ := strings.Cut(c.creds.identity.User, "!")
		account.From(ctx).Poll()
		tasks, err := c.Tasks(ctx, upid.Node(), TaskFilter{Since: since, User: user})
		if ctx.Err() != nil {
			return TaskStatus{}, false
		}
		node.at, node.list = now, map[UPID]string{}
		if err != nil { // everybody asks for himself
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
	return TaskStatus{UPID: upid, Running: status == "RUNNING", ExitStatus: status}, ok && (status == "RUNNING" || status == "OK")
}
