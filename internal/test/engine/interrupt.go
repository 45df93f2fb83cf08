package engine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// Interrupter is the provider's log, and presses Ctrl-C when the answer to an operation has been noted in it.
type Interrupter struct {
	World *rig.World
	At    fault.Match // the operation; polls come in any number, so it is the n-th of its kind
	Press context.CancelFunc
}

// Hold stops a clock as soon as the cluster has served the operation, until the interrupt has reached the provider. On a busy
// machine the next operation would begin before the log tells of this one.
func (i *Interrupter) Hold(c *clock.Fast, s *terraformtest.Session) {
	s.Stopped = c.Go
	n := 0
	i.World.Change(func(world *state.World) {
		world.Served = func(_ int, method, path string) {
			if method == i.At.Method && path == i.At.Path {
				if n++; n == i.At.Nth {
					c.Stop()
				}
			}
		}
	})
}

// Write looks at a line of the log.
func (i *Interrupter) Write(line []byte) (int, error) {
	if i.Press == nil || !bytes.Contains(line, []byte(`"PVE request"`)) {
		return len(line), nil
	}
	if countOps(i.World.Sim.Ops(), i.At.Method, i.At.Path) >= i.At.Nth {
		i.Press()
	}
	return len(line), nil
}

// countOps counts the operations of a kind.
func countOps(ops []pvesim.Op, method, path string) int {
	n := 0
	for _, op := range ops {
		if op.Method == method && op.Path == path {
			n++
		}
	}
	return n
}

// InterruptStage is a cluster with one VM in state, whose operations are interrupted one by one.
type InterruptStage struct {
	T        *testing.T
	World    *rig.World
	Session  *terraformtest.Session
	ID       rig.Identity
	Keys     *Interrupter
	Saved    terraformtest.SavedState
	Snapshot []byte
	Ended    map[string]int // tasks that an interrupt met, by type and end
}

// InterruptTaskTime is long enough for an interrupt to meet a task at work.
const InterruptTaskTime = 4 * time.Second

// Again goes back to the beginning.
func (st *InterruptStage) Again() {
	st.World.Sim.SetFaults(nil)
	if err := st.World.Sim.Load(st.Snapshot); err != nil {
		st.T.Fatal(err)
	}
	st.World.Change(func(world *state.World) { clear(world.Tasks) })
	st.Session.RestoreState(st.Saved)
	st.World.ResetCalls()
}

// interrupt runs something and interrupts it when an operation was answered, or lost its answer. False: it was over before.
func (st *InterruptStage) interrupt(at fault.Match, lost bool, run func(context.Context) error) (effective bool, err error) {
	st.Again()
	if lost {
		st.World.Sim.SetFaults([]fault.Rule{{Match: at, Phase: fault.After}})
	}
	ctx, cancel := context.WithCancel(st.T.Context())
	defer cancel()
	st.Keys.At, st.Keys.Press = at, cancel
	err = run(ctx)
	st.Keys.Press = nil
	effective = ctx.Err() != nil && (!lost || st.World.Sim.FaultsFired() > 0)
	st.World.Sim.SetFaults(nil)
	return effective, err
}

// interruptShare is the part of an operation's requests that `make test` interrupts: one in so many.
const interruptShare = 5

// EnoughInterrupts is the least number of interrupts, of so many in the whole.
func EnoughInterrupts(whole int) int {
	if share.IsWhole() {
		return whole
	}
	return max(1, whole/interruptShare)
}

// Each interrupts an operation at its requests, in both ways, and counts: at each one in the whole.
func (st *InterruptStage) Each(what string, run func(context.Context) error, check func(name string, err error)) int {
	st.T.Helper()
	st.Again()
	if err := run(st.T.Context()); err != nil {
		st.T.Fatalf("%s without an interrupt: %v", what, err)
	}
	ops, cases, at := st.World.Sim.Ops(), 0, 0
	for i, op := range ops {
		if i > 1 && op.Method == http.MethodGet && ops[i-1].Method == http.MethodGet && ops[i-2].Method == http.MethodGet && !share.IsWhole() {
			continue // the third read in a row, or poll, is like the second
		}
		for _, lost := range []bool{false, true} {
			if lost && (op.Method == http.MethodGet || op.Path == "/access/ticket") {
				continue // a read is sent again
			}
			if at++; at%interruptShare != 1 && !share.IsWhole() {
				continue
			}
			effective, err := st.interrupt(fault.Match{Method: op.Method, Path: op.Path, Nth: countOps(ops[:i+1], op.Method, op.Path)}, lost, run)
			if !effective {
				continue
			}
			cases++
			name := fmt.Sprintf("%s, interrupted at #%d %s, answer lost %t", what, op.Seq, OpName(op), lost)
			st.NothingAtWork(name)
			check(name, err)
		}
	}
	st.T.Logf("%s: %d interrupts at %d operations; tasks met by them: %s", what, cases, len(ops), strings.Join(st.tally(), ", "))
	clear(st.Ended)
	return cases
}

func (st *InterruptStage) tally() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(st.Ended)) {
		all = append(all, fmt.Sprintf("%d %s", st.Ended[name], name))
	}
	return all
}

// NothingAtWork looks that no task runs on behind the user's back, that nothing is locked, and that no volume is in no slot.
func (st *InterruptStage) NothingAtWork(name string) {
	st.T.Helper()
	st.World.Change(func(world *state.World) {
		for _, task := range world.Tasks {
			if task.Running && (task.User != "root@pam" || st.ID == rig.RootTicket) { // PVE's own, after a reboot
				st.T.Errorf("%s: task %s still runs", name, task.UPID)
			}
			end := "ended well"
			if strings.Contains(task.ExitStatus, "interrupt") || task.Type == "qmigrate" && strings.HasPrefix(task.ExitStatus, "migration ") {
				end = "stopped"
			}
			st.Ended[task.Type+" "+end]++
		}
		for _, g := range world.Guests {
			if lock := g.Config["lock"]; lock != "" {
				st.T.Errorf("%s: VM %d is locked (%s)", name, g.VMID, lock)
			}
		}
		for _, v := range world.Volumes {
			if v.VMID != 300 {
				continue
			}
			g := world.Guests[300]
			if g == nil || !slices.ContainsFunc(slices.Collect(maps.Values(g.Config)), func(value string) bool { return strings.HasPrefix(value, v.Volid()) }) {
				st.T.Errorf("%s: volume %s on %s is in no slot", name, v.Volid(), v.Node)
			}
		}
	})
}

// Guest is the VM as it should be, whatever its volumes are called.
func (st *InterruptStage) Guest() map[string]string {
	number := regexp.MustCompile(`(vm|base)-300-disk-\d+`)
	values := map[string]string{}
	st.World.Change(func(world *state.World) {
		g := world.Guests[300]
		if g == nil {
			return
		}
		for option, value := range g.Config {
			values[option] = number.ReplaceAllString(value, "$1-300-disk-N")
		}
		values["(node)"], values["(runs)"] = g.Node, fmt.Sprint(g.Running != nil)
		for id, pool := range world.Pools {
			if slices.Contains(pool.Guests, 300) {
				values["(pool)"] = id
			}
		}
	})
	return values
}
