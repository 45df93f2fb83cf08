package create

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// asleep has a create stand still after its request n until the returned function is called, as that of a machine that
// sleeps. The function returns the result. Each of before is called after each request, with its number.
func (b bench) asleep(t *testing.T, r Request, n int, before ...func(request int)) (came bool, wake func() (Created, error)) {
	t.Helper()
	return b.asleepIn(context.WithoutCancel(t.Context()), t, r, n, before...)
}

// asleepIn is asleep for a create in a context.
func (b bench) asleepIn(ctx context.Context, t *testing.T, r Request, n int, before ...func(request int)) (came bool,
	wake func() (Created, error)) {
	t.Helper()
	type result struct {
		created Created
		err     error
	}
	asleep, awake, done := make(chan struct{}), make(chan struct{}), make(chan result, 1)
	var seen atomic.Int32
	sleep := func(context.Context, string, map[string]string) {
		now := int(seen.Add(1))
		for _, f := range before {
			f(now)
		}
		if now == n {
			close(asleep)
			<-awake
		}
	}
	config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
		Clock: b.jobs.Clock, Trace: sleep}
	token(&config, b.sim.Credentials())
	sleeper := creatorWith(t, config)
	sleeper.guests.Process = elsewhere
	go func() {
		created, err := sleeper.Create(ctx, r)
		done <- result{created, err}
	}()
	wake = func() (Created, error) {
		close(awake)
		end := <-done
		return end.created, end.err
	}
	select {
	case <-asleep:
		return true, wake
	case <-done:
		return false, nil
	}
}

// meanwhile is what another party does with VM 150 while a run of that create stands still. It reports whether it did.
var meanwhile = map[string]func(t *testing.T, b bench, r Request) bool{
	"another run completes it": func(t *testing.T, b bench, r Request) bool {
		created, err := creatorOf(t, b.sim, token).Create(t.Context(), r)
		return err == nil && created.Guest.VMID == 150
	},
	"a third party replaces it": func(t *testing.T, b bench, _ Request) bool {
		upid, err := b.api.QEMU("pve1", 150).Destroy(t.Context(), false)
		if err == nil {
			_, err = b.api.Tasks().Wait(t.Context(), upid)
		}
		if err != nil {
			return false
		}
		his := named(onZFS(), "his")
		his.VMID = 150
		_, err = creatorOf(t, b.sim, ticket).Create(t.Context(), his)
		return err == nil
	},
}

// TestSleeperTouchesNothingOfOthers: a run stands still for an hour, after any of its requests, as one does whose
// machine sleeps. Another run of the same create completes its VM meanwhile, or a third party has another VM in its
// place. When it wakes up it fails, and that VM stays as it is.
func TestSleeperTouchesNothingOfOthers(t *testing.T) {
	ways := map[string]func() Request{"create": onZFS, "clone": ofTemplate, "restore": aRestore}
	for what, others := range meanwhile {
		for how, request := range ways {
			met := 0
			for n, came := 2, true; came; n++ {
				synctest.Test(t, func(t *testing.T) {
					b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
					b.backedUp(nil)
					b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
					r := request()
					r.VMID, r.Start = 150, true
					var wake func() (Created, error)
					if came, wake = b.asleep(t, r, n); !came {
						return
					}
					time.Sleep(time.Hour)
					did := others(t, b, r)
					was := b.everythingOf(150)
					created, err := wake()
					if !did || err == nil { // it had not begun, or was done
						return
					}
					met++
					if now := b.everythingOf(150); now != was {
						t.Errorf("%s, %s, asleep after request %d: VM 150 was\n%s\nand is\n%s\n%v, left %+v", how, what, n, was, now,
							err, created.Left)
					}
				})
			}
			if met == 0 {
				t.Errorf("%s, %s: no run was asleep at the right time", how, what)
			}
		}
	}
}

// everythingOf is what the cluster has of a VM.
func (b bench) everythingOf(vmid int) (all string) {
	b.change(func(w *state.World) {
		if g := w.Guests[vmid]; g != nil {
			all = fmt.Sprint(g.Config, g.Running != nil)
		}
	})
	return all
}

// failing are the ways in which a create of a VM that was made fails.
var failing = map[string][]fault.Rule{
	"since a user has edited its notes": nil,
	"since it does not start": {{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
		Phase: fault.Task}},
}

// TestLateUndoLeavesAVMThatWasTaken: a create fails, a user takes its VM by editing the notes after any of its requests,
// and its machine sleeps for five minutes after that one or a later one. Meanwhile the user changes the VM. The
// create knows the uuid, and no other run can have the VM: it stays all the same, and is named with the next command.
func TestLateUndoLeavesAVMThatWasTaken(t *testing.T) {
	t.Parallel()
	for how, request := range map[string]func() Request{"create": onZFS, "clone": ofTemplate} {
		for why, faults := range failing {
			met, bad := 0, []string(nil)
			for taken, came := 4, true; came; taken++ {
				for _, later := range []int{0, 1, 5} {
					played, wrong := false, ""
					synctest.Test(t, func(t *testing.T) {
						b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
						b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
						b.sim.SetFaults(faults)
						r := request()
						r.VMID, r.Start = 150, true
						var did bool
						did, played, wrong = b.takenLate(t, r, taken, taken+later)
						came = did || later > 0
					})
					if wrong != "" {
						bad = append(bad, fmt.Sprintf("taken after request %d, asleep %d later: %s", taken, later, wrong))
					}
					if !played {
						break
					}
					met++
				}
			}
			if len(bad) > 0 || met < 10 {
				t.Errorf("%s, failed %s: %d played, %d wrong:\n%s", how, why, met, len(bad), strings.Join(bad, "\n"))
			}
		}
	}
}

// takenLate has a user take VM 150 of a create after a request, and change it while the create sleeps after request n.
// It reports whether that request came, whether the VM was there and the create failed, and a wrong end.
func (b bench) takenLate(t *testing.T, r Request, taken, n int) (came, played bool, wrong string) {
	edited := false
	came, wake := b.asleep(t, r, n, func(request int) {
		if request == taken {
			edited = b.sets(150, "description", "in use")
		}
	})
	if !came {
		return false, false, ""
	}
	time.Sleep(5 * time.Minute)
	there := b.sets(150, "name", "prod") && b.sets(150, "memory", "8192")
	all := func() string { return fmt.Sprint(b.everythingOf(150), b.volumesOf(150)) }
	was := all()
	created, err := wake()
	if !edited || !there || err == nil {
		return true, false, ""
	}
	if now := all(); now != was {
		return true, true, fmt.Sprintf("VM 150 was\n%s\nand is\n%s\n%v", was, now, err)
	}
	return true, true, unnamed(created)
}

// unnamed is what a create has said if that does not name VM 150 with a command that shows it.
func unnamed(created Created) string {
	said := fmt.Sprint(created.Warnings, created.Left)
	if strings.Contains(said, "qm config 150") && (created.Doubt || len(created.Left) > 0) {
		return ""
	}
	return fmt.Sprintf("VM 150 stays, and is not named: doubt %t, %s", created.Doubt, said)
}

// TestUndoThatGivesUpNamesATakenVM: a user edits the notes of a VM while its create is undone, and from then on the API
// is away until the undo gives up, or a little longer. The VM stays, and is named, also by a last look that is answered.
func TestUndoThatGivesUpNamesATakenVM(t *testing.T) {
	t.Parallel()
	const taken = 18
	met := 0
	for away := 110 * time.Second; away < 130*time.Second; away += time.Second {
		said := ""
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.sim.SetFaults(failing["since it does not start"])
			r := onZFS()
			r.VMID, r.Start = 150, true
			_, wake := b.asleep(t, r, taken, func(request int) {
				if request == taken && b.sets(150, "description", "in use") {
					b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodGet}, Phase: fault.Before, Status: 596, Times: -1}})
				}
			})
			time.AfterFunc(away, func() { b.sim.SetFaults(nil) })
			created, _ := wake()
			if b.everythingOf(150) != "" { // else the undo was in time
				met++
				said = unnamed(created)
			}
		})
		if said != "" {
			t.Errorf("away for %s: %s", away, said)
		}
	}
	if met == 0 {
		t.Error("the API was never away for long enough")
	}
}

// sets has a user set an option of a VM that is there and not locked, and reports whether that was so.
func (b bench) sets(vmid int, option, value string) (did bool) {
	b.change(func(w *state.World) {
		if g := w.Guests[vmid]; g != nil && g.Config["lock"] == "" {
			g.Config[option], did = value, true
		}
	})
	return did
}

// uses are what a user does with VM 150 while its create sleeps.
var uses = map[string]struct {
	asleep time.Duration
	do     func(t *testing.T, vm pve.QEMUClient) (pve.UPID, error)
}{
	"takes a snapshot":         {5 * time.Hour, takeSnapshot},
	"takes a snapshot at once": {time.Second, takeSnapshot},
	"starts it": {5 * time.Hour, func(t *testing.T, vm pve.QEMUClient) (pve.UPID, error) {
		return vm.Start(t.Context(), pve.Params{})
	}},
}

func takeSnapshot(t *testing.T, vm pve.QEMUClient) (pve.UPID, error) {
	t.Helper()
	return vm.TakeSnapshot(t.Context(), pve.Params{"snapname": "before"})
}

// TestLateUndoLeavesAVMInUse: the machine of a create sleeps for five hours after any of its requests. Meanwhile a user
// works with the VM, which still bears the mark: with another identity, or with that of the create. A snapshot counts
// without a sleep, too. Then a request fails, or the create is interrupted. The VM stays as it is and is named with the
// reason, as the next apply leaves it.
func TestLateUndoLeavesAVMInUse(t *testing.T) {
	t.Parallel()
	refused := func(method, path string) []fault.Rule {
		return []fault.Rule{{Match: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}/" + path}, Phase: fault.Before,
			Status: 500, Reason: "no", Times: -1}}
	}
	for what, use := range uses {
		for why, faults := range map[string][]fault.Rule{"does not start": refused(http.MethodPost, "status/start"),
			"cannot be committed": refused(http.MethodPut, "config"), "is interrupted": nil} {
			for whose, identity := range map[string]func(*pve.Config, pvesim.Credentials){"another user": ticket, "its own user": token} {
				met := eachSleep(t, true, func(t *testing.T, s sleeping) bool {
					time.Sleep(use.asleep)
					all := func() string { // but the mark, which is renewed
						config := s.vms()[150]
						delete(config, "description")
						return fmt.Sprint(config, s.volumesOf(150))
					}
					isOn := func() bool { return strings.HasSuffix(s.everythingOf(150), "true") }
					was := all()
					user := creatorOf(t, s.sim, identity)
					upid, err := use.do(t, user.api.QEMU("pve1", 150))
					if err == nil {
						_, err = user.api.Tasks().Wait(t.Context(), upid)
					}
					did := err == nil && (was != all() || isOn())
					was, wasOn := all(), isOn()
					if s.sim.SetFaults(faults); faults == nil {
						s.interrupt()
					}
					created, err := s.wake()
					if !did || err == nil {
						return false
					}
					now, wrong := all(), unnamed(created)
					if now != was || wasOn && !isOn() || wrong != "" || !strings.Contains(fmt.Sprint(created.Warnings), "works with it") &&
						!strings.Contains(fmt.Sprint(created.Warnings), "has begun qmstart") {
						t.Errorf("asleep after %d, %s %s, and it %s: VM 150 was\n%s\nand is\n%s\n%s\n%v", s.n, whose, what, why, was, now,
							wrong, err)
					}
					return true
				})
				if t.Logf("%s %s, and it %s: %d played", whose, what, why, met); met == 0 {
					t.Errorf("%s %s, and it %s: none was played", whose, what, why)
				}
			}
		}
	}
}
