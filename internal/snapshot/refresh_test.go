package snapshot

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestRefreshSharesOneLook: the snapshots of one VM, of which a configuration may have many, are refreshed with one
// look at the VM; a snapshot of each of many VMs takes one look at each. A snapshot that was changed since is read
// again.
func TestRefreshSharesOneLook(t *testing.T) {
	const all, atOnce = 1000, 10
	for _, vms := range []int{1, 100, 1000} {
		t.Run(fmt.Sprintf("%d VMs", vms), func(t *testing.T) {
			r := newRig(t, false)
			r.change(func(w *state.World) {
				for n := range all {
					g := w.Guests[1000+n%vms]
					if g == nil {
						g = &state.Guest{VMID: 1000 + n%vms, Type: "qemu", Node: "pve1", Config: map[string]string{"memory": "512",
							"smbios1": "uuid=" + uuidOf(1000+n%vms)}, Snaps: map[string]map[string]string{}}
						w.Guests[g.VMID] = g
					}
					g.Snaps[fmt.Sprintf("s%d", n)] = map[string]string{"snaptime": fmt.Sprint(n + 1), "smbios1": g.Config["smbios1"]}
				}
			})
			ref := func(n int) Ref {
				vmid := 1000 + n%vms
				return Ref{VM: guest.Ref{VMID: vmid, Node: "pve1", Identity: guest.Identity{UUID: uuidOf(vmid)}},
					Name:  fmt.Sprintf("s%d", n),
					Taken: int64(n + 1)}
			}
			r.sim.ResetOps()
			began, next := time.Now(), atomic.Int64{}
			var readers sync.WaitGroup
			for range atOnce {
				readers.Go(func() {
					for n := int(next.Add(1)) - 1; n < all; n = int(next.Add(1)) - 1 {
						if found, err := r.s.Refresh(t.Context(), ref(n)); err != nil || found.Name != fmt.Sprintf("s%d", n) ||
							found.Node != "pve1" {
							t.Errorf("snapshot %d: %v, %v", n, found, err)
						}
					}
				})
			}
			readers.Wait()
			requests := len(r.sim.Ops())
			t.Logf("%d snapshots of %d VMs: %d requests, %.3f ms each with the cluster in the same process", all, vms, requests,
				float64(time.Since(began).Microseconds())/1000/all)
			if requests > 2*vms {
				t.Errorf("%d requests for %d VMs", requests, vms)
			}
			if _, err := r.s.Delete(t.Context(), ref(0)); err != nil {
				t.Fatal(err)
			}
			if _, err := r.s.Refresh(t.Context(), ref(0)); !errors.Is(err, ErrGone) {
				t.Errorf("it is refreshed from before its removal: %v", err)
			}
			other := ref(1)
			other.VM.Identity.UUID = uuidOf(1)
			if _, err := r.s.Refresh(t.Context(), other); !errors.Is(err, ErrGone) {
				t.Errorf("that of another VM of the id is taken for it: %v", err)
			}
		})
	}
}
