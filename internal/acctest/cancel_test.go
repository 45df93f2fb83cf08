package acctest_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// interrupter is the provider's log, and presses Ctrl-C when the answer to an operation has been noted in it.
type interrupter struct {
	w     *acctest.World
	at    fault.Match // the operation; polls come in any number, so it is the n-th of its kind
	press context.CancelFunc
}

// Write looks at a line of the log.
func (i *interrupter) Write(line []byte) (int, error) {
	if i.press == nil || !bytes.Contains(line, []byte(`"PVE request"`)) {
		return len(line), nil
	}
	if alike(i.w.Sim.Ops(), i.at.Method, i.at.Path) >= i.at.Nth {
		i.press()
	}
	return len(line), nil
}

// alike counts the operations of a kind.
func alike(ops []pvesim.Op, method, path string) int {
	n := 0
	for _, op := range ops {
		if op.Method == method && op.Path == path {
			n++
		}
	}
	return n
}

// fast is a clock that runs fifty times as fast as the machine's. On the one that moves by itself a task is over before
// its answer is read, and no interrupt ever meets one.
type fast struct{ start time.Time }

const speed = 50

func (f fast) Now() time.Time { return f.start.Add(time.Since(f.start) * speed) }

func (f fast) Sleep(d time.Duration) { f.SleepContext(context.Background(), d) }

func (f fast) SleepContext(ctx context.Context, d time.Duration) {
	clock.Real{}.SleepContext(ctx, d/speed)
}

// stage is a cluster with one VM in state, whose operations are interrupted one by one.
type stage struct {
	t     *testing.T
	w     *acctest.World
	s     *drive.Session
	id    acctest.Identity
	keys  *interrupter
	saved drive.SavedState
	world []byte
	ended map[string]int // tasks that an interrupt met, by type and end
}

// taskTime is long enough for an interrupt to meet a task at work.
const taskTime = 4 * time.Second

// interruptedVM is the VM of the tests: something of every kind that a task may be at work on.
func interruptedVM(options string) string {
	return `resource "proxmox_vm" "web" {
  vmid     = 300
  name     = "web"
  memory   = { size = 1024 }
  networks = { net0 = { bridge = "vmbr0" } }
  ` + options + "\n}"
}

func newStage(t *testing.T, id acctest.Identity, options string) *stage {
	t.Helper()
	w := acctest.NewWorld(t, pvesim.Options{Clock: fast{time.Now()}})
	w.Change(func(world *state.World) {
		world.Pools["other"] = &state.Pool{ID: "other"}
		world.AddBackup("pve1")
	})
	w.Mark()
	st := &stage{t: t, w: w, id: id, keys: &interrupter{w: w}, ended: map[string]int{}}
	w.LogTo(st.keys)
	st.s = w.Session(t, id, interruptedVM(options))
	if err := st.s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	st.saved, st.world = st.s.SaveState(), w.Sim.Snapshot()
	w.Sim.SetTaskTime(taskTime)
	return st
}

// again goes back to the beginning.
func (st *stage) again() {
	st.w.Sim.SetFaults(nil)
	if err := st.w.Sim.Load(st.world); err != nil {
		st.t.Fatal(err)
	}
	st.w.Change(func(world *state.World) { clear(world.Tasks) })
	st.s.RestoreState(st.saved)
	st.w.ResetCalls()
}

// interrupt runs something and interrupts it when an operation was answered, or lost its answer. False: it was over before.
func (st *stage) interrupt(at fault.Match, lost bool, run func(context.Context) error) (effective bool, err error) {
	st.again()
	if lost {
		st.w.Sim.SetFaults([]fault.Rule{{Match: at, Phase: fault.After}})
	}
	ctx, cancel := context.WithCancel(st.t.Context())
	defer cancel()
	st.keys.at, st.keys.press = at, cancel
	err = run(ctx)
	st.keys.press = nil
	effective = ctx.Err() != nil && (!lost || st.w.Sim.FaultsFired() > 0)
	st.w.Sim.SetFaults(nil)
	return effective, err
}

// everything is whether there is time for all cases.
func everything() bool { return os.Getenv("CANCEL_ALL") != "" }

// each interrupts an operation at each of its requests, in both ways, and counts.
func (st *stage) each(what string, run func(context.Context) error, check func(name string, err error)) int {
	st.t.Helper()
	st.again()
	if err := run(st.t.Context()); err != nil {
		st.t.Fatalf("%s without an interrupt: %v", what, err)
	}
	ops, cases := st.w.Sim.Ops(), 0
	for i, op := range ops {
		if i > 1 && op.Method == http.MethodGet && ops[i-1].Method == http.MethodGet && ops[i-2].Method == http.MethodGet && !everything() {
			continue // the third read in a row, or poll, is like the second
		}
		for _, lost := range []bool{false, true} {
			if lost && (op.Method == http.MethodGet || op.Path == "/access/ticket") {
				continue // a read is sent again
			}
			effective, err := st.interrupt(fault.Match{Method: op.Method, Path: op.Path, Nth: alike(ops[:i+1], op.Method, op.Path)}, lost, run)
			if !effective {
				continue
			}
			cases++
			name := fmt.Sprintf("%s, interrupted at #%d %s, answer lost %t", what, op.Seq, opName(op), lost)
			st.nothingAtWork(name)
			check(name, err)
		}
	}
	st.t.Logf("%s: %d interrupts at %d operations; tasks met by them: %s", what, cases, len(ops), strings.Join(st.tally(), ", "))
	clear(st.ended)
	return cases
}

func (st *stage) tally() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(st.ended)) {
		all = append(all, fmt.Sprintf("%d %s", st.ended[name], name))
	}
	return all
}

// nothingAtWork looks that no task runs on behind the user's back, that nothing is locked, and that no volume is in no slot.
func (st *stage) nothingAtWork(name string) {
	st.t.Helper()
	st.w.Change(func(world *state.World) {
		for _, task := range world.Tasks {
			if task.Running && (task.User != "root@pam" || st.id == acctest.RootTicket) { // PVE's own, after a reboot
				st.t.Errorf("%s: task %s still runs", name, task.UPID)
			}
			end := "ended well"
			if strings.Contains(task.ExitStatus, "interrupt") || task.Type == "qmigrate" && strings.HasPrefix(task.ExitStatus, "migration ") {
				end = "stopped"
			}
			st.ended[task.Type+" "+end]++
		}
		for _, g := range world.Guests {
			if lock := g.Config["lock"]; lock != "" {
				st.t.Errorf("%s: VM %d is locked (%s)", name, g.VMID, lock)
			}
		}
		for _, v := range world.Volumes {
			if v.VMID != 300 {
				continue
			}
			g := world.Guests[300]
			if g == nil || !slices.ContainsFunc(slices.Collect(maps.Values(g.Config)), func(value string) bool { return strings.HasPrefix(value, v.Volid()) }) {
				st.t.Errorf("%s: volume %s on %s is in no slot", name, v.Volid(), v.Node)
			}
		}
	})
}

// guest is the VM as it should be, whatever its volumes are called.
func (st *stage) guest() map[string]string {
	number := regexp.MustCompile(`(vm|base)-300-disk-\d+`)
	values := map[string]string{}
	st.w.Change(func(world *state.World) {
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

// TestCancelUpdate: Ctrl-C at every request of a change. No task is left at work, nothing is locked or lost, and the next
// apply finishes the change.
func TestCancelUpdate(t *testing.T) {
	t.Parallel()
	disks := `disks = { scsi0 = { storage = "local-zfs", size = "2G" } }`
	cases := []struct {
		name          string
		id            acctest.Identity
		before, after string
	}{
		{"options, disks and pool", acctest.TokenSSH, `node = "pve1"
  power_state = "stopped"
  ` + disks + `
  pool = "web"`, `node = "pve1"
  power_state = "running"
  pool = "other"
  description = "changed"
  disks = {
    scsi0 = { storage = "local-lvm", size = "4G" }
    scsi1 = { storage = "local-zfs", size = "1G" }
  }
  firewall = { enabled = true, rules = [{ type = "in", action = "ACCEPT" }] }`},
		{"restart", acctest.TokenNoSSH, `node = "pve1"
  ` + disks, `node = "pve1"
  cpu = { cores = 2 }
  ` + disks},
		{"migration", acctest.TokenNoAllocate, `node = "pve1"
  ` + disks, `node = "pve2"
  ` + disks},
		{"template", acctest.RootTicket, `node = "pve1"
  ` + disks, `node = "pve1"
  power_state = "stopped"
  template = true
  ` + disks},
		{"HA", acctest.RootTicket, `node = "pve1"
  ` + disks, `node = "pve1"
  ha = { state = "started" }
  ` + disks},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, c.id, c.before)
			st.w.Reconfigure(t, st.s, c.id, interruptedVM(c.after))
			st.again()
			if err := st.s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := st.guest()
			st.each(c.name, st.s.Run, func(name string, err error) {
				if addresses := st.s.Addresses(); len(addresses) != 1 {
					t.Errorf("%s: in state: %v (%v)", name, addresses, err)
					return
				}
				if err := st.s.Converge(t.Context()); err != nil {
					t.Errorf("%s: the next apply: %v\nafter: %v", name, err, err)
				}
				if diff := cmp.Diff(want, st.guest()); diff != "" {
					t.Errorf("%s: after the next apply (-want +got):\n%s", name, diff)
				}
				st.nothingAtWork(name + ", next apply")
			})
		})
	}
}

// TestCancelDelete: Ctrl-C at every request of a destroy. Either the VM is gone, whole and also from state, or it is in
// state, and the next destroy finishes.
func TestCancelDelete(t *testing.T) {
	t.Parallel()
	for _, id := range acctest.Identities() {
		if (id == acctest.TokenSSH || id == acctest.TokenNoAllocate) && !everything() {
			continue // they destroy as the token without SSH does
		}
		t.Run(string(id), func(t *testing.T) {
			t.Parallel()
			ha := ""
			if id == acctest.RootTicket {
				ha = `ha = { state = "started" }`
			}
			st := newStage(t, id, `node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "2G" }, scsi1 = { storage = "local-lvm", size = "1G" } }
  pool = "web"
  `+ha)
			gone := 0
			cases := st.each("destroy, "+string(id), st.s.Destroy, func(name string, err error) {
				if len(st.s.Addresses()) == 0 {
					gone++
				} else if err == nil {
					t.Errorf("%s: no error, and still in state", name)
				}
				err = st.s.Destroy(t.Context())
				if ha != "" && err != nil && strings.Contains(err.Error(), "runs again after it was shut down") {
					err = st.s.Destroy(t.Context()) // HA has its entry back, and was about to start the guest
				}
				if err != nil {
					t.Errorf("%s: the next destroy: %v", name, err)
				}
				for _, line := range st.w.Leaks() {
					t.Errorf("%s: left: %s", name, line)
				}
			})
			t.Logf("%d of %d interrupted destroys had taken the VM away whole", gone, cases)
		})
	}
}

// TestCancelCreate: Ctrl-C at every request of a create leaves nothing, or a VM in state.
func TestCancelCreate(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{
		"scratch": `node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "2G" } }
  pool = "web"`,
		"clone": `node = "pve1"
  clone = { vmid = 9000 }
  protection = false
  disks = { scsi0 = { size = "4G" } }`,
		"restore": `node = "pve1"
  restore = { archive = "` + theBackup + `" }
  protection = false
  disks = { scsi0 = { size = "4G" } }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, acctest.TokenSSH, options)
			if err := st.s.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			st.saved, st.world = st.s.SaveState(), st.w.Sim.Snapshot()
			made := 0
			cases := st.each("create, "+name, st.s.Run, func(name string, err error) {
				if len(st.s.Addresses()) > 0 {
					made++
					if err := st.s.Converge(t.Context()); err != nil {
						t.Errorf("%s: the next apply: %v", name, err)
					}
					return
				}
				for _, line := range st.w.Leaks() {
					t.Errorf("%s: left: %s (%v)", name, line, err)
				}
			})
			t.Logf("%d of %d interrupted creates were complete", made, cases)
		})
	}
}

// TestCancelReadAndImport: Ctrl-C at every request of a refresh and of an import changes neither the server nor what is known.
func TestCancelReadAndImport(t *testing.T) {
	t.Parallel()
	st := newStage(t, acctest.TokenNoSSH, `node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "2G" } }
  agent = { enabled = true }`)
	before := st.guest()
	known := func() string { return drive.ShowValue(st.s.Attr("proxmox_vm.web", "disks")) }
	disks := known()
	untouched := func(name string) {
		if diff := cmp.Diff(before, st.guest()); diff != "" {
			t.Errorf("%s: the VM has changed (-want +got):\n%s", name, diff)
		}
	}
	st.each("refresh", st.s.Refresh, func(name string, _ error) {
		untouched(name)
		if got := known(); got != disks {
			t.Errorf("%s: state has %s, had %s", name, got, disks)
		}
		pl, err := st.s.Plan(t.Context())
		if err != nil || !pl.Empty() {
			t.Errorf("%s: the next plan: %v %s", name, err, pl)
		}
	})
	st.again()
	st.s.Forget("proxmox_vm.web")
	st.saved = st.s.SaveState()
	st.each("import", func(ctx context.Context) error { return st.s.Import(ctx, "proxmox_vm.web", "pve1/300") }, func(name string, err error) {
		untouched(name)
		if err == nil != (len(st.s.Addresses()) == 1) {
			t.Errorf("%s: %v, and in state: %v", name, err, st.s.Addresses())
		}
	})
}

// TestATimeoutEndsTheTask: when the time of an update is over its task is ended like by an interrupt, and the error says so.
func TestATimeoutEndsTheTask(t *testing.T) {
	for range 10 { // on a clock that moves by itself the task may be over before the interrupt is heard
		h := newHooked(t, token())
		r := h.updating(t, h.existing(t, small(300)))
		changing()["a move"](&r)
		h.sim.SetTaskTime(time.Hour)
		ctx, cancel := context.WithCancelCause(t.Context())
		h.once(http.MethodPost, "/move_disk", func() { cancel(context.DeadlineExceeded) })
		guest, _, err := h.svc.Update(ctx, r)
		cancel(nil)
		if guest.Spec.Disks["scsi0"].Storage != "local-zfs" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "qmmove") || !strings.Contains(err.Error(), "was stopped: ") {
			t.Error(err)
		}
		return
	}
	t.Error("the task was over before each interrupt")
}
