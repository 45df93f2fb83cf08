package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// EndThirdParty ends a third party's task; its locks go with it unless it died.
func (e *Engine) EndThirdParty(t *state.Task, status string) {
	w := e.Workers[t.UPID]
	t.Running, t.End, t.ExitStatus = false, state.NodeTime(e.World, t.Node), status
	logEnd(e.World, t)
	if status == "OK" {
		t.Log = append(t.Log, "TASK OK")
	}
	for _, g := range e.World.Guests {
		if g.LockCause == t.UPID && status != "unexpected status" {
			g.SetLock("", "")
		}
	}
	if w != nil {
		delete(e.Workers, t.UPID)
		close(w.ended)
	}
}

// Check is Request.Check for a worker.
func (w *Worker) Check(path string, privs ...string) error {
	return auth.Check(w.W, w.Auth, path, privs)
}

// OwnTask reports whether a task is the caller's: a user owns those of its tokens, a token its own only
// (API2/Tasks.pm).
func OwnTask(a auth.Identity, t *state.Task) bool {
	if a.IsToken {
		return t.User == a.ID
	}
	user, _, _ := strings.Cut(t.User, "!")
	return user == a.User
}

// Worker is a task's process (pve-common RESTEnvironment.pm, fork_worker). Its methods are called with the world's
// mutex held.
type Worker struct {
	W      *state.World
	Task   *state.Task
	Auth   auth.Identity
	Engine *Engine

	vmid       int           // whose fate phase rival is about
	Left       time.Duration // task time not yet passed
	Armed      *fault.Strike // the fault that waits for this worker
	Struck     *fault.Strike // the fault that made it fail
	asks       int           // how often CleanupFails said yes
	Terminate  bool          // SIGTERM came
	Kill       bool          // SIGKILL came
	ThirdParty bool          // a third party's, which has no goroutine
	children   []func()
	ended      chan struct{} // closed when it has ended
}

// Killed unwinds a worker that dies without clean-up.
type Killed struct{}

// Fork starts a worker and returns its UPID. The work begins after the handler has returned; with task time zero it has
// finished before the answer is written, else it runs in a goroutine of its own.
// For an SSH command, whose process waits for the task, it has finished when Fork returns.
func (r *Request) Fork(node, typ, id string, work func(w *Worker) error) string {
	w := r.Engine.NewWorker(node, typ, id, r.Auth)
	w.vmid = r.Subject()
	if r.Strike != nil && r.Strike.Fire() {
		w.Armed, r.Strike = r.Strike, nil
	}
	if r.Synchronous {
		w.run(work)
		w.startChildren()
		return w.Task.UPID
	}
	r.forked = append(r.forked, func() { w.Start(work) })
	return w.Task.UPID
}

// StartForked starts the workers that the request has forked so far, for a handler that must wait for one before it
// answers.
func (r *Request) StartForked() {
	starts := r.forked
	r.forked, r.Started = nil, r.Started || len(r.forked) > 0
	for _, start := range starts {
		start()
	}
}

// Fork starts a second task whose UPID no answer reports (create with start=1 does that). It begins when this one has
// ended.
func (w *Worker) Fork(node, typ, id string, work func(*Worker) error) string {
	c := w.Engine.NewWorker(node, typ, id, w.Auth)
	w.children = append(w.children, func() { c.Start(work) })
	return c.Task.UPID
}

// NewWorker registers a task of typ about id on a node. Its work begins with Start or Beside.
func (e *Engine) NewWorker(node, typ, id string, auth auth.Identity) *Worker {
	now := state.NodeTime(e.World, node)
	e.Forks++
	t := &state.Task{Node: node, Type: typ, ID: id, User: auth.ID, Start: now, Running: true}
	t.UPID = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", node, e.Forks, e.Forks*0x10, now.Unix(), typ, id, auth.ID)
	e.World.Tasks[t.UPID] = t
	state.Log(e.World, node, auth.ID, "starting task %s", t.UPID) // pve-common RESTEnvironment.pm fork_worker
	w := &Worker{W: e.World, Task: t, Auth: auth, Engine: e, Left: e.taskTime, ended: make(chan struct{})}
	if auth.Unrestricted { // nothing is to come in between
		w.Left = 0
	}
	e.Workers[t.UPID] = w
	return w
}

// Start runs a worker: at once if tasks take no time, else beside the caller. The mutex is held.
func (w *Worker) Start(work func(*Worker) error) {
	if w.Engine.taskTime == 0 {
		w.run(work)
		w.startChildren()
		return
	}
	w.Beside(work)
}

// Beside runs a worker in a goroutine of its own.
func (w *Worker) Beside(work func(*Worker) error) {
	w.Engine.Enter()
	w.Engine.wg.Add(1)
	go func() {
		defer w.Engine.wg.Done()
		defer w.Engine.Leave()
		w.W.Lock()
		defer w.W.Unlock()
		first := w.Left / 4
		w.Left -= first
		w.Wait(first)
		w.run(work)
		w.startChildren()
	}()
}

func (w *Worker) startChildren() {
	for _, f := range w.children {
		f()
	}
	w.children = nil
}

func (w *Worker) run(work func(*Worker) error) {
	defer close(w.ended)
	err := w.protect(work)
	w.Task.Running = false
	w.Task.End = state.NodeTime(w.W, w.Task.Node)
	delete(w.Engine.Workers, w.Task.UPID)
	w.Task.ExitStatus = w.exit(err)
	logEnd(w.W, w.Task)
	w.settleRival(err)
	w.Engine.inspect(true, func() string { return fmt.Sprintf("task %s, which ended %q", w.Task.UPID, w.Task.ExitStatus) })
}

// logEnd notes the end of a task in the cluster's log (pve-common RESTEnvironment.pm $log_task_result).
func logEnd(w *state.World, t *state.Task) {
	state.Log(w, t.Node, t.User, "end task %s %s", t.UPID, t.ExitStatus)
}

// protect runs work and turns the end of a killed worker into errKilled.
func (w *Worker) protect(work func(*Worker) error) (err error) {
	defer func() {
		switch p := recover(); p.(type) {
		case nil:
		case Killed:
			w.children = nil
			err = errKilled
		default:
			panic(p)
		}
	}()
	if w.Kill || w.Engine.Ctx.Err() != nil {
		return errKilled
	}
	return work(w)
}

var errKilled = errors.New("unexpected status")

// exit writes the log's last line and returns the exit status (fork_worker, upid_read_status).
func (w *Worker) exit(err error) string {
	status := "OK"
	switch {
	case errors.Is(err, errKilled):
		return "unexpected status"
	case err != nil:
		status = perl.OneLine(err)
		w.Logf("TASK ERROR: %s", status)
		return status
	case w.Task.Warnings > 0:
		status = fmt.Sprintf("WARNINGS: %d", w.Task.Warnings)
	}
	w.Logf("TASK %s", status)
	return status
}

// Logf adds a line to the task's log.
func (w *Worker) Logf(format string, args ...any) {
	w.Task.Log = append(w.Task.Log, strings.Split(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n")...)
}

// Warnf is PVE's log_warn: the line counts, and the exit status becomes "WARNINGS: n".
func (w *Worker) Warnf(format string, args ...any) {
	w.Task.Warnings++
	w.Logf("WARN: "+format, args...)
}

// Wait lets d pass on the cluster's clock with the mutex released; a signal to the worker ends it early.
func (w *Worker) Wait(d time.Duration) {
	w.Engine.Wait(d, func() bool { return w.Terminate || w.Kill })
}
