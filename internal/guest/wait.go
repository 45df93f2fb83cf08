package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
)

// Wait is what a create and an update wait for when their work is done. It ends no transaction.
type Wait struct {
	Agent, IPv4, IPv6 bool
	Timeout           time.Duration // zero: five minutes
	// Warn makes a wait that fails a warning; otherwise it is an error, with the guest kept.
	Warn bool
	// ByDefault waits for an address of either family. A guest that can have none is not waited for, and the warning
	// says how to change the wait.
	ByDefault bool
	// Each is called at each look, if it is set.
	Each func(context.Context)
}

const (
	defaultWait = 5 * time.Minute
	// settleTime is how long the addresses of earlier network devices are waited for when a later one has its own already.
	settleTime = 5 * time.Second
)

// WaitError says that a guest did not get as far as it was waited for. The VM is complete.
type WaitError struct {
	VMID   int
	Node   string
	Wanted string // "an IPv4 address"
	Reason string // what stood in the way, in PVE's words where there are some
	Err    error  // the context's, or the server's refusal
}

// Error says that the VM is complete, what was waited for, and why it did not come.
func (w *WaitError) Error() string {
	text := fmt.Sprintf("VM %d on node %s is complete: everything that was planned has been done, and nothing was taken "+
		"back. Only waiting for %s failed: %s",
		w.VMID, w.Node, w.Wanted, w.Reason)
	if w.Err != nil {
		text += ": " + w.Err.Error()
	}
	return text
}

// Unwrap is what ended the waiting, if it was an error.
func (w *WaitError) Unwrap() error { return w.Err }

// waiting is the state of one wait.
type waiting struct {
	s       *Guests
	guest   *Guest
	w       Wait
	node    string    // where it is by now
	settled time.Time // when earlier devices have had their time; zero: none has an address yet
	last    string    // what the agent or PVE said last
	heard   bool      // the agent has answered once
}

// Await waits until the agent of a guest that was just made or changed says what is wanted, and fills in what it
// says. A guest that does not run is not waited for, unless HA is about to start it; if it was started just before,
// that is an error. It never changes anything on the server. A timeout is a *WaitError, or a warning where the
// request says so; a guest that stops meanwhile is told at once.
func (g *Guests) Await(ctx context.Context, guest *Guest, w *Wait, started bool) ([]Warning, error) {
	off := guest.Status != string(Running) && !guest.HA.Starts()
	if w == nil || off && !started {
		return nil, nil
	}
	wait := &waiting{s: g, guest: guest, w: *w, node: guest.Node}
	if wait.w.Timeout <= 0 {
		wait.w.Timeout = defaultWait
	}
	failed := wait.impossible()
	switch {
	case failed != nil && w.ByDefault:
		return nil, nil
	case off:
		failed = wait.failed(nil, "the guest has stopped right after its start")
	case failed == nil:
		failed = wait.run(ctx)
	}
	if failed == nil {
		return nil, nil
	}
	if w.Warn {
		return []Warning{wait.warning(failed)}, nil
	}
	return nil, failed
}

// warning tells of a wait that failed. Those by default have one summary, so that Terraform shows those of many VMs as
// one warning.
func (w *waiting) warning(failed *WaitError) Warning {
	if !w.w.ByDefault {
		return Warning{Summary: fmt.Sprintf("Waiting for %s of VM %d failed", failed.Wanted, w.guest.VMID),
			Detail: failed.Error()}
	}
	return Warning{Summary: "A guest has reported no address yet", Detail: failed.Error() + ".\n\nThe next refresh " +
		"takes over the addresses that the agent reports by then. A create waits for one since the configuration has " +
		"agent = { enabled = true }. To end that, write wait_for = { agent = false }; to wait longer, write " +
		"wait_for = { timeout = \"10m\" }."}
}

// impossible finds what no time can cure.
func (w *waiting) impossible() *WaitError {
	agent := w.guest.Spec.Agent.Enabled
	switch {
	case agent == nil || !*agent:
		return w.failed(nil, "its guest agent is not enabled. Set agent.enabled = true")
	case slices.Contains(w.guest.Pending, "agent"):
		return w.failed(nil, "its guest agent was enabled while it ran, and PVE adds the agent's device at the next start "+
			"only")
	case (w.w.IPv4 || w.w.IPv6 || w.w.ByDefault) && len(w.guest.Spec.Networks) == 0:
		return w.failed(nil, "it has no network device")
	}
	return nil
}

func (w *waiting) run(ctx context.Context) *WaitError {
	ctx, over := oplog.Wait(ctx, oplog.Agent, fmt.Sprintf("what the guest agent of VM %d says", w.guest.VMID))
	defer over()
	deadline := w.s.clock.Now().Add(w.w.Timeout)
	for attempt := 0; ; attempt++ {
		if w.w.Each != nil {
			w.w.Each(ctx)
		}
		done, fatal := w.look(ctx)
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return w.interrupted(ctx)
		case fatal != nil:
			return fatal
		case !w.s.clock.Now().Before(deadline):
			return w.failed(nil, w.late())
		}
		pause := min(backoff.ForAgent.Pause(attempt+1, 0), deadline.Sub(w.s.clock.Now()))
		if err := w.s.clock.Sleep(ctx, pause); err != nil {
			return w.interrupted(ctx)
		}
	}
}

// look asks the agent once, and where it does not answer whether the guest still runs.
func (w *waiting) look(ctx context.Context) (bool, *WaitError) {
	interfaces, err := w.s.agents.AskPatiently(ctx, w.node, w.guest.VMID)
	if err == nil {
		w.heard = true
		w.guest.Interfaces, w.guest.Silent = interfaces, false
		return w.satisfied(), nil
	}
	w.last = err.Error()
	var answer *pve.Error
	if errors.As(err, &answer) && answer.Message != "" {
		w.last = answer.Message
	}
	if pve.IsKind(err, pve.Denied) {
		return false, w.failed(err, "the agent may not be asked")
	}
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // the caller looks at the context
	}
	return false, w.watch(ctx)
}

// watch sees to it that a guest that has stopped is not waited for.
func (w *waiting) watch(ctx context.Context) *WaitError {
	status, err := w.s.api.QEMU(w.node, w.guest.VMID).Status(ctx)
	if pve.IsKind(err, pve.NotFound) {
		return w.follow(ctx, err)
	}
	if err != nil { // as likely as not it passes
		w.last = err.Error()
		return nil //nolint:nilerr // it is remembered for the end
	}
	w.guest.Status = status.Status
	if status.Status == string(Running) {
		return nil
	}
	if w.guest.HA.Starts() { // HA starts it, again
		w.last = "VM " + status.Status + ", HA is to start it"
		return nil
	}
	return w.failed(nil, "the guest has stopped while it was waited for")
}

// follow looks for a guest that another user, or HA, has moved.
func (w *waiting) follow(ctx context.Context, gone error) *WaitError {
	resources, err := w.s.api.Cluster().Resources(ctx)
	if err != nil {
		w.last = err.Error()
		return nil //nolint:nilerr // it is remembered for the end
	}
	listed, ok := resources.Guest(w.guest.VMID)
	switch {
	case !ok || listed.Type != "qemu":
		return w.failed(gone, "another user has removed it")
	case listed.Node != w.node:
		w.node = listed.Node
	}
	w.last = "it is on its way between nodes"
	return nil
}

// satisfied reports whether the agent has said everything wanted.
func (w *waiting) satisfied() bool {
	if w.w.ByDefault { // an IPv6 address that comes first gives IPv4 the same time
		return w.has(func(a agent.Address) []string { return a.IPv4 }) ||
			w.has(func(a agent.Address) []string { return a.IPv6 }) && !w.s.clock.Now().Before(w.settled)
	}
	four := !w.w.IPv4 || w.has(func(a agent.Address) []string { return a.IPv4 })
	six := !w.w.IPv6 || w.has(func(a agent.Address) []string { return a.IPv6 })
	return four && six
}

// has reports whether a network device has an address. The first device is to win even when another is faster, so
// when it has none the earlier ones get some time more.
func (w *waiting) has(of func(agent.Address) []string) bool {
	addresses := w.guest.Addresses()
	for n, slot := range w.guest.NICs() {
		if len(of(addresses[slot])) == 0 {
			continue
		}
		now := w.s.clock.Now()
		if w.settled.IsZero() {
			w.settled = now.Add(settleTime)
		}
		return n == 0 || !now.Before(w.settled)
	}
	return false
}

func (w *waiting) wanted() string {
	var all []string
	if w.w.ByDefault {
		return "an IP address"
	}
	if w.w.IPv4 {
		all = append(all, "an IPv4 address")
	}
	if w.w.IPv6 {
		all = append(all, "an IPv6 address")
	}
	if len(all) == 0 {
		return "the guest agent"
	}
	return strings.Join(all, " and ")
}

func (w *waiting) late() string {
	text := fmt.Sprintf("it did not come within %s", w.w.Timeout)
	switch {
	case w.heard && (w.w.IPv4 || w.w.IPv6 || w.w.ByDefault):
		text += ". The agent answers, but reports none for a network device of the VM " +
			"(loopback, link-local and interfaces with other MAC addresses do not count)"
	case w.last != "":
		text += ". The last word: " + strings.TrimSpace(w.last)
	}
	return text
}

func (w *waiting) interrupted(ctx context.Context) *WaitError {
	reason := "it was interrupted"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = "the operation's time is over"
	}
	return w.failed(ctx.Err(), reason)
}

func (w *waiting) failed(err error, reason string) *WaitError {
	return &WaitError{VMID: w.guest.VMID, Node: w.guest.Node, Wanted: w.wanted(), Reason: reason, Err: err}
}
