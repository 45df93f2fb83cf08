package pve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const taskUPID = UPID("UPID:pve1:00005720:00058E49:6B00505B:qmclone:100:root@pam!tf:")

const runningTask = `{"tokenid":"tf","starttime":1795182683,"upid":"` + string(taskUPID) +
	`","pstart":364105,"node":"pve1","type":"qmclone","pid":22304,"user":"root@pam","id":"100","status":"running"}`

func stoppedTask(exit string) string {
	return fmt.Sprintf(`{"upid":%q,"status":"stopped","exitstatus":%q,"starttime":"1795182683"}`, taskUPID, exit)
}

// taskServer lets the task run for a number of polls and then end.
func taskServer(t *testing.T, polls int, exit, log string) *server {
	return newServer(t, func(w http.ResponseWriter, s seen, n int) {
		switch {
		case strings.HasSuffix(s.path, "/log"):
			fmt.Fprint(w, log)
		case n <= polls:
			data(w, runningTask)
		default:
			data(w, stoppedTask(exit))
		}
	})
}

func TestWaitSucceeds(t *testing.T) {
	s := taskServer(t, 8, "OK", "")
	result, err := s.client(t).Tasks().Wait(t.Context(), taskUPID)
	if err != nil || result.Warnings != 0 || result.Log != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	if got := s.requests()[0]; got.path != "/nodes/pve1/tasks/"+string(taskUPID)+"/status" {
		t.Errorf("asked %s", got)
	}
	pauses := s.clock.sleeps
	if len(pauses) != 9 || pauses[0] != firstPause {
		t.Fatalf("pauses %v", pauses)
	}
	for i := 2; i < len(pauses); i++ {
		if pauses[i] <= pauses[i-1] || pauses[i] > 2*time.Second {
			t.Errorf("pauses do not grow to 2 s: %v", pauses)
		}
	}
}

func TestWaitForNothing(t *testing.T) {
	s := taskServer(t, 0, "OK", "")
	if _, err := s.client(t).Tasks().Wait(t.Context(), ""); err != nil || len(s.requests()) != 0 {
		t.Errorf("%v after %d requests", err, len(s.requests()))
	}
	if _, err := s.client(t).Tasks().Wait(t.Context(), "UPID:x"); !IsKind(err, Invalid) || len(s.requests()) != 0 {
		t.Errorf("%v after %d requests", err, len(s.requests()))
	}
}

func TestWaitReportsFailure(t *testing.T) {
	text := "clone failed: zfs error: cannot create 'rpool/data/vm-302-cloudinit': dataset already exists"
	log := `{"total":2,"data":[{"n":1,"t":"create full clone of drive ide2 (local-zfs:vm-100-cloudinit)"},{"n":"2","t":"TASK ERROR: ` + text + `"}]}`
	s := taskServer(t, 1, text, log)
	_, err := s.client(t).Tasks().Wait(t.Context(), taskUPID)
	var task *TaskError
	if !errors.As(err, &task) || task.Kind != Leftover || task.Killed() || task.UPID != taskUPID || task.ExitStatus != text {
		t.Fatalf("got %#v", err)
	}
	if len(task.Log) != 2 || task.Log[1] != "TASK ERROR: "+text {
		t.Errorf("log %q", task.Log)
	}
	if want := "task qmclone of VM 100 on node pve1: " + text; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestWaitTellsKilledWorkers(t *testing.T) {
	for exit, want := range map[string]struct {
		kind   Kind
		killed bool
	}{
		"unexpected status":                         {Ambiguous, true},
		"unable to read tail (got 0 bytes)":         {Ambiguous, false},
		"unable to open file - No such file":        {Ambiguous, false},
		"unable to get last line from task log - x": {Ambiguous, false},
		"received interrupt":                        {Unknown, false},
		"VM is locked (create)":                     {Locked, false},
	} {
		s := taskServer(t, 0, exit, `{"data":{"n":1,"t":"unable to open file - No such file or directory"},"total":1}`)
		_, err := s.client(t).Tasks().Wait(t.Context(), taskUPID)
		var task *TaskError
		if !errors.As(err, &task) || task.Kind != want.kind || task.Killed() != want.killed {
			t.Errorf("%q: %#v", exit, err)
		}
	}
}

func TestWaitWithWarnings(t *testing.T) {
	s := taskServer(t, 0, "WARNINGS: 3", `{"total":1,"data":[{"n":1,"t":"WARN: Could not remove disk"}]}`)
	result, err := s.client(t).Tasks().Wait(t.Context(), taskUPID)
	if err != nil || result.Warnings != 3 || len(result.Log) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	lost := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if strings.HasSuffix(s.path, "/log") {
			cut(w)
			return
		}
		data(w, stoppedTask("WARNINGS: 1"))
	})
	if result, err := lost.client(t).Tasks().Wait(t.Context(), taskUPID); err != nil || result.Warnings != 1 {
		t.Errorf("without a log: %+v, %v", result, err)
	}
}

func TestWaitSurvivesLostPolls(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, n int) {
		switch {
		case n >= 40:
			data(w, stoppedTask("OK"))
		case n%10 == 0:
			data(w, runningTask)
		case n%3 == 0:
			cut(w)
		case n%3 == 1:
			reply(w, 596, "Connection timed out", "")
		default:
			die(w, "something new")
		}
	})
	if _, err := s.client(t).Tasks().Wait(t.Context(), taskUPID); err != nil {
		t.Fatal(err)
	}
	if n := len(s.requests()); n != 40 {
		t.Errorf("%d requests: a poll must not be repeated by the transport", n)
	}
}

func TestWaitGivesUp(t *testing.T) {
	down := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, 595, "No route to host", "") })
	begun := down.clock.Now()
	_, err := down.client(t).Tasks().Wait(t.Context(), taskUPID)
	if !IsKind(err, Ambiguous) || !strings.Contains(err.Error(), "No route to host") {
		t.Errorf("%s: %v", KindOf(err), err)
	}
	if took := down.clock.Now().Sub(begun); took < minTimeLost || took > minTimeLost+time.Minute {
		t.Errorf("given up after %v", took)
	}
	for reason, want := range map[string]struct {
		status int
		body   string
		kind   Kind
	}{
		"Parameter verification failed.":                   {400, `{"data":null,"errors":{"upid":"no such task"}}`, Ambiguous},
		"Permission check failed (/nodes/pve1, Sys.Audit)": {403, "", Denied},
	} {
		s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, want.status, reason, want.body) })
		if _, err := s.client(t).Tasks().Wait(t.Context(), taskUPID); !IsKind(err, want.kind) || len(s.requests()) != 1 {
			t.Errorf("%s: %s after %d polls: %v", reason, KindOf(err), len(s.requests()), err)
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newServer(t, func(w http.ResponseWriter, _ seen, n int) {
		if n == 3 {
			cancel()
		}
		data(w, runningTask)
	})
	_, err := s.client(t).Tasks().Wait(ctx, taskUPID)
	if !errors.Is(err, context.Canceled) || KindOf(err) != Unknown || !strings.Contains(err.Error(), "the task may still run") {
		t.Errorf("%s: %v", KindOf(err), err)
	}
}

func TestRealClock(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clock := RealClock()
	if err := clock.Sleep(ctx, time.Microsecond); err != nil {
		t.Error(err)
	}
	time.AfterFunc(time.Millisecond, cancel)
	if err := clock.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := clock.Sleep(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTaskLogIsTheTail(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if s.form.Get("start") == "0" {
			fmt.Fprint(w, `{"total":25,"data":[{"n":1,"t":"one"},{"n":2,"t":"two"}]}`)
			return
		}
		fmt.Fprint(w, `{"total":25,"data":[{"n":24,"t":"almost"},{"n":25,"t":"TASK OK"}]}`)
	})
	log, err := s.client(t).Tasks().Log(t.Context(), taskUPID, 2)
	if err != nil || strings.Join(log, "|") != "almost|TASK OK" {
		t.Errorf("%q, %v", log, err)
	}
	if got := s.requests()[1].form; got.Get("start") != "23" || got.Get("limit") != "2" {
		t.Errorf("asked for %v", got)
	}
	empty := newServer(t, func(w http.ResponseWriter, _ seen, _ int) {
		fmt.Fprint(w, `{"total":1,"data":[{"n":1,"t":"no content"}]}`)
	})
	if log, err := empty.client(t).Tasks().Log(t.Context(), taskUPID, 2); err != nil || len(log) != 0 {
		t.Errorf("%q, %v", log, err)
	}
	const removed = `{"n":1,"t":"unable to open file - No such file or directory"}`
	for _, data := range []string{removed, "[" + removed + "]"} { // an older and a newer dump_logfile
		s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { fmt.Fprint(w, `{"total":1,"data":`+data+`}`) })
		if log, err := s.client(t).Tasks().Log(t.Context(), taskUPID, 2); !IsKind(err, NotFound) || len(log) > 0 {
			t.Errorf("%s: %q, %v", data, log, err)
		}
	}
}

func TestTaskList(t *testing.T) {
	s := newServer(t, constant(`[{"upid":"`+string(taskUPID)+`","starttime":1795182683,"status":"RUNNING"},
		{"upid":"UPID:pve1:00005B1B:0005D728:6B005116:qmcreate:324:root@pam!tf:","starttime":"1795182870","status":"OK","endtime":1795182870}]`))
	c := s.client(t)
	since := time.Unix(1795182600, 0)
	tasks, err := c.Tasks().List(t.Context(), "pve1", TaskFilter{VMID: 100, Type: "qmclone", Since: since, User: "root@pam"})
	if err != nil || len(tasks) != 2 || !tasks[0].Running() || tasks[1].Running() || tasks[1].StartTime != time.Unix(1795182870, 0) {
		t.Errorf("%+v, %v", tasks, err)
	}
	want := "GET /nodes/pve1/tasks limit=2000&since=1795182600&source=all&typefilter=qmclone&userfilter=root%40pam&vmid=100"
	if got := s.requests()[0].String(); got != want {
		t.Errorf("asked %s", got)
	}
	running, err := c.Tasks().List(t.Context(), "pve1", TaskFilter{RunningOnly: true})
	if err != nil || len(running) != 1 || s.requests()[1].form.Get("source") != "active" {
		t.Errorf("%+v, %v, asked %s", running, err, s.requests()[1])
	}
}

// TestWaitBearsAnOutageByTheAgeOfTheTask: the roll-back of a clone would await its end, and then destroy it.
func TestWaitBearsAnOutageByTheAgeOfTheTask(t *testing.T) {
	minute := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	for age, want := range map[time.Duration]bool{0: true, minute(6): true, minute(60): false} {
		var lost lostPolls
		begin := time.Unix(0, 0)
		since := begin.Add(age)
		gaveUp := false
		for at := since; at.Before(since.Add(minute(3))); at = at.Add(2 * time.Second) {
			gaveUp = lost.isEnough(begin, at)
		}
		if gaveUp != want {
			t.Errorf("a task of %v in an outage of 3 minutes: given up %v", age, gaveUp)
		}
	}
	asleep := lostPolls{}
	asleep.isEnough(time.Unix(0, 0), time.Unix(1, 0))
	if asleep.isEnough(time.Unix(0, 0), time.Unix(100_000, 0)) {
		t.Error("given up after two polls, between which the machine slept")
	}
}
