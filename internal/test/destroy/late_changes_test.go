package destroy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDestroyLooksAtProtectionLast: a third party protects the VM while its destroy waits for a lock, and when all other guests have been
// read, just before its own is shut down.
func TestDestroyLooksAtProtectionLast(t *testing.T) {
	t.Parallel()
	for path, nth := range map[string]int{"/tasks": 1, "/lxc/8100/pending": 2} {
		h := engine.NewHookedBench(t, engine.TokenIdentity())
		r := engine.SmallCreate(300)
		r.Start = true
		ref := h.Existing(t, r)
		h.Sim.HoldLock(300, "backup", time.Minute, "root@pam")
		h.Nth(nth, "GET", path, func() { h.Change(func(w *state.World) { w.Guests[300].Config["protection"] = "1" }) })
		_, _, err := h.Service.Delete(t.Context(), destroy.Request{Ref: ref})
		rig.MustSay(t, err, "VM 300 is protected", "not touched", "protection = false")
		if offs := h.Sim.PowerOffs(); len(offs) > 0 {
			t.Errorf("%s: switched off: %v", path, offs)
		}
	}
}

// TestAnUnrelatedStorageGoesAway: while a create is undone a storage goes offline that none of its volumes can be on. The undo
// goes on. One that they can be on stops it, and is named.
func TestAnUnrelatedStorageGoesAway(t *testing.T) {
	t.Parallel()
	for storage, clean := range map[string]bool{"local-lvm": true, "shared-nfs": true, "local-zfs": false} {
		h := engine.NewHookedBench(t, engine.TokenIdentity())
		h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", VMID: 300}, Phase: fault.Before, Times: -1}})
		h.Once("PUT", "/config", func() { h.Change(func(w *state.World) { w.Storages[storage].Offline = true }) })
		created, err := h.Service.Create(t.Context(), engine.SmallCreate(300))
		if saga.RolledBack(err) != clean {
			t.Errorf("%s away: rolled back %t: %v", storage, !clean, err)
		}
		if !clean {
			if len(created.Left) == 0 || !strings.Contains(created.Left[0].Reason, storage) {
				t.Errorf("the storage is not named: %+v", created.Left)
			}
			if created.Guest.VMID != 300 {
				t.Error("the leftover is not in state")
			}
			continue
		}
		h.Change(func(w *state.World) { w.Storages[storage].Offline = false })
		h.MustBeAsBefore(t, h.Base)
	}
}

// TestPoolTokensHoldAnID: an identity that may work in its pool only takes the id again in that pool, to remove what outlived
// the VM there. It cannot see such a volume, but PVE's log names it.
func TestPoolTokensHoldAnID(t *testing.T) {
	t.Parallel()
	for _, healed := range []bool{true, false} {
		h := engine.PoolOnly(t)
		r := engine.SmallCreate(300)
		r.Pool = "web"
		ref := h.Existing(t, r)
		h.Change(func(w *state.World) { w.Storages["local-zfs"].BusyFrees = map[bool]int{true: 2, false: -1}[healed] })
		left, warnings, err := h.Service.Delete(t.Context(), destroy.Request{Ref: ref, Pool: "web"})
		if healed {
			if err != nil || len(left) > 0 || len(warnings) > 0 {
				t.Errorf("left %v, said %v: %v", left, warnings, err)
			}
			h.MustBeAsBefore(t, h.Base)
			continue
		}
		if len(left) != 1 || left[0].ID != "local-zfs:vm-300-disk-0" || !strings.Contains(left[0].Reason, "dataset is busy") {
			t.Errorf("left %+v: %v", left, err)
		}
		if got, err := h.Service.Recheck(t.Context(), ref, left); len(got) != 1 || err != nil {
			t.Errorf("a look that shows nothing to this identity took it for gone: %v, %v", got, err)
		}
		_, _, err = h.Service.Delete(t.Context(), destroy.Request{Ref: ref, Pool: "web", Left: left})
		rig.MustSay(t, err, "VM.Audit") // another VM may use the volume by now, and this identity could not tell
	}
}
