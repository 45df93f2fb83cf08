package create

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestMovedWhileItIsMade: an administrator or HA moves the new VM to another node, before any request after the first
// one. The create follows it and ends there; nothing is left over, and the guest is not stopped.
func TestMovedWhileItIsMade(t *testing.T) {
	step, moved := 5, 0
	if share.IsWhole() {
		step = 1
	}
	clone := ofTemplate()
	clone.Spec.CPU.Cores, clone.Spec.Disks = to(int64(4)), map[string]vm.Disk{"scsi0": {Size: to(int64(8 << 30))}}
	requests := map[string]Request{"create": onZFS(), "clone": clone, "restore": aRestore()}
	for i, name := range slices.Sorted(maps.Keys(requests)) {
		r := requests[name]
		r.VMID, r.Start = 150, true
		r.Firewall, r.HA = &guest.Firewall{Enabled: to(true)}, &guest.HA{State: to("started")}
		for n, more := 1+i%step, true; more; n += step {
			b := newBench(t, ticket)
			b.backedUp(nil)
			foreign := len(b.everything())
			b.sim.ResetOps()
			b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Migrate, VMID: 150, Node: "pve2", Before: fault.Match{Seq: n}}})
			what := fmt.Sprintf("%s, moved before request %d", name, n)
			created, err := b.Create(t.Context(), r)
			more = len(b.sim.Reports()) > 0
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			if !more || !b.sim.Reports()[0].Done {
				continue
			}
			moved++
			config, at := b.vms()[150], ""
			b.change(func(w *state.World) { at = w.Guests[150].Node })
			if created.Guest.Node != at || config["description"] != "" && name == "create" || created.Guest.Status != "running" {
				t.Errorf("%s: it is %s on %s: %v", what, created.Guest.Status, created.Guest.Node, config)
			}
			if own := 1 + len(b.volumesOf(150)); len(b.everything())-own != foreign {
				t.Errorf("%s: things of others became %v", what, b.everything())
			}
		}
	}
	t.Logf("%d moves", moved)
	if moved < 5 {
		t.Error("that is no sweep")
	}
}

// TestMovedAndThenUndone: the new VM is moved to another node before any request after the first one, and its guest does
// not start there. The undo removes it there, with its disks.
func TestMovedAndThenUndone(t *testing.T) {
	moved := 0
	for n, more := 1, true; more; n++ {
		b := newBench(t, ticket)
		before := b.everything()
		r := onZFS()
		r.VMID, r.Start, r.Firewall = 150, true, &guest.Firewall{Enabled: to(true)}
		b.sim.ResetOps()
		b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Migrate, VMID: 150, Node: "pve2", Before: fault.Match{Seq: n}}})
		start := fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}
		b.sim.SetFaults([]fault.Rule{{Match: start, Phase: fault.Task, Times: -1}})
		created, err := b.Create(t.Context(), r)
		more = len(b.sim.Reports()) > 0
		if more && b.sim.Reports()[0].Done {
			moved++
		}
		after := b.everything()
		slices.Sort(before)
		slices.Sort(after)
		if err == nil || created.Guest.VMID != 0 || !slices.Equal(before, after) {
			t.Errorf("moved before request %d: %v; %d is in state, and there are %v", n, err, created.Guest.VMID, after)
		}
	}
	t.Logf("%d moves", moved)
	if moved < 5 {
		t.Error("that is no sweep")
	}
}
