package server

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// toyCreate makes a guest as PVE does, as far as workers, locks and faults are concerned.
func toyCreate(r *engine.Request) (any, error) {
	vmid, node := r.Subject(), r.Params["node"]
	if r.W.Guests[vmid] != nil {
		return nil, perl.Die("VM %d already exists", vmid)
	}
	g := &state.Guest{VMID: vmid, Type: "qemu", Node: node, Config: map[string]string{"lock": "create"}}
	r.W.Guests[vmid] = g
	g.LockCause = r.Fork(node, "qmcreate", strconv.Itoa(vmid), func(w *engine.Worker) error {
		release, err := w.Engine.Flock(w.W, node, engine.GuestLock(vmid), false, engine.WorkerLockTimeout)
		if err != nil {
			return err
		}
		defer release()
		v, err := w.W.Alloc(node, "local-zfs", vmid, "", "raw", 1<<30)
		if err != nil {
			return err
		}
		if err := w.Checkpoint(); err != nil {
			if w.CleanupFails() {
				w.Logf("cannot free %s", v.Volid())
			} else if _, err := w.W.Free(node, "local-zfs", v.Name); err != nil {
				return err
			}
			delete(w.W.Guests, vmid)
			return fmt.Errorf("unable to create VM %d - %w", vmid, err)
		}
		g.Config, g.LockCause = map[string]string{"name": r.Params["name"], "scsi0": v.Volid()}, ""
		return nil
	})
	return g.LockCause, nil
}

func toyDestroy(r *engine.Request) (any, error) {
	vmid, node := r.Subject(), r.Params["node"]
	return r.Fork(node, "qmdestroy", strconv.Itoa(vmid), func(w *engine.Worker) error {
		if err := w.Checkpoint(); err != nil {
			return err
		}
		for key, v := range w.W.Volumes {
			if v.VMID == vmid {
				delete(w.W.Volumes, key)
			}
		}
		delete(w.W.Guests, vmid)
		return nil
	}), nil
}

func toyRig(t *testing.T, change func(c *engine.Config)) *rig {
	g := newRig(t, change)
	g.s.Config.Routes["POST /nodes/{node}/qemu"] = toyCreate
	g.s.Config.Routes["DELETE /nodes/{node}/qemu/{vmid}"] = toyDestroy
	return g
}

// task runs a request and returns the exit status and log of its task.
func (g *rig) task(method, path, params string) (exit, log string) {
	g.t.Helper()
	r := g.do("root@pam!tf", method, path, params)
	upid, ok := r.body.Data.(string)
	if !ok {
		g.t.Fatalf("%s %s: %d %s", method, path, r.status, r.text)
	}
	g.s.World.Lock()
	defer g.s.World.Unlock()
	t := g.w.Tasks[upid]
	if t.Running {
		return "running", ""
	}
	return t.ExitStatus, strings.Join(t.Log, "\n")
}

func (g *rig) volumes(vmid int) (n int) {
	for _, v := range g.w.Volumes {
		if v.VMID == vmid {
			n++
		}
	}
	return n
}

func TestTaskFaults(t *testing.T) {
	for _, row := range []struct {
		phase     fault.Phase
		create    bool
		exit, log string
		name      string // of guest 100 afterwards, "-" if there is none
		lock      string
		volumes   int
		effective int
	}{
		{"", true, "OK", "TASK OK", "mine", "", 1, 0},
		{fault.Task, true, "unable to create VM 100 - disk full", "TASK ERROR: unable to create VM 100 - disk full", "-", "",
			0, 1},
		{fault.KillTask, true, "unexpected status", "", "", "create", 1, 1},
		{fault.Partial, true, "unable to create VM 100 - disk full",
			"cannot free local-zfs:vm-100-disk-0\nTASK ERROR: unable to create VM 100 - disk full", "-", "", 1, 1},
		{fault.Rival, true, "unable to create VM 100 - disk full", "TASK ERROR: unable to create VM 100 - disk full", "rival",
			"", 1, 1},
		{"", false, "OK", "TASK OK", "-", "", 0, 0},
		{fault.Rival, false, "OK", "TASK OK", "rival", "", 1, 1},
		{fault.Task, false, "disk full", "TASK ERROR: disk full", "mine", "", 1, 1},
		{fault.Partial, false, "disk full", "TASK ERROR: disk full", "mine", "", 1, 0},
	} {
		t.Run(fmt.Sprint(row.phase, row.create), func(t *testing.T) {
			g := toyRig(t, nil)
			method, path, params := "POST", "/nodes/pve1/qemu", "vmid=100&name=mine"
			if !row.create {
				g.task(method, path, params)
				method, path, params = "DELETE", "/nodes/pve1/qemu/100", ""
			}
			if row.phase != "" {
				g.faults(fault.Rule{Match: fault.Match{Method: method, VMID: 100}, Phase: row.phase, Reason: "disk full"})
			}
			exit, log := g.task(method, path, params)
			if exit != row.exit || log != row.log {
				t.Errorf("exit %q, log %q", exit, log)
			}
			name, lock := "-", ""
			if guest := g.w.Guests[100]; guest != nil {
				name, lock = guest.Config["name"], guest.Config["lock"]
			}
			if name != row.name || lock != row.lock || g.volumes(100) != row.volumes {
				t.Errorf("guest %q, lock %q, %d volumes", name, lock, g.volumes(100))
			}
			if n := g.s.Faults().Effective(); n != row.effective {
				t.Errorf("%d effective faults", n)
			}
			if len(g.s.Locks) != 0 {
				t.Errorf("locks remain: %v", g.s.Locks)
			}
		})
	}
}

func TestTaskFaultWaitsForATask(t *testing.T) {
	g := toyRig(t, nil)
	g.faults(fault.Rule{Match: fault.Match{Method: "POST"}, Phase: fault.Task})
	g.do("root@pam!tf", "POST", "/pools", "poolid=x") // forks nothing
	if exit, _ := g.task("POST", "/nodes/pve1/qemu", "vmid=100"); exit != "unable to create VM 100 - injected failure" {
		t.Errorf("exit %q", exit)
	}
	if exit, _ := g.task("POST", "/nodes/pve1/qemu", "vmid=100"); exit != "OK" || g.s.Faults().Effective() != 1 {
		t.Errorf("a rule fires once: %q, %d", exit, g.s.Faults().Effective())
	}
}

func TestTaskTime(t *testing.T) {
	m := clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	g := toyRig(t, func(c *engine.Config) { c.World.Clock = m; c.TaskTime = 20 * time.Second })
	r := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu", "vmid=100&name=a")
	upid, _ := r.body.Data.(string)
	path := "/nodes/pve1/tasks/" + url.PathEscape(upid)
	status := func() map[string]any { return g.do("root@pam!tf", "GET", path+"/status", "").object(t) }
	if s := status(); s["status"] != "running" || s["exitstatus"] != nil || s["user"] != "root@pam" ||
		s["tokenid"] != "tf" {
		t.Errorf("at the start: %v", s)
	}
	if list := g.do("root@pam!tf", "GET", "/nodes/pve1/tasks", "").list(); len(list) != 0 {
		t.Errorf("the archive shows a running task: %v", list)
	}
	if list := g.do("root@pam!tf", "GET", "/nodes/pve1/tasks", "source=active").list(); len(list) != 1 ||
		list[0]["status"] != "RUNNING" {
		t.Errorf("active tasks: %v", list)
	}
	m.Advance(6 * time.Second) // the first quarter is over: the disk is there, the lock is held
	if g.w.Guests[100].Config["lock"] != "create" || g.volumes(100) != 1 || len(g.s.Locks) != 1 {
		t.Errorf("in the middle: %v", g.w.Guests[100].Config)
	}
	m.Advance(20 * time.Second)
	if s := status(); s["status"] != "stopped" || s["exitstatus"] != "OK" {
		t.Errorf("at the end: %v", s)
	}
}

func TestStopTask(t *testing.T) {
	g := toyRig(t, func(c *engine.Config) {
		c.World.Clock = clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		c.TaskTime = time.Minute
	})
	r := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu", "vmid=100&name=a")
	upid, _ := r.body.Data.(string)
	g.clock.Advance(20 * time.Second)
	if r := g.do("auditor@pve!ro", "DELETE", "/nodes/pve1/tasks/"+upid,
		""); r.reason != "Permission check failed (/nodes/pve1, Sys.Modify)" {
		t.Errorf("another user's: %s", r.reason)
	}
	done := make(chan reply)
	q := g.request("root@pam!tf", "DELETE", "/nodes/pve1/tasks/"+upid, nil)
	go func() { r, _ := g.try(q); done <- r }()
	for signalled := false; !signalled; time.Sleep(time.Millisecond) {
		g.s.Do(func(*state.World) { signalled = g.s.Workers[upid] == nil || g.s.Workers[upid].Terminate })
	}
	for stopped := false; !stopped; {
		select {
		case r := <-done:
			stopped = true
			if r.text != `{"data":null}` {
				t.Errorf("answer %s", r.text)
			}
		default:
			g.clock.Advance(engine.PollStep)
		}
	}
	g.clock.Advance(engine.PollStep)
	g.s.Do(func(w *state.World) {
		if task := w.Tasks[upid]; task.ExitStatus != "unable to create VM 100 - received interrupt" || w.Guests[100] != nil ||
			g.volumes(100) != 0 {
			t.Errorf("exit %q, guest %v", task.ExitStatus, w.Guests[100])
		}
	})
}

func TestFlockTimesOutAndWaits(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		path := engine.GuestLock(100)
		shared, err := g.s.Flock(w, "pve1", path, true, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		second, err := g.s.Flock(w, "pve1", path, true, time.Second)
		if err != nil {
			t.Fatal("shared locks exclude each other")
		}
		if elsewhere, err := g.s.Flock(w, "pve2", path, false, time.Second); err != nil {
			t.Error("a lock file is the node's own")
		} else {
			elsewhere()
		}
		before := w.Clock.Now()
		_, err = g.s.Flock(w, "pve1", path, false, engine.LockTimeout)
		var e *perl.Error
		if !errors.As(err, &e) || e.Message != "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout" {
			t.Errorf("error %v", err)
		}
		if d := w.Clock.Now().Sub(before); d != engine.LockTimeout {
			t.Errorf("waited %v", d)
		}
		shared()
		shared() // twice is once
		second()
		if release, err := g.s.Flock(w, "pve1", path, false, 0); err != nil {
			t.Error(err)
		} else {
			release()
		}
	})
}

// TestLocksHoldAcrossTasks has many clients make the same VM: one wins, and none times out because of the machine.
func TestLocksHoldAcrossTasks(t *testing.T) {
	g := toyRig(t, func(c *engine.Config) { c.TaskTime = time.Second })
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			q := g.request("root@pam!tf", "POST", "/nodes/pve1/qemu", url.Values{"vmid": {fmt.Sprint(100 + i/2)}})
			if r, err := g.try(q); err != nil || r.status != 200 && r.reason != fmt.Sprintf("VM %d already exists", 100+i/2) {
				t.Errorf("%v %d %s", err, r.status, r.reason)
			}
		}()
	}
	wg.Wait()
	g.clock.Advance(time.Minute)
	g.s.Do(func(w *state.World) {
		for _, task := range w.Tasks {
			if task.ExitStatus != "OK" {
				t.Errorf("%s: %s", task.UPID, task.ExitStatus)
			}
		}
		if len(w.Tasks) != 8 {
			t.Errorf("%d tasks", len(w.Tasks))
		}
	})
}

func TestCloseEndsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := toyRig(t, func(c *engine.Config) { c.World.Clock = clock.Real{}; c.TaskTime = time.Hour })
		g.do("root@pam!tf", "POST", "/nodes/pve1/qemu", "vmid=100&name=a")
		start := time.Now()
		g.s.Close()
		if d := time.Since(start); d != 0 {
			t.Errorf("took %v", d)
		}
	})
}

// TestCloseAnswersNothing: a request that waits is cut when the server closes, not answered early.
func TestCloseAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *engine.Config) { c.World.Clock = clock.Real{}; c.Latency = time.Minute })
		q := g.request("root@pam!tf", "GET", "/version", nil)
		answer := make(chan error, 1)
		go func() { _, err := g.try(q); answer <- err }()
		synctest.Wait()
		g.s.Stop() // the first thing that Close does
		synctest.Wait()
		g.s.Close()
		if err := <-answer; err == nil {
			t.Error("the request was answered")
		}
	})
}

func TestResetKillsWorkers(t *testing.T) {
	for name, c := range map[string]state.Clock{"real": clock.Real{}, "manual": clock.NewManual(time.Now()),
		"virtual": clock.NewVirtual(time.Now())} {
		t.Run(name, func(t *testing.T) { resetKillsWorkers(t, c) })
	}
}

func resetKillsWorkers(t *testing.T, on state.Clock) {
	g := toyRig(t, func(c *engine.Config) { c.World.Clock = on; c.TaskTime = time.Hour })
	before := string(g.s.Snapshot())
	g.do("root@pam!tf", "POST", "/nodes/pve1/qemu", "vmid=100&name=a")
	if err := g.s.Reset(); err != nil {
		t.Fatal(err)
	}
	if string(g.s.Snapshot()) != before || len(g.w.Tasks) != 0 {
		t.Error("something of the task remains")
	}
}

func TestWarningsAndChildren(t *testing.T) {
	g := newRig(t, nil)
	g.s.Config.Routes["POST /nodes/{node}/qemu"] = func(r *engine.Request) (any, error) {
		return r.Fork("pve1", "qmcreate", "100", func(w *engine.Worker) error {
			w.Warnf("volume %s stays", "x")
			w.Fork("pve1", "qmstart", "100", func(*engine.Worker) error { return perl.Die("start failed:\nno kvm") })
			return nil
		}), nil
	}
	exit, log := g.task("POST", "/nodes/pve1/qemu", "vmid=100")
	if exit != "WARNINGS: 1" || log != "WARN: volume x stays\nTASK WARNINGS: 1" {
		t.Errorf("exit %q, log %q", exit, log)
	}
	list := g.do("root@pam!tf", "GET", "/nodes/pve1/tasks", "typefilter=qmstart").list()
	if len(list) != 1 || list[0]["status"] != "start failed: no kvm" {
		t.Errorf("second task: %v", list)
	}
}

func TestCommands(t *testing.T) {
	g := toyRig(t, nil)
	g.task("POST", "/nodes/pve1/qemu", "vmid=100&name=a")
	g.s.ResetOps()
	g.faults(
		fault.Rule{Match: fault.Match{Method: "SSH", Path: "qm unlock", VMID: 100, Nth: 1}, Phase: fault.Before,
			Reason: "no route"},
		fault.Rule{Match: fault.Match{Method: "SSH", Path: "qm unlock", Nth: 2}, Phase: fault.After},
	)
	runs := 0
	c := engine.Command{Node: "pve1", Path: "qm unlock", Line: "qm unlock 100", VMID: 100}
	unlock := func(r *engine.Request) int {
		runs++
		if !r.Auth.IsRoot() {
			t.Error("a command runs as root")
		}
		upid := r.Fork("pve1", "qmunlock", "100", func(*engine.Worker) error { return nil })
		if r.W.Tasks[upid].Running {
			t.Error("a command waits for its task")
		}
		return 0
	}
	if out := g.s.Run(c, unlock); out.Exit != 1 || out.Refusal != "no route\n" || runs != 0 {
		t.Errorf("refused: %+v", out)
	}
	if out := g.s.Run(c, unlock); out.Exit != 0 || !out.Cut || runs != 1 {
		t.Errorf("cut: %+v", out)
	}
	ops := g.s.Ops()
	if len(ops) != 2 || ops[0].Method != "SSH" || ops[0].VMID != 100 || ops[0].Status != 1 || ops[1].Seq != 2 ||
		ops[1].Node != "pve1" {
		t.Errorf("operations %+v", ops)
	}
}

// TestSlowAnswerIsLost: pveproxy gives up after 30 s; the daemon's work takes effect still.
func TestSlowAnswerIsLost(t *testing.T) {
	g := newRig(t, nil)
	g.s.Config.Routes["PUT /nodes/{node}/qemu/{vmid}/config"] = func(r *engine.Request) (any, error) {
		r.Wait(31 * time.Second)
		r.W.Guests[8000].Config["name"] = "late"
		return nil, nil
	}
	r := g.do("root@pam!tf", "PUT", "/nodes/pve1/qemu/8000/config", "name=late")
	if r.status != 596 || r.reason != "Connection timed out" || g.w.Guests[8000].Config["name"] != "late" {
		t.Errorf("%d %s", r.status, r.reason)
	}
}
