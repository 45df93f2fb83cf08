package create

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

func to[T any](v T) *T { return &v }

// TestCloneIsConfigured: what the configuration says is so in the clone, the rest is the template's, and its
// protection, which would be in the way of its configuration and its removal, is on again in the end.
func TestCloneIsConfigured(t *testing.T) {
	b := newBench(t, token)
	b.change(func(w *state.World) { w.Guests[9000].Config["protection"] = "1" })
	r := ofTemplate()
	r.Start, r.Spec.Name, r.Spec.CPU.Cores = true, to("web"), to(int64(4))
	r.Spec.Disks = map[string]vm.Disk{"scsi0": {Size: to(int64(8 << 30))}}
	created, err := b.Create(t.Context(), r)
	config := b.vms()[created.Guest.VMID]
	if err != nil || config["name"] != "web" || config["cores"] != "4" || config["protection"] != "1" ||
		!strings.Contains(config["scsi0"], "size=8G") {
		t.Errorf("%v: %v", err, config)
	}
	if created.Guest.Status != "running" || created.Guest.Source != 9000 {
		t.Errorf("%+v", created.Guest)
	}
	shrunk := ofTemplate()
	shrunk.Spec.Disks = map[string]vm.Disk{"scsi0": {Size: to(int64(1 << 20))}}
	if created, err := b.Create(t.Context(), shrunk); err == nil || created.Guest.VMID != 0 || len(b.vms()) != 1 {
		t.Errorf("a disk cannot shrink: %+v, %v; the cluster has %v", created.Guest.VMID, err, b.vms())
	}
}

// TestFirewallOfANewVM: the rules are those that are configured, in their order, and none that an earlier VM of the id
// has left.
func TestFirewallOfANewVM(t *testing.T) {
	b := newBench(t, ticket)
	r := onZFS()
	rule := func(action, macro string) firewall.Rule {
		return firewall.Rule{Type: to("in"), Action: to(action), Macro: to(macro)}
	}
	r.Firewall = &firewall.Settings{Enabled: to(true), Rules: []firewall.Rule{rule("ACCEPT", "SSH"),
		rule("DROP", "Ping")}}
	created, err := b.Create(t.Context(), r)
	if err != nil || created.Guest.Firewall == nil || len(created.Guest.Firewall.Rules) != 2 ||
		*created.Guest.Firewall.Rules[0].Macro != "SSH" {
		t.Fatalf("%+v, %v", created.Guest.Firewall, err)
	}
	b.change(func(w *state.World) { destroyed(w, 100) }) // PVE keeps the file
	b.forget()
	r.Firewall = &firewall.Settings{Enabled: to(false)}
	r.VMID = 100
	if created, err = b.Create(t.Context(), r); err != nil || len(created.Guest.Firewall.Rules) != 0 {
		t.Errorf("%+v, %v", created.Guest.Firewall, err)
	}
}

// TestHAOfANewVM: with an entry that was there before the create fails and leaves no VM; one whose answer was lost is.
func TestHAOfANewVM(t *testing.T) {
	entry := fault.Match{Method: http.MethodPost, Path: "/cluster/ha/resources"}
	for name, c := range map[string]struct {
		before  bool
		phase   fault.Phase
		refused bool
	}{"new": {}, "there before": {before: true, refused: true}, "its answer lost": {phase: fault.After}} {
		b := newBench(t, ticket)
		if c.before {
			b.change(func(w *state.World) { w.HA["vm:100"] = &state.HAResource{SID: "vm:100", State: "ignored"} })
		}
		if c.phase != "" {
			b.sim.SetFaults([]fault.Rule{{Match: entry, Phase: c.phase}})
		}
		r := onZFS()
		r.HA = &guest.HA{State: to("started")}
		created, err := b.Create(t.Context(), r)
		var field *guest.FieldError
		if refused := errors.As(err, &field) && field.Path == "ha"; refused != c.refused || (err == nil) == c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if (len(b.vms()) == 0) != c.refused || (created.Guest.VMID == 0) != c.refused {
			t.Errorf("%s: %+v; the cluster has %v", name, created, b.vms())
		}
		b.change(func(w *state.World) {
			if w.HA["vm:100"] == nil {
				t.Errorf("%s: HA has no entry for the VM", name)
			}
		})
	}
}

// TestFirewallFileThatTheUndoNames: the file is this create's only where a third party removed the VM after a request
// about its firewall. One that an earlier VM of the id has left stays, and is not called a leftover of this one.
func TestFirewallFileThatTheUndoNames(t *testing.T) {
	for name, c := range map[string]struct {
		stale  bool
		method string
		path   string
		phase  fault.Phase // "": a third party deletes the VM
		named  bool
	}{
		"stale, nothing was made":    {stale: true, method: "POST", path: "/nodes/{node}/qemu", phase: fault.Before},
		"stale, the task failed":     {stale: true, method: "POST", path: "/nodes/{node}/qemu", phase: fault.Task},
		"ours, removed with the VM":  {method: "POST", path: "/nodes/{node}/qemu/{vmid}/status/start", phase: fault.Task},
		"ours, of a VM that is gone": {method: "POST", path: "/nodes/{node}/qemu/{vmid}/firewall/rules", named: true},
		"another's that has the id":  {method: "POST", path: "/nodes/{node}/qemu/{vmid}/status/start"},
	} {
		b := newBench(t, token)
		r := onZFS()
		r.VMID, r.Start = 100, true
		r.Firewall = &firewall.Settings{Enabled: to(true), Rules: []firewall.Rule{{Type: to("in"), Action: to("DROP")}}}
		b.change(func(w *state.World) {
			if c.stale {
				w.Firewall[100] = &state.FirewallFile{Options: map[string]string{"policy_in": "ACCEPT"}}
			}
		})
		match := fault.Match{Method: c.method, Path: c.path}
		switch {
		case c.phase != "":
			b.sim.SetFaults([]fault.Rule{{Match: match, Phase: c.phase}})
		case c.named:
			b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Delete, VMID: 100, Before: match}})
		default:
			b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Delete, VMID: 100, Before: match},
				{Act: thirdparty.TakeID, VMID: 100, Before: match}})
		}
		created, err := b.Create(t.Context(), r)
		file := false
		b.change(func(w *state.World) { file = w.Firewall[100] != nil })
		said := slices.ContainsFunc(created.Warnings, func(w guest.Warning) bool {
			return strings.Contains(w.Detail, "/etc/pve/firewall/100.fw")
		})
		if err == nil || said != c.named || c.stale && !file || c.named && !file {
			t.Errorf("%s: the file is there: %t; named: %t: %+v: %v", name, file, said, created.Warnings, err)
		}
	}
}

// sleeping is a create of VM 150 whose machine sleeps after request n.
type sleeping struct {
	bench
	n         int
	wake      func() (Created, error)
	interrupt func() // presses Ctrl-C
}

// eachSleep plays the create once for each request after which its machine can fall asleep, but the first. It returns how many of
// these counted.
func eachSleep(t *testing.T, starts bool, play func(t *testing.T, s sleeping) (counts bool)) (counted int) {
	t.Helper()
	for n, came := 2, true; came; n++ {
		synctest.Test(t, func(t *testing.T) {
			s := sleeping{bench: benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token), n: n}
			r := onZFS()
			r.VMID, r.Start = 150, starts
			ctx, interrupt := context.WithCancel(context.WithoutCancel(t.Context()))
			defer interrupt()
			s.interrupt = interrupt
			if came, s.wake = s.asleepIn(ctx, t, r, n); came && play(t, s) {
				counted++
			}
		})
	}
	return counted
}

// TestUndoLeavesAGuestThatOthersStarted: another user starts the guest of a create that is not to start it, or right before it does,
// and the commit is refused 100 s later. The run has seen its VM less than a lease ago, and leaves it all the same.
func TestUndoLeavesAGuestThatOthersStarted(t *testing.T) {
	t.Parallel()
	for _, starts := range []bool{false, true} {
		undoAfterAStart(t, starts)
	}
}

func undoAfterAStart(t *testing.T, starts bool) {
	met := eachSleep(t, starts, func(t *testing.T, s sleeping) bool {
		user := creatorOf(t, s.sim, ticket)
		upid, err := user.api.QEMU("pve1", 150).Start(t.Context(), pve.Params{})
		if err == nil {
			_, err = user.api.Tasks().Wait(t.Context(), upid)
		}
		did := err == nil
		time.Sleep(100 * time.Second)
		s.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"},
			Phase: fault.Before, Status: 500, Reason: "no", Times: -1}})
		created, err := s.wake()
		if !did || err == nil {
			return false
		}
		if wrong := unnamed(created); wrong != "" || !strings.HasSuffix(s.everythingOf(150), "true") {
			t.Errorf("starts %t, asleep after %d: VM 150 is %s: %v %s", starts, s.n, s.everythingOf(150), err, wrong)
		}
		return true
	})
	if met == 0 {
		t.Error("none was played")
	}
}

// TestLateUndoLeavesTheGuestThatItStarted: a create has started its guest, its machine sleeps for 20 hours, and the
// create is interrupted. The guest may be in use, or was shut down meanwhile by a user with the same identity, who works on
// its disks: it stays as it is, and the VM is in state.
func TestLateUndoLeavesTheGuestThatItStarted(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		lateUndoOfAStart(t, off)
	}
}

func lateUndoOfAStart(t *testing.T, off bool) {
	met := eachSleep(t, true, func(t *testing.T, s sleeping) bool {
		time.Sleep(10 * time.Hour)
		ran := strings.HasSuffix(s.everythingOf(150), "true")
		if off {
			_, _ = s.api.QEMU("pve1", 150).HardStop(t.Context(), pve.Params{})
		}
		time.Sleep(10 * time.Hour)
		was := s.volumesOf(150)
		s.interrupt()
		created, err := s.wake()
		if !ran || err == nil {
			return false
		}
		if strings.HasSuffix(s.everythingOf(150), "true") == off || created.Proof == nil || created.Stays == "" || len(s.volumesOf(150)) != len(was) {
			t.Errorf("off %t, asleep after %d: VM 150 is %s: %v %+v", off, s.n, s.everythingOf(150), err, created)
		}
		return true
	})
	if met == 0 {
		t.Error("none was played")
	}
}

// TestUndoNamesTheCopiesBesideAVMInUse: the worker of a clone dies, and another user starts the VM amid the undo. The VM is
// left to them, and the copies that it does not name are in the warning.
func TestUndoNamesTheCopiesBesideAVMInUse(t *testing.T) {
	t.Parallel()
	met := 0
	for _, path := range []string{"config", "status/current"} {
		for n := range 8 {
			b := newBench(t, ticket)
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/clone"}, Phase: fault.KillTask}})
			b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Start, VMID: 150,
				Before: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/qemu/{vmid}/" + path, VMID: 150, Nth: n + 1}}})
			created, err := b.Create(t.Context(), Request{Node: "pve1", VMID: 150, Clone: &guest.Clone{VMID: 9000, Full: to(true)}})
			g, said := b.vms()[150], fmt.Sprint(created.Warnings)
			if err == nil || g == nil || !strings.Contains(said, "was left alone") {
				continue
			}
			for volume := range b.volumesOf(150) {
				if !guest.Uses(g, volume) {
					met++
					if !strings.Contains(said, volume) {
						t.Errorf("%s #%d: %s is left, and not named: %s", path, n+1, volume, said)
					}
				}
			}
		}
	}
	if met == 0 {
		t.Error("no copy was left")
	}
}

// TestSlowUndoKnowsItsOwnStart: a clone takes half an hour. Its start does what it should, and its worker is killed
// then, or the answer is lost and the server is away for a while. No other user works with the VM: it is taken back, or
// in state where the server was away for a lease.
func TestSlowUndoKnowsItsOwnStart(t *testing.T) {
	t.Parallel()
	start := fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}
	for name, c := range map[string]struct {
		phase fault.Phase
		away  int // requests that are not answered after the start
	}{"its worker is killed": {fault.KillTask, 0}, "its answer is lost": {fault.After, 20}, "for long": {fault.After, 60}} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, ticket)
			b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
			b.sim.SetTaskTime(30 * time.Minute)
			b.sim.SetFaults([]fault.Rule{{Match: start, Phase: c.phase}})
			config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
				Clock: b.jobs.Clock, Trace: func(_ context.Context, message string, fields map[string]string) {
					switch {
					case message == "PVE request" && strings.HasSuffix(fields["path"], "/clone"):
						b.sim.SetTaskTime(2 * time.Second)
					case message == "PVE request" && strings.HasSuffix(fields["path"], "/status/start") && c.away > 0:
						b.sim.SetFaults([]fault.Rule{{Phase: fault.Before, Status: 503, Times: c.away}})
					}
				}}
			ticket(&config, b.sim.Credentials())
			r := ofTemplate()
			r.VMID, r.Start = 150, true
			created, err := creatorWith(t, config).Create(t.Context(), r)
			if err == nil || b.vms()[150] != nil && created.Guest.VMID != 150 {
				t.Errorf("%s: there is %v, in state VM %d: %v %v", name, b.vms()[150], created.Guest.VMID, err, created.Warnings)
			}
		})
	}
}

// TestStartsOfOthersAmidAnUndo: a start that is not this run's, by a task of its own identity or without one that it
// sees, is another user's, whatever became of its own.
func TestStartsOfOthersAmidAnUndo(t *testing.T) {
	t.Parallel()
	own, other, third := pve.UPID("UPID:pve1:1:2:3:qmstart:150:a@pve:"), "UPID:pve1:4:5:6:qmstart:150:a@pve:", "UPID:pve1:7:8:9:qmstart:150:a@pve:"
	for name, c := range map[string]struct {
		known, guessed, lost bool
		found                []string
		others               bool
	}{
		"own":                        {known: true, found: []string{string(own)}},
		"own and another":            {known: true, found: []string{string(own), other}, others: true},
		"own found by a search":      {known: true, guessed: true, lost: true, found: []string{string(own)}},
		"that, and another":          {known: true, guessed: true, lost: true, found: []string{string(own), other}, others: true},
		"lost, one":                  {lost: true, found: []string{other}},
		"lost, two":                  {lost: true, found: []string{other, third}, others: true},
		"own failed, and a lost one": {known: true, lost: true, found: []string{other}},
		"none sent":                  {found: []string{other}, others: true},
	} {
		a := &attempt{view: &guest.View{}}
		if a.beside.started.unanswered = c.lost; c.known {
			a.view.Tasks.Add(own)
		}
		if c.guessed {
			a.view.Tasks.Guess(own)
		}
		if is := hasOtherStarts(a, c.found); is != c.others {
			t.Errorf("%s: %t", name, is)
		}
	}
	now := time.Unix(1_800_000_000, 0)
	if later := now.Add(time.Minute); mayBeStart(now, 600, later) || !mayBeStart(now, 60, later) || mayBeStart(time.Time{}, 1, now) {
		t.Error("a guest that runs since before the request was taken for one that this run has started")
	}
}
