package handle

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Worker is a task's process (pve-common RESTEnvironment.pm, fork_worker). Its methods are called with the world's mutex held.
type Worker struct {
	W      *state.World
	Task   *state.Task
	Auth   Auth
	Server *Server

	vmid      int           // whose fate phase rival is about
	left      time.Duration // task time not yet passed
	armed     *fault.Strike // the fault that waits for this worker
	struck    *fault.Strike // the fault that made it fail
	asks      int           // how often CleanupFails said yes
	terminate bool          // SIGTERM came
	kill      bool          // SIGKILL came
	foreign   bool          // a stranger's, which has no goroutine
	children  []func()
	ended     chan struct{} // closed when it has ended
}

// killed unwinds a worker that dies without clean-up.
type killed struct{}

// Fork starts a worker and returns its UPID. The work begins after the handler has returned; with task time zero it has
// finished before the answer is written, else it runs in a goroutine of its own.
// For an SSH command, whose process waits for the task, it has finished when Fork returns.
func (r *Request) Fork(node, typ, id string, work func(w *Worker) error) string {
	w := r.Server.newWorker(node, typ, id, r.Auth)
	w.vmid = r.subject()
	if r.strike != nil && r.strike.Fire() {
		w.armed, r.strike = r.strike, nil
	}
	if r.synchronous {
		r.Server.run(w, work)
		w.startChildren()
		return w.Task.UPID
	}
	r.forked = append(r.forked, func() { r.Server.start(w, work) })
	return w.Task.UPID
}

// startForked starts the workers that the request has forked so far, for who must wait for one before he answers.
func (r *Request) startForked() {
	starts := r.forked
	r.forked, r.started = nil, r.started || len(r.forked) > 0
	for _, start := range starts {
		start()
	}
}

// Fork starts a second task whose UPID nobody reports (create with start=1 does that). It begins when this one has ended.
func (w *Worker) Fork(node, typ, id string, work func(*Worker) error) string {
	c := w.Server.newWorker(node, typ, id, w.Auth)
	w.children = append(w.children, func() { w.Server.start(c, work) })
	return c.Task.UPID
}

func (s *Server) newWorker(node, typ, id string, auth Auth) *Worker {
	now := s.world.Clock.Now()
	s.forks++
	t := &state.Task{Node: node, Type: typ, ID: id, User: auth.ID, Start: now, Running: true}
	t.UPID = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", node, s.forks, s.forks*0x10, now.Unix(), typ, id, auth.ID)
	s.world.Tasks[t.UPID] = t
	w := &Worker{W: s.world, Task: t, Auth: auth, Server: s, left: s.taskTime, ended: make(chan struct{})}
	if auth.almighty { // nothing is to come in between
		w.left = 0
	}
	s.workers[t.UPID] = w
	return w
}

// start runs a worker: at once if tasks take no time, else beside the caller. The mutex is held.
func (s *Server) start(w *Worker, work func(*Worker) error) {
	if s.taskTime == 0 {
		s.run(w, work)
		w.startChildren()
		return
	}
	s.beside(w, work)
}

// beside runs a worker in a goroutine of its own.
func (s *Server) beside(w *Worker, work func(*Worker) error) {
	s.enter()
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer s.leave()
		s.world.Lock()
		defer s.world.Unlock()
		first := w.left / 4
		w.left -= first
		w.Wait(first)
		s.run(w, work)
		w.startChildren()
	}()
}

func (w *Worker) startChildren() {
	for _, f := range w.children {
		f()
	}
	w.children = nil
}

func (s *Server) run(w *Worker, work func(*Worker) error) {
	defer close(w.ended)
	err := w.protect(work)
	w.Task.Running = false
	w.Task.End = s.world.Clock.Now()
	delete(s.workers, w.Task.UPID)
	w.Task.ExitStatus = w.exit(err)
	w.settleRival(err)
	s.inspectTask(w.Task)
}

// protect runs work and turns the end of a killed worker into errKilled.
func (w *Worker) protect(work func(*Worker) error) (err error) {
	defer func() {
		switch p := recover(); p.(type) {
		case nil:
		case killed:
			w.children = nil
			err = errKilled
		default:
			panic(p)
		}
	}()
	if w.kill || w.Server.ctx.Err() != nil {
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
		status = flatten(err)
		w.Logf("TASK ERROR: %s", status)
		return status
	case w.Task.Warnings > 0:
		status = fmt.Sprintf("WARNINGS: %d", w.Task.Warnings)
	}
	w.Logf("TASK %s", status)
	return status
}

// flatten is the text of an error on one line, as the task log has it.
func flatten(err error) string {
	text := err.Error()
	if e := (*Error)(nil); errors.As(err, &e) {
		text = e.Message
	}
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", " ")
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
	w.Server.Wait(d, func() bool { return w.terminate || w.kill })
}
