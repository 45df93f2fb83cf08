package volumeuse

import (
	"context"
	"errors"
	"fmt"
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
	t   *testing.T
	sim *pvesim.Sim
	s   *Reader
	// clock is that of the Reader.
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

func newWorld(t *testing.T) *world {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &world{t: t, sim: sim, answered: func(string) {}}
	clock := &steps{now: time.Unix(1e9, 0)}
	w.clock = clock
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
	if _, err := w.s.Since(t.Context(), w.s.Ask(), "pve1"); err != nil {
		t.Fatal(err)
	}
	if got := w.asked(); !slices.Equal(got, []string{"pending 8100"}) { // a container, of whose changes the log says nothing
		t.Errorf("the second time: %v", got)
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

// TestSurveyReadsThoseThatGoLast: a caller that acts on a guest has just read it.
func TestSurveyReadsThoseThatGoLast(t *testing.T) {
	w := newWorld(t)
	for vmid := 300; vmid < 306; vmid++ {
		w.vm(vmid, "pve1", fmt.Sprintf("local-zfs:vm-%d-disk-0", vmid))
	}
	_, done := w.s.Begin(302)
	defer done()
	if _, err := w.s.Since(t.Context(), w.s.Ask(), "pve1"); err != nil {
		t.Fatal(err)
	}
	ops := w.sim.Ops()
	if last := ops[len(ops)-1]; last.VMID != 302 {
		t.Errorf("the last one read is %d", last.VMID)
	}
}

// TestGather: one who is alone does not wait; one who follows others does, until they are done or some time is over.
func TestGather(t *testing.T) {
	w := newWorld(t)
	took := func() time.Duration {
		began := w.s.clock.Now()
		if err := w.s.Gather(t.Context()); err != nil {
			t.Error(err)
		}
		return w.s.clock.Now().Sub(began)
	}
	surveyed, done := w.s.Begin(300)
	if got := took(); got != 0 {
		t.Errorf("alone: %s", got)
	}
	_, doneToo := w.s.Begin(301)
	if got := took(); got != 0 {
		t.Errorf("both wait for a survey: %s", got)
	}
	surveyed()
	if got := took(); got < gatherTime {
		t.Errorf("one is at work: %s", got)
	}
	done()
	if got := took(); got != 0 {
		t.Errorf("and is done: %s", got)
	}
	doneToo()
	_, done = w.s.Begin(302)
	defer done()
	w.s.Begin(303)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.s.Gather(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
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

// TestHidingAGuestIsSeenAtOnce: a third party hides a guest between two looks. The second look does not list it, and what
// the first one knew of its volumes goes with it, so no answer about permissions may be older than the look.
func TestHidingAGuestIsSeenAtOnce(t *testing.T) {
	w := newWorld(t)
	const volume = "local-zfs:vm-300-disk-0"
	subject, _, _ := strings.Cut(w.sim.Credentials().Token, "=")
	w.change(func(all *state.World) {
		all.Guests[666] = &state.Guest{VMID: 666, Type: "qemu", Node: "pve1", Config: map[string]string{"scsi1": volume}}
	})
	look := func() *Use {
		use, err := w.s.Since(t.Context(), w.s.Ask(), "")
		if err != nil {
			t.Fatal(err)
		}
		return use
	}
	if use := look(); use.Unseen != nil || len(use.UsersOf(volume, 300)) != 1 {
		t.Errorf("before: unseen %v, users %v", use.Unseen, use.UsersOf(volume, 300))
	}
	w.change(func(all *state.World) {
		all.ACL = append(all.ACL, state.ACLEntry{Path: "/vms/666", Subject: subject, Role: "NoAccess", Propagate: true})
	})
	if use := look(); !errors.Is(use.Unseen, ErrUnseen) || len(use.UsersOf(volume, 300)) != 0 {
		t.Errorf("hidden: unseen %v, users %v", use.Unseen, use.UsersOf(volume, 300))
	}
}
