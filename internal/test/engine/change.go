package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// Step is a change of a VM that is there already, or its end: what is swept after the creates.
type Step struct {
	Name string
	// Before is the configuration that was applied; After the one that is swept, "" for a destroy.
	Before, After string
	// Prepare is what happened to the VM in between.
	Prepare func(*state.World)
	// Ticket marks a step that the documented role does not suffice for.
	Ticket bool
	// SSH marks a step that tests commands on the node.
	SSH bool
	// Offs are the power-offs that the change asks for, by kind and in any order; no fault may make one more of them.
	Offs []state.PowerKind
	// Leaves are attributes that leave the configuration. Where Terraform has lost the notes beside the state, an apply names them. One with
	// the configuration Again, or the one of before, takes devices back; ByHand does on the server what becomes of values.
	Leaves []string
	Again  string
	ByHand func(*state.World)
	// Failed takes out of a world what a change may leave that fails once, and Killed what it may leave if it is killed.
	Failed, Killed func(*ChangedWorld)
}

// manualRepair is a fault that leaves an operator something to do: PVE's own worker has died, or could not clear up.
type manualRepair struct {
	op       string // suffix of the operation that failed
	phases   []fault.Phase
	commands []string // the commands that the diagnostics may give to the operator: "qm unlock"
	reason   string
}

// Fault is one way for one operation to go wrong. The operation is identified by its number among equal ones, since polls and
// waits make absolute numbers differ from run to run.
type Fault struct {
	Op     string // "PUT /nodes/{node}/qemu/{vmid}/config"
	Nth    int
	Phase  fault.Phase
	status int // of a refusal
}

func (f Fault) rule() fault.Rule {
	method, path, _ := strings.Cut(f.Op, " ")
	return fault.Rule{Match: fault.Match{Method: method, Path: path, Nth: f.Nth}, Phase: f.Phase, Status: f.status}
}

// String names the operation, its number and the fault.
func (f Fault) String() string {
	text := fmt.Sprintf("%s of %s #%d", f.Phase, f.Op, f.Nth)
	if f.status != 0 {
		text += fmt.Sprintf(" with %d", f.status)
	}
	return text
}

// The outcomes of a change under a fault.
const (
	OutcomeDone      Outcome = "done at once"     // the apply succeeded all the same
	OutcomeConverged Outcome = "done by the next" // it failed, and the next plan and apply did the rest
	OutcomeAssisted  Outcome = "with a hand"      // in between an operator had to run a command that the error names
)

// ChangeBench is a cluster, and a VM on it in the state from which a change is swept.
type ChangeBench struct {
	World   *rig.World
	Session *terraformtest.Session
	Root    *ssh.Shell // the operator's access: root on every node
	ID      rig.Identity
	Turn    Step
	Base    []byte
	State   terraformtest.SavedState
	Plan    *terraformtest.Plan // of the change
	Killed  bool                // instead of failed

	Want ChangedWorld             // after the change without a fault
	Done terraformtest.SavedState // the state that goes with it
}

// Reset goes back to the VM as it was before the change.
func (b *ChangeBench) Reset(t *testing.T) {
	t.Helper()
	b.World.Sim.SetFaults(nil)
	if err := b.World.Sim.Load(b.Base); err != nil {
		t.Fatal(err)
	}
	b.Session.RestoreState(b.State)
	b.World.Sim.Advance(time.Minute) // the tasks of the case before are none of this one's
	b.World.ResetCalls()
	b.World.Sim.ResetPowerOffs()
}

// Clean makes the change without a fault, and counts its requests.
func (b *ChangeBench) Clean(t *testing.T) []Fault {
	t.Helper()
	b.Reset(t)
	if err := b.Session.Apply(t.Context(), b.Plan); err != nil {
		t.Fatalf("%s, %s: without a fault: %v", b.ID, b.Turn.Name, err)
	}
	ops := b.World.Sim.Ops()
	b.Want, b.Done = b.Canonical(t), b.Session.SaveState()
	if pl, err := b.Session.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Fatalf("%s, %s: without a fault: the plan afterwards: %v\n%v", b.ID, b.Turn.Name, err, pl)
	}
	if text := b.PowerOffProblem(true); text != "" {
		t.Fatalf("%s, %s: without a fault: %s", b.ID, b.Turn.Name, text)
	}
	return b.faults(ops)
}

// faults lists the ways in which operations can go wrong. The answer to a read is the same for all identities, so one identity tries it.
func (b *ChangeBench) faults(ops []pvesim.Op) []Fault {
	var list []Fault
	nth := map[string]int{}
	for _, op := range ops {
		name := OpName(op)
		nth[name]++
		if op.Path == "/access/ticket" || strings.HasPrefix(op.Path, "/nodes/{node}/tasks/{upid}") && nth[name] > 1 {
			continue // a login is none of the change's; one poll is like the other
		}
		if op.Method == http.MethodGet {
			if b.ID == ChangeIdentities()[0] {
				list = append(list, Fault{Op: name, Nth: nth[name], Phase: fault.Before}, Fault{Op: name, Nth: nth[name], Phase: fault.After})
			}
			continue
		}
		list = append(list, Fault{Op: name, Nth: nth[name], Phase: fault.Before, status: 596})
		for _, phase := range FaultPhases {
			if phase != fault.Rival || b.Turn.After == "" { // an update gives up no id
				list = append(list, Fault{Op: name, Nth: nth[name], Phase: phase})
			}
		}
	}
	return list
}

// PowerOffProblem names a power-off that no configuration asked for, "" if there was none. With exact, every
// power-off that was asked for must be there.
func (b *ChangeBench) PowerOffProblem(exact bool) string {
	rest := slices.Clone(b.Turn.Offs)
	for _, off := range b.World.Sim.PowerOffs() {
		n := slices.Index(rest, off.Kind)
		if n < 0 || off.VMID != ChangedVMID {
			return fmt.Sprintf("VM %d was switched off (%s by %s %s), which no configuration asked for", off.VMID, off.Kind, off.TaskType, off.User)
		}
		rest = slices.Delete(rest, n, n+1)
	}
	if exact && len(rest) > 0 {
		return fmt.Sprintf("no power-off of the kinds %v", rest)
	}
	return ""
}

// Run plays a case. It is not effective when the fault did not fire, or changed nothing.
func (b *ChangeBench) Run(t *testing.T, f Fault) (Outcome, bool) {
	t.Helper()
	b.Reset(t)
	b.World.Sim.SetFaults([]fault.Rule{f.rule()})
	first := b.Session.Apply(t.Context(), b.Plan)
	effective := b.World.Sim.FaultsFired() == 1
	b.World.Sim.SetFaults(nil)
	if !effective {
		return "", false
	}
	result, text := b.converge(t, f, first)
	if text == "" {
		text = b.Differs(t, f)
	}
	if dark := b.PowerOffProblem(false); dark != "" {
		text += "\n" + dark
	}
	if text != "" {
		t.Errorf("%s, %s, %s: %s\nfirst: %v", b.ID, b.Turn.Name, f, text, first)
	}
	return result, true
}

// converge plans and applies again, twice at most.
func (b *ChangeBench) converge(t *testing.T, f Fault, first error) (result Outcome, wrong string) {
	t.Helper()
	result = OutcomeDone
	if first != nil {
		result = OutcomeConverged
	}
	if b.assist(t, f) {
		result = OutcomeAssisted
	}
	for round := 0; !b.isDone(t, f); round++ {
		pl, err := b.Session.Plan(t.Context())
		if err == nil && pl.Empty() {
			break
		}
		if err == nil {
			err = b.Session.Apply(t.Context(), pl)
		}
		if err != nil && b.assist(t, f) {
			result, err = OutcomeAssisted, nil
		}
		if round == 2 || err != nil {
			return result, fmt.Sprintf("the next apply does not end it: %v\nplan: %v", err, pl)
		}
	}
	return result, ""
}

// isDone tells whether world and state are those of the change without a fault, whose plan was empty.
func (b *ChangeBench) isDone(t *testing.T, f Fault) bool {
	t.Helper()
	return b.Session.SaveState().Equal(b.Done) && b.Differs(t, f) == ""
}

// remedies are the commands in the messages to the user.
var remedies = regexp.MustCompile("`((?:qm unlock|qm set|qm cloudinit|pvesm free) [^`]+)`(?: (?:as root )?on node ([a-z0-9]+))?")

// assist follows the diagnostics' instructions to the operator, if the table permits that the step needs an operator.
func (b *ChangeBench) assist(t *testing.T, f Fault) bool {
	t.Helper()
	done := false
	for _, d := range b.Session.Diagnostics() {
		for _, m := range remedies.FindAllStringSubmatch(d.Summary+"\n"+d.Detail, -1) {
			words, node := strings.Fields(strings.ReplaceAll(m[1], "'", "")), m[2]
			if !Permits(f, words[0]+" "+words[1]) {
				t.Errorf("%s, %s, %s: the table does not permit that an operator is to run %q", b.ID, b.Turn.Name, f, m[1])
				continue
			}
			if node == "" {
				b.World.Change(func(world *state.World) { node = world.Guests[ChangedVMID].Node })
			}
			if _, err := b.Root.Run(t.Context(), node, words...); err != nil {
				t.Errorf("%s, %s, %s: the command %q on node %s failed: %v", b.ID, b.Turn.Name, f, m[1], node, err)
			}
			done = true
		}
	}
	return done
}

// Permits reports whether the table has the command as an operator's task after a fault.
func Permits(f Fault, command string) bool {
	return slices.ContainsFunc(manualRepairs(), func(s manualRepair) bool {
		return strings.HasSuffix(f.Op, s.op) && slices.Contains(s.phases, f.Phase) && slices.Contains(s.commands, command)
	})
}

// Differs compares the world with the one after the change without a fault.
func (b *ChangeBench) Differs(t *testing.T, f Fault) string {
	t.Helper()
	got := b.Canonical(t)
	if f.Phase == fault.Rival {
		n := slices.IndexFunc(got.Guests, func(g state.Guest) bool { return g.VMID == ChangedVMID })
		if n < 0 || got.Guests[n].Config["name"] != "rival" {
			return "the rival's VM is gone or changed"
		}
		got.Guests = slices.Delete(got.Guests, n, n+1)
		got.Volumes = slices.DeleteFunc(got.Volumes, func(v state.Volume) bool { return v.Data == "the third party's data" })
	}
	if f.Phase == fault.KillTask && strings.HasSuffix(f.Op, "/template") {
		got.forgetRenamed()
	}
	want := b.Want.json()
	if leaves := b.mayLeave(); leaves != nil {
		var w ChangedWorld
		if err := json.Unmarshal(want, &w); err != nil {
			t.Fatal(err)
		}
		leaves(&w)
		leaves(&got)
		want = w.json()
	}
	if bytes.Equal(want, got.json()) {
		return ""
	}
	return "the world is not as without the fault:\n" + strings.Join(rig.SnapshotDiff(want, got.json()), "\n")
}

func (b *ChangeBench) mayLeave() func(*ChangedWorld) {
	if b.Killed && b.Turn.Killed != nil {
		return b.Turn.Killed
	}
	return b.Turn.Failed
}

// ChangeIdentities returns the identities for which changes and destroys are swept.
func ChangeIdentities() []rig.Identity {
	return []rig.Identity{rig.RootTicket, rig.TokenNoSSH, rig.TokenNoAllocate}
}

// Canonical returns the present content of the cluster, with volumes named by their slots.
func (b *ChangeBench) Canonical(t *testing.T) ChangedWorld {
	t.Helper()
	var w ChangedWorld
	if err := json.Unmarshal(b.World.Sim.Snapshot(), &w); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // volume id -> name by slot
	for i := range w.Guests {
		if g := &w.Guests[i]; g.VMID == ChangedVMID {
			name(names, g.Config, "")
			name(names, g.Pending, "pending ")
			for _, snap := range slices.Sorted(maps.Keys(g.Snaps)) {
				name(names, g.Snaps[snap], snap+" ")
			}
			for _, section := range append(slices.Collect(maps.Values(g.Snaps)), g.Config, g.Pending) {
				rename(names, section)
			}
		}
	}
	for i := range w.Volumes {
		if v := &w.Volumes[i]; v.VMID == ChangedVMID {
			called, ok := names[v.Storage+":"+v.Name]
			if !ok {
				called = "orphan " + v.Storage + ":" + v.Name
			}
			v.Name = called
		}
	}
	slices.SortFunc(w.Volumes, func(a, b state.Volume) int {
		return cmp.Or(cmp.Compare(a.Storage, b.Storage), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return w
}
