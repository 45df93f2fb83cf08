package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// turns bounds how many guests are down at a time through the restarts and shutdowns of updates. A guest that does not
// come back ends all further turns: a change that keeps one guest from booting may do so to the next. The holder of a
// turn waits for nothing but its own guest, so turns cannot wait for each other. nil is without bound.
type turns struct {
	places chan struct{}
	over   chan struct{} // closed when failed is set

	mu     sync.Mutex
	failed *lostGuestError
}

// LimitRestarts bounds how many guests are down at a time through the restarts and shutdowns of this Changer's updates.
// It is called before the first update; 0 is no bound.
func (c *Changer) LimitRestarts(n int) {
	if n > 0 {
		c.turns = &turns{places: make(chan struct{}, n), over: make(chan struct{})}
	}
}

// lostGuestError says that a guest did not come back from a restart.
type lostGuestError struct {
	vmid int
	node string
}

// Error is for the guests whose turn did not come. The lost guest's own error has the whole story.
func (l *lostGuestError) Error() string {
	return fmt.Sprintf("VM %d on node %s did not come back from its restart in this apply, so no other guest is "+
		"restarted or shut down (restart_parallelism). Next step: look at VM %d, and apply again", l.vmid, l.node, l.vmid)
}

// turn is the right to take a guest down; nil is that of turns without bound.
type turn struct {
	of     *turns
	waited bool // the turn did not come at once, so the guest may be in another state by now
}

// take waits for a turn, until the context ends or a guest is lost.
func (t *turns) take(ctx context.Context, vmid int) (*turn, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // without bound
	}
	if failed := t.lost(); failed != nil {
		return nil, failed
	}
	if err := ctx.Err(); err != nil {
		return nil, turnless(vmid, err)
	}
	mine := &turn{of: t}
	select {
	case t.places <- struct{}{}:
		return mine, nil
	default:
		mine.waited = true
	}
	ctx, over := oplog.Wait(ctx, oplog.Limit, fmt.Sprintf("the turn of VM %d to go down", vmid))
	defer over()
	select {
	case t.places <- struct{}{}:
	case <-t.over:
		return nil, t.lost()
	case <-ctx.Done():
		return nil, turnless(vmid, ctx.Err())
	}
	if failed := t.lost(); failed != nil { // both were to be had
		mine.leave(ctx)
		return nil, failed
	}
	if err := ctx.Err(); err != nil {
		mine.leave(ctx)
		return nil, turnless(vmid, err)
	}
	return mine, nil
}

func turnless(vmid int, err error) error {
	return fmt.Errorf("wait for the turn of VM %d to go down (restart_parallelism): %w", vmid, err)
}

// lateTime is how long a guest that did not obey in time keeps its turn: the time of those that wait runs on.
const lateTime = 5 * time.Minute

// patience is how long of a time that is left is waited for a guest that did not obey.
func (t *turns) patience(left time.Duration) time.Duration {
	if t == nil {
		return left
	}
	return min(left, lateTime)
}

// lost returns the guest that did not come back; nil if there is none.
func (t *turns) lost() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		return nil
	}
	return t.failed
}

// leave gives the turn to the next guest, unless an interrupt ends this one. It reaches one guest after the other, and
// none of those that it has not reached yet may go down meanwhile.
func (t *turn) leave(ctx context.Context) {
	if t != nil && !errors.Is(ctx.Err(), context.Canceled) {
		<-t.of.places
	}
}

// end ends all further turns because of a guest.
func (t *turn) end(lost *lostGuestError) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.of.failed == nil {
		t.of.failed = lost
		close(t.of.over)
	}
}

// mayGoDown refuses an update that would take a running guest down after another one was lost, before anything is
// changed: what waits for a restart would come into force at any later one.
func (p power) mayGoDown() error {
	lost := p.changer.turns.lost()
	if lost == nil || p.r.Ref.Status != string(guest.Running) {
		return nil
	}
	at := "power_state"
	if p.r.PowerState != guest.Stopped {
		at = "reboot_policy"
		if p.r.Restart == RestartNever || len(p.r.Due)+len(vm.NeedsRestart(p.r.Prior, p.r.Planned)) == 0 {
			return nil
		}
	}
	return &guest.FieldError{Path: at, Summary: fmt.Sprintf("VM %d was not changed", p.vmid), Detail: lost.Error()}
}

// inTurn restarts a guest in its turn, and keeps the turn until the guest is up again.
func (p power) inTurn(ctx context.Context, config pve.PendingConfig, status pve.GuestStatus,
	due, sent []string) (restarted bool, err error) {
	mine, err := p.changer.turns.take(ctx, p.vmid)
	if err != nil {
		return false, p.notRestarted("Its turn did not come", due, err)
	}
	defer mine.leave(ctx)
	if mine != nil && mine.waited { // a third party may have restarted or stopped it
		p.view.Forget()
		if config, err = p.view.Fresh(ctx); err != nil {
			return false, err
		}
		if due = p.due(config, sent); len(due) == 0 {
			return false, nil
		}
		if status, err = p.view.Status(ctx); err != nil || !status.IsRunning() {
			return false, err
		}
	}
	before := p.restarting(status)
	before.sent = sent
	var kept *guest.FieldError
	if before.removed, kept = p.removedBeside(config, due, sent); kept != nil {
		return false, kept
	}
	if err = p.reboot(ctx, &before, due); mine != nil {
		err = p.back(ctx, mine, err)
	}
	if err == nil && len(before.removed) > 0 {
		p.warn(fmt.Sprintf("The restart of VM %d has let disks go", p.vmid), "Another user had set them to leave, and "+
			"that waited for its restart: "+strings.Join(before.removed, "; "))
	}
	return true, err
}

// removedBeside is what becomes of the disks that a restart takes from the VM by a third party's doing. It is an error
// if the plan keeps one of them.
func (p power) removedBeside(config pve.PendingConfig, due, sent []string) (lines []string, kept *guest.FieldError) {
	becomes, prior := guest.RemovedAtStart(config), vm.Encode(p.r.Prior)
	for _, slot := range slices.Sorted(maps.Keys(becomes)) {
		gets := guest.VolumeOf(config.Merged()[slot])
		isTold := gets != "" && gets == guest.VolumeOf(prior[slot]) // the state has it, and the plan names the disk that goes
		isOurs := isTold || slices.Contains(sent, slot) || slices.Contains(p.r.Due, slot)
		isKept := p.keeps(config, slot, isOurs)
		if isKept && kept == nil {
			keep := shell.Or(shell.VM("qm set {vmid} --revert {}", p.vmid, slot), shell.ByHand)
			kept = p.notRestarted(fmt.Sprintf("Another user has set %s to lose a disk that the configuration has, and a "+
				"restart does that: %s. Keep the disk (%s on node %s), then apply again",
				slot, becomes[slot], keep, p.view.Node()), due, nil)
		}
		if isKept || !isOurs {
			lines = append(lines, slot+": "+becomes[slot])
		}
	}
	return lines, kept
}

// keeps reports whether the plan has the disk that a restart takes from a slot, or none but a third party can have it
// leave: a removal that waits in a planned slot, and another value that neither this update nor an earlier one sent.
func (p power) keeps(config pve.PendingConfig, slot string, isOurs bool) bool {
	planned := vm.Encode(p.r.Planned)
	isReplaced := config.Merged()[slot] != ""
	return guest.HasInSlot(planned, guest.VolumeOf(config.Current()[slot])) ||
		planned[slot] != "" && !(isOurs && isReplaced)
}

// back waits until a guest is up again after its restart, which ended with an error or with nil. If it is not, the
// turns of all others end. An interrupt ends them anyway.
func (p power) back(ctx context.Context, mine *turn, failed error) error {
	reason := failed
	if failed == nil {
		if reason = p.up(ctx); reason == nil {
			return nil
		}
	} else if off, err := p.isOff(ctx); err == nil && !off {
		return failed // it did not go down, or runs again
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return reason
	}
	mine.end(&lostGuestError{vmid: p.vmid, node: p.view.Node()})
	return &guest.FieldError{Path: "reboot_policy",
		Summary: fmt.Sprintf("VM %d did not come back from its restart", p.vmid),
		Detail: fmt.Sprintf("Its changes are made. No other guest of this apply is restarted or shut down any more "+
			"(restart_parallelism): the same change might keep it from booting too. Next step: look at the console of VM %d on "+
			"node %s; when it is up, apply again, which goes on with the others", p.vmid, p.view.Node()), Err: reason}
}

// settleTime is how long a guest without an agent has to run after a restart to count as up: a kernel that panics, or a
// process that dies, shows by then.
const settleTime = 30 * time.Second

// up waits until a guest that was just restarted is up: its agent answers if it answered before the restart, else it
// runs on for a while.
func (p power) up(ctx context.Context) error {
	p.view.Forget()
	config, err := p.view.Fresh(ctx)
	if err != nil {
		return err
	}
	g := guest.FromConfig(config, p.view.Node(), p.vmid)
	if g.Status = string(guest.Running); g.HasAgent() && p.r.Ref.Agent.Enabled && !p.r.Ref.Agent.Silent {
		wait := guest.Wait{Agent: true}
		if p.r.Wait != nil {
			wait.Timeout = p.r.Wait.Timeout
		}
		if _, err = p.changer.guests.Await(ctx, &g, &wait, true); !pve.IsKind(err, pve.Denied) {
			return err
		}
	}
	return p.runsOn(ctx)
}

// runsOn returns nil if the guest runs for the time in which it settles.
func (p power) runsOn(ctx context.Context) error {
	ctx, over := oplog.Wait(ctx, oplog.Guest, fmt.Sprintf("VM %d to run for %s", p.vmid, settleTime))
	defer over()
	end := p.changer.clock.Now().Add(settleTime)
	for {
		left := end.Sub(p.changer.clock.Now())
		if left > 0 {
			if err := p.changer.clock.Sleep(ctx, min(backoff.ForGuest.Pause(1, 0), left)); err != nil {
				return err
			}
		}
		status, err := p.view.Status(ctx)
		switch {
		case err == nil && !status.IsRunning():
			return fmt.Errorf("VM %d was started, and has stopped again within %s", p.vmid, settleTime)
		case pve.IsKind(err, pve.NotFound) && p.follow(ctx) == guest.Found: // it was moved
			continue
		case err != nil && !pve.IsKind(err, pve.Unavailable):
			return err
		case left <= 0:
			return err
		}
	}
}
