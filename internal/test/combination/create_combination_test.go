package combination_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// TestCreateCombinations draws VMs that need several things at once: a source, another node, disks that are added, taken over, copied, grown
// and moved, drives, firewall, HA, a template. It makes each undisturbed, and then with a request that fails, an interrupt, a kill of the
// provider or an act of a third party at a moment that is drawn. The VM is whole and in state, or nothing is left, or each leftover is
// named; nothing of a third party's has changed; and the next apply ends where the undisturbed one did.
//
// CREATION=17 plays the VM of this seed, CREATION=17-40 those of several.
func TestCreateCombinations(t *testing.T) {
	t.Parallel()
	sum := playSeeds(t, "creates", "CREATION", share.Count(8, 2000), playCreation)
	made, refused, failed := sum.counts["made"], sum.counts["refused by the plan"], sum.counts["failed undisturbed"]
	if t.Logf("%d made, %d refused by the plan, %d failed undisturbed", made, refused, failed); made < refused+10*failed {
		t.Errorf("of the drawn VMs %d were made, the plan refused %d, and %d failed undisturbed", made, refused, failed)
	}
}

// line is the provider's connection to the cluster, and its clock. A kill cuts the one and stops the other.
type line struct {
	sim *pvesim.Sim
	pve.Clock

	mu   sync.Mutex
	dead bool
	open []net.Conn
	died time.Time
}

var errKilled = errors.New("the provider was killed")

func (l *line) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return
	}
	l.dead, l.died = true, l.Clock.Now()
	for _, conn := range l.open {
		_ = conn.Close()
	}
}

// revive is the start of the next provider.
func (l *line) revive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead, l.open = false, nil
}

func (l *line) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Now is the cluster's time, or when it died.
func (l *line) Now() time.Time {
	if l.isDead() {
		return l.died
	}
	return l.Clock.Now()
}

// Sleep waits, unless it is dead.
func (l *line) Sleep(ctx context.Context, d time.Duration) error {
	if l.isDead() {
		return errKilled
	}
	err := l.Clock.Sleep(ctx, d)
	if l.isDead() {
		return errKilled
	}
	return err
}

func (l *line) through(dial provider.Dialer) provider.Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.isDead() {
			return nil, errKilled
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.dead {
			_ = conn.Close()
			return nil, errKilled
		}
		l.open = append(l.open, conn)
		return conn, nil
	}
}

// creationBench is a cluster, and a VM to be made on it.
type creationBench struct {
	*creation
	t      *testing.T
	w      *rig.World
	s      *terraformtest.Session
	root   *ssh.Shell
	line   *line
	base   []byte
	empty  terraformtest.SavedState
	plan   *terraformtest.Plan
	theirs []byte // the objects of third parties
	acts   int    // of theirs that were looked at
	want   string // the world after the undisturbed create
	id     int    // the VMID that it got then
	said   string // since the beginning
	// adopted: it was imported or untainted, as an error has advised.
	adopted bool
}

func newCreationBench(t *testing.T, c *creation) *creationBench {
	b := &creationBench{creation: c, t: t}
	b.w = rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}, TaskTime: time.Duration(c.seconds) * time.Second})
	b.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot, state.PowerDied, state.PowerNode, state.PowerRollback, state.PowerReset, state.PowerSuspend)
	b.w.Adapt = func(o *provider.Options) {
		b.line = &line{sim: b.w.Sim, Clock: o.Clock}
		o.DialTLSContext, o.SSHDial, o.Clock = b.line.through(o.DialTLSContext), b.line.through(o.SSHDial), b.line
	}
	b.w.Change(func(w *state.World) {
		// A restore's rescan takes each disk on a share for an unused one by its other name (qemu-server QemuServer.pm update_disk_config
		// compares paths), so that the create fails.
		furnish(w, c.from != 0)
		for _, v := range append(slices.Clone(c.kept), c.doomed...) {
			volume := *v
			w.Put(&volume)
		}
	})
	b.s = b.w.Session(t, c.who, c.configuration())
	b.s.TrustPlans = true
	b.root = engine.Operator(t, b.w.Sim)
	return b
}

// playCreation makes one VM, undisturbed and disturbed.
func playCreation(t *testing.T, seed uint64, sum *tally) {
	b := newCreationBench(t, drawCreation(rand.New(rand.NewPCG(seed, 2))))
	b.base, b.empty = b.w.Sim.Snapshot(), b.s.SaveState()
	pl, err := b.s.Plan(t.Context())
	if err != nil {
		sum.add("refused by the plan")
		t.Logf("refused: %v\n%s", err, b.creation)
		return
	}
	b.plan = pl
	ops := b.undisturbed(sum)
	if ops == nil {
		return
	}
	for n := range 10 {
		r := rand.New(rand.NewPCG(seed, uint64(200+n)))
		d := b.drawDisturbance(r, ops)
		kind, _, _ := strings.Cut(d.kind, ", ")
		sum.add(kind)
		b.disturbed(d, r, sum)
	}
}

// again goes back to the beginning, with the plan that was made.
func (b *creationBench) again() {
	b.w.Sim.SetFaults(nil)
	b.w.Sim.SetThirdParties(nil)
	rig.Must(b.t, b.w.Sim.Load(b.base))
	b.s.RestoreState(b.empty)
	b.line.revive()
	b.w.Sim.Advance(10 * time.Minute)
	b.w.Change(func(w *state.World) { clear(w.Tasks) })
	b.w.Sim.MarkThirdParties(400)
	b.theirs, b.acts = b.w.Sim.ThirdParties(), 0
	b.w.ResetCalls()
	b.adopted = false
	b.said = b.plan.Diagnostics.String() + b.plan.String()
}

// apply applies a plan, and notes what is said.
func (b *creationBench) apply(ctx context.Context, pl *terraformtest.Plan) error {
	err := b.s.Apply(ctx, pl)
	b.said += b.s.Diagnostics().String()
	return err
}

// undisturbed makes the VM, holds it to the laws, and lists its requests; nil if it is not made.
func (b *creationBench) undisturbed(sum *tally) []pvesim.Op {
	b.again()
	err := b.apply(b.t.Context(), b.plan)
	ops := b.w.Sim.Ops()
	b.lawsHold("undisturbed", err)
	if err != nil {
		sum.add("failed undisturbed")
		b.t.Logf("undisturbed: %v\n%s", err, b.creation)
		return nil
	}
	sum.add("made")
	if pl, err := b.s.Plan(b.t.Context()); err != nil || !pl.Empty() {
		b.wrong("undisturbed", fmt.Sprintf("the next plan is not empty: %v\n%v", err, pl), nil)
	}
	b.want = b.world()
	if guests, _ := b.ours(); len(guests) == 1 {
		b.id = guests[0].VMID
	}
	return ops
}

// drawDisturbance draws what comes between, by the number of the request among its like.
func (b *creationBench) drawDisturbance(r *rand.Rand, ops []pvesim.Op) disturbance {
	var writes []pvesim.Op
	for _, op := range ops {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			writes = append(writes, op)
		}
	}
	d := disturbance{at: ops[r.IntN(len(ops))], on: b.id}
	if write := writes[r.IntN(len(writes))]; r.IntN(3) > 0 {
		d.at = write
	}
	phases := []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial, fault.FirewallLock,
		fault.NoQuorum}
	switch r.IntN(7) {
	case 0, 1:
		d.at, d.phase = writes[r.IntN(len(writes))], phases[r.IntN(len(phases))]
		if d.phase == fault.Before {
			d.status = []int{0, 400, 403, 596}[r.IntN(4)]
		}
		d.kind = "fault " + string(d.phase)
	case 2:
		d.kind, d.cancel = "interrupt", true
	case 3, 4:
		d.kind, d.kill = "kill", true
	default:
		acts := []thirdparty.Act{thirdparty.TakeID, thirdparty.MakeID, thirdparty.TakeName, thirdparty.Attach, thirdparty.AttachContainer, thirdparty.Plant, thirdparty.GiveDisk,
			thirdparty.Lock, thirdparty.Snapshot, thirdparty.Backup, thirdparty.Clone, thirdparty.Rename, thirdparty.Describe, thirdparty.Configure, thirdparty.Migrate,
			thirdparty.Resize, thirdparty.Detach, thirdparty.Start, thirdparty.Stop, thirdparty.Delete, thirdparty.AddHA, thirdparty.AddPool, thirdparty.Fill,
			thirdparty.StorageOffline, thirdparty.NodeOffline, thirdparty.Rescan, thirdparty.Imitate, thirdparty.RestoreHis}
		d.act = acts[r.IntN(len(acts))]
		onSource := []thirdparty.Act{thirdparty.Lock, thirdparty.Snapshot, thirdparty.Configure, thirdparty.Migrate, thirdparty.Resize, thirdparty.Delete, thirdparty.Detach, thirdparty.Rename}
		if b.from > 0 && r.IntN(5) == 0 {
			d.on, d.act = b.from, onSource[r.IntN(len(onSource))]
		}
		d.kind = "third party " + string(d.act)
		if r.IntN(2) == 0 {
			at := writes[r.IntN(len(writes))]
			d.failing = []fault.Rule{{Match: nth(ops, at), Phase: phases[r.IntN(len(phases))], Status: http.StatusBadRequest}}
			d.kind += ", and a fault"
		}
	}
	d.match = nth(ops, d.at)
	return d
}

// nth is a request by its number among its like: requests that are sent at the same time come in any order.
func nth(ops []pvesim.Op, at pvesim.Op) fault.Match {
	m := fault.Match{Method: at.Method, Path: at.Path}
	for _, op := range ops {
		if op.Method == at.Method && op.Path == at.Path && op.Seq <= at.Seq {
			m.Nth++
		}
	}
	return m
}

// disturbed makes the VM with a disturbance, and then plans and applies again.
func (b *creationBench) disturbed(d disturbance, r *rand.Rand, sum *tally) {
	b.again()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	end := cancel
	if d.kill {
		end = b.line.kill
	}
	d.arm(b.w, d.on, end)
	err := b.apply(ctx, b.plan)
	b.w.Change(func(world *state.World) { world.Served = nil })
	b.w.Sim.SetFaults(nil)
	if d.kill && b.line.isDead() {
		b.bury()
	} else {
		b.lawsHold(d.String(), err)
	}
	b.w.Sim.Advance([]time.Duration{10 * time.Second, time.Minute, 5 * time.Minute}[r.IntN(3)])
	if d.act != "" {
		b.ends(d, err, sum)
		return
	}
	b.converges(d, err, sum)
}
