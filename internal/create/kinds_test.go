package create

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestResumeKinds: of creates of all kinds a run is killed before each of its requests, and the next one comes to the VM that an
// undisturbed one makes: every disk in its slot, and no other volume. `make test` plays a share.
func TestResumeKinds(t *testing.T) {
	kills, left, step := 0, 0, 7
	if share.IsWhole() {
		step = 1
	}
	begin := 0
	for name, k := range share.Rows(kinds.All(theArchive), 1) {
		begin++
		r := Request{VMID: 150, Node: k.Node, Clone: k.Clone, Restore: k.Restore, Spec: k.Spec, Start: k.Start}
		r.Spec.Name = to("web")
		want := ""
		for n, died := 1+begin%step, true; died; n += step {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.change(kinds.World)
				b.backedUp(nil)
				foreign := len(b.everything())
				if want == "" {
					if _, err := b.Create(t.Context(), r); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					want, n = b.slotsOf(150), n-step
					return
				}
				if died = b.kill(t, deadProcess(t, b.Creator), r, n); !died {
					return
				}
				kills++
				left += min(1, len(b.vms()))
				what := fmt.Sprintf("%s, killed before request %d", name, n)
				b.converges(t, what, r, foreign, 0)
				if got := b.slotsOf(150); got != want {
					t.Errorf("%s: the VM has\n%s, want\n%s", what, got, want)
				}
			})
		}
	}
	t.Logf("%d kills, of which %d left a VM", kills, left)
	if left == 0 {
		t.Error("no kill has left a VM")
	}
}

// slotsOf are a VM's node, whether it runs, and its slots with their values.
func (b bench) slotsOf(vmid int) (all string) {
	b.change(func(w *state.World) {
		if g := w.Guests[vmid]; g != nil {
			all = fmt.Sprintln(g.Node, g.Running != nil)
		}
	})
	config := b.vms()[vmid]
	for _, slot := range vm.Slots(config) {
		all += fmt.Sprintf("%s %v\n", slot, config[slot])
	}
	return all
}
