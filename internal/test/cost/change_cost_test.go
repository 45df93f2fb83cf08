package cost_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// shared is how many requests a run of plan and apply sends for all of its VMs together: listings, permissions, storages.
const shared = 5

// perNode is how many requests a run sends to each node to learn which of its guests run: one guest, and then all of them, by the plan
// and by the apply.
const perNode = 4

// TestCostUpdateOfVMs: refresh, plan and apply of n VMs take 3n requests for options that PVE applies at once, 4n for others on guests
// that are off, and 6n with a restart of running guests, polls aside. Requests that all of them share come to that, and with restarts a
// listing for each wave of ten, which shows whether the node has so many CPUs.
func TestCostUpdateOfVMs(t *testing.T) {
	t.Parallel()
	counts, _ := sizes()
	for _, c := range []struct {
		name, option   string
		stopped, known bool // the guests were stopped; and the state knows
		law, nodes     int
		waves          int // how many requests each ten VMs share
	}{
		{name: "in force at once", option: "description = \"is %d\"", law: 3},
		{name: "in force at once, stopped since", option: "description = \"is %d\"", stopped: true, law: 3, nodes: 3},
		{name: "of guests that are off", option: "cpu = { cores = %d }", stopped: true, known: true, law: 4, nodes: 3},
		{name: "of guests that were stopped since", option: "cpu = { cores = %d }", stopped: true, law: 4, nodes: 3},
		{name: "with a restart", option: "cpu = { cores = %d }", law: 6, nodes: 3, waves: 1},
	} {
		for _, n := range counts {
			synctest.Test(t, func(t *testing.T) {
				w := company(t, 20, pvesim.Options{Clock: rig.BubbleClock(), Latency: time.Millisecond, Workers: 3,
					TaskTime: 500 * time.Millisecond})
				with := func(value int) string {
					return strings.Replace(fmt.Sprintf(manyRunning, n), "disks =", fmt.Sprintf(c.option, value)+"\n  disks =", 1)
				}
				s := w.Session(t, rig.TokenNoSSH, with(1))
				s.Parallelism = 10
				if err := s.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if c.stopped {
					w.Change(func(all *state.World) {
						for i := range n {
							all.Guests[300+i].Running = nil
						}
					})
				}
				w.Sim.World().Clock.Sleep(10 * time.Minute)
				if c.known {
					if err := s.Refresh(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				w.ExpectPowerOffs(state.PowerReboot)
				w.Reconfigure(t, s, rig.TokenNoSSH, with(2))
				ops := withoutPolls(requestsOf(t, w, func() error { return s.Run(t.Context()) }))
				held(t, "update "+c.name, ops, n, 20, c.law*n+shared+perNode*min(c.nodes, n)+c.waves*n/10)
			})
		}
	}
}

// withoutPolls leaves out the polls of tasks, and those of a guest from its restart until its configuration is read.
func withoutPolls(ops []pvesim.Op) []pvesim.Op {
	restarts := map[int]bool{}
	return slices.DeleteFunc(ops, func(op pvesim.Op) bool {
		switch op.Method + " " + op.Path {
		case "POST /nodes/{node}/qemu/{vmid}/status/reboot":
			restarts[op.VMID] = true
		case "GET /nodes/{node}/qemu/{vmid}/pending":
			delete(restarts, op.VMID)
		case "GET /nodes/{node}/qemu/{vmid}/status/current":
			return restarts[op.VMID]
		}
		return strings.HasPrefix(op.Path, "/nodes/{node}/tasks")
	})
}

const manyClones = `
resource "proxmox_vm" "many" {
  count = %d
  vmid  = 300 + count.index
  name  = "vm-${count.index}"
  node  = "pve1"
  clone = { vmid = 9000 }
}
`

// TestCostCreateOfClones: plan and apply of n clones that are started take 9n requests at most, without polls of tasks. One
// of each nine looks for a firewall that was set under a configured id.
func TestCostCreateOfClones(t *testing.T) {
	t.Parallel()
	counts, _ := sizes()
	for _, n := range counts {
		w := company(t, 20, pvesim.Options{})
		s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(manyClones, n))
		s.Parallelism = 10
		ops := requestsOf(t, w, func() error { return s.Run(t.Context()) })
		held(t, "clone and start", withoutPolls(ops), n, 20, 9*n+2*shared)
	}
}

// TestCostReplacementOfCopies: the destroys that begin the replacements of n copies look once more for the source, and share the look of a
// moment.
func TestCostReplacementOfCopies(t *testing.T) {
	t.Parallel()
	counts, _ := sizes()
	for _, n := range counts {
		for _, c := range []struct{ name, copied, path string }{
			{"clone", "clone = { vmid = 9000 }", "/nodes/{node}/qemu/{vmid}/config"},
			{"backup", `restore = { archive = "` + rig.WebBackup + `" }`, "/nodes/{node}/storage/{storage}/content"},
		} {
			synctest.Test(t, func(t *testing.T) { // what was read counts for some seconds, and the machine may be slow
				w := company(t, 20, pvesim.Options{Clock: rig.BubbleClock(), Latency: time.Millisecond})
				w.Change(func(all *state.World) { all.AddBackup("pve1") })
				with := func(first int) string {
					return strings.Replace(strings.Replace(fmt.Sprintf(manyClones, n), "clone = { vmid = 9000 }", "protection = false\n"+c.copied, 1), "300", fmt.Sprint(first), 1)
				}
				s := w.Session(t, rig.TokenNoSSH, with(300))
				s.Parallelism = 10
				rig.Must(t, s.Run(t.Context()))
				w.Reconfigure(t, s, rig.TokenNoSSH, with(400))
				planned, err := s.Plan(t.Context())
				rig.Must(t, err)
				w.Sim.World().Clock.Sleep(20 * time.Second)
				ops := requestsOf(t, w, func() error { return s.Apply(t.Context(), planned) })
				looks := slices.DeleteFunc(slices.Clone(ops), func(op pvesim.Op) bool {
					return op.Method != http.MethodGet || op.Path != c.path || c.name == "clone" && op.VMID != 9000 ||
						c.name == "backup" && !strings.Contains(fmt.Sprint(op), "backup")
				})
				if len(looks) > 1+n/4 {
					t.Errorf("the source of %d copies (%s) is looked at %d times", n, c.name, len(looks))
				}
			})
		}
	}
}
