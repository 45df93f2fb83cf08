package oplog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book keeps what is written to a log.
type book struct {
	mu    sync.Mutex
	lines []string
}

func (b *book) log(_ context.Context, subsystem string, level slog.Level, message string, fields map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprint(subsystem, "|", int(level), "|", message, "|", fields["step"], fields["error"]))
}

func (b *book) has(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.lines, want) {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(b.lines, "\n"), strings.Join(want, "\n"))
	}
}

func send(ctx context.Context, method string, took time.Duration) {
	_, answered := oplog.Send(ctx, oplog.Request{ID: "x", Method: method, Path: "/version", Write: method != "GET"})
	time.Sleep(took)
	answered(200)
}

// TestWaitsAreCountedOnce: what is waited for at the same time counts once within a kind, and in each of several kinds.
func TestWaitsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, o := oplog.Begin(t.Context(), oplog.Config{Name: "create", Type: "proxmox_vm"})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { send(ctx, "GET", 2*time.Second) })
		}
		all.Wait()
		time.Sleep(time.Second) // nothing is waited for
		inner, over := oplog.Wait(ctx, oplog.Task, "task X")
		send(inner, "GET", time.Second)
		oplog.From(inner).Poll()
		time.Sleep(4 * time.Second)
		over()
		send(ctx, "POST", time.Second)
		o.Retry()
		o.Sent(10)
		o.Sent(-1) // of a length that is not known
		o.Received(7)
		o.About(0, "")
		o.About(101, "pve1")
		o.About(0, "")
		sum := o.Close("ok")
		want := oplog.Summary{ID: o.ID(), Name: "create", Type: "proxmox_vm", VMID: 101, Node: "pve1", Reads: 4, Writes: 1,
			Polls: 1, Retries: 1,
			BytesSent: 10, BytesReceived: 7, Took: 9 * time.Second}
		want.Waited[oplog.Answer], want.Waited[oplog.Task] = 4*time.Second, 5*time.Second
		if sum != want {
			t.Errorf("%+v, want\n%+v", sum, want)
		}
		if !sum.HasWork() || len(o.ID()) != 8 || o.RequestID() != o.ID()+"-1" || o.RequestID() != o.ID()+"-2" {
			t.Errorf("ids %s, %s", o.ID(), o.RequestID())
		}
	})
}

// TestSomebodyStillWaits: what is waited for when the account is closed counts up to then.
func TestSomebodyStillWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, o := oplog.Begin(t.Context(), oplog.Config{})
		_, over := oplog.Wait(ctx, oplog.Agent, "an agent")
		time.Sleep(3 * time.Second)
		sum := o.Close("ok")
		over()
		if sum.Waited[oplog.Agent] != 3*time.Second {
			t.Errorf("%+v", sum)
		}
	})
}

// TestSteps: a step counts when it has asked the server something, and one that is taken back counts as that.
func TestSteps(t *testing.T) {
	var b book
	ctx, o := oplog.Begin(t.Context(), oplog.Config{Log: b.log})
	step := func(begin func(context.Context, string) (context.Context, func(error)), name string, asks bool, err error) {
		inner, ended := begin(ctx, name)
		if asks {
			send(inner, "POST", 0)
		}
		ended(err)
	}
	step(oplog.Step, "make it", true, nil)
	step(oplog.Step, "nothing to do", false, nil)
	step(oplog.Step, "start it", true, errors.New("no memory"))
	step(oplog.Undo, "start it", true, nil)
	step(oplog.Undo, "make it", true, errors.New("it is locked"))
	sum := o.Close("error")
	if sum.StepsDone != 1 || sum.StepsUndone != 2 {
		t.Errorf("%+v", sum)
	}
	sent := "pve|-8|PVE request sent|"
	b.has(t, sent, "tx|-4|Transaction step done|make it", sent, "tx|0|Transaction step failed|start itno memory", sent,
		"tx|-4|Transaction undo done|start it", sent, "tx|0|Transaction undo failed|make itit is locked")
}

// TestItSaysWhatItWaitsFor: every half minute a line says it, to the log and to who waits, and none after the end.
func TestItSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		ctx, o := oplog.Begin(t.Context(), oplog.Config{Name: "create", Type: "proxmox_vm", Log: b.log})
		var told []string
		o.Tell(func(message string) { told = append(told, message) })
		inner, ended := oplog.Step(ctx, "start VM 101")
		time.Sleep(31 * time.Second)
		_, over := oplog.Wait(inner, oplog.Task, "task UPID:pve1:x")
		go func() {
			_, answered := oplog.Send(inner, oplog.Request{Method: "GET", Path: "/nodes/pve1/tasks/x/status"})
			time.Sleep(32 * time.Second)
			answered(200)
		}()
		time.Sleep(30 * time.Second)
		over()
		ended(nil)
		time.Sleep(5 * time.Second)
		o.Close("ok")
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []string{"Still at it after 30s, at the step: start VM 101",
			"Still at it after 1m0s, at the step: start VM 101. Waiting for task UPID:pve1:x (29s), for an answer to GET " +
				"/nodes/pve1/tasks/x/status (29s)"}
		if !slices.Equal(told, want) {
			t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
		b.has(t, "|0|"+want[0]+"|", "pve|-8|PVE request sent|", "|0|"+want[1]+"|", "tx|-4|Transaction step done|start VM 101")
	})
}

// TestWithoutAnOperation: nothing is noted, and nothing breaks.
func TestWithoutAnOperation(t *testing.T) {
	ctx := t.Context()
	o := oplog.From(ctx)
	o.Retry()
	o.Tell(func(string) {})
	send(ctx, "GET", 0)
	_, over := oplog.Wait(ctx, oplog.Lock, "a lock")
	over()
	_, ended := oplog.Undo(ctx, "x")
	ended(nil)
	_, ran := oplog.Run(ctx, "pve1", "qm")
	ran(true)
	if o.ID() != "" || o.RequestID() != "" || o.Close("ok") != (oplog.Summary{}) {
		t.Error("something was noted")
	}
}

// span is one of a tree.
type span struct {
	name, failed string
	about        map[string]string
	below        []*span
	ended        bool
}

func (s *span) note(about []oplog.Attribute) {
	for _, a := range about {
		s.about[a.Key] = a.Text
		if !a.IsText {
			s.about[a.Key] = fmt.Sprint(a.Number)
		}
	}
}

func (s *span) End(failed string, about ...oplog.Attribute) {
	s.failed, s.ended = failed, true
	s.note(about)
}

type spanKey struct{}

// tracer keeps the tree in the context.
type tracer struct{ top span }

func (t *tracer) Begin(ctx context.Context, name string, about ...oplog.Attribute) (context.Context, oplog.Span) {
	above, ok := ctx.Value(spanKey{}).(*span)
	if !ok {
		above = &t.top
	}
	s := &span{name: name, about: map[string]string{}}
	s.note(about)
	above.below = append(above.below, s)
	return context.WithValue(ctx, spanKey{}, s), s
}

func (s *span) String() string {
	text := s.name
	if s.failed != "" {
		text += "!" + s.failed
	}
	var below []string
	for _, b := range s.below {
		if b.ended {
			below = append(below, b.String())
		}
	}
	if len(below) > 0 {
		text += "(" + strings.Join(below, ", ") + ")"
	}
	return text
}

// TestTree: what is a part of what, and that waits and steps with nothing in them are not told.
func TestTree(t *testing.T) {
	var tr tracer
	ctx, o := oplog.Begin(t.Context(), oplog.Config{Name: "create", Type: "proxmox_vm", Tracer: &tr})
	inner, ended := oplog.Step(ctx, "start VM 101")
	_, answered := oplog.Send(inner, oplog.Request{ID: "1", Method: "POST", Path: "/nodes/pve1/qemu/101/status/start",
		Write: true})
	answered(500)
	within, over := oplog.Wait(inner, oplog.Task, "task UPID:x")
	_, answered = oplog.Send(within, oplog.Request{ID: "2", Method: "GET", Path: "/nodes/pve1/tasks/UPID:x/status"})
	answered(0)
	over()
	_, over = oplog.Wait(inner, oplog.Limit, "the turn")
	over()
	ended(errors.New("no"))
	_, idle := oplog.Step(ctx, "nothing to do")
	idle(nil)
	_, ran := oplog.Run(ctx, "pve1", "run qm")
	ran(false)
	o.About(101, "pve1")
	o.Close("error")
	want := "(create proxmox_vm!error(start VM 101!failed(POST /nodes/{node}/qemu/{vmid}/status/start!500, " +
		"wait for task(GET /nodes/{node}/tasks/{upid}/status!no answer)), SSH command!failed))"
	if got := tr.top.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	post := tr.top.below[0].below[0].below[0].about
	if post["pve.node"] != "pve1" || post["pve.vmid"] != "101" || post["http.response.status_code"] != "500" ||
		post["request.id"] != "1" {
		t.Errorf("%v", post)
	}
	if root := tr.top.below[0].about; root["pve.vmid"] != "101" || root["reads"] != "1" || root["operation.id"] != o.ID() {
		t.Errorf("%v", root)
	}
}
