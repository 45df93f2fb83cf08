package account

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// Config says what an operation is, and who hears of it.
type Config struct {
	// Name is what is done, "create"; Type what with, "proxmox_vm" or "data.proxmox_vms".
	Name, Type string
	// Now is nil for the real time.
	Now func() time.Time
	// Log is nil for none. Subsystem is one of Subsystems, or "" for the provider itself.
	Log func(ctx context.Context, subsystem string, level slog.Level, message string, fields map[string]string)
	// Tracer is nil for none.
	Tracer Tracer
	// Every is how often a line says what is waited for; zero for StillEvery.
	Every time.Duration
}

// The parts of the provider that have a log of their own.
const (
	PVE = "pve" // requests of the API
	SSH = "ssh" // connections to nodes, and commands there
	TX  = "tx"  // steps, done and undone
)

// Subsystems lists them.
func Subsystems() []string { return []string{PVE, SSH, TX} }

// LevelTrace is below slog's own: Terraform's TRACE.
const LevelTrace = slog.LevelDebug - 4

// Operation is the account. A nil Operation takes everything and keeps nothing.
type Operation struct {
	id     string
	config Config
	root   Span // nil without a Tracer
	still  *time.Timer

	mu       sync.Mutex // guards everything below
	sum      Summary
	requests int
	active   []*wait
	running  [kinds]int       // waits of a kind under way
	since    [kinds]time.Time // when the first of them began
	steps    []string         // under way
	tell     func(message string)
	began    time.Time
	ended    bool
}

// Summary is an account that was closed.
type Summary struct {
	// ID is in every line of the operation's.
	ID string
	// Name and Type are as in Config; Thing is what it was about, "VM 101 on pve1".
	Name, Type, Thing string
	// Node and VMID are where that is, if it has such.
	Node string
	VMID int
	// StepsDone are the steps that asked the server something and went well; StepsUndone those that were taken back.
	StepsDone, StepsUndone int
	// Reads and Writes are the requests that were sent, each try of one counted.
	Reads, Writes int
	// Polls are those of the Reads that only asked whether a task has ended.
	Polls int
	// Retries is how often something was sent once more: for want of an answer, or for a lock.
	Retries int
	// Commands is how many were run on nodes over SSH.
	Commands int
	// BytesSent and BytesReceived are those of the bodies of requests and answers.
	BytesSent, BytesReceived int64
	// Took is from the beginning to the end.
	Took time.Duration
	// Waited is how long something of a kind was waited for, by Kind. What goes on at the same time is counted once within a kind,
	// and in each of several kinds.
	Waited [kinds]time.Duration
}

// HasWork reports whether the operation did more than think.
func (s Summary) HasWork() bool { return s.Reads+s.Writes+s.Commands > 0 }

type operationKey struct{}

// Begin opens an account. Whoever opens it closes it.
func Begin(ctx context.Context, c Config) (context.Context, *Operation) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Every == 0 {
		c.Every = StillEvery
	}
	o := &Operation{id: newID(), config: c}
	o.began = c.Now()
	ctx = context.WithValue(ctx, operationKey{}, o)
	if c.Tracer != nil {
		ctx, o.root = c.Tracer.Begin(ctx, c.Name+" "+c.Type, Text("operation.id", o.id), Text("terraform.operation", c.Name),
			Text("terraform.resource", c.Type))
	}
	o.watch(ctx)
	return ctx, o
}

// newID is eight digits, so few that somebody can read them out.
func newID() string {
	text := strconv.FormatUint(uint64(rand.Uint32()), 16) //nolint:gosec // it names lines, and keeps no secret
	return "00000000"[len(text):] + text
}

// From gives the operation that a context belongs to, nil if there is none.
func From(ctx context.Context) *Operation {
	o, _ := ctx.Value(operationKey{}).(*Operation)
	return o
}

// ID is in every line of the operation's; "" without an operation.
func (o *Operation) ID() string {
	if o == nil {
		return ""
	}
	return o.id
}

// About notes the VM that the operation is about, as soon as it is known; 0 and "" leave what was noted.
func (o *Operation) About(vmid int, node string) {
	o.note(func() {
		if vmid != 0 {
			o.sum.VMID = vmid
		}
		if node != "" {
			o.sum.Node = node
		}
	})
}

// Thing notes what the operation is about, for people.
func (o *Operation) Thing(thing string) { o.note(func() { o.sum.Thing = thing }) }

// Retry notes that something is sent once more.
func (o *Operation) Retry() { o.note(func() { o.sum.Retries++ }) }

// Poll notes that the next read only asks whether a task has ended.
func (o *Operation) Poll() { o.note(func() { o.sum.Polls++ }) }

// Sent and Received note the bytes of a request's body and of an answer's.
func (o *Operation) Sent(bytes int64) { o.note(func() { o.sum.BytesSent += max(bytes, 0) }) }

// Received is as Sent.
func (o *Operation) Received(bytes int64) { o.note(func() { o.sum.BytesReceived += bytes }) }

// asked is how much was asked of the server and its nodes so far.
func (o *Operation) asked() (n int) {
	o.note(func() { n = o.sum.Reads + o.sum.Writes + o.sum.Commands })
	return n
}

// RequestID is the name of the next request: it stays the same for its further tries.
func (o *Operation) RequestID() string {
	n := 0
	o.note(func() {
		o.requests++
		n = o.requests
	})
	if n == 0 {
		return ""
	}
	return o.id + "-" + strconv.Itoa(n)
}

func (o *Operation) note(change func()) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// Close ends the account. outcome is "ok", or what it was instead, in one word.
func (o *Operation) Close(outcome string) Summary {
	if o == nil {
		return Summary{}
	}
	o.still.Stop()
	o.mu.Lock()
	o.ended = true
	now := o.config.Now()
	for kind := range kinds {
		if o.running[kind] > 0 { // somebody still waits who was not waited for
			o.sum.Waited[kind] += now.Sub(o.since[kind])
			o.since[kind] = now
		}
	}
	sum := o.sum
	o.mu.Unlock()
	sum.ID, sum.Name, sum.Type, sum.Took = o.id, o.config.Name, o.config.Type, now.Sub(o.began)
	if o.root != nil {
		o.root.End(outcome, sum.attributes()...)
	}
	return sum
}

func (o *Operation) log(ctx context.Context, subsystem string, level slog.Level, message string, fields map[string]string) {
	if o.config.Log != nil {
		o.config.Log(ctx, subsystem, level, message, fields)
	}
}
