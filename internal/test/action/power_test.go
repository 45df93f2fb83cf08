package action_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// actor is a world with VM 500, which an action is done to.
type actor struct {
	*testing.T
	w    *rig.World
	s    *terraformtest.Session
	uuid string
}

func newActor(t *testing.T, id rig.Identity, options ...pvesim.Options) *actor {
	t.Helper()
	a := &actor{T: t, w: rig.NewWorld(t, options...)}
	a.s = a.w.Session(t, id, "resource \"proxmox_vm\" \"x\" {\n  name = \"x\"\n  vmid = 500\n  node = \"pve1\"\n"+
		"  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n}\n")
	if err := a.s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.uuid = terraformtest.Text(a.s.Attr("proxmox_vm.x", "uuid"), "")
	a.w.ResetCalls()
	a.w.Sim.ResetPowerOffs()
	return a
}

// guest shows what VM 500 does: "running", "stopped", "paused", with its lock behind it.
func (a *actor) guest() (does string) {
	a.w.Change(func(world *state.World) {
		switch g := world.Guests[500]; {
		case g == nil:
			does = "gone"
		case g.Running == nil:
			does = strings.TrimSpace("stopped " + g.Lock())
		default:
			does = strings.TrimSpace(g.Running.QMPStatus + " " + g.Lock())
		}
	})
	return does
}

// set brings VM 500 to where an action begins.
func (a *actor) set(does string) {
	a.Helper()
	for _, action := range map[string][]string{"running": nil, "stopped": {"stop"}, "paused": {"suspend"},
		"stopped suspended": {"suspend\"\nto_disk = true\nstate_storage = \"local-zfs"}}[does] {
		if _, err := a.act("action = \"" + action + "\""); err != nil {
			a.Fatalf("set it %s: %v", does, err)
		}
	}
	if got := a.guest(); got != does {
		a.Fatalf("it is %s, and is to be %s", got, does)
	}
	a.w.Sim.ResetPowerOffs()
	a.w.ResetCalls()
}

// act switches VM 500.
func (a *actor) act(config string) (progress string, err error) {
	return a.between(config, nil)
}

func (a *actor) between(config string, between func()) (progress string, err error) {
	return rig.Invoke(a.T, a.s, "proxmox_vm_power", "vmid = 500\n"+config, between)
}

// writes are the requests of the last invocation that change something.
func (a *actor) writes() (all []string) {
	for _, call := range a.w.Calls() {
		for _, op := range call.Ops {
			if op.Method != http.MethodGet && !strings.HasPrefix(op.Path, "/access/ticket") {
				all = append(all, op.Method+" "+op.Path)
			}
		}
	}
	return all
}

// TestActionsPower: each action, from each state of a guest, as each identity: where it ends, what is told, and that what has nothing to
// do or cannot work sends nothing.
func TestActionsPower(t *testing.T) {
	t.Parallel()
	cases := []struct{ from, action, to, says string }{
		{"running", "start", "running", "nothing to do"},
		{"running", "shutdown", "stopped", "Task UPID"},
		{"running", "stop", "stopped", "Task UPID"},
		{"running", "reboot", "running", "runs again"},
		{"running", "reset", "running", "Task UPID"},
		{"running", "suspend", "paused", "Task UPID"},
		{"running", "suspend to disk", "stopped suspended", "State saved"},
		{"running", "resume", "running", "nothing to do"},
		{"stopped", "start", "running", "Task UPID"},
		{"stopped", "shutdown", "stopped", "nothing to do"},
		{"stopped", "stop", "stopped", "nothing to do"},
		{"stopped", "reboot", "stopped", "!VM 500 is off"},
		{"stopped", "reset", "stopped", "!VM 500 is off"},
		{"stopped", "suspend", "stopped", "!VM 500 is off"},
		{"stopped", "suspend to disk", "stopped", "!VM 500 is off"},
		{"stopped", "resume", "stopped", "!VM 500 is off"},
		{"paused", "start", "paused", "!VM 500 is paused"},
		{"paused", "shutdown", "paused", "!VM 500 is paused"},
		{"paused", "stop", "stopped", "Task UPID"},
		{"paused", "reboot", "paused", "!VM 500 is paused"},
		{"paused", "reset", "prelaunch", "Task UPID"},
		{"paused", "suspend", "paused", "nothing to do"},
		{"paused", "resume", "running", "Task UPID"},
		{"stopped suspended", "start", "running", "resumes it"},
		{"stopped suspended", "stop", "stopped suspended", "nothing to do"},
		{"stopped suspended", "suspend to disk", "stopped suspended", "nothing to do"},
		{"stopped suspended", "resume", "running", "Task UPID"},
	}
	for _, id := range rig.Identities() {
		t.Run(string(id), func(t *testing.T) {
			t.Parallel()
			first := newActor(t, id)
			first.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot, state.PowerReset, state.PowerSuspend)
			world, saved := first.w.Sim.Snapshot(), first.s.SaveState()
			for _, c := range cases {
				t.Run(c.action+" while "+c.from, func(t *testing.T) {
					if err := first.w.Sim.Load(world); err != nil {
						t.Fatal(err)
					}
					first.s.RestoreState(saved)
					a := *first
					a.T = t
					a.set(c.from)
					name, toDisk := strings.CutSuffix(c.action, " to disk")
					config := fmt.Sprintf("action = %q\nuuid = proxmox_vm.x.uuid\nnode = \"pve1\"\n", name)
					if toDisk {
						config += "to_disk = true\nstate_storage = \"local-zfs\"\n"
					}
					told, err := a.act(config)
					says, refused := strings.CutPrefix(c.says, "!")
					if refused != (err != nil) || err == nil && !strings.Contains(told, says) || err != nil && !strings.Contains(err.Error(), says) {
						t.Errorf("told %q, error %v", told, err)
					}
					if got := a.guest(); got != c.to {
						t.Errorf("it is %s", got)
					}
					if sent := a.writes(); (refused || says == "nothing to do") != (len(sent) == 0) || len(sent) > 1 {
						t.Errorf("sent %q", sent)
					}
				})
			}
		})
	}
}

// TestActionsPowerRefuseOthers: what is no VM, no guest, or another VM than was meant is refused by the plan, and by the invocation where it
// came in between; nothing of it changes.
func TestActionsPowerRefuseOthers(t *testing.T) {
	t.Parallel()
	a := newActor(t, rig.TokenNoSSH, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	a.w.Mark()
	for _, c := range []struct {
		config, says string
		planned      bool
	}{
		{"vmid = 8100\naction = \"stop\"", "8100 is no VM", true},
		{"vmid = 9000\naction = \"start\"", "VM 9000 is a template", true},
		{"vmid = 500\nuuid = \"00000000-0000-0000-0000-000000000000\"\naction = \"stop\"", "VM 500 is another VM", true},
		{"vmid = 500\nnode = \"pve2\"\naction = \"stop\"", "VM 500 is on another node", false},
		{"vmid = 799\naction = \"stop\"", "There is no VM 799", false},
		{"vmid = 500\naction = \"stop\"\nto_disk = true", "Only action", true},
		{"vmid = 500\naction = \"suspend\"\nstate_storage = \"local-zfs\"", "needed only with to_disk", true},
		{"vmid = 500\naction = \"suspend\"\nto_disk = true\nstate_storage = \"local-zsf\"", "Did you mean \"local-zfs\"?", true},
		{"vmid = 500\naction = \"explode\"", "value must be one of", true},
	} {
		planned := true
		_, err := rig.Invoke(t, a.s, "proxmox_vm_power", c.config, func() { planned = false })
		if err == nil || !strings.Contains(err.Error(), c.says) || planned != c.planned {
			t.Errorf("%s: in the plan %t, error %v", c.config, planned, err)
		}
	}
	a.w.MustBeClean(t)
}

// TestActionsPowerOfAGuestThatIgnoresShutdown: one that does not obey runs on, and the error says what was asked of it; one that obeys late is a success, and
// is started again where it was to restart.
func TestActionsPowerOfAGuestThatIgnoresShutdown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action   string
		deaf     bool
		seconds  int
		to, says string
	}{
		{"shutdown", true, 0, "running", "!did not shut down within 1m0s"},
		{"reboot", true, 0, "running", "!did not restart within 1m0s"},
		{"shutdown", false, 50, "stopped", "Asking"},
		{"reboot", false, 50, "running", "runs again"},
		{"shutdown", false, 30, "stopped", "Asking"},
	} {
		a := newActor(t, rig.TokenNoSSH)
		a.w.ExpectPowerOffs(state.PowerShutdown, state.PowerReboot)
		a.w.Change(func(world *state.World) {
			g := world.Guests[500]
			if g.ShutdownSeconds = c.seconds; c.deaf {
				g.Ignores = []string{"shutdown"}
			}
		})
		told, err := a.act("timeout = \"60s\"\naction = \"" + c.action + "\"")
		says, failed := strings.CutPrefix(c.says, "!")
		if failed != (err != nil) || err != nil && !strings.Contains(err.Error(), says) || err == nil && !strings.Contains(told, says) {
			t.Errorf("%+v: told %q, error %v", c, told, err)
		}
		if got := a.guest(); got != c.to {
			t.Errorf("%+v: it is %s", c, got)
		}
		for _, off := range a.w.Sim.PowerOffs() {
			if off.Hard {
				t.Errorf("%+v: cut off", c)
			}
		}
	}
}

// TestActionsPowerUnderHA: HA's manager starts and stops its guests, and the action waits until it has.
func TestActionsPowerUnderHA(t *testing.T) {
	t.Parallel()
	a := newActor(t, rig.RootTicket, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	a.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
	a.w.Change(func(world *state.World) { world.HA["vm:500"] = &state.HAResource{SID: "vm:500", State: "started"} })
	for _, c := range []struct{ action, to string }{{"shutdown", "stopped"}, {"start", "running"}, {"stop", "stopped"}} {
		told, err := a.act("action = \"" + c.action + "\"")
		if err != nil || a.guest() != c.to {
			t.Errorf("%s: it is %s, told %q, error %v", c.action, a.guest(), told, err)
		}
	}
	if _, err := a.act("action = \"start\""); err != nil {
		t.Fatal(err)
	}
	if _, err := a.act("action = \"suspend\"\nto_disk = true"); err == nil || !strings.Contains(err.Error(), "is under HA") {
		t.Errorf("to disk: %v", err)
	}
}

// TestActionsPowerWait: without waiting the action ends when PVE has taken the request; a lock is waited for, and the end of the time says
// what held it.
func TestActionsPowerWait(t *testing.T) {
	t.Parallel()
	a := newActor(t, rig.TokenNoSSH)
	a.w.ExpectPowerOffs(state.PowerShutdown)
	a.w.Sim.HoldLock(500, "snapshot", time.Hour, "root@pam")
	told, err := a.act("action = \"shutdown\"\ntimeout = \"20s\"")
	if err == nil || !strings.Contains(err.Error(), "VM 500 is locked (snapshot) by qmsnapshot of root@pam") || a.guest() != "running snapshot" {
		t.Errorf("it is %s, told %q, error %v", a.guest(), told, err)
	}
	a.w.Sim.Advance(2 * time.Hour)
	a.w.Sim.HoldLock(500, "snapshot", 30*time.Second, "root@pam")
	told, err = a.act("action = \"shutdown\"")
	if err != nil || !strings.Contains(told, "trying again") || a.guest() != "stopped" {
		t.Errorf("it is %s, told %q, error %v", a.guest(), told, err)
	}
	a.w.Sim.SetTaskTime(time.Hour)
	a.w.ResetCalls()
	if told, err = a.act("action = \"start\"\nwait = false"); err != nil || !strings.Contains(told, "Task UPID") {
		t.Errorf("told %q, error %v", told, err)
	}
	for _, call := range a.w.Calls() {
		for _, op := range call.Ops {
			if strings.Contains(op.Path, "/tasks") {
				t.Errorf("not to wait takes %s %s", op.Method, op.Path)
			}
		}
	}
}

// TestActionsPowerFaults: a lost answer, a task that fails or is killed, an interrupt: the outcome is told, and nothing is done twice.
func TestActionsPowerFaults(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"start", "shutdown", "stop", "reboot", "reset", "suspend", "resume"} {
		for _, phase := range []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask} {
			t.Run(fmt.Sprint(action, " ", phase), func(t *testing.T) {
				t.Parallel()
				a := newActor(t, rig.TokenNoSSH)
				a.w.ExpectPowerOffs(state.PowerStop, state.PowerShutdown, state.PowerReboot, state.PowerReset)
				from := map[string]string{"start": "stopped", "resume": "paused"}[action]
				a.set(cmp.Or(from, "running"))
				a.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/" + action}, Phase: phase,
					Reason: "no such luck"}})
				told, err := a.act("action = \"" + action + "\"")
				to := map[string]string{"start": "running", "shutdown": "stopped", "stop": "stopped", "suspend": "paused"}[action]
				if got := a.guest(); err == nil && got != cmp.Or(to, "running") {
					t.Errorf("it is %s although all went well; told %q", got, told)
				}
				if err == nil && (phase == fault.Before || phase == fault.Task) {
					t.Errorf("nothing is said; told %q", told)
				}
				if sent := a.writes(); len(sent) != 1 {
					t.Errorf("sent %q; error %v", sent, err)
				}
			})
		}
	}
}

// TestActionsPowerThirdParties: a third party does something to the VM between the plan and the invocation, or right before the request. Its VM is
// not touched.
func TestActionsPowerThirdParties(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"start", "shutdown", "stop", "reboot", "reset", "suspend", "resume"} {
		for _, when := range []string{"between", "before the status", "before the last look"} {
			t.Run(action+" "+when, func(t *testing.T) {
				t.Parallel()
				a := newActor(t, rig.TokenNoSSH)
				a.w.ExpectPowerOffs(state.PowerStop)
				if action == "start" {
					a.set("stopped")
				}
				if action == "resume" {
					a.set("paused")
				}
				replace := func(before fault.Match) []thirdparty.Order {
					return []thirdparty.Order{{Act: thirdparty.Delete, VMID: 500, Before: before}, {Act: thirdparty.TakeID, VMID: 500, Before: before}}
				}
				between := func() {
					switch when {
					case "between":
						for _, o := range replace(fault.Match{}) {
							a.w.Sim.ThirdParty(o)
						}
					case "before the status":
						a.w.Sim.SetThirdParties(replace(fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/status/current"}))
					default:
						a.w.Sim.SetThirdParties(replace(fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/config"}))
					}
				}
				told, err := a.between("action = \""+action+"\"\nuuid = proxmox_vm.x.uuid", between)
				if err == nil || !strings.Contains(err.Error(), "another VM") {
					t.Errorf("told %q, error %v", told, err)
				}
				if sent := a.writes(); len(sent) > 0 {
					t.Errorf("sent %q to the other guest", sent)
				}
				if reports := a.w.Sim.Reports(); when != "between" && len(reports) != 2 {
					t.Errorf("only %d of the two acts were done", len(reports))
				}
			})
		}
	}
}

// TestActionsExamples invokes the actions of the documentation, one after the other.
func TestActionsExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../examples/actions/*/action.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		w := rig.NewWorld(t)
		w.ExpectPowerOffs(state.PowerReboot, state.PowerSuspend, state.PowerRollback)
		s := w.Session(t, rig.RootTicket, string(text))
		if err := s.Converge(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, address := range s.Actions() {
			if told, err := s.Invoke(t.Context(), address, nil); err != nil || len(told) == 0 {
				t.Errorf("%s: told %q, error %v", address, told, err)
			}
		}
	}
}

// TestActionsPowerInterrupted: an interrupt ends the wait for a guest that does not shut down, and leaves no task behind; PVE was told to stop
// its own.
func TestActionsPowerInterrupted(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"shutdown", "reboot"} {
		a := newActor(t, rig.TokenNoSSH, pvesim.Options{Clock: rig.NewFastClock()})
		a.w.Change(func(world *state.World) { world.Guests[500].Ignores = []string{"shutdown"} })
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		a.w.LogTo(&engine.Interrupter{World: a.w, Press: cancel, At: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/" + action, Nth: 1}})
		s := a.w.Session(t, rig.TokenNoSSH, "")
		_, err := s.Invoke(ctx, "action.proxmox_vm_power.it", nil,
			fmt.Sprintf("action \"proxmox_vm_power\" \"it\" {\nconfig {\nvmid = 500\naction = %q\n}\n}\n", action))
		if err == nil || ctx.Err() == nil || !strings.Contains(err.Error(), "interrupted") || a.guest() != "running" {
			t.Errorf("%s: it is %s, error %v", action, a.guest(), err)
		}
		a.w.Change(func(world *state.World) {
			for _, task := range world.Tasks {
				if task.Running {
					t.Errorf("%s runs on", task.UPID)
				}
			}
		})
	}
}
