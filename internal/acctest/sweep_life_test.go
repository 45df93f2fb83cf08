package acctest_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/host"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// turn is a change of a VM that is there already, or its end: what is swept after the creates.
type turn struct {
	name string
	// before is the configuration that was applied; after the one that is swept, "" for a destroy.
	before, after string
	// prepare is what happened to the VM in between.
	prepare func(*state.World)
	// ticket marks what the documented role is not enough for.
	ticket bool
	// ssh marks what is about commands on the node.
	ssh bool
	// offs are the power-offs that the change asks for, by kind and in any order; no fault may make one more of them.
	offs []state.PowerKind
}

// stranding is a fault that leaves an operator something to do: PVE's own worker has died, or could not clear up.
type stranding struct {
	op       string // suffix of the operation that was struck
	phases   []fault.Phase
	commands []string // what the diagnostics may tell the operator to run: "qm unlock"
	reason   string
}

// lifeFault is one way for one operation to go wrong. The operation is told by its number among its likes, since polls and
// waits make absolute numbers differ from run to run.
type lifeFault struct {
	op     string // "PUT /nodes/{node}/qemu/{vmid}/config"
	nth    int
	phase  fault.Phase
	status int // of a refusal
}

func (f lifeFault) rule() fault.Rule {
	method, path, _ := strings.Cut(f.op, " ")
	return fault.Rule{Match: fault.Match{Method: method, Path: path, Nth: f.nth}, Phase: f.phase, Status: f.status}
}

func (f lifeFault) String() string {
	text := fmt.Sprintf("%s of %s #%d", f.phase, f.op, f.nth)
	if f.status != 0 {
		text += fmt.Sprintf(" with %d", f.status)
	}
	return text
}

// The outcomes of a change under a fault.
const (
	unhurt    outcome = "done at once"     // the apply succeeded all the same
	converged outcome = "done by the next" // it failed, and the next plan and apply did the rest
	assisted  outcome = "with a hand"      // in between an operator had to run a command that the error names
)

// lifeBench is a cluster, and a VM on it in the state from which a change is swept.
type lifeBench struct {
	w     *acctest.World
	s     *drive.Session
	root  *host.Shell // what an operator has: root on every node
	id    acctest.Identity
	turn  turn
	base  []byte
	state drive.SavedState
	plan  *drive.Plan // of the change

	want lifeWorld        // after the change without a fault
	done drive.SavedState // the state that goes with it
}

// newLifeBench applies what was before, once.
func newLifeBench(t *testing.T, id acctest.Identity, l turn) *lifeBench {
	t.Helper()
	b := &lifeBench{w: acctest.NewWorld(t), id: id, turn: l}
	b.root = operator(t, b.w.Sim)
	b.w.Change(strangersBeside)
	b.s = b.w.Session(t, id, l.before)
	if err := b.s.Converge(t.Context()); err != nil {
		t.Fatalf("%s: what was before: %v", l.name, err)
	}
	b.w.Change(func(world *state.World) {
		label(world)
		if l.prepare != nil {
			l.prepare(world)
		}
	})
	b.w.Sim.Advance(30 * time.Second) // listings have caught up, HA has settled
	if err := b.s.Refresh(t.Context()); err != nil {
		t.Fatalf("%s: refresh: %v", l.name, err)
	}
	b.base, b.state = b.w.Sim.Snapshot(), b.s.SaveState()
	b.w.Reconfigure(t, b.s, id, l.after)
	b.s.TrustPlans = true
	pl, err := b.s.Plan(t.Context())
	if err != nil {
		t.Fatalf("%s: plan: %v", l.name, err)
	}
	b.plan = pl
	return b
}

// reset goes back to the VM as it was before the change.
func (b *lifeBench) reset(t *testing.T) {
	t.Helper()
	b.w.Sim.SetFaults(nil)
	if err := b.w.Sim.Load(b.base); err != nil {
		t.Fatal(err)
	}
	b.s.RestoreState(b.state)
	b.w.Sim.Advance(time.Minute) // the tasks of the case before are none of this one's
	b.w.ResetCalls()
	b.w.Sim.ResetPowerOffs()
}

// clean makes the change without a fault, and counts what it asks of the server.
func (b *lifeBench) clean(t *testing.T) []lifeFault {
	t.Helper()
	b.reset(t)
	if err := b.s.Apply(t.Context(), b.plan); err != nil {
		t.Fatalf("%s, %s: without a fault: %v", b.id, b.turn.name, err)
	}
	ops := b.w.Sim.Ops()
	b.want, b.done = b.canonical(t), b.s.SaveState()
	if pl, err := b.s.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Fatalf("%s, %s: without a fault: the plan afterwards: %v\n%v", b.id, b.turn.name, err, pl)
	}
	if text := b.tooDark(true); text != "" {
		t.Fatalf("%s, %s: without a fault: %s", b.id, b.turn.name, text)
	}
	return b.faults(ops)
}

// faults lists the ways in which operations can go wrong. What a read answers is the same for everybody: one identity tries.
func (b *lifeBench) faults(ops []pvesim.Op) []lifeFault {
	var list []lifeFault
	nth := map[string]int{}
	for _, op := range ops {
		name := opName(op)
		nth[name]++
		if op.Path == "/access/ticket" || strings.HasPrefix(op.Path, "/nodes/{node}/tasks/{upid}") && nth[name] > 1 {
			continue // a login is none of the change's; one poll is like the other
		}
		if op.Method == http.MethodGet {
			if b.id == lifeIdentities()[0] {
				list = append(list, lifeFault{op: name, nth: nth[name], phase: fault.Before}, lifeFault{op: name, nth: nth[name], phase: fault.After})
			}
			continue
		}
		list = append(list, lifeFault{op: name, nth: nth[name], phase: fault.Before, status: 596})
		for _, phase := range phases {
			if phase != fault.Rival || b.turn.after == "" { // an update gives up no id
				list = append(list, lifeFault{op: name, nth: nth[name], phase: phase})
			}
		}
	}
	return list
}

// tooDark says what power-offs there were that nobody asked for; "" if none. With exact, all that was asked for must be there.
func (b *lifeBench) tooDark(exact bool) string {
	rest := slices.Clone(b.turn.offs)
	for _, off := range b.w.Sim.PowerOffs() {
		n := slices.Index(rest, off.Kind)
		if n < 0 || off.VMID != lifeVMID {
			return fmt.Sprintf("VM %d was switched off (%s by %s %s), which nobody asked for", off.VMID, off.Kind, off.TaskType, off.User)
		}
		rest = slices.Delete(rest, n, n+1)
	}
	if exact && len(rest) > 0 {
		return fmt.Sprintf("no power-off of the kinds %v", rest)
	}
	return ""
}

// run plays a case. It is not effective when the fault did not fire, or changed nothing.
func (b *lifeBench) run(t *testing.T, f lifeFault) (outcome, bool) {
	t.Helper()
	b.reset(t)
	b.w.Sim.SetFaults([]fault.Rule{f.rule()})
	first := b.s.Apply(t.Context(), b.plan)
	effective := b.w.Sim.FaultsFired() == 1
	b.w.Sim.SetFaults(nil)
	if !effective {
		return "", false
	}
	result, text := b.converge(t, f, first)
	if text == "" {
		text = b.differs(t, f)
	}
	if dark := b.tooDark(false); dark != "" {
		text += "\n" + dark
	}
	if text != "" {
		t.Errorf("%s, %s, %s: %s\nfirst: %v", b.id, b.turn.name, f, text, first)
	}
	return result, true
}

// converge plans and applies again, twice at most.
func (b *lifeBench) converge(t *testing.T, f lifeFault, first error) (result outcome, wrong string) {
	t.Helper()
	result = unhurt
	if first != nil {
		result = converged
		if b.assist(t, f) {
			result = assisted
		}
	}
	for round := 0; !b.isDone(t, f); round++ {
		pl, err := b.s.Plan(t.Context())
		if err == nil && pl.Empty() {
			break
		}
		if err == nil {
			err = b.s.Apply(t.Context(), pl)
		}
		if err != nil && b.assist(t, f) {
			result, err = assisted, nil
		}
		if round == 2 || err != nil {
			return result, fmt.Sprintf("the next apply does not end it: %v\nplan: %v", err, pl)
		}
	}
	return result, ""
}

// isDone tells whether world and state are those of the change without a fault, whose plan was empty.
func (b *lifeBench) isDone(t *testing.T, f lifeFault) bool {
	t.Helper()
	return b.s.SaveState().Equal(b.done) && b.differs(t, f) == ""
}

// remedies are the commands in what was said to the user.
var remedies = regexp.MustCompile("`((?:qm unlock|qm set|pvesm free) [^`]+)`(?: (?:as root )?on node ([a-z0-9]+))?")

// assist does what the diagnostics tell the operator to do, where the table permits that it takes one.
func (b *lifeBench) assist(t *testing.T, f lifeFault) bool {
	t.Helper()
	done := false
	for _, d := range b.s.Diagnostics() {
		for _, m := range remedies.FindAllStringSubmatch(d.Summary+"\n"+d.Detail, -1) {
			words, node := strings.Fields(m[1]), m[2]
			if !permits(f, words[0]+" "+words[1]) {
				t.Errorf("%s, %s, %s: the table does not permit that an operator is to run %q", b.id, b.turn.name, f, m[1])
				continue
			}
			if node == "" {
				b.w.Change(func(world *state.World) { node = world.Guests[lifeVMID].Node })
			}
			if _, err := b.root.Run(t.Context(), node, words...); err != nil {
				t.Errorf("%s, %s, %s: the command %q on node %s failed: %v", b.id, b.turn.name, f, m[1], node, err)
			}
			done = true
		}
	}
	return done
}

func permits(f lifeFault, command string) bool {
	return slices.ContainsFunc(strandings(), func(s stranding) bool {
		return strings.HasSuffix(f.op, s.op) && slices.Contains(s.phases, f.phase) && slices.Contains(s.commands, command)
	})
}

// differs compares the world with the one after the change without a fault.
func (b *lifeBench) differs(t *testing.T, f lifeFault) string {
	t.Helper()
	got := b.canonical(t)
	if f.phase == fault.Rival {
		n := slices.IndexFunc(got.Guests, func(g state.Guest) bool { return g.VMID == lifeVMID })
		if n < 0 || got.Guests[n].Config["name"] != "rival" {
			return "the rival's VM is gone or changed"
		}
		got.Guests = slices.Delete(got.Guests, n, n+1)
		got.Volumes = slices.DeleteFunc(got.Volumes, func(v state.Volume) bool { return v.Data == "the stranger's data" })
	}
	if f.phase == fault.KillTask && strings.HasSuffix(f.op, "/template") {
		got.forgetRenamed()
	}
	if bytes.Equal(b.want.json(), got.json()) {
		return ""
	}
	return "the world is not as without the fault:\n" + strings.Join(acctest.SnapshotDiff(b.want.json(), got.json()), "\n")
}

// TestSweepLife fails every operation of every change and of every destroy in every way: the next plan and apply bring
// about what the configuration says, nothing of the VM is lost, nothing is left over, nobody else is touched.
// SWEEP_ONLY restricts it to the lives whose name contains the text, SWEEP_CASE to such faults.
func TestSweepLife(t *testing.T) {
	t.Parallel()
	started := time.Now()
	type result struct {
		cell string
		o    outcome
	}
	results := make(chan result, 20000)
	t.Run("lives", func(t *testing.T) {
		for _, l := range turns() {
			identities := lifeIdentities()
			if l.ssh {
				identities = []acctest.Identity{acctest.TokenSSH}
			}
			for _, id := range identities {
				if l.ticket && id != acctest.RootTicket || !strings.Contains(l.name, os.Getenv("SWEEP_ONLY")) {
					continue
				}
				t.Run(l.name+", "+string(id), func(t *testing.T) {
					t.Parallel()
					b := newLifeBench(t, id, l)
					taskless := lifeFault{} // the last operation that turned out to have no task
					for _, f := range b.clean(t) {
						dead := f.phase == fault.KillTask || f.phase == fault.Partial
						if !strings.Contains(f.String(), os.Getenv("SWEEP_CASE")) || dead && f.op == taskless.op && f.nth == taskless.nth {
							continue
						}
						o, effective := b.run(t, f)
						if f.phase == fault.Task && !effective {
							taskless = f
						}
						if effective {
							results <- result{fmt.Sprintf("%-34s %s", l.name, f.phase), o}
						}
					}
				})
			}
		}
	})
	close(results)
	counts, total := map[string]map[outcome]int{}, 0
	for r := range results {
		if counts[r.cell] == nil {
			counts[r.cell] = map[outcome]int{}
		}
		counts[r.cell][r.o]++
		total++
	}
	t.Logf("%-46s %18s %18s %18s", "", unhurt, converged, assisted)
	for _, cell := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-46s %18d %18d %18d", cell, counts[cell][unhurt], counts[cell][converged], counts[cell][assisted])
	}
	t.Logf("changes and destroys: %d effective cases, %s", total, time.Since(started).Round(time.Second))
	if total < 1000 && os.Getenv("SWEEP_ONLY") == "" {
		t.Error(errors.New("want at least 1,000 effective cases"))
	}
}

func lifeIdentities() []acctest.Identity {
	return []acctest.Identity{acctest.RootTicket, acctest.TokenNoSSH, acctest.TokenNoAllocate}
}
