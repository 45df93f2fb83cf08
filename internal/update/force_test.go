package update

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestGuestThatWasNotAsked: reboot_policy = "force" cuts a guest off that was asked to shut down and does not obey. A
// paused guest hears nothing, and one whose restart PVE refuses, or whose task dies, was not asked.
func TestGuestThatWasNotAsked(t *testing.T) {
	rule := func(phase fault.Phase, status int) func(*world) {
		return func(w *world) {
			w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/reboot"},
				Phase: phase, Status: status, Reason: "got no worker upid - start worker failed", Times: -1}})
		}
	}
	pause := func(w *world) { w.alter(func(g *state.Guest) { g.Running.QMPStatus = "paused" }) }
	for name, c := range map[string]struct {
		begins func(*world)
		stops  int
	}{
		"paused":             {pause, 0},
		"paused when asked":  {func(w *world) { w.ignoreShutdown(); w.answered = onceSent(w, "/status/reboot", func() { pause(w) }) }, 0},
		"refused":            {rule(fault.Before, http.StatusInternalServerError), 0},
		"no answer":          {rule(fault.Before, 596), 0},
		"its task is killed": {rule(fault.KillTask, 0), 0},
		"deaf":               {func(w *world) { w.ignoreShutdown() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"cores": "1"})
			w.start()
			r := w.request()
			r.Planned.CPU.Cores, r.Restart = new(int64(2)), RestartForcibly
			c.begins(w)
			_, _, err := w.update(r)
			w.answered = nil
			if stops := w.sent("/status/stop"); stops != c.stops || (err == nil) != (c.stops > 0) {
				t.Errorf("%d stops: %v after %v", stops, err, w.writes())
			}
		})
	}
}

// TestRestartBesideAGuestThatShares: VM 8000 has run with a disk of VM 400 all the time, such as for a cluster of their
// own, and VM 400 starts again beside it. One that gets the disk while VM 400 is off, such as one in which an
// administrator mends it, keeps it from that.
func TestRestartBesideAGuestThatShares(t *testing.T) {
	give := func(all *state.World) { all.Guests[8000].Config["scsi5"] = all.Guests[theVM].Config["scsi0"] }
	for how, run := range map[string]func(w *world, lock func()) error{
		"force": func(w *world, lock func()) error {
			w.start()
			lock()
			w.ignoreShutdown()
			r := w.request()
			r.Planned.CPU.Cores, r.Restart = new(int64(2)), RestartForcibly
			_, _, err := w.update(r)
			return err
		},
		"late": func(w *world, lock func()) error {
			w.start()
			lock()
			w.ignoreShutdown()
			r := w.request()
			r.Planned.CPU.Cores = new(int64(2))
			w.when(200*time.Second, func() { w.sim.EndGuest(theVM) })
			_, _, err := w.update(r)
			return err
		},
		"PVE does not start it": func(w *world, lock func()) error {
			u, before := w.restarting()
			lock()
			return power{u}.awaitStart(w.t.Context(), before)
		},
	} {
		for _, shares := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, %t", how, shares), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, pve.Params{"cores": "1", "scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
				inWorld(w, func(all *state.World) {
					g := all.Guests[8000]
					if shares {
						give(all)
					}
					g.Running = &state.Running{QMPStatus: "running", PID: 99, StartedAt: all.Clock.Now(), Booted: maps.Clone(g.Config)}
				})
				w.sim.Advance(time.Minute)
				root := w.asRoot(t)
				err := run(w, func() {
					w.lock(http.MethodPost, "/nodes/{node}/qemu/{vmid}/status/start", nil)
					w.answered = onceSent(w, "/status/start", func() {
						w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi5": w.config()["scsi0"]}))
					})
				})
				w.answered = nil
				if on := w.running() != nil; on != shares || (err == nil) != shares ||
					!shares && !strings.Contains(err.Error(), "VM 8000") {
					t.Errorf("it runs: %t, %v after %v", on, err, w.writes())
				}
			})
		}
	}
}

// TestErrorsAfterTheHardStop: a guest that was cut off for its restart is started, also where the end of the stop was
// not seen. One that cannot be seen any more may be off, and the error says so; one that runs on is not.
func TestErrorsAfterTheHardStop(t *testing.T) {
	const current, stop = "/nodes/{node}/qemu/{vmid}/status/current", "/nodes/{node}/qemu/{vmid}/status/stop"
	for name, c := range map[string]struct {
		method, path string
		times        int
		runs         bool
		says         string
	}{
		"a few looks fail":    {http.MethodGet, current, 3, true, ""},
		"all looks fail":      {http.MethodGet, current, -1, false, "start it: `qm start 400` on node pve1"},
		"the stop is refused": {http.MethodPost, stop, -1, true, "stop VM 400 to restart it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"cores": "1", "scsi0": "local-zfs:1"})
			w.start()
			w.ignoreShutdown()
			r := w.request()
			r.Planned.CPU.Cores, r.Restart = new(int64(2)), RestartForcibly
			fail := func() {
				w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: c.method, Path: c.path}, Phase: fault.Before,
					Status: http.StatusInternalServerError, Reason: "got timeout", Times: c.times}})
			}
			if w.answered = onceSent(w, "/status/stop", fail); c.path == stop {
				w.answered = nil
				fail()
			}
			_, _, err := w.update(r)
			w.answered = nil
			said := fmt.Sprint(err)
			if runs := w.running() != nil; runs != c.runs || !strings.Contains(said, c.says) || (err == nil) != (c.says == "") ||
				runs && strings.Contains(said, "may be off") {
				t.Errorf("it runs: %t, %v after %v", runs, err, w.writes())
			}
		})
	}
}

// onceSent does something at the first answer after a write to a path that ends so.
func onceSent(w *world, suffix string, do func()) func() {
	did := false
	return func() {
		if !did && w.sent(suffix) > 0 {
			did = true
			do()
		}
	}
}

// TestRemovalByHandDuringARestart: while the guest does not hear its restart, or that waits for a lock, an administrator
// has a disk of it removed with its volume. A guest that runs is not taken down for that if the plan has the disk. One
// that goes off by itself is started again, and the disk is named, as is one that is none of the plan's.
func TestRemovalByHandDuringARestart(t *testing.T) {
	const reboot = "/nodes/{node}/qemu/{vmid}/status/reboot"
	const becomes = "sata1: local-zfs:vm-400-disk-0 is destroyed with its data"
	during := func(restart Restart) func(w *world, r *Request, remove func()) {
		return func(w *world, r *Request, remove func()) {
			w.ignoreShutdown()
			r.StopTimeout, r.Restart = 30*time.Second, restart
			w.when(20*time.Second, remove)
		}
	}
	goesOff := func(restart Restart, at time.Duration) func(w *world, r *Request, remove func()) {
		return func(w *world, r *Request, remove func()) {
			during(restart)(w, r, remove)
			w.when(at, func() { w.sim.EndGuest(theVM) })
		}
	}
	for name, c := range map[string]struct {
		begins  func(w *world, r *Request, remove func())
		foreign bool // the plan does not have the disk
		refused bool
	}{
		"to be cut off": {begins: during(RestartForcibly), refused: true},
		"locked": {refused: true, begins: func(w *world, _ *Request, remove func()) {
			w.lock(http.MethodPost, reboot, nil)
			w.answered = onceSent(w, "/status/reboot", remove)
		}},
		"late":                 {begins: goesOff(RestartGracefully, 2*time.Minute)},
		"cut off, and foreign": {begins: during(RestartForcibly), foreign: true},
		"late, and foreign":    {begins: goesOff(RestartGracefully, 2*time.Minute), foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"cores": "1", "sata1": "local-zfs:1"})
			w.start()
			r := w.request()
			if r.Planned.CPU.Cores = new(int64(2)); c.foreign {
				delete(r.Prior.Disks, "sata1")
				delete(r.Planned.Disks, "sata1")
			}
			c.begins(w, &r, func() { w.alter(func(g *state.Guest) { g.Deletes = map[string]int{"sata1": 2} }) })
			before := w.running()
			_, warnings, err := w.update(r)
			w.answered = nil
			said := fmt.Sprint(err, text(warnings))
			tells := !c.refused && strings.Contains(said, "The restart of VM 400 has let disks go") && strings.Contains(said, becomes) ||
				c.refused && strings.Contains(said, "`qm set 400 --revert sata1` on node pve1")
			if same := w.running() == before; same != c.refused || (err != nil) != c.refused || !tells ||
				c.refused && w.config()["sata1"] == "" || w.running() == nil {
				t.Errorf("it runs on: %t, %s after %v", same, said, w.writes())
			}
		})
	}
}
