package engine

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Updating is an update of VM 300 as it is.
func (h *HookedBench) Updating(t *testing.T, ref guest.Ref) update.Request {
	t.Helper()
	found, _, err := h.Service.Read(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return update.Request{Ref: ref, Prior: found.Spec, Planned: found.Spec, Node: "pve1"}
}

// MustBeDoneOnce looks that no task succeeded twice, and that nothing is locked or left.
func (h *HookedBench) MustBeDoneOnce(t *testing.T, name string, since time.Time) {
	t.Helper()
	h.Change(func(w *state.World) {
		done := map[string]int{}
		for _, task := range w.Tasks {
			if task.ID == "300" && !task.Start.Before(since) && task.User == "terraform@pve!prov" && task.ExitStatus == "OK" {
				done[task.Type]++
			}
			if task.Running {
				t.Errorf("%s: task %s runs on", name, task.UPID)
			}
		}
		for typ, n := range done {
			if n > 1 {
				t.Errorf("%s: %d tasks %s did their work", name, n, typ)
			}
		}
		g := w.Guests[300]
		if lock := g.Config["lock"]; lock != "" {
			t.Errorf("%s: locked (%s)", name, lock)
		}
		for _, v := range w.Volumes {
			if v.VMID == 300 && !slices.ContainsFunc(slices.Collect(maps.Values(g.Config)), func(value string) bool { return strings.HasPrefix(value, v.Volid()) }) {
				t.Errorf("%s: volume %s is in no slot", name, v.Volid())
			}
		}
	})
	if h.Sent(http.MethodPost, "/move_disk")+h.Sent(http.MethodPut, "/resize") > 20 {
		t.Errorf("%s: the waiting took %d requests", name, h.Sim.LastOp())
	}
}

// Answer is a hook's view of an answered request.
type Answer struct{ method, Path, failure string }

// HookedBench is a bench with a hook that runs after each answer, before the provider goes on, to play the acts of others.
type HookedBench struct {
	*CreateBench
	Hook func(Answer)
}

// NewHookedBench returns a bench whose hook does nothing yet.
func NewHookedBench(t *testing.T, who FaultIdentity) *HookedBench {
	t.Helper()
	h := &HookedBench{Hook: func(Answer) {}}
	auth := who.auth
	who.auth = func(c *pve.Config, cred pvesim.Credentials) {
		auth(c, cred)
		c.Trace = func(_ context.Context, message string, fields map[string]string) {
			if message == "PVE request" {
				h.Hook(Answer{method: fields["method"], Path: fields["path"], failure: fields["error"]})
			}
		}
	}
	h.CreateBench = NewCreateBench(t, who)
	return h
}

// Once runs f at the first answer whose method and end of path these are.
func (h *HookedBench) Once(method, path string, f func()) { h.Nth(1, method, path, f) }

// Nth runs f at the nth such answer.
func (h *HookedBench) Nth(n int, method, path string, f func()) {
	var answers atomic.Int32
	h.Hook = func(r Answer) {
		if r.method == method && strings.HasSuffix(r.Path, path) && int(answers.Add(1)) == n {
			f()
		}
	}
}

// Change alters the cluster behind the provider's back.
func (h *HookedBench) Change(f func(*state.World)) {
	w := h.Sim.World()
	w.Lock()
	defer w.Unlock()
	f(w)
}

// MustBeAsBefore fails the test if the cluster differs from a snapshot.
func (h *HookedBench) MustBeAsBefore(t *testing.T, before []byte) {
	t.Helper()
	if diff := ContentDiff(h.Content(before), h.Content(h.Sim.Snapshot())); diff != "" {
		t.Errorf("the world is not as before (-before +after):\n%s", diff)
	}
}

// TokenIdentity is the token without SSH.
func TokenIdentity() FaultIdentity { return FaultIdentities()[1] }

// Other is another process that works with the same token.
func (h *HookedBench) Other(t *testing.T) *pve.Client {
	t.Helper()
	c, err := pve.New(pve.Config{Endpoint: h.Sim.Endpoint(), CACertificate: h.Sim.CAPEM(), DialTLSContext: h.Sim.DialTLSContext, APIToken: h.Sim.Credentials().Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// SmallCreate returns the request for a VM with one disk.
func SmallCreate(vmid int) create.Request {
	return create.Request{Node: "pve1", VMID: vmid, Spec: vm.Spec{Options: vm.Options{Name: rig.Pointer("mine"), Description: rig.Pointer("mine")},
		Disks: map[string]vm.Disk{"scsi0": {Storage: "local-zfs", Size: rig.Pointer(int64(1 << 30))}}}}
}

// Existing makes a VM to be destroyed and gives the reference to it.
func (h *HookedBench) Existing(t *testing.T, r create.Request) guest.Ref {
	t.Helper()
	created, err := h.Service.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return guest.Ref{VMID: created.Guest.VMID, Node: created.Guest.Node, Identity: created.Guest.Identity}
}

// PoolOnly is a bench with an identity whose privileges are all on the pool web.
func PoolOnly(t *testing.T) *HookedBench {
	t.Helper()
	h := NewHookedBench(t, FaultIdentity{Name: "pool", auth: func(c *pve.Config, cred pvesim.Credentials) { c.APIToken = cred.TokenNoAllocate }})
	id, _, _ := strings.Cut(h.Sim.Credentials().TokenNoAllocate, "=")
	user, _, _ := strings.Cut(id, "!")
	h.Change(func(w *state.World) {
		var kept []state.ACLEntry
		for _, e := range w.ACL {
			if e.Subject != id && e.Subject != user {
				kept = append(kept, e)
			}
		}
		for _, subject := range []string{id, user} {
			for path, role := range map[string]string{"/pool/web": "TerraformLite", "/storage": "PVEDatastoreUser", "/sdn": "PVESDNUser", "/nodes": "PVEAuditor"} {
				kept = append(kept, state.ACLEntry{Path: path, Subject: subject, Role: role, Propagate: true})
			}
		}
		w.ACL = kept
	})
	h.Base = h.Sim.Snapshot()
	return h
}
