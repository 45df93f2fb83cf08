package request

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

// recorder is a clock that does not wait, and notes how long it was asked to.
type recorder struct {
	now    time.Time
	sleeps []time.Duration
	cancel func() // called in the third sleep
}

func (r *recorder) Now() time.Time { return r.now }

func (r *recorder) Sleep(ctx context.Context, d time.Duration) error {
	r.sleeps = append(r.sleeps, d)
	r.now = r.now.Add(d)
	if r.cancel != nil && len(r.sleeps) == 3 {
		r.cancel()
	}
	return ctx.Err()
}

func contending(chance func() float64) (*Runner, *recorder) {
	clock := &recorder{now: time.Unix(1e9, 0)}
	s := New(nil, clock)
	s.chance = chance
	return s, clock
}

var errLocked = &pve.Error{Op: "put VM 100 into a pool", Status: 500, Kind: pve.Locked,
	Message: "cfs-lock 'file-user_cfg' error: got lock request timeout"}

// TestContendBacksOff: each pause is drawn around the next step of a doubling series, and never beyond the deadline.
func TestContendBacksOff(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	drawn := rand.New(rand.NewPCG(seed, 1))
	low, high := func() float64 { return 0 }, func() float64 { return 0.999 }
	for name, chance := range map[string]func() float64{"low": low, "high": high, "drawn": drawn.Float64} {
		s, clock := contending(chance)
		tries := 0
		err := s.Contend(t.Context(), "", 0, func(context.Context) error { tries++; return errLocked })
		var locked *LockedError
		if !errors.As(err, &locked) || !pve.IsKind(err, pve.Locked) {
			t.Fatalf("%s: %v", name, err)
		}
		total := time.Duration(0)
		for i, d := range clock.sleeps {
			step, last := backoff.ForLock.Pause(i+1, 0.5), i == len(clock.sleeps)-1 // which ends with the time
			if total += d; d < step/2 && !last || d >= step*3/2 {
				t.Errorf("%s: pause %d is %s, want around %s", name, i+1, d, step)
			}
		}
		if tries != len(clock.sleeps)+1 || total != patient {
			t.Errorf("%s: %d tries in %s", name, tries, total)
		}
	}
}

func TestContendKeepsTheDeadline(t *testing.T) {
	s, clock := contending(func() float64 { return 0.5 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := clock.now
	err := s.Contend(ctx, "", 100, func(context.Context) error { return errLocked })
	if waited := clock.now.Sub(start); waited > 55*time.Second || waited < 40*time.Second {
		t.Errorf("waited %s of a minute", waited)
	}
	for _, phrase := range []string{errLocked.Error(), "The lock file-user_cfg is held by a third party",
		"Nothing was done", "timeouts attribute"} {
		if err == nil || !strings.Contains(err.Error(), phrase) {
			t.Errorf("%q is not in %v", phrase, err)
		}
	}
}

func TestContendIsInterrupted(t *testing.T) {
	s, clock := contending(func() float64 { return 0.5 })
	ctx, cancel := context.WithCancel(t.Context())
	clock.cancel = cancel
	tries := 0
	err := s.Contend(ctx, "", 100, func(context.Context) error { tries++; return errLocked })
	if !errors.Is(err, context.Canceled) || !pve.IsKind(err, pve.Locked) || tries != 3 ||
		!strings.Contains(err.Error(), "interrupted after") {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

func TestContendStopsAtOtherErrors(t *testing.T) {
	for _, want := range []error{nil, errors.New("other"), &pve.Error{Status: 500, Kind: pve.Locked,
		Message: "clone failed: got lock request timeout"},
		&pve.Error{Status: 500, Kind: pve.Locked, Message: "VM is locked (suspended)"}} {
		s, clock := contending(rand.Float64)
		tries := 0
		err := s.Contend(t.Context(), "", 0, func(context.Context) error {
			if tries++; tries < 4 {
				return errLocked
			}
			return want
		})
		if !errors.Is(err, want) || tries != 4 || len(clock.sleeps) != 3 {
			t.Errorf("%v after %d tries", err, tries)
		}
	}
}

func TestHolderTellsWhoMayHoldALock(t *testing.T) {
	upid := func(typ, id string) pve.UPID {
		return pve.UPID("UPID:pve1:00005366:00057C72:6B00502E:" + typ + ":" + id + ":root@pam:")
	}
	tests := []struct {
		lock, typ, id string
		want          bool
	}{
		{"backup", "vzdump", "100", true}, {"backup", "vzdump", "", true}, {"backup", "vzdump", "101", false},
		{"backup", "qmstart", "100", false},
		{"clone", "qmclone", "9000", true}, {"migrate", "qmigrate", "100", true},
		{"create", "qmtunnel", "100", true}, {"create", "qmtunnel", "101", false}, {"migrate", "qmtunnel", "100", true},
		{"backup", "qmtunnel", "100", false}, {"snapshot", "qmsnapshot", "100", true},
		{"rollback", "qmsnapshot", "100", false}, {"unheard-of", "anything", "100", true},
		{"", "qmshutdown", "100", true}, {"", "qmshutdown", "101", false}, {"", "vzdump", "", false},
	}
	for _, tt := range tests {
		if got := (Holder{Node: "pve1", VMID: 100, Lock: tt.lock}).MayHold(upid(tt.typ, tt.id)); got != tt.want {
			t.Errorf("lock %q, task %s of %q: %t", tt.lock, tt.typ, tt.id, got)
		}
	}
	many := Holder{Node: "pve1", VMID: 100, Lock: "clone",
		Runs: []pve.UPID{upid("qmclone", "1"), upid("qmclone", "2"), upid("qmclone", "3"), upid("qmclone", "4")}}
	if text := many.String(); !strings.Contains(text, "VM 100 is locked (clone) perhaps by qmclone of root@pam since 2026-") ||
		!strings.HasSuffix(text, " and 1 more") {
		t.Error(text)
	}
}

// TestInterrupting: only tasks that clean up after themselves are stopped at once.
func TestInterrupting(t *testing.T) {
	for typ, want := range map[string]interruption{
		"qmcreate": {stop: true}, "qmclone": {stop: true}, "qmmove": {stop: true}, "qmigrate": {stop: true}, "qmshutdown": {stop: true},
		"qmconfig": {await: shortTime, stop: true}, "qmdestroy": {await: graceTime},
		"qmtemplate": {await: graceTime}, "resize": {await: graceTime},
		"qmstart": {await: graceTime}, "qmreboot": {await: graceTime}, "imgdel": {await: graceTime}, "hamigrate": {await: graceTime},
	} {
		if got := interrupting(typ); got != want {
			t.Errorf("%s: %+v, want %+v", typ, got, want)
		}
	}
}

func TestInterruptedErrorSaysWhatBecameOfTheTask(t *testing.T) {
	const upid = pve.UPID("UPID:pve1:00005366:00057C72:6B00502E:qmmove:100:root@pam:")
	ended := func(exit string) error {
		return &pve.TaskError{Op: "task qmmove of VM 100 on node pve1", UPID: upid, ExitStatus: exit}
	}
	for want, err := range map[string]*InterruptedError{
		"interrupted: task " + string(upid) + " was stopped: ": {
			Stopped: true, Err: ended("received interrupt"), ended: context.Canceled},
		"the time is over: task " + string(upid) + " was stopped: ": {
			Stopped: true, Err: ended("received interrupt"), ended: context.DeadlineExceeded},
		"`pvesm list STORAGE --vmid 100` on node pve1": {
			Stopped: true, Err: ended("unexpected status"), ended: context.Canceled},
		"is not safe to stop, and still runs; `pvenode task status " + string(upid): {Running: true, ended: context.Canceled},
		"could not be stopped (no permission) and still runs": {
			Running: true, Stopped: true, Err: errors.New("no permission"), ended: context.Canceled},
		"was awaited, and failed: task qmmove of VM 100 on node pve1: no space on disk": {Err: ended("no space on disk"),
			ended: context.Canceled},
	} {
		err.Task = upid
		if !strings.Contains(err.Error(), want) || !errors.Is(err, err.ended) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

// TestLockedErrorNamesTheNextStep: the visible facts about the holder decide the step, and those that may not be seen.
func TestLockedErrorNamesTheNextStep(t *testing.T) {
	const upid = pve.UPID("UPID:pve1:00005366:00057C72:6B00502E:vzdump:100:root@pam:")
	for name, c := range map[string]struct {
		held Holder
		err  error
		want string
	}{
		"a task":           {held: Holder{Lock: "backup", Runs: []pve.UPID{upid}}, want: "wait until task " + string(upid) + " has ended"},
		"a file's lock":    {held: Holder{}, want: "try again, or allow more time with the timeouts attribute"},
		"no task":          {held: Holder{Lock: "backup", Audit: true}, want: "a task that died has left the lock"},
		"who may not look": {held: Holder{Lock: "backup"}, want: "look whether a task is at work on it (`pvenode task list --vmid 100"},
		"a failed look": {held: Holder{Lock: "backup"}, err: errors.New("no answer"),
			want: "look at the tasks of node pve1, which could not be listed (no answer)"},
	} {
		c.held.Node, c.held.VMID = "pve1", 100
		if got := c.held.next(c.err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := LockedBy("backup", "change VM 100"); !pve.IsKind(err, pve.Locked) || fault.ConfigLock(err) != "backup" {
		t.Errorf("not what PVE would answer: %v", err)
	}
}
