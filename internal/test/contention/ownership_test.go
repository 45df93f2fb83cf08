package contention_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestAnothersTaskIsNotOurs: the answer to our request is lost and it did nothing, while another process with the same
// token does the like. Its task is neither stopped nor taken for ours, and its VM stays as it is.
func TestAnothersTaskIsNotOurs(t *testing.T) {
	t.Parallel()
	cloning := engine.SmallCreate(200)
	cloning.Clone, cloning.Spec.Disks = &guest.Clone{VMID: 9000, Full: rig.Pointer(true)}, nil
	cases := []struct {
		name, path string
		request    create.Request
		theirs     int
		rival      func(context.Context, *pve.Client) (pve.UPID, error)
	}{
		{"a clone of the same source", "/qemu/9000/clone", cloning, 555, func(ctx context.Context, c *pve.Client) (pve.UPID, error) {
			return c.QEMU("pve1", 9000).Clone(ctx, pve.Params{"newid": "555", "full": "1", "name": "theirs"})
		}},
		{"a create of the same id", "/nodes/pve1/qemu", engine.SmallCreate(300), 300, func(ctx context.Context, c *pve.Client) (pve.UPID, error) {
			return c.Node("pve1").CreateVM(ctx, pve.Params{"vmid": "300", "name": "theirs", "description": "theirs", "scsi0": "local-zfs:1"})
		}},
	}
	for _, c := range cases {
		for _, interrupted := range []bool{false, true} {
			h := engine.NewHookedBench(t, engine.TokenIdentity())
			other := h.Other(t)
			h.Sim.SetTaskTime(20 * time.Second)
			h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", VMID: c.request.VMID}, Phase: fault.Before, Status: 596, Reason: "Connection timed out"}})
			ctx, cancel := context.WithCancel(t.Context())
			var theirs pve.UPID
			h.Once("POST", c.path, func() {
				var err error
				if theirs, err = c.rival(t.Context(), other); err != nil {
					t.Error(err)
				}
				if interrupted {
					cancel()
				}
			})
			created, err := h.Service.Create(ctx, c.request)
			cancel()
			if err == nil || created.Guest.VMID != 0 {
				t.Errorf("%s: want an error with nothing left, got %+v, %v", c.name, created, err)
			}
			if _, err := other.Tasks().Wait(t.Context(), theirs); err != nil {
				t.Errorf("%s, interrupted %t: their task: %v", c.name, interrupted, err)
			}
			guest, ok := h.Content(h.Sim.Snapshot()).Guest(c.theirs)
			if !ok || guest.Config["name"] != "theirs" || guest.Config["lock"] != "" || strings.Contains(guest.Config["description"], "mine") {
				t.Errorf("%s, interrupted %t: their VM is %v", c.name, interrupted, guest.Config)
			}
		}
	}
}

// TestInterruptWhileTheAnswerIsLost: the request took effect, its answer is lost, and the user interrupts. The provider finds
// the result of the request and removes it.
func TestInterruptWhileTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	cloning := engine.SmallCreate(200)
	cloning.Clone, cloning.Spec.Disks = &guest.Clone{VMID: 9000}, nil
	for path, r := range map[string]create.Request{"/nodes/pve1/qemu": engine.SmallCreate(300), "/qemu/9000/clone": cloning} {
		h := engine.NewHookedBench(t, engine.TokenIdentity())
		h.Sim.SetTaskTime(5 * time.Second)
		h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", VMID: r.VMID}, Phase: fault.After}})
		ctx, cancel := context.WithCancel(t.Context())
		h.Once("POST", path, cancel)
		created, err := h.Service.Create(ctx, r)
		if !errors.Is(err, context.Canceled) && !pve.IsKind(err, pve.Ambiguous) || !saga.RolledBack(err) || created.Guest.VMID != 0 {
			t.Errorf("%s: want a rolled back interrupt, got %+v, %v", path, created, err)
		}
		h.MustBeAsBefore(t, h.Base)
	}
}

// TestACommitWhoseAnswerIsLost: the last write takes effect, and then no request of that kind gets through any more. The
// mark is gone, but the VM is still known to be ours, by its uuid.
func TestACommitWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	h := engine.NewHookedBench(t, engine.TokenIdentity())
	h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.After}})
	h.Once("PUT", "/config", func() {
		h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.Before, Reason: "out of order", Times: -1}})
	})
	created, err := h.Service.Create(t.Context(), engine.SmallCreate(300))
	if !saga.RolledBack(err) || created.Guest.VMID != 0 {
		t.Errorf("want it rolled back, got %+v, %v", created, err)
	}
	h.MustBeAsBefore(t, h.Base)
}

// TestATaskThatPVEForgot: the worker dies, and its log with it. Whether the half-made VM is ours cannot be told, so it is
// neither removed nor passed over in silence.
func TestATaskThatPVEForgot(t *testing.T) {
	t.Parallel()
	h := engine.NewHookedBench(t, engine.TokenIdentity())
	h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", VMID: 300}, Phase: fault.KillTask}})
	h.Hook = func(r engine.Answer) {
		if strings.HasSuffix(r.Path, "/log") {
			h.Change(func(w *state.World) {
				w.Guests[300].SetLock("create", "state")
				clear(w.Tasks)
			})
		}
	}
	created, err := h.Service.Create(t.Context(), engine.SmallCreate(300))
	if created.Guest.VMID != 300 || len(created.Left) == 0 || created.Left[0].Kind != "guest" {
		t.Errorf("want VM 300 as a leftover, got %+v, %v", created, err)
	}
	if guest, ok := h.Content(h.Sim.Snapshot()).Guest(300); !ok || guest.Config["lock"] != "create" {
		t.Errorf("the half-made VM was touched: %v", guest.Config)
	}
}
