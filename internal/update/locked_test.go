package update

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// administer lets the identity of the tests manage HA, which takes Sys.Console.
func administer(all *state.World) {
	for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
		all.ACL = append(all.ACL, state.ACLEntry{Path: "/", Role: "Administrator", Subject: who, Propagate: true})
	}
}

// lock has a request find a lock twice, and a third party act meanwhile.
func (w *world) lock(method, path string, act func(*state.World)) {
	rule := fault.Rule{Match: fault.Match{Method: method, Path: path}, Phase: fault.Before, Times: 2,
		Reason: "cfs-lock 'domain-ha' error: got lock request timeout"}
	if path == "/pools" {
		rule.Reason = "update pools failed: cfs-lock 'file-user_cfg' error: got lock request timeout"
	}
	if strings.Contains(path, "/status/") {
		rule.Phase, rule.Reason = fault.Task, "VM is locked (backup)"
	}
	w.sim.SetFaults([]fault.Rule{rule})
	w.answered = onceSent(w, path, func() { inWorld(w, act) })
}

// TestNoStartBesideAnotherGuestAfterALock: VM 8000 is off and has a disk of VM 400. A start of VM 400, or its HA entry,
// waits for a lock, and an administrator starts VM 8000 meanwhile. Two guests on one disk destroy what is on it.
func TestNoStartBesideAnotherGuestAfterALock(t *testing.T) {
	const start, entries = "/nodes/{node}/qemu/{vmid}/status/start", "/cluster/ha/resources"
	plan := func(change func(*world, *Request)) func(*world) func() error {
		return func(w *world) func() error {
			r := w.request()
			change(w, &r)
			return func() error { _, _, err := w.update(r); return err }
		}
	}
	for name, c := range map[string]struct {
		method, path, at string
		begin            func(*world) func() error
	}{
		"a start": {"POST", start, "power_state", plan(func(_ *world, r *Request) { r.PowerState = guest.Running })},
		"into HA": {"POST", entries, "ha", plan(func(_ *world, r *Request) { r.HA = &guest.HA{} })},
		"started by HA": {"PUT", entries + "/{sid}", "ha", plan(func(w *world, r *Request) {
			w.must(w.api.HA().Create(w.t.Context(), theVM, pve.Params{"state": "stopped"}))
			r.PriorHA, r.HA = &guest.HA{State: new("stopped")}, &guest.HA{State: new("started")}
		})},
		"a forced restart": {"POST", start, "reboot_policy", func(w *world) func() error {
			w.start()
			w.ignoreShutdown()
			return plan(func(_ *world, r *Request) {
				r.Planned.CPU.Cores, r.Restart = new(int64(2)), RestartForcibly
			})(w)
		}},
		"a restart": {"POST", start, "reboot_policy", func(w *world) func() error {
			u, before := w.restarting()
			return func() error { return power{u}.awaitStart(w.t.Context(), before) }
		}},
		"a late restart": {"POST", start, "reboot_policy", func(w *world) func() error {
			u, before := w.restarting()
			return func() error { return power{u}.startAgain(w.t.Context(), &before) }
		}},
	} {
		for _, mended := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", VM 8000 runs", false: ", it is off"}[mended], func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, pve.Params{"cores": "1", "scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
				inWorld(w, func(all *state.World) {
					administer(all)
					g := all.Guests[8000]
					g.Config["scsi5"], g.Running = all.Guests[theVM].Config["scsi0"], nil
				})
				do, came := c.begin(w), false
				w.lock(c.method, c.path, func(all *state.World) {
					came = true
					if g := all.Guests[8000]; mended {
						g.Running = &state.Running{QMPStatus: "running", PID: 99, StartedAt: all.Clock.Now(), Booted: maps.Clone(g.Config)}
					}
				})
				err := do()
				w.answered = nil
				begun := w.running() != nil
				inWorld(w, func(all *state.World) {
					entry := all.HA["vm:400"]
					begun = begun || entry != nil && entry.State != "stopped"
				})
				var field *guest.FieldError
				refused := errors.As(err, &field) && field.Path == c.at && field.Summary == "VM 400 was not started" &&
					strings.Contains(err.Error(), "VM 8000")
				if !came || begun == mended || refused != mended || (err != nil) != mended {
					t.Errorf("locked %t, begun %t: %v after %v", came, begun, err, w.writes())
				}
			})
		}
	}
}

// TestPoolAfterALock: a move to another pool waits for the lock of user.cfg, and a third party changes the pool
// meanwhile. Theirs is not left, and nothing is sent where the VM is in the planned pool.
func TestPoolAfterALock(t *testing.T) {
	for name, c := range map[string]struct {
		profile, to, theirs string
		in                  string
		sent                int
	}{
		"moved to another":       {to: "b", theirs: "web2", in: "web2", sent: 1},
		"moved as planned":       {to: "b", theirs: "b", in: "b", sent: 1},
		"taken out":              {to: "b", theirs: "", in: "b", sent: 3},
		"left where it was":      {to: "b", theirs: "a", in: "b", sent: 3},
		"the same, in two steps": {profile: "8.0", to: "b", theirs: "a", in: "b", sent: 5},
		"to leave, and moved":    {to: "", theirs: "web2", in: "web2", sent: 1},
		"to leave, and has":      {to: "", theirs: "", in: "", sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, pvesim.Options{Profile: c.profile}, pve.Params{})
			put := func(pool string) func(*state.World) {
				return func(all *state.World) {
					for _, id := range []string{"a", "b", "web2"} {
						if all.Pools[id] = (&state.Pool{ID: id, Guests: []int{}}); id == pool {
							all.Pools[id].Guests = []int{theVM}
						}
					}
				}
			}
			inWorld(w, put("a"))
			r := w.request()
			r.PriorPool, r.Pool = "a", c.to
			w.lock("PUT", "/pools", put(c.theirs))
			g, _, err := w.update(r)
			w.answered = nil
			in, says := "", ""
			inWorld(w, func(all *state.World) {
				for id, pool := range all.Pools {
					if slices.Contains(pool.Guests, theVM) {
						in = id
					}
				}
			})
			if err != nil {
				says = err.Error()
			}
			if in != c.in || g.Pool != in || w.sent("/pools") != c.sent || (err != nil) != (in != c.to) ||
				err != nil && !strings.Contains(says, "into pool web2 since the plan") {
				t.Errorf("in pool %q, by the state in %q: %s after %v", in, g.Pool, says, w.writes())
			}
		})
	}
}

// TestGuestThatObeysDuringALock: the restart of a guest waits for a lock, or the hard stop does after it did not obey.
// Meanwhile the guest shuts down and its user starts it again, with everything in force. It is neither restarted again
// nor cut off. One that stays off after it was asked to restart is started.
func TestGuestThatObeysDuringALock(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		policy Restart
		again  bool // its user starts it
	}{
		"forced, started again":   {"stop", RestartForcibly, true},
		"forced, off":             {"stop", RestartForcibly, false},
		"restarted already":       {"reboot", RestartGracefully, true},
		"forced, restarted early": {"reboot", RestartForcibly, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"cores": "1"})
			w.start()
			r := w.request()
			r.Planned.CPU.Cores, r.Restart = new(int64(2)), c.policy
			if c.path == "stop" {
				w.ignoreShutdown()
			}
			w.lock("POST", "/nodes/{node}/qemu/{vmid}/status/"+c.path, func(all *state.World) {
				g := all.Guests[theVM]
				maps.Copy(g.Config, g.Pending)
				g.Pending, g.Running = nil, nil
				if c.again {
					g.Running = &state.Running{QMPStatus: "running", PID: 4711, StartedAt: all.Clock.Now(), Booted: maps.Clone(g.Config)}
				}
			})
			_, warnings, err := w.update(r)
			w.answered = nil
			runs := w.running()
			if err != nil || runs == nil || (runs.PID == 4711) != c.again || runs.Booted["cores"] != "2" ||
				w.sent("/status/"+c.path) != 1 || strings.Contains(text(warnings), "was cut off") {
				t.Errorf("%v, %v: runs %+v after %v", err, warnings, runs, w.writes())
			}
		})
	}
}
