package snapshot

import (
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
)

// TestSnapshotOfAVMThatIsReplicated: a replication holds the migration lock of the VM for some minutes, and PVE refuses
// the removal of a snapshot and the roll-back to one before it does anything. Both are waited for, as other locks are.
func TestSnapshotOfAVMThatIsReplicated(t *testing.T) {
	for verb, do := range map[string]func(*rig, Ref) error{
		"remove": func(r *rig, ref Ref) error {
			_, err := r.s.Delete(t.Context(), ref)
			return err
		},
		"roll back": func(r *rig, ref Ref) error {
			_, err := r.s.Do(t.Context(), RollBack{Choice: guest.Choice{VMID: ours}, Name: ref.Name})
			return err
		},
	} {
		r := newRig(t, false)
		taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"})
		if err != nil {
			t.Fatal(err)
		}
		ref := Ref{VM: guest.Ref{VMID: ours, Node: "pve1", Identity: taken.VM}, Name: "before", Taken: taken.Taken}
		pvesim.HoldMigration(r.sim, ours, 3*time.Minute)
		if err := do(r, ref); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
