package destroy

import (
	"context"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestDiskSurvivesAFailedDestroy: the protection of a VM that holds a disk is lifted for its end alone. Where PVE
// refuses that, or a third party attaches the disk at the last moment, it is protected again; an identity that does
// not see all guests touches nothing.
func TestDiskSurvivesAFailedDestroy(t *testing.T) {
	const volume = "local-zfs:vm-300-disk-0"
	held := func(t *testing.T) (*rig, guest.Ref) {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.option("protection", "1")
		return r, ref
	}
	protected := func(r *rig) (is bool) {
		r.change(func(w *state.World) { is = w.Guests[300] != nil && w.Guests[300].Config["protection"] == "1" })
		return is
	}
	destroy := func(r *rig, ref guest.Ref) error {
		_, _, err := r.s.Delete(context.Background(), Request{Ref: ref, Holder: true, GracefulOnly: true})
		return err
	}
	t.Run("PVE refuses", func(t *testing.T) {
		r, ref := held(t)
		r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "DELETE", Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before, Times: -1}})
		if err := destroy(r, ref); err == nil || !protected(r) {
			t.Errorf("said %v, protected %t", err, protected(r))
		}
		r.sim.SetFaults(nil)
		if err := destroy(r, ref); err != nil {
			t.Errorf("the next destroy says %v", err)
		}
		if is, kept := r.has(300, volume); is || kept {
			t.Errorf("the VM is there: %t, its disk: %t", is, kept)
		}
	})
	t.Run("attached at the last moment", func(t *testing.T) {
		r, ref := held(t)
		r.answered = func(method, path string) {
			if method == "PUT" && strings.HasSuffix(path, "/qemu/300/config") {
				r.change(func(w *state.World) {
					w.Guests[777] = &state.Guest{VMID: 777, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "other", "memory": "512",
						"scsi1": volume + ",size=1G"}}
				})
			}
		}
		if err := destroy(r, ref); err == nil || !strings.Contains(err.Error(), "VM 777") || !protected(r) {
			t.Errorf("said %v, protected %t", err, protected(r))
		}
		if is, kept := r.has(300, volume); !is || !kept {
			t.Errorf("the VM is there: %t, its disk: %t", is, kept)
		}
	})
	t.Run("not all guests are seen", func(t *testing.T) {
		r, ref := held(t)
		id, _, _ := strings.Cut(r.sim.Credentials().Token, "=")
		user, _, _ := strings.Cut(id, "!")
		r.change(func(w *state.World) {
			for i := range w.ACL {
				if w.ACL[i].Subject == id || w.ACL[i].Subject == user {
					w.ACL = append(w.ACL, w.ACL[i])
					w.ACL[i].Path = "/vms/300"
					w.ACL[len(w.ACL)-1].Path = "/storage"
				}
			}
		})
		if err := destroy(r, ref); err == nil || !strings.Contains(err.Error(), "cannot be told") || !protected(r) {
			t.Errorf("said %v, protected %t", err, protected(r))
		}
		if err := r.s.MayBorrow(t.Context(), r.s.Ask(), "pve1", 0, volume); err == nil {
			t.Error("it may be attached")
		}
		if is, kept := r.has(300, volume); !is || !kept {
			t.Errorf("the VM is there: %t, its disk: %t", is, kept)
		}
	})
}
