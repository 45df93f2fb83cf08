package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// View is what is known of one VM on the server, and how fresh it is. Only Fresh reads the configuration, and only
// requests that go through the view make it stale. So no step works with a configuration that an earlier step changed,
// or with another VM that has got the VMID since. A View serves one operation and is not safe for concurrent use.
type View struct {
	// Tasks are the tasks that requests through the view have begun.
	Tasks request.Tasks
	// VMID is the id of the VM.
	VMID int
	// Powered: a request may have started or stopped the guest.
	Powered bool
	// Gone: Follow has found that the VM does not exist any more.
	Gone bool
	// LastStatus is the guest's power status when it was last asked for, "" if it was not.
	LastStatus string
	// Settled: LastStatus was asked for after the last request that was sent or awaited.
	Settled bool
	// Written is the last change of the configuration, if PVE has certainly made it and nothing was sent or awaited since.
	Written *Written
	// ReadAt is when the last read began that has shown our VM.
	ReadAt time.Time

	jobs   *request.Runner
	guests *Guests
	claim  Claim
	node   string // where the VM was last seen

	config   pve.PendingConfig
	identity Identity  // of the VM when it was last read; zero if a request has changed it since
	stale    bool      // a request was sent since config was read
	known    bool      // config is stale, but for its digest it is the result of that request
	waited   bool      // config is unchanged, but a task was awaited since: the VMID may have another VM by now
	seen     time.Time // of the last proof that the VM is ours; zero if an unbound request was sent since
	step     string    // the step at work, until it has sent a request
	proved   bool      // its process proves that the VM is ours; nothing was sent or awaited since
}

// Claim proves that the VM under a VMID is the one that a View is about.
type Claim interface {
	// Check returns nil if the configuration that was read on a node is that of our VM, else the error to report. written
	// says that a request of ours, whose answer was lost, may already have changed what identifies the VM.
	Check(node string, config map[string]string, written bool) error
}

// StateClaim claims the VM in state by its identity. A change of the uuid that waits for a restart, or that this very
// operation makes, is part of the claim.
type StateClaim struct {
	Ref  Ref
	Next *Identity // that the VM gets by a change of ours
}

// Identities are those that the VM may have: the one in state, and the one that a change of ours gives it.
func (i *StateClaim) Identities() []Identity {
	if i.Next == nil {
		return []Identity{i.Ref.Identity}
	}
	return []Identity{i.Ref.Identity, *i.Next}
}

// Check refuses a VM that is not the one in state.
func (i *StateClaim) Check(node string, config map[string]string, _ bool) error {
	err := Guard(i.Ref, node, config)
	if err != nil && i.Next != nil && *i.Next == IdentityOf(config) {
		return nil
	}
	return err
}

// View begins with a configuration that was just read, of a VM in state. If the state does not know its identity, or a
// restart has changed that since, the claim is on the VM that was read.
func (g *Guests) View(claim *StateClaim, at Location) *View {
	config := at.Config
	if seen := IdentityOf(config.Current()); !claim.Ref.Identity.Matches(seen) {
		claim.Ref.Identity = seen.Seen()
	}
	if next := IdentityOf(config.Merged()); next != IdentityOf(config.Current()) {
		claim.Next = &next // an earlier change waits for the restart
	}
	v := g.ViewUnread(claim, at.Node, claim.Ref.VMID)
	v.accept(config, at.Asked)
	return v
}

// ViewUnread begins without a configuration: the first call of Fresh reads it.
func (g *Guests) ViewUnread(claim Claim, node string, vmid int) *View {
	return &View{jobs: g.jobs, guests: g, claim: claim, VMID: vmid, node: node, stale: true}
}

// Node is where the VM was last seen.
func (v *View) Node() string { return v.node }

// Last is the configuration that was read last, stale or not.
func (v *View) Last() pve.PendingConfig { return v.config }

// Identity is that of the VM when it was last read. It is zero before the first read, and once a request has changed
// it.
func (v *View) Identity() Identity { return v.identity }

// IsFresh reports whether Fresh would return without a request.
func (v *View) IsFresh() bool { return !v.stale }

// Fresh returns the VM's configuration. It reads it if a request was sent since the last read. It is an error if the
// VMID has another VM by then.
func (v *View) Fresh(ctx context.Context) (pve.PendingConfig, error) {
	if !v.stale {
		return v.config, nil
	}
	began := v.jobs.Clock.Now()
	config, err := v.read(ctx, false)
	if err == nil {
		v.accept(config, began)
	}
	return config, err
}

// read reads the configuration and refuses that of another VM.
func (v *View) read(ctx context.Context, written bool) (pve.PendingConfig, error) {
	config, err := v.jobs.API.QEMU(v.node, v.VMID).Pending(ctx)
	if err != nil {
		return pve.PendingConfig{}, fmt.Errorf("read VM %d on node %s: %w", v.VMID, v.node, err)
	}
	if err := v.claim.Check(v.node, config.Current(), written); err != nil {
		return pve.PendingConfig{}, err
	}
	return config, nil
}

// accept remembers a configuration whose read began at a time.
func (v *View) accept(config pve.PendingConfig, began time.Time) {
	v.config, v.identity, v.ReadAt = config, IdentityOf(config.Current()), began
	v.stale, v.known, v.waited, v.proved, v.seen = false, false, false, false, began
}

// Guard reads the configuration to prove whose VM it is now.
func (v *View) Guard(ctx context.Context) error {
	v.Forget()
	_, err := v.Fresh(ctx)
	return err
}

// Moment is how long a reading proves whose VM it is. The machine may sleep between the answer and the next request.
const Moment = 10 * time.Second

// LookLife is how long a look permits a request that no digest binds. The request follows at once, but it may wait for
// its turn, for a connection or for another try, and the machine may sleep meanwhile.
const LookLife = 30 * time.Second

// ErrLate says that the look is too old: the machine has slept, or the server was very slow. Nothing was sent.
var ErrLate = errors.New("too much time has passed since the guest was looked at, and another may have its id now; " +
	"nothing was sent")

// Soon returns a context in which a request is sent only while a look from since permits it. Tasks are not awaited in
// it.
func Soon(ctx context.Context, clock pve.Clock, since time.Time) context.Context {
	return oplog.WithCheck(ctx, func() error {
		if pve.Elapsed(since, clock.Now()) > LookLife {
			return ErrLate
		}
		return nil
	})
}

// unlessLate tries a look with the request that follows it once more if the request came too late: nothing was sent
// then, and the server may only be busy.
func unlessLate(ctx context.Context, try func(context.Context) error) error {
	const tries = 5
	for n := 1; ; n++ {
		if err := try(ctx); n == tries || !errors.Is(err, ErrLate) {
			return err
		}
	}
}

// SoonAfter returns a function that looks, and sends the request that the look permits while it does.
func SoonAfter(clock pve.Clock, look, send func(context.Context) error) func(context.Context) error {
	once := func(ctx context.Context) error {
		since := clock.Now()
		if err := look(ctx); err != nil {
			return err
		}
		return send(Soon(ctx, clock, since))
	}
	return func(ctx context.Context) error { return unlessLate(ctx, once) }
}

// ErrSlow says that no reading of the configuration was recent enough to prove whose VM it is. Nothing was sent.
var ErrSlow = errors.New("each reading of the VM's configuration took longer than ten seconds: another VM may have " +
	"its id by the time the request arrives, so it was not sent. Check the load of the server and of the network")

// GuardNow is View.Guard, followed by what else is to happen before the request, and reads again if that took so long
// that the machine must have slept. It gives up with ErrSlow.
func GuardNow(ctx context.Context, v *View, then ...func(context.Context) error) error {
	const looks = 5
	for range looks {
		err := v.Guard(ctx)
		for i := 0; err == nil && i < len(then); i++ {
			err = then[i](ctx)
		}
		if err != nil || v.SeenWithin(Moment) {
			return err
		}
	}
	return ErrSlow
}

// GuardUnlessSeen is GuardNow, unless the last proof is a recent one.
func GuardUnlessSeen(ctx context.Context, v *View, then ...func(context.Context) error) error {
	if v.SeenWithin(Moment) {
		return nil
	}
	return GuardNow(ctx, v, then...)
}

// Known returns the configuration without a request if the effect of our own writes is certain. Callers that need a
// digest use Fresh.
func (v *View) Known(ctx context.Context) (pve.PendingConfig, error) {
	if v.known {
		return v.config, nil
	}
	return v.Fresh(ctx)
}

// IsKnown reports whether Known would return without a request.
func (v *View) IsKnown() bool { return v.known || !v.stale }

// Expect notes that the VM now has this configuration, digest aside: it is the certain result of our last request.
func (v *View) Expect(config pve.PendingConfig) { v.config, v.known = config, true }

// Spec decodes what Fresh returns: the VM as it runs, and as it will be after its next restart.
func (v *View) Spec(ctx context.Context) (current, merged vm.Spec, config pve.PendingConfig, err error) {
	config, err = v.Fresh(ctx)
	if err == nil {
		current, merged = vm.Decode(config.Current()), vm.Decode(config.Merged())
	}
	return current, merged, config, err
}

// SeenWithin reports whether the VM was proved ours less than a while ago, and no unbound request was sent since. A
// clock that was set back proves nothing.
func (v *View) SeenWithin(while time.Duration) bool {
	now := v.jobs.Clock.Now()
	return !now.Round(0).Before(v.seen.Round(0)) && pve.Elapsed(v.seen, now) < while
}

// NoteSeen notes a proof that the VM is ours, such as a request that PVE bound to its digest, or that the last proof is
// spent.
func (v *View) NoteSeen(ours bool) {
	v.seen = time.Time{}
	if ours {
		v.seen = v.jobs.Clock.Now()
	}
}

// Status asks for the guest's power status.
func (v *View) Status(ctx context.Context) (pve.GuestStatus, error) {
	now, err := v.jobs.API.QEMU(v.node, v.VMID).Status(ctx)
	v.LastStatus, v.Settled = now.Status, err == nil
	return now, err
}

// Forget makes the next look read the configuration, whatever is known.
func (v *View) Forget() { v.stale, v.known, v.proved = true, false, false }

// Moved notes the node that the VM is on by now.
func (v *View) Moved(node string) {
	v.node = node
	v.Forget()
}

// Follow finds the node that the VM is on after a migration failed or a third party moved it. It looks on these nodes
// first.
func (v *View) Follow(ctx context.Context, ref Ref, nodes ...string) Presence {
	result := Unknown
	for _, node := range nodes {
		ref.Node = node
		at, seen, err := v.guests.Find(ctx, ref, nil)
		if err == nil {
			v.Moved(at.Node)
			return Found
		}
		if seen == Gone {
			v.Gone = true
			return seen
		}
		result = seen
	}
	return result
}

// unlocked reads the configuration as soon as no lock is on the VM.
func (v *View) unlocked(ctx context.Context) (pve.PendingConfig, error) {
	ref := Ref{VMID: v.VMID, Node: v.node}
	at, err := v.guests.findUnlocked(ctx, ref, func(node string, config map[string]string) error {
		return v.claim.Check(node, config, false)
	})
	if err == nil && at.Node != v.node {
		err = &MovedError{VMID: v.VMID, From: v.node, To: at.Node}
	}
	return at.Config, err
}

// MovedError says that a VM is on another node than a request is for.
type MovedError struct {
	VMID     int
	From, To string
}

// Error names both nodes.
func (m *MovedError) Error() string {
	return fmt.Sprintf("VM %d has moved from node %s to node %s", m.VMID, m.From, m.To)
}

// IsElsewhere reports whether a request has failed because the node has no configuration of the VM.
func IsElsewhere(err error) bool {
	var moved *MovedError
	return pve.IsKind(err, pve.NotFound) || errors.As(err, &moved)
}
