package volumeuse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// world is a simulated cluster with a Surveyor of one identity on it.
type world struct {
	t     *testing.T
	sim   *pvesim.Sim
	s     *Reader
	clock *steps
	// answered is called with the path of each answer.
	answered func(path string)
}

// steps is a clock that moves only while a caller sleeps on it.
type steps struct {
	mu  sync.Mutex
	now time.Time
}

func (s *steps) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *steps) Sleep(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	return ctx.Err()
}

// pass has time go by.
func (s *steps) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	clock := &steps{now: time.Unix(1e9, 0)}
	w := &world{t: t, sim: sim, clock: clock, answered: func(string) {}}
	client, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext, Clock: clock,
		APIToken: sim.Credentials().Token, Trace: func(_ context.Context, message string, fields map[string]string) {
			if message == "PVE request" {
				w.answered(fields["path"])
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	w.s = New(request.New(client, clock), &request.Order{})
	return w
}

func (w *world) change(f func(*state.World)) {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	f(all)
}

func (w *world) vm(vmid int, node, disk string) {
	w.change(func(all *state.World) {
		all.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: node, Config: map[string]string{"memory": "512", "scsi0": disk + ",size=1G"}}
	})
}

// asked are the requests since the last call, without those for the cluster as a whole.
func (w *world) asked() []string {
	var all []string
	for _, op := range w.sim.Ops() {
		if strings.HasPrefix(op.Path, "/nodes/") {
			all = append(all, fmt.Sprintf("%s %d", op.Path[strings.LastIndex(op.Path, "/")+1:], op.VMID))
		}
	}
	w.sim.ResetOps()
	slices.Sort(all)
	return all
}

// reads are the requests for which a question about a node is the reason.
func (w *world) reads(t *testing.T, node string) []string { return w.readsBy(t, w.s.Since, node) }

func (w *world) readsBy(t *testing.T, ask func(context.Context, uint64, string) (*Use, error), node string) []string {
	t.Helper()
	w.asked()
	if _, err := ask(t.Context(), w.s.Ask(), node); err != nil {
		t.Fatal(err)
	}
	return w.asked()
}

// TestSurveyReadsEachGuestOnce: the options of the guests of a node, and snapshots only where there may be some.
func TestSurveyReadsEachGuestOnce(t *testing.T) {
	w := newWorld(t)
	w.vm(300, "pve1", "local-zfs:vm-300-disk-0")
	w.vm(301, "pve2", "local-zfs:vm-301-disk-0")
	w.change(func(all *state.World) {
		all.Guests[300].Snaps = map[string]map[string]string{"one": {"scsi3": "local-zfs:vm-999-disk-0", "snaptime": "1"}}
	})
	found, err := w.s.Since(t.Context(), w.s.Ask(), "pve1")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"config 300", "pending 300", "pending 8000", "pending 8100", "pending 9000", "snapshot 300"}
	if got := w.asked(); !slices.Equal(got, want) {
		t.Errorf("asked %v, want %v", got, want)
	}
	if len(found.UsersOf("local-zfs:vm-999-disk-0", 0)) != 1 || len(found.UsersOf("local-zfs:vm-301-disk-0", 0)) != 0 {
		t.Error("the snapshot of VM 300 was not seen, or VM 301 on the other node was")
	}
	if got := w.reads(t, "pve1"); slices.Contains(got, "snapshot 300") || len(got) != 4 {
		t.Errorf("the second time: %v", got)
	}
	w.s.pace = time.Second
	if got := w.readsBy(t, w.s.SinceOwn, "pve1"); len(got) != 0 {
		t.Errorf("the third time, of volumes that go with their VM: %v", got)
	}
}

// TestSurveyFollowsAMove: a guest that moves to another node while the guests are read is read there.
func TestSurveyFollowsAMove(t *testing.T) {
	w := newWorld(t)
	w.vm(300, "pve1", "shared-nfs:999/vm-999-disk-0.raw")
	w.answered = func(path string) {
		if strings.HasSuffix(path, "/cluster/resources") {
			w.change(func(all *state.World) { all.Guests[300].Node = "pve2" })
		}
	}
	found, err := w.s.Since(t.Context(), w.s.Ask(), "")
	if err != nil || len(found.UsersOf("shared-nfs:999/vm-999-disk-0.raw", 0)) != 1 {
		t.Errorf("VM 300 was not seen: %v", err)
	}
}

// TestSurveyReadsWhatMayHaveChanged: a guest is read again if the listing, the log of the cluster or this process's own
// requests show that something was done to it, or if nothing would show that. For a volume that goes with its VM what was
// read is good for some time then.
func TestSurveyReadsWhatMayHaveChanged(t *testing.T) {
	changed := func(change func(*state.World)) func(*world) {
		return func(w *world) { w.change(change) }
	}
	option := func(key, value string) func(*world) {
		return changed(func(all *state.World) { all.Guests[300].Config[key] = value })
	}
	lock := func(name string) func(*world) {
		return changed(func(all *state.World) { all.Guests[300].SetLock(name, "state") })
	}
	later := func(d time.Duration) func(*world) { return func(w *world) { w.clock.pass(d) } }
	logged := changed(func(all *state.World) {
		all.Log.Add(all.Clock.Now(), "pve1", "root@pam", "update VM 301: -scsi1 local-zfs:vm-999-disk-0")
	})
	ours := func(w *world) {
		if err := w.s.jobs.API.QEMU("pve1", 301).UpdateConfig(t.Context(), pve.Params{"description": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"pending 300", "pending 301", "pending 8000", "pending 8100", "pending 9000"}
	for name, c := range map[string]struct {
		act    func(*world)
		log    bool     // the identity sees the log of the cluster
		more   []string // read besides what nothing shows
		traced bool     // what the log would show is not read
		old    bool     // nor what it would not
	}{
		"nothing, log seen":     {act: later(0), log: true, traced: true, old: true},
		"nothing":               {act: later(0), old: true},
		"a change, logged":      {act: logged, log: true, more: []string{"pending 301"}, traced: true, old: true},
		"a change, log unseen":  {act: logged, old: true},
		"a change of ours":      {act: ours, more: []string{"pending 301"}, old: true},
		"a new guest":           {act: func(w *world) { w.vm(302, "pve1", "x:vm-302-disk-0") }, more: []string{"pending 302"}, old: true},
		"a guest of other tags": {act: option("tags", "x"), more: []string{"pending 300"}, old: true},
		"a locked guest":        {act: lock("backup"), more: []string{"pending 300"}, old: true},
		"a suspended guest":     {act: lock("suspended"), old: true},
		"two minutes":           {act: later(2 * time.Minute)},
		"two minutes, log seen": {act: later(2 * time.Minute), log: true, traced: true},
		"ten minutes, log seen": {act: later(tracedLife + time.Second), log: true},
		"a log that has run over": {act: func(w *world) {
			w.change(func(all *state.World) {
				all.Log.Entries = nil
				all.Log.Add(all.Clock.Now(), "pve1", "root@pam", "later")
			})
			w.clock.pass(2 * time.Minute)
		}, log: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, own := range []bool{false, true} {
				w := newWorld(t)
				w.vm(300, "pve1", "local-zfs:vm-300-disk-0")
				w.vm(301, "pve1", "local-zfs:vm-301-disk-0")
				w.change(func(all *state.World) { all.Log.Add(all.Clock.Now(), "pve1", "root@pam", "an entry") })
				if c.log {
					w.showLog()
				}
				if got := w.reads(t, "pve1"); !slices.Equal(got, all) {
					t.Fatalf("at first %v", got)
				}
				w.s.pace = time.Second // so that the five are good for a minute and 40 seconds
				c.act(w)
				w.asked()
				ask, want := w.s.Since, map[string]bool{}
				if own {
					ask = w.s.SinceOwn
				}
				for _, read := range c.more {
					want[read] = true
				}
				for _, read := range all {
					seen := c.traced && read != "pending 8100" // a container
					want[read] = want[read] || !seen && !(own && c.old)
				}
				maps.DeleteFunc(want, func(_ string, reads bool) bool { return !reads })
				if got := w.readsBy(t, ask, "pve1"); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
					t.Errorf("own %t: read %v, want %v", own, got, want)
				}
			}
		})
	}
}

// showLog has the identity see the log of the cluster.
func (w *world) showLog() {
	w.change(func(all *state.World) {
		for role, held := range all.Roles {
			all.Roles[role] = append(held, "Sys.Syslog")
		}
	})
}

// TestSurveyReadsWhatIsLoggedUntilItSettles: PVE notes a change before it makes it.
func TestSurveyReadsWhatIsLoggedUntilItSettles(t *testing.T) {
	w := newWorld(t)
	w.change(func(all *state.World) { all.Log.Add(all.Clock.Now(), "pve1", "root@pam", "an entry") })
	w.showLog()
	w.vm(300, "pve1", "local-zfs:vm-300-disk-0")
	w.readsBy(t, w.s.SinceOwn, "")
	w.change(func(all *state.World) {
		all.Log.Add(all.Clock.Now(), "pve1", "root@pam", "update VM 300: -scsi1 local-zfs:vm-999-disk-0")
	})
	if got := w.readsBy(t, w.s.SinceOwn, ""); !slices.Equal(got, []string{"pending 300"}) {
		t.Errorf("when it is logged: %v", got)
	}
	w.change(func(all *state.World) { all.Guests[300].Config["scsi1"] = "local-zfs:vm-999-disk-0" })
	w.clock.pass(settling + time.Second)
	found, err := w.s.SinceOwn(t.Context(), w.s.Ask(), "")
	if err != nil || len(found.UsersOf("local-zfs:vm-999-disk-0", 0)) != 1 {
		t.Errorf("when it is made: %v", err)
	}
	if got := w.readsBy(t, w.s.SinceOwn, ""); len(got) != 0 {
		t.Errorf("read again: %v", got)
	}
}

// TestSurveyIsWaryOfGuestsThatDisappear: whether all are seen is asked once more, unless this process has removed them.
func TestSurveyIsWaryOfGuestsThatDisappear(t *testing.T) {
	for _, ours := range []bool{true, false} {
		w := newWorld(t)
		w.vm(300, "pve1", "local-zfs:vm-300-disk-0")
		w.reads(t, "")
		w.change(func(all *state.World) {
			delete(all.Guests, 300)
			all.ACL = append(all.ACL, state.ACLEntry{Path: "/vms/301", Subject: all.ACL[0].Subject, Role: "NoAccess"})
		})
		if ours {
			w.s.Begin(300)
		}
		found, err := w.s.Since(t.Context(), w.s.Ask(), "")
		if err != nil || (found.Unseen == nil) != ours {
			t.Errorf("ours %t: %v, %v", ours, found.Unseen, err)
		}
	}
}

// TestSight: who has VM.Audit on some guests only does not see all, and it is asked each time.
func TestSight(t *testing.T) {
	w := newWorld(t)
	if unseen, err := w.s.Visible(t.Context(), w.s.Ask()); unseen != nil || err != nil {
		t.Errorf("all are seen: %v, %v", unseen, err)
	}
	w.change(func(all *state.World) {
		for i := range all.ACL {
			all.ACL[i].Path = "/vms/300"
		}
	})
	if unseen, err := w.s.Visible(t.Context(), w.s.Ask()); !errors.Is(unseen, ErrUnseen) || err != nil {
		t.Errorf("one is seen: %v, %v", unseen, err)
	}
}
