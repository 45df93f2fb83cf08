package acctest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// request is what a hook sees of an answered request.
type request struct{ method, path, failure string }

// hooked is a bench with a hook that runs after each answer, before the provider goes on: what others do in between.
type hooked struct {
	*bench
	hook func(request)
}

func newHooked(t *testing.T, who sweepIdentity) *hooked {
	t.Helper()
	h := &hooked{hook: func(request) {}}
	auth := who.auth
	who.auth = func(c *pve.Config, cred pvesim.Credentials) {
		auth(c, cred)
		c.Trace = func(_ context.Context, message string, fields map[string]string) {
			if message == "PVE request" {
				h.hook(request{method: fields["method"], path: fields["path"], failure: fields["error"]})
			}
		}
	}
	h.bench = newBench(t, who)
	return h
}

// once runs f at the first answer whose method and end of path these are.
func (h *hooked) once(method, path string, f func()) { h.nth(1, method, path, f) }

// nth runs f at the nth such answer.
func (h *hooked) nth(n int, method, path string, f func()) {
	var answers atomic.Int32
	h.hook = func(r request) {
		if r.method == method && strings.HasSuffix(r.path, path) && int(answers.Add(1)) == n {
			f()
		}
	}
}

// change alters the cluster behind the provider's back.
func (h *hooked) change(f func(*state.World)) {
	w := h.sim.World()
	w.Lock()
	defer w.Unlock()
	f(w)
}

func (h *hooked) mustBeAsBefore(t *testing.T, before []byte) {
	t.Helper()
	if diff := sameWorld(h.world(before), h.world(h.sim.Snapshot())); diff != "" {
		t.Errorf("the world is not as before (-before +after):\n%s", diff)
	}
}

func token() sweepIdentity { return sweepIdentities()[1] }

// other is another process that works with the same token.
func (h *hooked) other(t *testing.T) *pve.Client {
	t.Helper()
	c, err := pve.New(pve.Config{Endpoint: h.sim.Endpoint(), CACertificate: h.sim.CAPEM(), DialContext: h.sim.DialContext, APIToken: h.sim.Credentials().Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func small(vmid int) create.Request {
	return create.Request{Node: "pve1", VMID: vmid, Spec: vm.Spec{Options: vm.Options{Name: to("mine"), Description: to("mine")},
		Disks: map[string]vm.Disk{"scsi0": {Storage: "local-zfs", Size: to(int64(1 << 30))}}}}
}

// TestAnothersTaskIsNotOurs: the answer to our request is lost and it did nothing, while another process with the same
// token does the like. Its task is neither stopped nor taken for ours, and its VM stays as it is.
func TestAnothersTaskIsNotOurs(t *testing.T) {
	t.Parallel()
	cloning := small(200)
	cloning.Clone, cloning.Spec.Disks = &guest.Clone{VMID: 9000, Full: to(true)}, nil
	cases := []struct {
		name, path string
		request    create.Request
		theirs     int
		rival      func(context.Context, *pve.Client) (pve.UPID, error)
	}{
		{"a clone of the same source", "/qemu/9000/clone", cloning, 555, func(ctx context.Context, c *pve.Client) (pve.UPID, error) {
			return c.CloneVM(ctx, "pve1", 9000, pve.Params{"newid": "555", "full": "1", "name": "theirs"})
		}},
		{"a create of the same id", "/nodes/pve1/qemu", small(300), 300, func(ctx context.Context, c *pve.Client) (pve.UPID, error) {
			return c.CreateVM(ctx, "pve1", pve.Params{"vmid": "300", "name": "theirs", "description": "theirs", "scsi0": "local-zfs:1"})
		}},
	}
	for _, c := range cases {
		for _, interrupted := range []bool{false, true} {
			h := newHooked(t, token())
			other := h.other(t)
			h.sim.SetTaskTime(20 * time.Second)
			h.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", VMID: c.request.VMID}, Phase: fault.Before, Status: 596, Reason: "Connection timed out"}})
			ctx, cancel := context.WithCancel(t.Context())
			var theirs pve.UPID
			h.once("POST", c.path, func() {
				var err error
				if theirs, err = c.rival(t.Context(), other); err != nil {
					t.Error(err)
				}
				if interrupted {
					cancel()
				}
			})
			created, err := h.svc.Create(ctx, c.request)
			cancel()
			if err == nil || created.Guest.VMID != 0 {
				t.Errorf("%s: want an error with nothing left, got %+v, %v", c.name, created, err)
			}
			if _, err := other.Wait(t.Context(), theirs); err != nil {
				t.Errorf("%s, interrupted %t: their task: %v", c.name, interrupted, err)
			}
			guest, ok := h.world(h.sim.Snapshot()).guest(c.theirs)
			if !ok || guest.Config["name"] != "theirs" || guest.Config["lock"] != "" || strings.Contains(guest.Config["description"], "mine") {
				t.Errorf("%s, interrupted %t: their VM is %v", c.name, interrupted, guest.Config)
			}
		}
	}
}

// TestInterruptWhileTheAnswerIsLost: the request took effect, its answer is lost, and the user interrupts. What it made is
// found and taken back.
func TestInterruptWhileTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	cloning := small(200)
	cloning.Clone, cloning.Spec.Disks = &guest.Clone{VMID: 9000}, nil
	for path, r := range map[string]create.Request{"/nodes/pve1/qemu": small(300), "/qemu/9000/clone": cloning} {
		h := newHooked(t, token())
		h.sim.SetTaskTime(5 * time.Second)
		h.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", VMID: r.VMID}, Phase: fault.After}})
		ctx, cancel := context.WithCancel(t.Context())
		h.once("POST", path, cancel)
		created, err := h.svc.Create(ctx, r)
		if !errors.Is(err, context.Canceled) && !pve.IsKind(err, pve.Ambiguous) || !tx.RolledBack(err) || created.Guest.VMID != 0 {
			t.Errorf("%s: want a rolled back interrupt, got %+v, %v", path, created, err)
		}
		h.mustBeAsBefore(t, h.base)
	}
}

// TestACommitWhoseAnswerIsLost: the last write takes effect, and then no request of that kind gets through any more. The
// stamp is gone, but the VM is still known to be ours, by its uuid.
func TestACommitWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	h := newHooked(t, token())
	h.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.After}})
	h.once("PUT", "/config", func() {
		h.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.Before, Reason: "out of order", Times: -1}})
	})
	created, err := h.svc.Create(t.Context(), small(300))
	if !tx.RolledBack(err) || created.Guest.VMID != 0 {
		t.Errorf("want it rolled back, got %+v, %v", created, err)
	}
	h.mustBeAsBefore(t, h.base)
}

// TestATaskThatPVEForgot: the worker dies, and its log with it. Whether the half-made VM is ours cannot be told, so it is
// neither removed nor passed over in silence.
func TestATaskThatPVEForgot(t *testing.T) {
	t.Parallel()
	h := newHooked(t, token())
	h.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", VMID: 300}, Phase: fault.KillTask}})
	h.hook = func(r request) {
		if strings.HasSuffix(r.path, "/log") {
			h.change(func(w *state.World) {
				w.Guests[300].SetLock("create", "state")
				clear(w.Tasks)
			})
		}
	}
	created, err := h.svc.Create(t.Context(), small(300))
	if created.Guest.VMID != 300 || len(created.Left) == 0 || created.Left[0].Kind != "guest" {
		t.Errorf("want VM 300 as a residue, got %+v, %v", created, err)
	}
	if guest, ok := h.world(h.sim.Snapshot()).guest(300); !ok || guest.Config["lock"] != "create" {
		t.Errorf("the half-made VM was touched: %v", guest.Config)
	}
}
