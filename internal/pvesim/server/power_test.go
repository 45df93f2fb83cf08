package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// powers are the power-offs since the last call, as "kind hard task user".
func (g *rig) powers() []string {
	var list []string
	for _, p := range g.s.PowerOffs() {
		hard := "soft"
		if p.Hard {
			hard = "hard"
		}
		list = append(list, strings.TrimSpace(strings.Join([]string{string(p.Kind), hard, p.TaskType, p.User}, " ")))
	}
	g.s.ResetPowerOffs()
	return list
}

func (g *rig) wantPowers(want ...string) {
	g.t.Helper()
	if got := g.powers(); !slices.Equal(got, want) {
		g.t.Errorf("power-offs %q, want %q", got, want)
	}
}

// took runs f and returns how much of the cluster's time it took.
func (g *rig) took(f func()) time.Duration {
	start := g.clock.Now()
	f()
	return g.clock.Now().Sub(start)
}

// pass lets time pass on the cluster's clock.
func (g *rig) pass(d time.Duration) {
	g.s.Enter()
	g.s.World.Lock()
	g.s.Wait(d, nil)
	g.s.World.Unlock()
	g.s.Leave()
	for !g.clock.Idle() { // workers that time has woken
		time.Sleep(time.Millisecond)
	}
}

func TestPowerOffsAreCounted(t *testing.T) {
	g := newRig(t, nil)
	const id = "/qemu/8000/status/"
	start := step{"", "POST", id + "start", "", "OK"}
	for _, c := range []struct {
		name string
		step step
		want []string
	}{
		{"stop", step{"", "POST", id + "stop", "", "OK"}, []string{"stop hard qmstop root@pam!tf"}},
		{"shutdown", step{"terraform@pve!prov", "POST", id + "shutdown", "", "OK"},
			[]string{"shutdown soft qmshutdown terraform@pve!prov"}},
		{"reboot", step{"", "POST", id + "reboot", "", "OK"}, []string{"reboot soft qmreboot root@pam!tf"}},
		{"reset", step{"", "POST", id + "reset", "", "OK"}, []string{"reset hard qmreset root@pam!tf"}},
		{"pause", step{"", "POST", id + "suspend", "", "OK"}, nil},
		{"shutdown of a paused one", step{"", "POST", id + "shutdown", "", "VM is paused - cannot shutdown"}, nil},
		{"reboot of a paused one", step{"", "POST", id + "reboot", "", "VM is paused - cannot shutdown"}, nil},
		{"forced shutdown of a paused one", step{"", "POST", id + "shutdown", "forceStop=1", "OK"},
			[]string{"stop hard qmshutdown root@pam!tf"}},
		{"shutdown of a stopped one", step{"", "POST", id + "shutdown", "", "OK"}, nil},
		{"to disk", step{"", "POST", id + "suspend", "todisk=1&statestorage=local-zfs", "OK"},
			[]string{"suspend soft qmsuspend root@pam!tf"}},
		{"migration", step{"", "POST", "/qemu/8000/migrate", "target=pve2&online=1&with-local-disks=1", "OK"}, nil},
	} {
		running := false
		g.s.Do(func(w *state.World) { running = w.Guests[8000].Running != nil })
		if !running && c.name != "shutdown of a stopped one" {
			g.steps([]step{start})
		}
		g.steps([]step{c.step})
		if got := g.powers(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	g.s.EndGuest(8000)
	g.wantPowers("died hard")
	g.s.EndGuest(8000)
	g.wantPowers()
}

// TestRebootStartsInATaskOfItsOwn: qmreboot ends with the guest, and root starts it again with its pending changes.
func TestRebootStartsInATaskOfItsOwn(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu/8000/status/start", "", "OK"},
		{"", "PUT", "/qemu/8000/config", "cores=2", "OK"},
		{"", "POST", "/qemu/8000/status/reboot", "", "OK"},
	})
	g.wantWhere(8000, "pve1")
	g.pass(power.RebootGap)
	var users []string
	g.s.Do(func(w *state.World) {
		guest := w.Guests[8000]
		if guest.Running == nil || guest.Running.Booted["cores"] != "2" || len(guest.Pending) != 0 {
			t.Errorf("after the reboot: %+v, pending %v", guest.Running, guest.Pending)
		}
		for _, task := range w.Tasks {
			users = append(users, task.Type+" "+task.User)
		}
	})
	slices.Sort(users)
	if want := []string{"qmreboot root@pam!tf", "qmstart root@pam", "qmstart root@pam!tf"}; !slices.Equal(users, want) {
		t.Errorf("tasks %q, want %q", users, want)
	}
}

// TestResetOfAPausedGuest: it stays where it is, before its first instruction, and hears no shutdown until it is
// resumed.
func TestResetOfAPausedGuest(t *testing.T) {
	g := newRig(t, nil)
	const id = "/qemu/8000/status/"
	g.steps([]step{{"", "POST", id + "start", "", "OK"}, {"", "POST", id + "suspend", "", "OK"},
		{"", "POST", id + "reset", "", "OK"}})
	g.s.Do(func(w *state.World) {
		if got := w.Guests[8000].Running.QMPStatus; got != "prelaunch" {
			t.Errorf("it is %s", got)
		}
	})
	g.steps([]step{{"", "POST", id + "shutdown", "", "VM is paused - cannot shutdown"},
		{"", "POST", id + "resume", "", "OK"},
		{"", "POST", id + "shutdown", "", "OK"}})
}

func TestGuestThatDoesNotObey(t *testing.T) {
	g := newRig(t, nil)
	const timeout = "VM quit/powerdown failed - got timeout"
	g.steps([]step{{"", "PUT", "/qemu/8000/config", "startup=down%3D20&agent=1", "OK"},
		{"", "POST", "/qemu/8000/status/start", "", "OK"}})
	for _, c := range []struct {
		name  string
		guest func(g *state.Guest)
		op    string
		want  string
		took  time.Duration
		power string
	}{
		{"ignores, startup's patience", func(g *state.Guest) { g.Ignores = []string{"shutdown"} }, "shutdown", timeout,
			20 * time.Second, ""},
		{"ignores", func(g *state.Guest) { g.Ignores = []string{"shutdown"} }, "shutdown?timeout=7", timeout, 7 * time.Second,
			""},
		{"ignores a reboot", func(g *state.Guest) { g.Ignores = []string{"shutdown"} }, "reboot?timeout=7", timeout,
			7 * time.Second, ""},
		{"too slow", func(g *state.Guest) { g.ShutdownSeconds = 9 }, "shutdown?timeout=8", timeout, 8 * time.Second, ""},
		{"no patience", func(*state.Guest) {}, "shutdown?timeout=0", timeout, 0, "shutdown soft qmshutdown root@pam!tf"},
		{"slow", func(g *state.Guest) { g.ShutdownSeconds = 8 }, "shutdown?timeout=8", "OK", 8 * time.Second,
			"shutdown soft qmshutdown root@pam!tf"},
		{"forced", func(g *state.Guest) { g.Ignores = []string{"shutdown"} }, "shutdown?timeout=5&forceStop=1", "OK",
			5 * time.Second, "stop hard qmshutdown root@pam!tf"},
		{"silent agent", func(g *state.Guest) { g.Agent = &state.Agent{Silent: true} }, "shutdown", "OK", 3 * time.Second,
			"shutdown soft qmshutdown root@pam!tf"},
		{"warns", func(g *state.Guest) { g.StopWarning = "can't deactivate LV" }, "shutdown", "WARNINGS: 1", 0,
			"shutdown soft qmshutdown root@pam!tf"},
	} {
		g.s.Do(func(w *state.World) {
			guest := w.Guests[8000]
			guest.Ignores, guest.ShutdownSeconds, guest.Agent, guest.StopWarning = nil, 0, nil, ""
			c.guest(guest)
			if guest.Running == nil {
				guest.Running = &state.Running{QMPStatus: "running", Booted: guest.Config, StartedAt: w.Clock.Now()}
			}
		})
		took := g.took(func() { g.steps([]step{{"", "POST", "/qemu/8000/status/" + c.op, "", c.want}}) })
		if strings.HasPrefix(c.op, "reboot") {
			g.pass(power.RebootGap)
		}
		if took != c.took {
			t.Errorf("%s: took %v, want %v", c.name, took, c.took)
		}
		if got := strings.Join(g.powers(), ", "); got != c.power {
			t.Errorf("%s: %q, want %q", c.name, got, c.power)
		}
	}
}

func TestLocksOfThirdParties(t *testing.T) {
	g := newRig(t, nil)
	upid := g.s.HoldLock(8000, "backup", 30*time.Second, "backup@pve")
	g.steps([]step{
		{"", "POST", "/qemu/8000/status/start", "", "VM is locked (backup)"},
		{"", "PUT", "/qemu/8000/config", "cores=2", "VM is locked (backup)"},
	})
	if r := g.do("root@pam!tf", "GET", "/nodes/pve1/tasks", "source=active"); len(r.list()) != 1 ||
		r.list()[0]["upid"] != upid || r.list()[0]["type"] != "vzdump" {
		t.Errorf("active tasks: %s", r.text)
	}
	g.pass(30 * time.Second)
	g.steps([]step{{"", "PUT", "/qemu/8000/config", "cores=2", "OK"}})

	g.s.StaleLock(8000, "snapshot", "alice@pve")
	g.pass(time.Hour)
	g.steps([]step{{"", "PUT", "/qemu/8000/config", "cores=1", "VM is locked (snapshot)"}})
	if r := g.do("root@pam!tf", "GET", "/nodes/pve1/tasks", "source=active"); len(r.list()) != 0 {
		t.Errorf("active tasks: %s", r.text)
	}
	g.steps([]step{{"root", "PUT", "/qemu/8000/config", "delete=lock&skiplock=1", "OK"}})
	g.s.StaleLock(8000, "migrate", "")
	g.steps([]step{{"", "DELETE", "/qemu/8000", "", "VM is locked (migrate)"},
		{"root", "DELETE", "/qemu/8000", "skiplock=1", "OK"}})
}

func TestFilesHeldByThirdParties(t *testing.T) {
	g := newRig(t, nil)
	const guest = "can't lock file '/var/lock/qemu-server/lock-8000.conf' - got timeout"
	wait := func(want time.Duration, s step) {
		t.Helper()
		if took := g.took(func() { g.steps([]step{s}) }); took != want {
			t.Errorf("%s %s took %v, want %v", s.method, s.path, took, want)
		}
	}
	g.s.HoldFile(8000, 15*time.Second)
	wait(time.Second, step{"", "POST", "/qemu/8000/clone", "newid=100&full=1", guest})
	wait(10*time.Second, step{"", "PUT", "/qemu/8000/config", "cores=2", guest})
	wait(4*time.Second, step{"", "PUT", "/qemu/8000/config", "cores=2", "OK"})

	g.s.HoldStorage("pve1", "local-zfs", 15*time.Second)
	wait(10*time.Second, step{"", "POST", "/qemu", "vmid=101&scsi0=local-zfs:1",
		"unable to create VM 101 - can't lock file '/var/lock/pve-manager/pve-storage-local-zfs' - got timeout"})
	wait(5*time.Second, step{"", "POST", "/qemu", "vmid=101&scsi0=local-zfs:1", "OK"})
	g.s.HoldStorage("pve2", "shared-nfs", 10*time.Second)
	wait(10*time.Second, step{"", "POST", "/qemu", "vmid=102&scsi0=shared-nfs:1", "OK"})
	g.s.HoldStorage("pve2", "shared-nfs", 11*time.Second)
	wait(10*time.Second, step{"", "PUT", "/qemu/102/config", "scsi1=shared-nfs:1",
		"cfs-lock 'storage-shared-nfs' error: got lock request timeout"})
}
