package oplog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// StillEvery is the interval of the lines that say what an operation waits for.
const StillEvery = 30 * time.Second

// Config describes an operation and its listeners.
type Config struct {
	// Name is the verb, such as "create". Type is the resource type, such as "proxmox_vm" or "data.proxmox_vms".
	Name, Type string
	// Now is nil for the real time.
	Now func() time.Time
	// Log is nil for none. Subsystem is one of Subsystems, or "" for the provider itself.
	Log func(ctx context.Context, subsystem string, level slog.Level, message string, fields map[string]string)
	// Tracer is nil for none.
	Tracer Tracer
	// Every is the interval of the lines that say what is waited for; zero for StillEvery.
	Every time.Duration
}

// The subsystems: parts of the provider with a log of their own.
const (
	PVE = "pve" // requests of the API
	SSH = "ssh" // connections to nodes, and commands there
	TX  = "tx"  // steps, done and undone
)

// Subsystems returns all subsystems.
func Subsystems() []string { return []string{PVE, SSH, TX} }

// LevelTrace is below slog's own: Terraform's TRACE.
const LevelTrace = slog.LevelDebug - 4

// Operation is the log of one operation. A nil Operation records nothing.
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

// wait is one wait of an operation.
type wait struct {
	kind  Kind
	what  string
	since time.Time
}

type operationKey struct{}

// Begin starts an operation. The caller must close it.
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

// newID returns eight hexadecimal digits, few enough to read them out.
func newID() string {
	text := strconv.FormatUint(uint64(rand.Uint32()), 16) //nolint:gosec // it only names lines of a log
	return "00000000"[len(text):] + text
}

// From returns the operation of a context, nil if there is none.
func From(ctx context.Context) *Operation {
	o, _ := ctx.Value(operationKey{}).(*Operation)
	return o
}

// writers are the operations that may change something. All others are for reading.
var writers = []string{"create", "update", "delete", "invoke"}

// RefuseWrite returns the error of a request or a command that may change something, in an operation that only reads.
// Code outside of any operation may write. The summary names what was refused, also where the caller drops the error.
func (o *Operation) RefuseWrite(what string) error {
	if o == nil || slices.Contains(writers, o.config.Name) {
		return nil
	}
	o.note(func() { o.sum.Refused = cmp.Or(o.sum.Refused, what) })
	return fmt.Errorf("the operation %s only reads; nothing was sent. This is a mistake of the provider", o.config.Name)
}

// ID returns the id that every line of the operation carries; "" without an operation.
func (o *Operation) ID() string {
	if o == nil {
		return ""
	}
	return o.id
}

// About records the VM of the operation, once it is known; 0 and "" leave the recorded values.
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

// Thing records the object of the operation in words, such as "VM 101 on pve1".
func (o *Operation) Thing(thing string) { o.note(func() { o.sum.Thing = thing }) }

// Retry records that a request is sent once more.
func (o *Operation) Retry() { o.note(func() { o.sum.Retries++ }) }

// Poll records that the next read only asks whether a task has ended.
func (o *Operation) Poll() { o.note(func() { o.sum.Polls++ }) }

// Sent records the bytes of a request's body.
func (o *Operation) Sent(bytes int64) { o.note(func() { o.sum.BytesSent += max(bytes, 0) }) }

// Received records the bytes of an answer's body.
func (o *Operation) Received(bytes int64) { o.note(func() { o.sum.BytesReceived += bytes }) }

// asked returns the number of requests and commands so far.
func (o *Operation) asked() (n int) {
	o.note(func() { n = o.sum.Reads + o.sum.Writes + o.sum.Commands })
	return n
}

// RequestID returns the id of the next request, which its further tries keep.
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

// Close ends the operation. outcome is one word: "ok", "warning", "error" or "interrupted".
func (o *Operation) Close(outcome string) Summary {
	if o == nil {
		return Summary{}
	}
	o.still.Stop()
	o.mu.Lock()
	o.ended = true
	now := o.config.Now()
	for kind := range kinds {
		if o.running[kind] > 0 { // a goroutine outlives the operation
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

func (o *Operation) log(ctx context.Context, subsystem string, level slog.Level, message string,
	fields map[string]string) {
	if o.config.Log != nil {
		o.config.Log(ctx, subsystem, level, message, fields)
	}
}

func (o *Operation) span(ctx context.Context, name string, about ...Attribute) (context.Context, Span) {
	if o.config.Tracer == nil {
		return ctx, nil
	}
	return o.config.Tracer.Begin(ctx, name, about...)
}

// Tell registers a function that also gets the lines about waits, to show them to the user.
func (o *Operation) Tell(tell func(message string)) { o.note(func() { o.tell = tell }) }

// watch logs at intervals what the operation waits for, until it is closed. It goes by the real time, as the user at
// the terminal does.
func (o *Operation) watch(ctx context.Context) {
	o.mu.Lock() // the timer must be set before it fires
	defer o.mu.Unlock()
	o.still = time.AfterFunc(o.config.Every, func() {
		if message, fields, tell := o.status(); message != "" {
			o.log(ctx, "", slog.LevelInfo, message, fields)
			if tell != nil {
				tell(message)
			}
			o.still.Reset(o.config.Every)
		}
	})
}

// status returns the line for now; "" after the end.
func (o *Operation) status() (message string, fields map[string]string, tell func(string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return "", nil, nil
	}
	now := o.config.Now()
	since := func(t time.Time) string { return now.Sub(t).Round(time.Second).String() }
	message = "Still at it after " + since(o.began)
	if len(o.steps) > 0 {
		message += ", at the step: " + o.steps[len(o.steps)-1]
	}
	waits := make([]string, len(o.active))
	for i, w := range o.active {
		waits[i] = w.what + " (" + since(w.since) + ")"
	}
	if len(waits) > 0 {
		message += ". Waiting for " + strings.Join(waits, ", for ")
	}
	fields = map[string]string{"operation_id": o.id, "operation": o.config.Name, "resource": o.config.Type}
	if o.sum.Thing != "" {
		fields["thing"] = o.sum.Thing
	}
	return message, fields, o.tell
}
