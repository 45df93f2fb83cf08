package contention_test

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/world"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// adversaryShare is how many of the cells `make test` plays: one in so many.
const adversaryShare = 450

// adversaryBench is a cluster on which one identity does one thing, again and again, while third parties come between.
type adversaryBench struct {
	w     *rig.World
	s     *terraformtest.Session
	root  *ssh.Shell // the operator's access: root on every node
	id    rig.Identity
	scene scene
	base  []byte
	state terraformtest.SavedState
	plan  *terraformtest.Plan
	world *world.World // that was drawn; nil: the default one
	draw  uint64       // of the moments at which its background actors act
	ops   int          // of the undisturbed run
	// actors are the orders of a scene that sets them itself, at the moment that they are meant for.
	actors []thirdparty.Order
	waited time.Duration // of the last case, on the cluster's clock
	// was and kept are what the VM at hand has before the change, and after the change alone.
	was, kept own
	renewed   *terraformtest.Plan // of a scene that plans
}

// cell is one case: an act of a third party, and the request that it precedes.
type cell struct {
	at           spot
	intervention intervention
}

// spot is a request, identified by its number among equal requests: polls make absolute numbers differ from run to run.
type spot struct {
	op   string // "PUT /nodes/{node}/qemu/{vmid}/config"
	nth  int
	vmid int
}

func (s spot) String() string { return fmt.Sprintf("before %s #%d", s.op, s.nth) }

func newAdversaryBench(t *testing.T, id rig.Identity, sc scene) *adversaryBench {
	t.Helper()
	b, err := openAdversaryBench(t, id, sc, nil)
	if err != nil {
		t.Fatalf("%s: %v", sc.name, err)
	}
	return b
}

// openAdversaryBench is newAdversaryBench in a world that was drawn. An error says that the scene cannot begin there.
func openAdversaryBench(t *testing.T, id rig.Identity, sc scene, drawn *world.World) (*adversaryBench, error) {
	t.Helper()
	var o pvesim.Options
	if drawn != nil {
		o.World = drawn.Cluster()
	} else {
		drawn = &world.World{}
	}
	b := &adversaryBench{w: rig.NewWorld(t, o), id: id, scene: sc, world: drawn}
	b.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot, state.PowerRollback, state.PowerSuspend)
	b.root = engine.Operator(t, b.w.Sim)
	b.w.Change(engine.AddThirdParties)
	b.s = b.w.Session(t, id, sc.before)
	b.s.TrustPlans = true
	if err := b.s.Run(t.Context()); err != nil {
		return nil, fmt.Errorf("apply the previous configuration: %w", err)
	}
	b.w.Change(func(world *state.World) {
		if world.Guests[engine.ChangedVMID] != nil {
			engine.Label(world)
		}
		if sc.prepare != nil {
			sc.prepare(world)
		}
		drawn.Arrange(world, sc.vmid)
	})
	b.w.Sim.Advance(30 * time.Second) // listings have caught up, HA has settled
	if drawn.Imported() && sc.before != "" && !sc.isDisk() {
		b.s.Forget("proxmox_vm.x")
		if err := b.s.Import(t.Context(), "proxmox_vm.x", fmt.Sprintf("pve1/%d", sc.vmid)); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	if err := b.s.Refresh(t.Context()); err != nil {
		return nil, fmt.Errorf("refresh: %w", err)
	}
	b.state = b.s.SaveState()
	b.w.Reconfigure(t, b.s, id, sc.after)
	pl, err := b.s.Plan(t.Context())
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	b.plan = pl
	b.w.Change(func(world *state.World) { drawn.Replace(world, sc.vmid) })
	b.base = b.w.Sim.Snapshot()
	b.w.Sim.SetTaskTime(cmp.Or(sc.taskTime, 3*time.Second)) // so that there is something between the beginning and the end of a task
	return b, nil
}

// reset goes back to the world before the change, in which all but the VM at hand is third parties'.
func (b *adversaryBench) reset(t *testing.T) {
	t.Helper()
	b.renewed = nil
	b.w.Sim.SetFaults(nil)
	b.w.Sim.SetThirdParties(nil)
	if err := b.w.Sim.Load(b.base); err != nil {
		t.Fatal(err)
	}
	b.s.RestoreState(b.state)
	b.w.Sim.Advance(time.Minute) // the tasks of the case before are none of this one's
	b.markThirdParties()
	b.w.ResetCalls()
	b.w.Sim.ResetPowerOffs()
}

// markThirdParties marks all but the VM at hand, and of its volumes those that another party has made under its id.
func (b *adversaryBench) markThirdParties() {
	b.w.Sim.MarkThirdParties(b.ours()...)
	b.w.Change(func(w *state.World) { b.world.Mark(w) })
}

// ours is the VM at hand, if it is there before.
func (b *adversaryBench) ours() []int {
	if b.scene.before == "" || b.world.Replaced() {
		return nil
	}
	return []int{b.scene.vmid}
}

// inState are the addresses in state, but for that of a disk which the VM at hand only has.
func (b *adversaryBench) inState() []string {
	return slices.DeleteFunc(b.s.Addresses(), func(address string) bool { return address == rig.DiskAddress && !b.scene.isDisk() })
}

// spots lists where a third party may act: before every request of a run without third parties, but for logins and the polls of a
// task after the first.
func (b *adversaryBench) spots(t *testing.T) []spot {
	t.Helper()
	b.reset(t)
	b.was = b.ownNow()
	b.w.Sim.SetFaults(b.scene.faults)
	err := b.scene.do(t.Context(), b)
	b.kept = b.ownNow()
	b.ops = len(b.w.Sim.Ops())
	if expected := len(b.world.Axes) == 0; expected && (err != nil) != (b.scene.fails || len(b.scene.faults) > 0) {
		t.Fatalf("%s, %s: without a third party: %v", b.id, b.scene.name, err)
	}
	var list []spot
	nth := map[string]int{}
	polled := false
	for _, op := range b.w.Sim.Ops() {
		name := engine.OpName(op)
		nth[name]++
		poll := strings.HasPrefix(op.Path, "/nodes/{node}/tasks/{upid}")
		if op.Path != "/access/ticket" && (!poll || !polled) {
			list = append(list, spot{name, nth[name], op.VMID})
		}
		polled = poll
	}
	return list
}

// cells are the cases to play: all of them, or a share that depends on the seed and on their content, not on their order.
func (b *adversaryBench) cells(t *testing.T, seed string, part uint32) []cell {
	t.Helper()
	var list []cell
	for _, at := range b.spots(t) {
		if b.id != rig.Identities()[0] && len(b.scene.faults) == 0 && strings.HasPrefix(at.op, http.MethodGet) {
			continue // the privileges matter to writes and to an undo; one identity tries the rest
		}
		for _, d := range interventions() {
			h := fnv.New32a()
			_, _ = fmt.Fprint(h, seed, b.id, b.scene.name, at, d.name) // never fails
			if !share.PicksCase(fmt.Sprint(d.name, " ", at)) {
				continue
			}
			if h.Sum32()%part == 0 {
				list = append(list, cell{at, d})
			}
		}
	}
	return list
}

// play is one case. It is not effective if PVE would have refused the third party's act, or if the moment never came.
func (b *adversaryBench) play(t *testing.T, c cell) (*inspection, bool) {
	t.Helper()
	b.reset(t)
	b.w.Sim.SetFaults(slices.Concat(b.scene.faults, b.world.Faults(b.draw)))
	orders := c.intervention.orders(b.scene.vmid, c.at)
	b.w.Sim.SetThirdParties(slices.Concat(orders, b.world.Orders(b.draw, b.scene.vmid, b.ops)))
	a := &inspection{b: b, cell: c, theirs: b.w.Sim.ThirdParties()}
	ctx, cancel := b.bounded(t.Context())
	defer cancel()
	a.err = b.scene.do(ctx, b)
	b.w.Sim.SetFaults(nil)
	a.acts = slices.DeleteFunc(b.w.Sim.Reports(), func(d thirdparty.Report) bool { return d.Ends })
	a.reports, a.ops = slices.DeleteFunc(slices.Clone(a.acts), func(d thirdparty.Report) bool { return !slices.Contains(orders, d.Order) }), b.w.Sim.Ops()
	last := a.reports[max(0, len(a.reports)-2):]
	if len(last) == 0 || !last[len(last)-1].Done || c.intervention.all && (len(last) < 2 || !last[0].Done) {
		return a, false
	}
	if len(b.world.Axes) > 0 {
		a.lawHolds(t)
	} else {
		a.look(t)
	}
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

// TestAdversary lets a third party do one thing between any two requests of everything that the provider does, for every identity.
// Whatever it does, nothing of theirs is changed, nothing of ours is left unnamed, every sentence is true, at once and ten minutes
// later, and no command that was printed does them harm.
//
// ADVERSARY_SEED draws other cells.
func TestAdversary(t *testing.T) {
	t.Parallel()
	started, seed, part := time.Now(), os.Getenv("ADVERSARY_SEED"), share.Of(adversaryShare)
	if seed == "" {
		seed = "1"
	}
	counts := &adversaryCounts{cells: map[string]int{}}
	t.Run("scenes", func(t *testing.T) {
		for n, sc := range scenes() {
			for m, id := range rig.Identities() {
				if sc.plans && part >= adversaryShare && drawnOf(0, sc.name)%8 != 0 {
					continue
				}
				whole := part < adversaryShare || n%2 == 0 && n/2%len(rig.Identities()) == m || sc.ticket || sc.ssh // else one identity a scene: the set-up costs most
				if sc.ticket && id != rig.RootTicket || sc.ssh && id != rig.TokenSSH || !whole || !share.Picks(sc.name+", "+string(id)) {
					continue
				}
				t.Run(sc.name+", "+string(id), func(t *testing.T) {
					t.Parallel()
					b := newAdversaryBench(t, id, sc)
					for _, c := range b.cells(t, seed, uint32(part)) {
						a, effective := b.play(t, c)
						counts.add(sc.name, string(id), c.intervention.name, effective)
						counts.compared(a.claimed)
						if len(a.wrong) > 0 {
							t.Errorf("%s, %s: %s %s: %s\n%s", sc.name, id, c.intervention.name, c.at, strings.Join(a.wrong, "\n"), a.writes()+a.said())
						}
					}
				})
			}
		}
	})
	counts.print(t)
	t.Logf("seed %s, one cell in %d: %d effective of %d, %s", seed, part, counts.effective, counts.played,
		time.Since(started).Round(time.Second))
	if part != 1 || share.IsPicked() {
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

// intervention is one act of a third party, or several at the same moment, after others at the very beginning.
type intervention struct {
	name  string
	first []thirdparty.Order // before the first request
	then  []thirdparty.Order // at the spot
	all   bool               // it is nothing unless all of them are done
}

func (d intervention) orders(vmid int, at spot) []thirdparty.Order {
	method, path, _ := strings.Cut(at.op, " ")
	var list []thirdparty.Order
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

// interventions are the acts of package thirdparty, and combinations of acts that show more than each alone.
func interventions() []intervention {
	order, prepared := thirdparty.Orders, thirdparty.Preparations()
	var list []intervention
	for _, a := range thirdparty.Acts() {
		list = append(list, intervention{name: string(a), first: prepared[a], then: order(a)})
	}
	short := thirdparty.Order{ForMS: 20000}
	for _, a := range []thirdparty.Act{
		thirdparty.Lock, thirdparty.MakeID, thirdparty.StorageOffline, thirdparty.NodeOffline, thirdparty.NodeCrash, thirdparty.Fill,
	} {
		o := short
		o.Act = a
		list = append(list, intervention{name: string(a) + " for 20 s", then: []thirdparty.Order{o}})
	}
	for _, a := range []thirdparty.Act{thirdparty.Plant, thirdparty.GiveDisk} { // where a move or a migration frees names
		list = append(list, intervention{name: string(a) + " on local-zfs", then: []thirdparty.Order{{Act: a, Storage: "local-zfs"}}})
	}
	for _, acts := range [][]thirdparty.Act{
		{thirdparty.Delete, thirdparty.TakeID}, {thirdparty.Delete, thirdparty.MakeID}, {thirdparty.Delete, thirdparty.Plant},
		{thirdparty.Unlock, thirdparty.Delete}, {thirdparty.Unlock, thirdparty.Start}, {thirdparty.Attach, thirdparty.Detach},
		{thirdparty.Snapshot, thirdparty.Attach}, {thirdparty.Stop, thirdparty.Lock}, {thirdparty.Rename, thirdparty.TakeName},
	} {
		var names []string
		for _, a := range acts {
			names = append(names, string(a))
		}
		list = append(list, intervention{name: strings.Join(names, " and "), then: order(acts...)})
	}
	return append(list, intervention{name: "backup, delete and restore", first: order(thirdparty.Backup), then: order(thirdparty.Delete, thirdparty.Restore), all: true})
}

// identityOf is the user whose tasks are the provider's.
func identityOf(w *rig.World, id rig.Identity) string {
	c := w.Sim.Credentials()
	switch id {
	case rig.RootTicket:
		return c.RootUsername
	case rig.TokenNoAllocate:
		name, _, _ := strings.Cut(c.TokenNoAllocate, "=")
		return name
	}
	name, _, _ := strings.Cut(c.Token, "=")
	return name
}
