package request

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// world is a simulated cluster and a Runner on it. VM 8000 has a disk and belongs to a third party.
type world struct {
	*Runner
	t   *testing.T
	sim *pvesim.Sim
}

func newWorld(t *testing.T) *world { return newWorldOf(t, pvesim.Options{}) }

func newWorldOf(t *testing.T, options pvesim.Options) *world {
	t.Helper()
	sim, err := pvesim.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &world{t: t, sim: sim}
	w.Runner = w.process()
	return w
}

// process is a Runner of another process of the same identity.
func (w *world) process() *Runner {
	w.t.Helper()
	here := clock.Client{Cluster: w.sim.World().Clock}
	api, err := pve.New(pve.Config{Endpoint: w.sim.Endpoint(), CACertificate: w.sim.CAPEM(), DialTLSContext: w.sim.DialTLSContext, Clock: here,
		APIToken: w.sim.Credentials().Token})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(api.Close)
	return New(api, here)
}

// create is the request for VM 400.
func (w *world) create() Request {
	return Request{Node: "pve1", Type: "qmcreate", ID: 400, Send: func(ctx context.Context) (pve.UPID, error) {
		return w.API.Node("pve1").CreateVM(ctx, pve.Params{"vmid": "400", "name": "ours", "scsi0": "local-zfs:1"})
	}}
}

func (w *world) exists(vmid int) bool {
	world := w.sim.World()
	world.Lock()
	defer world.Unlock()
	return world.Guests[vmid] != nil
}

// writes are the requests that were sent, reads aside, with some of their parameters.
func (w *world) writes(params ...string) []string {
	var all []string
	for _, op := range w.sim.Ops() {
		if op.Method == http.MethodGet {
			continue
		}
		text := op.Method + " " + op.Path[strings.LastIndex(op.Path, "/"):]
		for _, name := range params {
			if value, ok := op.Params[name]; ok {
				text += " " + name + "=" + value
			}
		}
		all = append(all, text)
	}
	return all
}

// TestOnce: a request is sent once, and what became of it is known although its answer was lost.
func TestOnce(t *testing.T) {
	lost := func(phase fault.Phase) fault.Rule {
		return fault.Rule{Match: fault.Match{Method: "POST", VMID: 400}, Phase: phase, Status: map[bool]int{true: 596}[phase == fault.Before]}
	}
	for name, c := range map[string]struct {
		rules   []fault.Rule
		done    func(context.Context) (bool, error)
		made    bool
		failed  bool
		guessed int
		kind    pve.Kind
	}{
		"answered":     {made: true},
		"answer lost":  {rules: []fault.Rule{lost(fault.After)}, made: true, guessed: 1},
		"request lost": {rules: []fault.Rule{lost(fault.Before)}, failed: true, kind: pve.Ambiguous},
		"request lost, but its aim is reached": {rules: []fault.Rule{lost(fault.Before)},
			done: func(context.Context) (bool, error) { return true, nil }},
		"request lost, and no look possible": {rules: []fault.Rule{lost(fault.Before)},
			done: func(context.Context) (bool, error) { return true, errors.New("cannot look") }, failed: true, kind: pve.Ambiguous},
		"refused": {rules: []fault.Rule{{Match: fault.Match{Method: "POST", VMID: 400}, Phase: fault.Before, Status: 403, Reason: "no"}},
			failed: true, kind: pve.Denied},
		"failed": {rules: []fault.Rule{lost(fault.Task)}, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, tasks := newWorld(t), &Tasks{}
			w.sim.SetFaults(c.rules)
			w.sim.ResetOps()
			r := w.create()
			r.Done = c.done
			_, err := w.Once(t.Context(), tasks, r)
			if (err != nil) != c.failed || w.exists(400) != c.made || len(tasks.Guessed) != c.guessed || c.kind != 0 && !pve.IsKind(err, c.kind) {
				t.Errorf("%v; made %t, tasks %+v", err, w.exists(400), tasks)
			}
			if n := len(w.writes()); n != 1 {
				t.Errorf("sent %d times", n)
			}
			for _, upid := range tasks.UPIDs {
				if w.IsKnown(upid) == tasks.Guessed[upid] {
					t.Errorf("%s: guessed %t, known %t", upid, tasks.Guessed[upid], w.IsKnown(upid))
				}
			}
		})
	}
}

// TestSearchDoesNotGuess: of two tasks that may be ours none is; nor is one that answered another request of this
// process.
func TestSearchDoesNotGuess(t *testing.T) {
	w := newWorld(t)
	since := w.Clock.Now()
	clone := func(id string) Request {
		return Request{Node: "pve1", Type: "qmclone", ID: 9000, Send: func(ctx context.Context) (pve.UPID, error) {
			return w.API.QEMU("pve1", 9000).Clone(ctx, pve.Params{"newid": id})
		}}
	}
	tasks := &Tasks{}
	if _, err := w.Perform(t.Context(), tasks, clone("400")); err != nil {
		t.Fatal(err)
	}
	other := w.process()
	for name, c := range map[string]struct {
		who   *Runner
		tasks *Tasks
		found bool
	}{
		"that of another process":        {other, &Tasks{}, true},
		"one that answered this process": {w.Runner, &Tasks{}, false},
		"one of this transaction":        {other, tasks, false},
	} {
		if upid, err := c.who.Search(t.Context(), c.tasks, clone("401"), since, 1); err != nil || (upid != "") != c.found {
			t.Errorf("%s: %q, %v", name, upid, err)
		}
	}
	if _, err := w.Perform(t.Context(), tasks, clone("401")); err != nil {
		t.Fatal(err)
	}
	if upid, err := other.Search(t.Context(), &Tasks{}, clone("402"), since, 2); upid != "" || err == nil ||
		!strings.Contains(err.Error(), "2 tasks qmclone") {
		t.Errorf("one of two: %q, %v", upid, err)
	}
}

// TestPerformWaitsForALock: a request that a lock proves to have done nothing is sent again when the lock is gone,
// once.
func TestPerformWaitsForALock(t *testing.T) {
	w := newWorld(t)
	w.sim.HoldLock(8000, "backup", 40*time.Second, "root@pam")
	var said []string
	w.Log = func(_ context.Context, message string, fields map[string]string) {
		said = append(said, message+" "+fields["try"])
	}
	before := w.Clock.Now()
	w.sim.ResetOps()
	convert := Request{Node: "pve1", Type: "qmtemplate", ID: 8000,
		Send: func(ctx context.Context) (pve.UPID, error) { return w.API.QEMU("pve1", 8000).ConvertToTemplate(ctx) }}
	if _, err := w.Perform(t.Context(), &Tasks{}, convert); err != nil {
		t.Fatal(err)
	}
	if waited := w.Clock.Now().Sub(before); waited < 40*time.Second || waited > 70*time.Second {
		t.Errorf("after %s", waited)
	}
	if len(said) == 0 || !strings.Contains(said[0], "VM 8000 is locked (backup) by vzdump of root@pam since ") ||
		!strings.HasSuffix(said[0], "; trying again 1") {
		t.Errorf("said %q", said)
	}
}

// TestInterruptEndsTheTask: none is left at work behind the user's back, and one that may be another's is not stopped.
func TestInterruptEndsTheTask(t *testing.T) {
	for _, guessed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, pvesim.Options{Clock: clock.Real{}, TaskTime: 20 * time.Second})
			t.Cleanup(func() { time.Sleep(time.Minute) }) // until idle connections have ended
			ctx, cancel := context.WithCancel(t.Context())
			r := w.create()
			send := r.Send
			r.Send = func(ctx context.Context) (pve.UPID, error) {
				defer cancel()
				return send(ctx)
			}
			if guessed {
				w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", VMID: 400}, Phase: fault.After}})
			}
			_, err := w.Once(ctx, &Tasks{}, r)
			var interrupted *InterruptedError
			switch stopped := errors.As(err, &interrupted) && interrupted.Stopped && !interrupted.Running; {
			case guessed && err != nil:
				t.Errorf("a task that may be another's was not awaited: %v", err)
			case !guessed && (!stopped || !errors.Is(err, context.Canceled)):
				t.Errorf("a task of ours was not stopped: %v", err)
			}
			if w.exists(400) != guessed {
				t.Errorf("guessed %t: VM 400 is there: %t", guessed, !guessed)
			}
		})
	}
}

// TestApply: a volume is allocated by a task; deletions that must come first do. Each request is bound to a digest.
func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		change vm.Change
		want   []string
		known  bool // what PVE changed is what was read
	}{
		"nothing":    {},
		"an option":  {vm.Change{Set: map[string]string{"name": "b"}}, []string{"PUT /config name=b"}, true},
		"a new disk": {vm.Change{Set: map[string]string{"scsi1": "local-zfs:1"}}, []string{"POST /config scsi1=local-zfs:1"}, false},
		"one less":   {vm.Change{Delete: []string{"onboot", "tags"}}, []string{"PUT /config delete=onboot,tags"}, true},
		"one first": {vm.Change{DeleteFirst: []string{"tags"}, Set: map[string]string{"name": "b"}},
			[]string{"PUT /config delete=tags", "PUT /config name=b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			config, err := w.API.QEMU("pve1", 8000).Config(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.sim.ResetOps()
			known, err := w.Apply(t.Context(), &Tasks{}, "pve1", 8000, c.change, Bound{Digest: config.Digest})
			if err != nil || known != c.known {
				t.Errorf("%v; what was changed is known: %t", err, known)
			}
			if diff := cmp.Diff(c.want, w.writes("name", "scsi1", "delete")); diff != "" {
				t.Error(diff)
			}
			for i, op := range w.sim.Ops() {
				if op.Method != http.MethodGet && op.Params["digest"] == "" {
					t.Errorf("request %d has no digest", i+1)
				}
			}
		})
	}
}

// TestPutIsSettled: an answer that was lost is followed by a second try, which the digest that the first has changed
// does not stop: it bears the one that a look finds by then. Without a look it bears the first one. Where another VM has
// the id there is no second try.
func TestPutIsSettled(t *testing.T) {
	for _, phase := range []fault.Phase{fault.Before, fault.After} {
		w, digest := newWorld(t), ""
		look := func(ctx context.Context, _ map[string]string) (string, error) {
			now, err := w.API.QEMU("pve1", 8000).Config(ctx)
			digest = now.Digest
			return digest, err
		}
		set := func(name string, b Bound) error {
			w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: phase,
				Status: map[fault.Phase]int{fault.Before: 596}[phase]}})
			w.sim.ResetOps()
			return w.Set(t.Context(), "pve1", 8000, pve.Params{"name": name}, b)
		}
		read := func() string {
			t.Helper()
			digest, err := look(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return digest
		}
		first := read()
		err := set("b", Bound{Digest: first})
		if done := phase == fault.After; done != pve.IsKind(err, pve.DigestMismatch) || !done && err != nil {
			t.Errorf("%s: %v", phase, err)
		}
		again := "PUT /config name=b digest=" + first
		if diff := cmp.Diff([]string{again, again}, w.writes("name", "digest")); diff != "" {
			t.Error(diff)
		}
		first = read()
		if err := set("c", Bound{Digest: first, Again: look}); err != nil {
			t.Errorf("%s: %v", phase, err)
		}
		want := []string{"PUT /config name=c digest=" + first, "PUT /config name=c digest=" + digest}
		if diff := cmp.Diff(want, w.writes("name", "digest")); diff != "" {
			t.Error(diff)
		}
		his := errors.New("another VM has the VMID")
		err = set("d", Bound{Digest: read(), Again: func(context.Context, map[string]string) (string, error) { return "", his }})
		if len(w.writes()) != 1 || !errors.Is(err, his) {
			t.Errorf("%s: sent %v: %v", phase, w.writes(), err)
		}
	}
}

// TestPutIsSettledOnce: the first try may take effect when it was looked already what the digest is.
func TestPutIsSettledOnce(t *testing.T) {
	w := newWorld(t)
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.Before, Status: 596}})
	looks := 0
	again := func(ctx context.Context, _ map[string]string) (string, error) {
		now, err := w.API.QEMU("pve1", 8000).Config(ctx)
		if looks++; looks == 1 && err == nil {
			err = w.API.QEMU("pve1", 8000).UpdateConfig(ctx, pve.Params{"name": "b"})
		}
		return now.Digest, err
	}
	if err := w.Set(t.Context(), "pve1", 8000, pve.Params{"name": "b"}, Bound{Again: again}); err != nil || looks != 2 {
		t.Errorf("%d looks: %v", looks, err)
	}
}

// TestApplyIsBoundThroughout: so is what follows the request that empties slots.
func TestApplyIsBoundThroughout(t *testing.T) {
	w := newWorld(t)
	his := errors.New("another VM has the VMID")
	change := vm.Change{DeleteFirst: []string{"tags"}, Set: map[string]string{"name": "b"}}
	w.sim.ResetOps()
	_, err := w.Apply(t.Context(), &Tasks{}, "pve1", 8000, change, Bound{Again: func(context.Context, map[string]string) (string, error) { return "", his }})
	if diff := cmp.Diff([]string{"PUT /config delete=tags"}, w.writes("delete", "name")); diff != "" || !errors.Is(err, his) {
		t.Errorf("%v %s", err, diff)
	}
}

// TestGrow: a disk that cannot be grown is named.
func TestGrow(t *testing.T) {
	w := newWorld(t)
	w.sim.ResetOps()
	if err := w.GrowRead(t.Context(), &Tasks{}, "pve1", 8000, vm.Growth{Slot: "scsi0", Size: 5 << 30}, ""); err != nil {
		t.Error(err)
	}
	err := w.GrowRead(t.Context(), &Tasks{}, "pve1", 8000, vm.Growth{Slot: "scsi1", Size: 2 << 30}, "")
	if err == nil || !strings.HasPrefix(err.Error(), "grow scsi1 to 2G: ") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"PUT /resize disk=scsi0 size=5G", "PUT /resize disk=scsi1 size=2G"}, w.writes("disk", "size")); diff != "" {
		t.Error(diff)
	}
}

// TestBootOrder: PVE appends drives that are not in it, so the order has to be written again after such a drive.
func TestBootOrder(t *testing.T) {
	for value, appends := range map[string]bool{"none,media=cdrom": true, "local-zfs:1": false} {
		change := vm.Change{Set: map[string]string{"ide2": value}}
		if AppendsToBootOrder(change, []string{"scsi0"}) != appends || AppendsToBootOrder(change, []string{"scsi0", "ide2"}) {
			t.Errorf("%s", value)
		}
	}
	err := Problems("update", 8000, vm.Change{Problems: []vm.Problem{{Option: "scsi0", Text: "too small"}}})
	var refusal *pve.Error
	if !errors.As(err, &refusal) || refusal.Kind != pve.Invalid || refusal.Params["scsi0"] != "too small" {
		t.Errorf("%v", err)
	}
}

// TestRevert drops what waits for a restart, and nothing else.
func TestRevert(t *testing.T) {
	w := newWorld(t)
	world := w.sim.World()
	world.Lock()
	g := world.Guests[8000]
	g.Running = &state.Running{QMPStatus: "running", StartedAt: world.Clock.Now(), Booted: g.Config, PID: 8000}
	g.Pending = map[string]string{"cores": "4", "memory": "2048"}
	world.Unlock()
	if err := w.Revert(t.Context(), "pve1", 8000, []string{"cores"}, Bound{}); err != nil {
		t.Fatal(err)
	}
	config, err := w.API.QEMU("pve1", 8000).Pending(t.Context())
	if diff := cmp.Diff([]string{"memory"}, config.Waiting()); err != nil || diff != "" {
		t.Errorf("%v; waiting (-want +got)\n%s", err, diff)
	}
}
