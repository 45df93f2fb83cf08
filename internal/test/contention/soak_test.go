package contention_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestSoak: several configurations on one cluster, all at work at once, each round with other changes: VMs made from nothing, cloned, changed,
// moved, given snapshots, destroyed; faults of the server in between, a third party who makes and removes VMs of its own, runs that are
// interrupted, cut off, or killed without a word. After each world, every object is in some state, or was named, or is the third party's and
// unchanged. When the faults are over everything converges and is destroyed, and no goroutine is left. SOAK says for how long (10m) worlds
// are drawn, SOAK_SEED selects one. The seed decides the actions, not their order across concurrent runs.
func TestSoak(t *testing.T) {
	seed, until, worlds := uint64(1), time.Now(), 2
	if text := os.Getenv("SOAK_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		rig.Must(t, err)
		seed, worlds = n, 1
	}
	if text := os.Getenv("SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		rig.Must(t, err)
		until = until.Add(d)
		if os.Getenv("SOAK_SEED") == "" {
			seed = rand.Uint64N(1 << 32)
		}
	}
	all := soakTally{did: map[string]int{}}
	for n := 0; n < worlds || time.Now().Before(until); n++ {
		seed := seed + uint64(n)
		before := runtime.NumGoroutine()
		ok := t.Run(fmt.Sprint("SOAK_SEED=", seed), func(t *testing.T) { soakWorld(t, seed, &all) })
		if left := goroutinesAbove(t.Context(), before); left > 0 {
			t.Errorf("SOAK_SEED=%d: %d goroutines are left", seed, left)
		}
		if !ok {
			break
		}
	}
	t.Logf("%s", all)
}

// goroutinesAbove waits for those that are about to end.
func goroutinesAbove(ctx context.Context, before int) int {
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return 0
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return runtime.NumGoroutine() - before
}

// soakTally counts the actions of a soak.
type soakTally struct {
	worlds, requests, faults, strangers int
	did                                 map[string]int
}

func (s soakTally) String() string {
	return fmt.Sprintf("%d worlds, %d requests, %d faults, %d VMs of third parties, %v", s.worlds, s.requests, s.faults, s.strangers, s.did)
}

// soak is one world.
type soak struct {
	t      *testing.T
	w      *rig.World
	rng    *rand.Rand
	runs   []*soakRun
	steps  []string
	theirs map[int]string // the third party's VMs, with their descriptions
}

func soakWorld(t *testing.T, seed uint64, all *soakTally) {
	rng := rand.New(rand.NewPCG(seed, 13))
	profiles := slices.DeleteFunc(slices.Clone(pvesim.Profiles()), func(p string) bool { return strings.HasPrefix(p, "7.") }) // too old
	s := &soak{t: t, rng: rng, theirs: map[int]string{}, w: rig.NewWorld(t, pvesim.Options{Profile: profiles[rng.IntN(len(profiles))],
		TaskTime: time.Duration(rng.IntN(4)) * time.Second, Workers: rng.IntN(4)})}
	s.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot, state.PowerRollback, state.PowerSuspend)
	defer func() {
		if t.Failed() {
			t.Logf("SOAK_SEED=%d:\n%s", seed, strings.Join(s.steps, "\n"))
		}
	}()
	before := guestConfigs(s.w)
	for n := range 2 + rng.IntN(3) {
		s.runs = append(s.runs, newSoakRun(s, n))
	}
	for round := range 2 + rng.IntN(3) {
		s.round(round, all)
	}
	s.settle()
	for id, config := range before {
		if is := guestConfigs(s.w)[id]; is != config {
			t.Errorf("VM %d of no run here was\n%s\nand is\n%s", id, config, is)
		}
	}
	all.worlds, all.requests = all.worlds+1, all.requests+len(s.w.Sim.Ops())
}

// guestConfigs gives the configurations of the guests of the cluster, by id. A template is locked and unlocked by clones.
func guestConfigs(w *rig.World) map[int]string {
	all := map[int]string{}
	w.Change(func(world *state.World) {
		for id, g := range world.Guests {
			all[id] = fmt.Sprint(g.Type, g.Node, g.Config, g.Pending)
		}
	})
	return all
}

// round lets all runs go to work at once, while the server fails now and then and a third party comes and goes.
func (s *soak) round(n int, all *soakTally) {
	s.w.Sim.SetFaults(s.drawFaults())
	ctx, stop := context.WithCancel(s.t.Context())
	var busy, stranger sync.WaitGroup
	for _, r := range s.runs {
		what := r.draw()
		s.steps = append(s.steps, fmt.Sprintf("round %d, run %d (%s): %s of %s", n, r.n, r.id, what, r.describe()))
		all.did[what]++
		busy.Go(func() { r.do(s.t.Context(), what) })
	}
	rng := rand.New(rand.NewPCG(s.rng.Uint64(), 1))
	stranger.Go(func() { s.actAsThirdParty(ctx, rng) })
	busy.Wait()
	stop()
	stranger.Wait()
	all.faults += s.w.Sim.FaultsFired()
	all.strangers += len(s.theirs)
	s.w.Sim.SetFaults(nil)
	s.thirdPartiesUnchanged(fmt.Sprint("after round ", n))
	s.nothingUnnamed(fmt.Sprint("after round ", n))
}

// drawFaults are some of the server's ways to fail, each once, at requests that make a difference.
func (s *soak) drawFaults() (rules []fault.Rule) {
	requests := []fault.Match{
		{Method: "POST", Path: "/nodes/{node}/qemu"}, {Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/clone"},
		{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config"}, {Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/config"},
		{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/resize"}, {Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"},
		{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/snapshot"}, {Method: "DELETE", Path: "/nodes/{node}/qemu/{vmid}"},
		{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/stop"}, {Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/migrate"},
		{Method: "GET", Path: "/cluster/resources"}, {Method: "GET", Path: "/nodes/{node}/storage/{storage}/content"},
		{Method: "GET", Path: "/nodes/{node}/tasks/{upid}/status"}, {Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/pending"},
	}
	phases := []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial}
	for range s.rng.IntN(5) {
		match := requests[s.rng.IntN(len(requests))]
		match.Nth = 1 + s.rng.IntN(4)
		phase := phases[s.rng.IntN(len(phases))]
		if match.Method == http.MethodGet {
			phase = fault.Before
		}
		rules = append(rules, fault.Rule{Match: match, Phase: phase})
		s.steps = append(s.steps, fmt.Sprintf("  fault: %s %s #%d: %s", match.Method, match.Path, match.Nth, phase))
	}
	return rules
}

// thirdPartiesUnchanged compares the third party's VMs with their state when made.
func (s *soak) thirdPartiesUnchanged(when string) {
	is := guestConfigs(s.w)
	for id, config := range s.theirs {
		if is[id] != config {
			s.t.Errorf("%s: the third party's VM %d was\n%s\nand is\n%s", when, id, config, is[id])
		}
	}
}

// nothingUnnamed wants each new guest and volume to be in a state, to be the third party's, or to be named in a message. The objects
// of a killed run have no owner until another run looks for them, so this test names them itself.
func (s *soak) nothingUnnamed(when string) {
	known := map[int]bool{}
	var said strings.Builder
	for _, r := range s.runs {
		for _, id := range r.ids() {
			known[id] = true
		}
		said.WriteString(r.said)
	}
	s.w.Change(func(world *state.World) {
		for id, g := range world.Guests {
			if _, theirs := s.theirs[id]; known[id] || theirs || id >= firstOfWorld || s.isOfKilled(g) ||
				strings.Contains(said.String(), fmt.Sprint("VM ", id)) {
				continue
			}
			s.t.Errorf("%s: VM %d is in no state and was not named: %v", when, id, g.Config)
		}
		for _, v := range world.Volumes {
			if v.VMID == 0 || v.VMID >= firstOfWorld || world.Guests[v.VMID] != nil || strings.Contains(said.String(), v.Volid()) {
				continue
			}
			if !s.isNamedByKilled(v.VMID) {
				s.t.Errorf("%s: volume %s is of no VM and was not named", when, v.Volid())
			}
		}
	})
}

// firstOfWorld is where the ids of the guests begin that the cluster has anyway.
const firstOfWorld = 8000

// isOfKilled reports whether a killed run can have made a VM: it has the name of one of the run's VMs, or none yet.
func (s *soak) isOfKilled(g *state.Guest) bool {
	return slices.ContainsFunc(s.runs, func(r *soakRun) bool {
		return r.killed && (g.Config["name"] == "" || slices.Contains(r.everNamed, g.Config["name"]))
	})
}

// isNamedByKilled reports whether volumes under an id can be leftovers of a killed run's create, whose worker died as well.
func (s *soak) isNamedByKilled(int) bool {
	return slices.ContainsFunc(s.runs, func(r *soakRun) bool { return r.killed })
}
