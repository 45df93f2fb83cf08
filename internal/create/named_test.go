package create

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// aclFor gives a third party a role on an id.
func aclFor(vmid int, who, role string) state.ACLEntry {
	return state.ACLEntry{Path: fmt.Sprintf("/vms/%d", vmid), Subject: who, Role: role, Propagate: true}
}

// TestIDsThatPermissionsName: an id on which a third party has a role, or which a pool has as a member, is no automatic
// one, though it is free. Time passes only when all creates wait, so that those that wait at once share an answer.
func TestIDsThatPermissionsName(t *testing.T) { synctest.Test(t, idsThatPermissionsName) }

func idsThatPermissionsName(t *testing.T) {
	b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: 10 * time.Millisecond}, token)
	b.change(func(w *state.World) {
		w.ACL = append(w.ACL, aclFor(100, "auditor@pve", "PVEVMUser"), aclFor(103, "auditor@pve", "PVEVMUser"))
		w.Pools["web"].Guests = append(w.Pools["web"].Guests, 102)
	})
	b.sim.ResetOps()
	if got := many(t, 3, b.Creator, onZFS()); !slices.Equal(got, []int{101, 104, 105}) {
		t.Errorf("got %v", got)
	}
	asked := 0
	for _, op := range b.sim.Ops() {
		if op.Path == "/access/permissions" {
			asked++
		}
	}
	if asked > 3 {
		t.Errorf("%d questions for permissions of three creates at once", asked)
	}
	r := onZFS()
	r.Range = [2]int{102, 103}
	var field *guest.FieldError
	if _, err := b.Create(t.Context(), r); !errors.As(err, &field) || field.Path != "vmid" ||
		!strings.Contains(err.Error(), "permissions") {
		t.Errorf("all of the range is spoken for, and the create says %v", err)
	}
	r.Range, r.VMID = [2]int{}, 103
	if _, err := b.Create(t.Context(), r); err != nil {
		t.Errorf("an id that is configured: %v", err)
	}
}

// TestIDsThatOnlyPermissionsAllow: an identity that may create only under certain ids is itself named by their entries.
func TestIDsThatOnlyPermissionsAllow(t *testing.T) {
	b := newBench(t, token)
	b.change(func(w *state.World) {
		w.ACL = slices.DeleteFunc(w.ACL, func(e state.ACLEntry) bool {
			return e.Path == "/" &&
				strings.HasPrefix(e.Subject, "terraform@pve")
		})
		for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
			for _, path := range []string{"/storage", "/nodes", "/sdn", "/mapping", "/access"} {
				w.ACL = append(w.ACL, state.ACLEntry{Path: path, Subject: who, Role: "TerraformProvider", Propagate: true})
			}
			w.ACL = append(w.ACL, aclFor(3000, who, "TerraformProvider"), aclFor(3001, who, "TerraformProvider"))
		}
	})
	r := onZFS()
	r.Range = [2]int{3000, 3001}
	if got := many(t, 2, b.Creator, r); !slices.Equal(got, []int{3000, 3001}) {
		t.Errorf("got %v", got)
	}
}

// poolOnly leaves the bench's identity with the permissions of the guide: it looks everywhere, and creates VMs of a pool.
func (b bench) poolOnly() {
	b.change(func(w *state.World) {
		w.ACL = slices.DeleteFunc(w.ACL, func(e state.ACLEntry) bool {
			return e.Path == "/" && strings.HasPrefix(e.Subject, "terraform@pve")
		})
		for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
			for _, path := range []string{"/storage", "/nodes", "/sdn", "/mapping", "/access", "/pool/web"} {
				w.ACL = append(w.ACL, state.ACLEntry{Path: path, Subject: who, Role: "TerraformProvider", Propagate: true})
			}
			w.ACL = append(w.ACL, state.ACLEntry{Path: "/vms", Subject: who, Role: "PVEAuditor", Propagate: true})
		}
	})
}

// TestIDsThatPermissionsNameForAPool: an identity that may create VMs by its pool alone takes no id on which a third
// party has a role, and which PVE would hand to that party. A free id of its own pool is one that it may create.
func TestIDsThatPermissionsNameForAPool(t *testing.T) {
	b := newBench(t, token)
	b.poolOnly()
	b.change(func(w *state.World) {
		w.ACL = append(w.ACL, aclFor(100, "alice@pve", "PVEVMAdmin"))
		w.Pools["web"].Guests = append(w.Pools["web"].Guests, 101)
	})
	r := onZFS()
	r.Pool = "web"
	if got := many(t, 2, b.Creator, r); !slices.Equal(got, []int{101, 102}) {
		t.Errorf("got %v", got)
	}
}

// TestIDsWithAFirewall: rules that are left under an id are not inherited by a VM that would obey them.
func TestIDsWithAFirewall(t *testing.T) {
	yes, bridge := true, "vmbr0"
	guarded := onZFS()
	guarded.Spec.Networks = map[string]vm.NIC{"net0": {Model: "virtio",
		NICOptions: vm.NICOptions{Bridge: &bridge, Firewall: &yes}}}
	for name, c := range map[string]struct {
		r    Request
		want int
	}{"obeys": {guarded, 101}, "has no firewall": {onZFS(), 100}, "a clone": {ofTemplate(), 100}} {
		b := newBench(t, token)
		b.change(func(w *state.World) {
			w.Firewall[100] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "ACCEPT"}}
		})
		if got := many(t, 1, b.Creator, c.r); got[0] != c.want {
			t.Errorf("%s: got %v, want %d", name, got, c.want)
		}
	}
}

// TestIDOfAVMThatIsReplaced: permissions and pools of a VM go with it, before its id is free, so that id is given again
// at once.
func TestIDOfAVMThatIsReplaced(t *testing.T) {
	b := newBench(t, token)
	r := onZFS()
	r.Pool = "web"
	many(t, 2, b.Creator, r)
	b.change(func(w *state.World) {
		destroyed(w, 100)
		w.Pools["web"].Guests = slices.DeleteFunc(w.Pools["web"].Guests, func(m int) bool { return m == 100 })
	})
	b.api.Listing().Forget()
	if got := many(t, 1, b.Creator, r); !slices.Equal(got, []int{100}) {
		t.Errorf("got %v", got)
	}
}
