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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
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

// TestAddedDiskOfAMovedVMIsUndone: an administrator or HA moves the new VM to another node around its start, which fails. The undo knows the
// disk that the create has added to a copy or a restore by its name, or by the migration's log where another volume has that name there.
func TestAddedDiskOfAMovedVMIsUndone(t *testing.T) {
	step, moved := 4, 0
	if share.IsWhole() {
		step = 1
	}
	for i, kind := range []string{"full, moves, adds, imports", "of a snapshot", "restore, moves, grows", "to another node"} {
		for _, taken := range []bool{false, true} {
			for n, more := 16+i%step, true; more; n += step {
				b := newBench(t, ticket)
				b.change(kinds.World)
				b.backedUp(nil)
				r := requestOf(kind)
				node := map[string]string{"pve1": "pve2", "pve2": "pve1"}[r.Node]
				for j := 0; j < 6 && taken && node == "pve2"; j++ {
					b.change(func(w *state.World) {
						w.Put(&state.Volume{Storage: "local-zfs", Node: node, Name: fmt.Sprintf("vm-150-disk-%d", j), VMID: 150,
							Content: "images", Format: "raw", Size: 2 << 30, Data: "theirs"})
					})
				}
				before := b.everything()
				b.sim.ResetOps()
				b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Migrate, VMID: 150, Node: node, Before: fault.Match{Seq: n}}})
				b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
					Phase: fault.Task, Times: -1}})
				created, err := b.Create(t.Context(), r)
				if more = len(b.sim.Reports()) > 0; !more || !b.sim.Reports()[0].Done {
					continue
				}
				moved++
				after := b.everything()
				slices.Sort(before)
				slices.Sort(after)
				if err == nil || len(created.Left) > 0 || !slices.Equal(before, after) {
					t.Errorf("%s, names are taken %t, moved before request %d: %v; left %v", kind, taken, n, err, created.Left)
				}
			}
		}
	}
	t.Logf("%d moves", moved)
	if moved < 10 {
		t.Error("that is no sweep")
	}
}
