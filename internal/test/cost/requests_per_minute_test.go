package cost_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// meter counts the requests of a world on its clock, and presses Ctrl-C when the time is over.
type meter struct {
	w     *rig.World
	limit time.Duration
	press context.CancelFunc

	mu      sync.Mutex
	begin   time.Time
	samples []sample
}

// sample is how many requests there had been at a time.
type sample struct {
	at  time.Time
	ops int
}

func (m *meter) note() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.w.Sim.World().Clock.Now()
	if m.begin.IsZero() || now.Sub(m.begin) > m.limit {
		if !m.begin.IsZero() {
			m.press()
		}
		return
	}
	m.samples = append(m.samples, sample{now, m.w.Sim.LastOp()})
}

// most is the highest number of requests within a minute, and how long it was measured.
func (m *meter) most() (most int, measured time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, from := range m.samples {
		measured = from.at.Sub(m.begin)
		for _, to := range m.samples[i:] {
			if to.at.Sub(from.at) > time.Minute {
				break
			}
			most = max(most, to.ops-from.ops)
		}
	}
	return most, measured
}

func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := m.w.Sim.DialContext(ctx, network, address)
	return meteredConn{conn, m}, err
}

type meteredConn struct {
	net.Conn
	m *meter
}

// Write notes the time.
func (c meteredConn) Write(p []byte) (int, error) {
	c.m.note()
	return c.Conn.Write(p)
}

// standstill is a state in which nothing goes on.
type standstill struct {
	name          string
	id            rig.Identity
	before, after string // the configuration when the trouble comes, and the one applied then; "" destroys
	trouble       func(w *rig.World)
	fast          bool // on a clock that runs by itself; the other one leaps while only a task is at work
}

func faults(rules ...fault.Rule) func(*rig.World) {
	return func(w *rig.World) {
		for i := range rules {
			rules[i].Times = -1
		}
		w.Sim.SetFaults(rules)
	}
}

// refusing is the same refusal of all requests with some methods.
func refusing(status int, reason string, methods ...string) func(*rig.World) {
	var rules []fault.Rule
	for _, method := range methods {
		rules = append(rules, fault.Rule{Match: fault.Match{Method: method}, Phase: fault.Before, Status: status, Reason: reason})
	}
	return faults(rules...)
}

func stand(name string, id rig.Identity, before, after string, trouble func(*rig.World)) standstill {
	return standstill{name: name, id: id, before: before, after: after, trouble: trouble}
}

func standstills() []standstill {
	scratch := func(more string) string {
		return "resource \"proxmox_vm\" \"it\" {\n  vmid = 500\n  name = \"it\"\n  node = \"pve1\"\n" +
			"  disks = { scsi0 = { storage = \"local-zfs\", size = \"2G\" } }\n  networks = { net0 = { bridge = \"vmbr0\" } }\n  protection = false\n" + more + "}\n"
	}
	vm, changed := scratch(""), scratch("  description = \"new\"\n")
	grown := strings.Replace(vm, `"2G"`, `"3G"`, 1)
	clone := "resource \"proxmox_vm\" \"it\" {\n  vmid = 500\n  name = \"it\"\n  clone = { vmid = 9000 }\n}\n"
	onScratch := fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}
	onClone := fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/clone"}
	// PVE gives up a lock after 10 s.
	const cfsLock, fileLock = "cfs-lock 'storage-nfs' error: got lock request timeout", "can't lock file '/var/lock/qemu-server/lock-500.conf' - got timeout"
	off := func(w *rig.World) { w.Sim.SetNode("pve1", false) }
	lock := func(w *rig.World) { w.Sim.StaleLock(500, "backup", "") }
	return []standstill{
		stand("locked template", "", "", clone, func(w *rig.World) { w.Sim.StaleLock(9000, "backup", "") }),
		stand("template in the hands of a task", "", "", clone, func(w *rig.World) { w.Sim.HoldLock(9000, "backup", 24*time.Hour, "root@pam") }),
		stand("locked VM, update", "", vm, changed, lock),
		stand("locked VM, growing a disk", "", vm, grown, lock),
		stand("locked VM, destroy", "", vm, "", lock),
		stand("leftover dataset", "", "", vm, func(w *rig.World) {
			w.Change(func(world *state.World) {
				key := state.VolumeKey{Storage: "local-zfs", Node: "pve1", Name: "vm-500-disk-0"}
				world.Volumes[key] = &state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-500-disk-0", Content: "images", VMID: 500,
					Format: "raw", Size: 1 << 30}
			})
		}),
		stand("dead node, create", "", "", vm, off),
		stand("dead node, update", "", vm, changed, off),
		stand("dead node, destroy", "", vm, "", off),
		stand("node that dies in a create", "", "", vm, faults(fault.Rule{Match: onScratch, Phase: fault.Offline})),
		stand("full storage", "", "", vm, func(w *rig.World) {
			w.Change(func(world *state.World) {
				world.Storages["local-zfs"].Full, world.Storages["local-zfs"].Total = true, 1<<20
			})
		}),
		stand("task that fails for space", "", "", vm, faults(fault.Rule{Match: onScratch, Phase: fault.Task, Reason: "zfs error: out of space"})),
		{name: "task that never ends", after: vm, trouble: func(w *rig.World) { w.Sim.SetTaskTime(240 * time.Hour) }, fast: true},
		stand("no quorum", "", "", vm, refusing(500, "cluster not ready - no quorum?", "POST", "PUT", "DELETE")),
		stand("503 of a proxy", "", "", vm, refusing(503, "Service Unavailable", "")),
		stand("503 of a proxy, update", "", vm, changed, refusing(503, "Service Unavailable", "")),
		stand("503 to writes", "", "", vm, refusing(503, "Service Unavailable", "POST", "PUT", "DELETE")),
		stand("429 of a proxy", "", "", vm, refusing(429, "Too Many Requests", "")),
		stand("429 to writes", "", vm, changed, refusing(429, "Too Many Requests", "POST", "PUT", "DELETE")),
		stand("silent agent", "", "", scratch("  agent = { enabled = true }\n  power_state = \"running\"\n  wait_for = { ipv4 = true, timeout = \"30m\" }\n"),
			func(w *rig.World) {
				w.Sim.SetFaults([]fault.Rule{{Times: -1, Phase: fault.Before, Reason: "QEMU guest agent is not running",
					Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces"}}})
			}),
		stand("storage lock, as an answer", "", "", vm, faults(fault.Rule{Match: onScratch, Phase: fault.Before, Reason: cfsLock})),
		stand("storage lock, in the task", "", "", vm, faults(fault.Rule{Match: onScratch, Phase: fault.Task, Reason: cfsLock, DelayMS: 10000})),
		stand("storage lock, in the task of a clone", "", "", clone, faults(fault.Rule{Match: onClone, Phase: fault.Task, Reason: "clone failed: " + cfsLock, DelayMS: 10000})),
		stand("file lock, as an answer", "", vm, changed, refusing(500, fileLock, "PUT", "POST")),
		stand("file lock, destroy", "", vm, "", faults(fault.Rule{Match: fault.Match{Method: "DELETE"}, Phase: fault.Before, Reason: fileLock, DelayMS: 10000})),
		stand("file lock, in the task of a destroy", "", vm, "", faults(fault.Rule{Match: fault.Match{Method: "DELETE"}, Phase: fault.Task, Reason: fileLock, DelayMS: 10000})),
		stand("dead node, refresh", "", vm, vm, off),
		stand("expired ticket", rig.RootTicket, vm, changed, refusing(401, "permission denied - invalid PVE ticket", "GET", "PUT", "DELETE")),
	}
}

// TestRequestsPerMinute puts the provider where it cannot go on, and counts what it asks of the server meanwhile.
func TestRequestsPerMinute(t *testing.T) {
	t.Parallel()
	const allowed = 60
	t.Logf("%-40s %8s %10s", "", "requests", "within")
	for _, c := range standstills() {
		t.Run(c.name, func(t *testing.T) {
			if c.id == "" {
				c.id = rig.TokenNoSSH
			}
			o, limit := pvesim.Options{TaskTime: time.Second}, 4*time.Minute
			if c.fast {
				o.Clock, limit = rig.NewFastClock(), 90*time.Second
			}
			w := rig.NewWorld(t, o)
			m := &meter{w: w, limit: limit}
			w.Dial = m.dial
			s := w.Session(t, c.id, c.before)
			if c.before != "" {
				if err := s.Converge(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			c.trouble(w)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m.press, m.begin = cancel, w.Sim.World().Clock.Now()
			err := standing(ctx, t, w, s, c)
			cancel()
			most, measured := m.most()
			first, _, _ := strings.Cut(strings.Join(strings.Fields(errText(err)), " "), ". ")
			t.Logf("%-40s %8d %10s  %.150s", c.name, most, measured.Round(time.Second), first)
			if calm := c.before == c.after; (err == nil) != calm { // a refresh warns
				t.Errorf("it ended with %v", err)
			}
			if most >= allowed {
				t.Errorf("%d requests within a minute, want fewer than %d: %v", most, allowed, busiest(w.Sim.Ops()))
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func standing(ctx context.Context, t *testing.T, w *rig.World, s *terraformtest.Session, c standstill) error {
	if c.after == "" {
		return s.Destroy(ctx)
	}
	w.Reconfigure(t, s, c.id, c.after)
	return s.Converge(ctx)
}

// busiest are the kinds of requests by number.
func busiest(ops []pvesim.Op) []string {
	counts := map[string]int{}
	for _, op := range ops {
		counts[op.Method+" "+op.Path]++
	}
	var all []string
	for kind, n := range counts {
		if n > 4 {
			all = append(all, kind+" "+strings.Repeat("|", min(n, 40)))
		}
	}
	slices.Sort(all)
	return all
}
