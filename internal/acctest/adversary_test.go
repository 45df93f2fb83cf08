package acctest_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/host"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/stranger"
)

// adversaryShare is how many of the cells `make test` plays: one in so many. ADVERSARY=1 plays them all.
const adversaryShare = 24

// adversaryBench is a cluster on which one identity does one thing, again and again, while strangers come between.
type adversaryBench struct {
	w     *acctest.World
	s     *drive.Session
	root  *host.Shell // what an operator has: root on every node
	id    acctest.Identity
	scene scene
	base  []byte
	state drive.SavedState
	plan  *drive.Plan
}

// cell is one case: what a stranger does, and before which request.
type cell struct {
	at   spot
	deed deed
}

// spot is a request, told by its number among its likes: polls make absolute numbers differ from run to run.
type spot struct {
	op   string // "PUT /nodes/{node}/qemu/{vmid}/config"
	nth  int
	vmid int
}

func (s spot) String() string { return fmt.Sprintf("before %s #%d", s.op, s.nth) }

func newAdversaryBench(t *testing.T, id acctest.Identity, sc scene) *adversaryBench {
	t.Helper()
	b := &adversaryBench{w: acctest.NewWorld(t), id: id, scene: sc}
	b.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot, state.PowerRollback, state.PowerSuspend)
	b.root = operator(t, b.w.Sim)
	b.w.Change(strangersBeside)
	b.s = b.w.Session(t, id, sc.before)
	b.s.TrustPlans = true
	if err := b.s.Run(t.Context()); err != nil {
		t.Fatalf("%s: what was before: %v", sc.name, err)
	}
	b.w.Change(func(world *state.World) {
		if world.Guests[lifeVMID] != nil {
			label(world)
		}
		if sc.prepare != nil {
			sc.prepare(world)
		}
	})
	b.w.Sim.Advance(30 * time.Second) // listings have caught up, HA has settled
	if err := b.s.Refresh(t.Context()); err != nil {
		t.Fatalf("%s: refresh: %v", sc.name, err)
	}
	b.base, b.state = b.w.Sim.Snapshot(), b.s.SaveState()
	b.w.Reconfigure(t, b.s, id, sc.after)
	pl, err := b.s.Plan(t.Context())
	if err != nil {
		t.Fatalf("%s: plan: %v", sc.name, err)
	}
	b.plan = pl
	b.w.Sim.SetTaskTime(3 * time.Second) // so that there is something between the beginning and the end of a task
	return b
}

// reset goes back to the world before the change, in which all but the VM at hand is strangers'.
func (b *adversaryBench) reset(t *testing.T) {
	t.Helper()
	b.w.Sim.SetFaults(nil)
	b.w.Sim.SetStrangers(nil)
	if err := b.w.Sim.Load(b.base); err != nil {
		t.Fatal(err)
	}
	b.s.RestoreState(b.state)
	b.w.Sim.Advance(time.Minute) // the tasks of the case before are none of this one's
	b.w.Sim.MarkStrangers(b.ours()...)
	b.w.ResetCalls()
	b.w.Sim.ResetPowerOffs()
}

// ours is the VM at hand, if it is there before.
func (b *adversaryBench) ours() []int {
	if b.scene.before == "" {
		return nil
	}
	return []int{b.scene.vmid}
}

// inState are the addresses in state, but for that of a disk which the VM at hand only has.
func (b *adversaryBench) inState() []string {
	return slices.DeleteFunc(b.s.Addresses(), func(address string) bool { return address == diskAddress && !b.scene.isDisk() })
}

// spots lists where somebody may come between: before every request of a run without strangers, but for logins and the polls of a
// task after the first.
func (b *adversaryBench) spots(t *testing.T) []spot {
	t.Helper()
	b.reset(t)
	b.w.Sim.SetFaults(b.scene.faults)
	err := b.scene.do(t.Context(), b)
	if (err != nil) != (b.scene.fails || len(b.scene.faults) > 0) {
		t.Fatalf("%s, %s: without a stranger: %v", b.id, b.scene.name, err)
	}
	var list []spot
	nth := map[string]int{}
	polled := false
	for _, op := range b.w.Sim.Ops() {
		name := opName(op)
		nth[name]++
		poll := strings.HasPrefix(op.Path, "/nodes/{node}/tasks/{upid}")
		if op.Path != "/access/ticket" && (!poll || !polled) {
			list = append(list, spot{name, nth[name], op.VMID})
		}
		polled = poll
	}
	return list
}

// cells are those that are played: all of them, or a share that depends on the seed and on what they are, not on their order.
func (b *adversaryBench) cells(t *testing.T, seed string, share uint32) []cell {
	t.Helper()
	var list []cell
	for _, at := range b.spots(t) {
		if b.id != acctest.Identities()[0] && len(b.scene.faults) == 0 && strings.HasPrefix(at.op, http.MethodGet) {
			continue // what an identity may do matters where something is done, and in an undo; the rest is tried by one
		}
		for _, d := range deeds() {
			h := fnv.New32a()
			_, _ = fmt.Fprint(h, seed, b.id, b.scene.name, at, d.name) // never fails
			if !isPicked(fmt.Sprint(d.name, " ", at), os.Getenv("ADVERSARY_CASE")) {
				continue
			}
			if h.Sum32()%share == 0 {
				list = append(list, cell{at, d})
			}
		}
	}
	return list
}

// isPicked tells whether a text has one of those that are asked for, "migrate|become", or none is.
func isPicked(text, asked string) bool {
	return slices.ContainsFunc(strings.Split(asked, "|"), func(part string) bool { return strings.Contains(text, part) })
}

// play is one case. It is not effective when PVE would have refused what the stranger wanted, or his moment never came.
func (b *adversaryBench) play(t *testing.T, c cell) (*aftermath, bool) {
	t.Helper()
	b.reset(t)
	b.w.Sim.SetFaults(b.scene.faults)
	b.w.Sim.SetStrangers(c.deed.orders(b.scene.vmid, c.at))
	a := &aftermath{b: b, cell: c, theirs: b.w.Sim.Strangers()}
	ctx, cancel := b.bounded(t.Context())
	defer cancel()
	a.err = b.scene.do(ctx, b)
	b.w.Sim.SetFaults(nil)
	a.deeds, a.ops = slices.DeleteFunc(b.w.Sim.Deeds(), func(d stranger.Deed) bool { return d.Ends }), b.w.Sim.Ops()
	if len(a.deeds) == 0 || !a.deeds[len(a.deeds)-1].Done {
		return a, false
	}
	a.look(t)
	return a, true
}

// patience is how long an apply may take on the cluster's clock. The configurations' own limits are told by the machine's clock, on
// which hardly any time passes.
const patience = 15 * time.Minute

// bounded ends a context when the cluster's clock has moved on by patience.
func (b *adversaryBench) bounded(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	now := b.w.Sim.World().Clock.Now
	end := now().Add(patience)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if now().After(end) {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}

// TestAdversary lets a stranger do one thing between any two requests of everything that the provider does, for every identity.
// Whatever he does, nothing of his is changed, nothing of ours is left unnamed, every sentence is true, at once and ten minutes
// later, and no command that was printed does him harm.
//
// ADVERSARY=1 plays every cell, 6 one in six; ADVERSARY_SEED draws other ones; ADVERSARY_ONLY and ADVERSARY_CASE pick scenes and cases by
// parts of their names ("migrate|become").
func TestAdversary(t *testing.T) {
	t.Parallel()
	started, seed, share := time.Now(), os.Getenv("ADVERSARY_SEED"), uint64(adversaryShare)
	if seed == "" {
		seed = "1"
	}
	if text := os.Getenv("ADVERSARY"); text != "" {
		var err error
		if share, err = strconv.ParseUint(text, 10, 32); err != nil || share == 0 {
			t.Fatalf("ADVERSARY is %q, not how many cells one is to be played of", text)
		}
	} else if os.Getenv("ADVERSARY_ONLY")+os.Getenv("ADVERSARY_CASE") != "" {
		share = 1
	}
	counts := &adversaryCounts{cells: map[string]int{}}
	t.Run("scenes", func(t *testing.T) {
		for n, sc := range scenes() {
			for m, id := range acctest.Identities() {
				whole := share < adversaryShare || n%len(acctest.Identities()) == m || sc.ticket || sc.ssh // else one identity a scene: the set-up costs most
				if sc.ticket && id != acctest.RootTicket || sc.ssh && id != acctest.TokenSSH || !whole || !isPicked(sc.name+", "+string(id), os.Getenv("ADVERSARY_ONLY")) {
					continue
				}
				t.Run(sc.name+", "+string(id), func(t *testing.T) {
					t.Parallel()
					b := newAdversaryBench(t, id, sc)
					for _, c := range b.cells(t, seed, uint32(share)) {
						a, effective := b.play(t, c)
						counts.add(sc.name, string(id), c.deed.name, effective)
						counts.compared(a.claimed)
						if len(a.wrong) > 0 {
							t.Errorf("%s, %s: %s %s: %s\n%s", sc.name, id, c.deed.name, c.at, strings.Join(a.wrong, "\n"), a.writes()+a.said())
						}
					}
				})
			}
		}
	})
	counts.print(t)
	t.Logf("seed %s, one cell in %d: %d effective of %d, %s", seed, share, counts.effective, counts.played,
		time.Since(started).Round(time.Second))
	if os.Getenv("ADVERSARY") != "1" || os.Getenv("ADVERSARY_ONLY")+os.Getenv("ADVERSARY_CASE") != "" {
		return
	}
	if counts.effective < 3000 {
		t.Error("want at least 3,000 effective cases")
	}
	for _, c := range claims() {
		if counts.cells["sentence "+c.says] == 0 && c.seldom == "" {
			t.Errorf("%q: no case says it", c.says)
		}
	}
}

// adversaryCounts adds up the effective cases by scene, act and identity.
type adversaryCounts struct {
	mu                sync.Mutex
	cells             map[string]int
	played, effective int
}

func (n *adversaryCounts) add(scene, id, act string, effective bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.played++
	if !effective {
		return
	}
	n.effective++
	n.cells[fmt.Sprintf("scene    %s", scene)]++
	n.cells[fmt.Sprintf("act      %s", act)]++
	n.cells[fmt.Sprintf("identity %s", id)]++
	n.cells[fmt.Sprintf("cell     %-34s %-34s %s", scene, id, act)]++
}

// compared counts the sentences that were compared with the world.
func (n *adversaryCounts) compared(sentences []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range sentences {
		n.cells["sentence "+s]++
	}
}

// print shows the sums, and with -v every cell.
func (n *adversaryCounts) print(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(n.cells)) {
		t.Logf("%6d %s", n.cells[name], name)
	}
}

// deed is what a stranger does: one act, or several at the same moment, after others at the very beginning.
type deed struct {
	name  string
	first []stranger.Order // before the first request
	then  []stranger.Order // at the spot
}

func (d deed) orders(vmid int, at spot) []stranger.Order {
	method, path, _ := strings.Cut(at.op, " ")
	var list []stranger.Order
	for _, o := range d.first {
		o.VMID, o.Before.Seq = vmid, 1
		list = append(list, o)
	}
	for _, o := range d.then {
		o.VMID = vmid
		o.Before.Method, o.Before.Path, o.Before.Nth = method, path, at.nth
		list = append(list, o)
	}
	return list
}

// deeds are the acts of package stranger, and some that are worth more together.
func deeds() []deed {
	order := func(acts ...stranger.Act) (list []stranger.Order) {
		for _, a := range acts {
			list = append(list, stranger.Order{Act: a})
		}
		return list
	}
	prepared := map[stranger.Act][]stranger.Order{
		stranger.Rollback: order(stranger.Snapshot), stranger.Unlock: order(stranger.StaleLock),
		stranger.Restore: order(stranger.Backup), stranger.RestoreAside: order(stranger.Backup),
	}
	var list []deed
	for _, a := range stranger.Acts() {
		list = append(list, deed{name: string(a), first: prepared[a], then: order(a)})
	}
	short := stranger.Order{ForMS: 20000}
	for _, a := range []stranger.Act{
		stranger.Lock, stranger.MakeID, stranger.StorageOffline, stranger.NodeOffline, stranger.NodeCrash, stranger.Fill,
	} {
		o := short
		o.Act = a
		list = append(list, deed{name: string(a) + " for 20 s", then: []stranger.Order{o}})
	}
	for _, acts := range [][]stranger.Act{
		{stranger.Delete, stranger.TakeID}, {stranger.Delete, stranger.MakeID}, {stranger.Delete, stranger.Plant},
		{stranger.Unlock, stranger.Delete}, {stranger.Unlock, stranger.Start}, {stranger.Attach, stranger.Detach},
		{stranger.Snapshot, stranger.Attach}, {stranger.Stop, stranger.Lock}, {stranger.Rename, stranger.TakeName},
	} {
		var names []string
		for _, a := range acts {
			names = append(names, string(a))
		}
		list = append(list, deed{name: strings.Join(names, " and "), then: order(acts...)})
	}
	return append(list, deed{name: "backup, delete and restore", first: order(stranger.Backup), then: order(stranger.Delete, stranger.Restore)})
}

// identityOf is the user whose tasks are the provider's.
func identityOf(w *acctest.World, id acctest.Identity) string {
	c := w.Sim.Credentials()
	switch id {
	case acctest.RootTicket:
		return c.RootUsername
	case acctest.TokenNoAllocate:
		name, _, _ := strings.Cut(c.TokenNoAllocate, "=")
		return name
	}
	name, _, _ := strings.Cut(c.Token, "=")
	return name
}
