package create

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestKeptHalfMadeVMIsKnownAgain: the worker of a create is killed, and its leftover is to be kept. The destroy that
// follows takes it away, but not the VM that a third party is making in its place, which looks the same.
func TestKeptHalfMadeVMIsKnownAgain(t *testing.T) {
	size := int64(1 << 30)
	for _, replaced := range []bool{false, true} {
		b := newBench(t, ticket)
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}})
		created, err := b.Create(t.Context(), Request{Node: "pve1", VMID: 900, OnFailure: Keep,
			Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "local-zfs", Size: &size}}}})
		b.sim.SetFaults(nil)
		if err == nil || created.Proof == nil || created.Proof.HalfMade == "" || b.vms()[900] == nil {
			t.Fatalf("proof %+v: %v", created.Proof, err)
		}
		if replaced {
			b.change(func(w *state.World) {
				w.Guests[900] = &state.Guest{VMID: 900, Type: "qemu", Node: "pve1", LockCause: "state",
					Config: map[string]string{"lock": "create", "memory": "96"}}
			})
		}
		_, _, err = b.destroyer.Delete(t.Context(), destroy.Request{Ref: guest.Ref{VMID: 900, Node: "pve1",
			Proof: created.Proof}, Left: created.Left})
		if there := b.vms()[900] != nil; there != replaced || (err != nil) != replaced {
			t.Errorf("replaced by a third party's %t: there %t, %v", replaced, there, err)
		}
	}
}
