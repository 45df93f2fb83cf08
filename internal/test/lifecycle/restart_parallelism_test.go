package lifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// waveSize is the number of VMs that are restarted, and bootTime how long their agents take to answer after a start.
const (
	waveSize = 6
	bootTime = 40 * time.Second
)

// wave are running VMs 500, 501 … with lines in each.
func wave(lines string) (text string) {
	for n := range waveSize {
		text += fmt.Sprintf("resource \"proxmox_vm\" \"v%d\" {\n  vmid = %d\n  node = \"pve1\"\n  shutdown_timeout = \"30s\"\n"+
			"  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n%s\n}\n", n, 500+n, lines)
	}
	return text
}

const (
	answering = "agent = { enabled = true }\n"
	twoCores  = "cpu = { cores = 2 }\n"
	oneCore   = "cpu = { cores = 1 }\n"
)

// waveRig is a cluster with the wave, and a session that works on all of it at once.
type waveRig struct {
	*rig.World
	t       *testing.T
	session *terraformtest.Session
}

func newWave(t *testing.T, lines string, options ...pvesim.Options) *waveRig {
	t.Helper()
	f := &waveRig{World: rig.NewWorld(t, options...), t: t}
	f.ExpectPowerOffs(state.PowerReboot, state.PowerShutdown)
	f.session = f.Session(t, rig.RootTicket, wave(lines))
	f.session.Parallelism = waveSize
	rig.Must(t, f.session.Converge(t.Context()))
	f.each(func(g *state.Guest) { g.Agent = &state.Agent{DelaySeconds: int(bootTime.Seconds())} })
	f.Sim.Advance(time.Hour)
	rig.Must(t, f.session.Refresh(t.Context())) // the agents have answered
	f.Sim.ResetPowerOffs()
	return f
}

// each changes all VMs of the wave.
func (f *waveRig) each(change func(*state.Guest)) {
	f.Change(func(world *state.World) {
		for n := range waveSize {
			if g := world.Guests[500+n]; g != nil {
				change(g)
			}
		}
	})
}

// limit configures the wave, with at most so many guests down; 0 is no limit.
func (f *waveRig) limit(most int, lines string) {
	f.t.Helper()
	block := f.ProviderBlock(rig.RootTicket)
	if most > 0 {
		block = strings.Replace(block, "provider \"proxmox\" {", fmt.Sprintf("provider \"proxmox\" {\n  restart_parallelism = %d", most), 1)
	}
	rig.Must(f.t, f.session.Configure(block, wave(lines)))
}

// down is the largest number of guests that were down at once: from their power-off until they had been up for a time.
func (f *waveRig) down(after time.Duration) (most int) {
	type edge struct {
		at  time.Time
		add int
	}
	started, edges := map[int]time.Time{}, []edge{}
	f.each(func(g *state.Guest) {
		if g.Running != nil {
			started[g.VMID] = g.Running.StartedAt
		}
	})
	for _, off := range f.Sim.PowerOffs() {
		edges = append(edges, edge{off.At, 1}, edge{started[off.VMID].Add(after), -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.add - b.add
	})
	now := 0
	for _, e := range edges {
		now += e.add
		most = max(most, now)
	}
	return most
}

// restarted is the number of VMs that run with two cores, changed that of those whose configuration has them.
func (f *waveRig) restarted() (restarted, changed int) {
	f.each(func(g *state.Guest) {
		if g.Running != nil && g.Running.Booted["cores"] == "2" {
			restarted++
		}
		if g.Config["cores"] == "2" || g.Pending["cores"] == "2" {
			changed++
		}
	})
	return restarted, changed
}

// TestRestartParallelismCounts: no more guests than allowed are down at any time, until their agents answer or, without an
// agent, until they have run for half a minute. Without a limit none waits for another.
func TestRestartParallelismCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines string
		up    time.Duration
	}{"with agents": {answering, bootTime}, "without": {"", 30 * time.Second}} {
		for _, most := range []int{0, 1, 2, 10} {
			t.Run(fmt.Sprintf("%s, %d", name, most), func(t *testing.T) {
				t.Parallel()
				f := newWave(t, c.lines+oneCore)
				f.limit(most, c.lines+twoCores)
				rig.Must(t, f.session.Run(t.Context()))
				if n, _ := f.restarted(); n != waveSize || len(f.Sim.PowerOffs()) != waveSize {
					t.Errorf("%d of %d guests have the change, by %v", n, waveSize, f.Sim.PowerOffs())
				}
				offs := f.Sim.PowerOffs()
				down, took := f.down(c.up), offs[len(offs)-1].At.Sub(offs[0].At)
				t.Logf("%d guests were down at once, the last one %s after the first", down, took)
				if most > 0 && down > most {
					t.Errorf("%d guests were down at once, with restart_parallelism %d", down, most)
				}
				if oneByOne := took >= (waveSize-1)*c.up; oneByOne != (most == 1) && most < 2 {
					t.Errorf("the last guest went down %s after the first, with restart_parallelism %d", took, most)
				}
				if plan, err := f.session.Plan(t.Context()); err != nil || !plan.Empty() {
					t.Errorf("the plan afterwards: %v\n%v", err, plan)
				}
			})
		}
	}
}

// TestRestartParallelismOfShutdowns: guests that are to be off go down in turns too, and hold no turn when they are.
func TestRestartParallelismOfShutdowns(t *testing.T) {
	t.Parallel()
	f := newWave(t, oneCore)
	f.each(func(g *state.Guest) { g.ShutdownSeconds = 20 })
	f.limit(1, oneCore+"power_state = \"stopped\"\n")
	rig.Must(t, f.session.Run(t.Context()))
	offs := f.Sim.PowerOffs()
	for i := 1; i < len(offs); i++ {
		if gap := offs[i].At.Sub(offs[i-1].At); gap < 20*time.Second {
			t.Errorf("guest %d went down %s after guest %d", offs[i].VMID, gap, offs[i-1].VMID)
		}
	}
	if len(offs) != waveSize {
		t.Errorf("%d guests were shut down", len(offs))
	}
}

// TestRestartParallelismStops: a guest that does not come back ends the restarts. The error names it once in full, the
// others wait with their change or are not changed at all, and the next apply goes on.
func TestRestartParallelismStops(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2} {
		f := newWave(t, answering+oneCore)
		f.session.Parallelism = most + 1 // one waits for its turn
		f.limit(most, answering+twoCores)
		plan, err := f.session.Plan(t.Context())
		rig.Must(t, err)
		f.each(func(g *state.Guest) { g.Agent.Silent = true })
		err = f.session.Apply(t.Context(), plan)
		rig.MustRefuse(t, err, []string{"did not come back from its restart", "look at the console of VM 50", "no other guest is restarted", "restart_parallelism"})
		restarted, changed := f.restarted()
		if restarted < 1 || restarted > most || changed > most+1 {
			t.Errorf("%d restarted and %d changed, with restart_parallelism %d", restarted, changed, most)
		}
		if full := strings.Count(fmt.Sprint(err), "look at the console"); full != restarted {
			t.Errorf("%d whole errors, %d guests that did not come back", full, restarted)
		}
		if untouched := strings.Count(fmt.Sprint(err), "was not changed"); untouched != waveSize-changed {
			t.Errorf("%d VMs are said to be unchanged, and %d are", untouched, waveSize-changed)
		}
		f.each(func(g *state.Guest) { g.Agent.Silent = false })
		f.Sim.Advance(time.Hour)
		f.session.Parallelism = waveSize
		rig.Must(t, f.session.Converge(t.Context()))
		if n, _ := f.restarted(); n != waveSize {
			t.Errorf("in the end %d guests have the change", n)
		}
	}
}

// TestRestartParallelismGoesOn: a guest that does not obey the restart runs on, so it holds up no other. An agent that was
// silent before is not waited for.
func TestRestartParallelismGoesOn(t *testing.T) {
	t.Parallel()
	f := newWave(t, answering+oneCore)
	f.Change(func(world *state.World) { world.Guests[500].Ignores = []string{"shutdown"} })
	f.each(func(g *state.Guest) { g.Agent.Silent = g.VMID == 501 })
	rig.Must(t, f.session.Refresh(t.Context()))
	f.limit(1, answering+twoCores)
	began := f.Sim.World().Clock.Now()
	rig.MustRefuse(t, f.session.Run(t.Context()), []string{"VM 500 was changed, but not restarted"})
	// half a minute to shut down, five in which it may still do so, and some for each of the others
	if took := f.Sim.World().Clock.Now().Sub(began); took > 15*time.Minute {
		t.Errorf("it took %s: the guest that does not obey has kept its turn for the whole time of its update", took)
	}
	if n, _ := f.restarted(); n != waveSize-1 {
		t.Errorf("%d guests were restarted", n)
	}
}

// TestRestartParallelismInterrupted: Ctrl-C ends the guests that wait for their turn and the one that has it, with the
// guest up. The next apply does the rest.
func TestRestartParallelismInterrupted(t *testing.T) {
	t.Parallel()
	for _, nth := range []int{1, 2} {
		keys := &engine.Interrupter{At: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/reboot", Nth: nth}}
		clock := rig.NewFastClock()
		f := &waveRig{World: rig.NewWorld(t, pvesim.Options{Clock: clock}), t: t}
		f.ExpectPowerOffs(state.PowerReboot)
		keys.World = f.World
		f.LogTo(keys)
		f.session = f.Session(t, rig.RootTicket, wave(oneCore))
		f.session.Parallelism = waveSize
		rig.Must(t, f.session.Converge(t.Context()))
		f.limit(1, twoCores)
		f.Sim.ResetOps()
		ctx, cancel := context.WithCancel(t.Context())
		var once sync.Once
		keys.Press = func() { once.Do(cancel) }
		keys.Hold(clock, f.session)
		rig.MustRefuse(t, f.session.Run(ctx), []string{"interrupted"})
		cancel()
		running := 0
		f.each(func(g *state.Guest) {
			if g.Running != nil {
				running++
			}
		})
		if n, _ := f.restarted(); n > nth || running != waveSize {
			t.Errorf("interrupted at restart %d: %d were restarted, %d run", nth, n, running)
		}
		rig.Must(t, f.session.Converge(t.Context()))
		if n, _ := f.restarted(); n != waveSize {
			t.Errorf("in the end %d guests have the change", n)
		}
	}
}

// TestRestartParallelismUnknown: a limit that the plan does not know holds in the apply.
func TestRestartParallelismUnknown(t *testing.T) {
	t.Parallel()
	f := newWave(t, oneCore)
	block := strings.Replace(f.ProviderBlock(rig.RootTicket), "provider \"proxmox\" {", "provider \"proxmox\" {\n  restart_parallelism = var.most", 1)
	rig.Must(t, f.session.Configure("variable \"most\" {}\n", block, wave(twoCores)))
	f.session.SetVariable("most", cty.UnknownVal(cty.Number))
	plan, err := f.session.Plan(t.Context())
	rig.Must(t, err)
	f.session.SetVariable("most", cty.NumberIntVal(1))
	rig.Must(t, f.session.Apply(t.Context(), plan))
	if n, _ := f.restarted(); n != waveSize || f.down(30*time.Second) != 1 {
		t.Errorf("%d restarted, %d down at once", n, f.down(30*time.Second))
	}
}
