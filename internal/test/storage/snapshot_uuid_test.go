package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// snapshotOf is a snapshot of VM 400 that names its uuid.
const snapshotOf = `
resource "proxmox_vm_snapshot" "s" {
  vmid = 400
  uuid = %s
  name = "before"
}
`

// TestSnapshotOfTheVMThatThePlanHasSeen: another VM has the id when a plan is applied. With the uuid in the configuration no snapshot
// of it is taken.
func TestSnapshotOfTheVMThatThePlanHasSeen(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	vm := rig.NodeVMBlock(rig.Stopped)
	s := w.Session(t, rig.TokenNoSSH, vm)
	rig.Must(t, s.Converge(t.Context()))
	uuid := s.Attr(rig.VMAddress, "uuid").AsString()
	w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintf(snapshotOf, `"`+strings.ToUpper(uuid)+`"`))
	s.Forget(rig.VMAddress)
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	smbios := rig.GuestOf(w, 400).Config["smbios1"]
	const other = "uuid=11111111-2222-3333-4444-555555555555"
	w.Change(func(world *state.World) { world.Guests[400].Config["smbios1"] = other })
	rig.MustSay(t, s.Apply(t.Context(), pl), "VM 400 on node pve1 is another VM", "11111111", "proxmox_vm_snapshot.s.uuid", "No snapshot was taken",
		"plan and apply again")
	if snaps := rig.GuestOf(w, 400).Snaps; len(snaps) != 0 {
		t.Error("snapshots were taken:", snaps)
	}
	w.Change(func(world *state.World) { world.Guests[400].Config["smbios1"] = smbios })
	rig.Must(t, s.Converge(t.Context())) // in the letters of the configuration
	w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintf(snapshotOf, `"`+uuid+`"`))
	taken := rig.GuestOf(w, 400).Snaps["before"]
	if pl, err = s.Plan(t.Context()); err != nil || pl.Change("proxmox_vm_snapshot.s").Action == terraformtest.Replace {
		t.Error("other letters are no other VM:", err, pl)
	}
	rig.Must(t, s.Converge(t.Context()))
	if is := rig.GuestOf(w, 400).Snaps["before"]; taken == nil || taken["snaptime"] != is["snaptime"] {
		t.Errorf("the snapshot was %v, and is %v", taken, is)
	}
}

// TestSnapshotOfAReplacedVM is taken in the same apply: the uuid of the new VM is another.
func TestSnapshotOfAReplacedVM(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	config := rig.NodeVMBlock(rig.Stopped) + fmt.Sprintf(snapshotOf, rig.VMAddress+".uuid")
	s := w.Session(t, rig.TokenNoSSH, config)
	rig.Must(t, s.Converge(t.Context()))
	pl, err := s.Plan(t.Context(), terraformtest.Replacing(rig.VMAddress))
	rig.Must(t, err)
	if action := pl.Change("proxmox_vm_snapshot.s").Action; action != terraformtest.Replace {
		t.Error("the plan of the snapshot is to", action)
	}
	rig.Must(t, s.Apply(t.Context(), pl))
	if is := rig.GuestOf(w, 400); len(is.Snaps) != 1 {
		t.Error("the new VM has no snapshot:", is.Snaps)
	}
	rig.Must(t, s.Converge(t.Context()))
}

// TestSnapshotOfAVMThatGetsAnotherUUID: the configuration gives the VM another uuid. Its snapshot is no longer proven to be the one
// in state; the next plan says that it leaves the state and stays on the server, with the id that takes it over.
func TestSnapshotOfAVMThatGetsAnotherUUID(t *testing.T) {
	t.Parallel()
	for _, stays := range []bool{false, true} {
		w := rig.NewWorld(t)
		snapshot := `
resource "proxmox_vm_snapshot" "s" {
  vmid       = 400
  name       = "before"
  depends_on = [` + rig.VMAddress + `]
}
`
		other := rig.NodeVMBlock(rig.Stopped + "smbios = { uuid = \"0d4e83a9-947b-41d9-acb7-93796cdd896b\" }\n")
		s := w.Session(t, rig.TokenNoSSH, rig.NodeVMBlock(rig.Stopped)+snapshot)
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.TokenNoSSH, other+snapshot)
		rig.Must(t, s.Run(t.Context()))
		if !stays {
			w.Reconfigure(t, s, rig.TokenNoSSH, other)
		}
		_, err := s.Plan(t.Context())
		rig.Must(t, err)
		said := s.Diagnostics().String()
		for _, part := range []string{"leaves the state, and stays on the server", "the id 400/before", "`qm delsnapshot 400 before`"} {
			if !strings.Contains(said, part) {
				t.Errorf("stays %t: the plan says %q, without %q", stays, said, part)
			}
		}
		if len(rig.GuestOf(w, 400).Snaps) != 1 {
			t.Errorf("stays %t: the VM has %v", stays, rig.GuestOf(w, 400).Snaps)
		}
	}
}
