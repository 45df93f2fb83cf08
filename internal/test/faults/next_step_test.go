package faults_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestMoveOfADiskWithASnapshotNamesTheNextStep: PVE moves no disk that a snapshot needs if the source is to go. The
// apply says what to do, and without the snapshot it goes on.
func TestMoveOfADiskWithASnapshotNamesTheNextStep(t *testing.T) {
	t.Parallel()
	const snapshot = `
resource "proxmox_vm_snapshot" "s" {
  vmid = proxmox_vm.x.vmid
  name = "before"
}
`
	config := rig.NodeVMBlock(rig.OneDisk)
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, config+snapshot)
	rig.Must(t, s.Converge(t.Context()))
	w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(config, "local-zfs", "local-lvm", 1)+snapshot)
	rig.MustRefuse(t, s.Run(t.Context()), []string{"has snapshots, and was not moved", "Snapshot before keeps scsi0 on local-zfs: remove it first, in the same apply"})
	w.Reconfigure(t, s, rig.TokenNoSSH, config)
	rig.Must(t, s.Run(t.Context()))
	w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(config, "local-zfs", "local-lvm", 1))
	rig.Must(t, s.Run(t.Context()))
}

// TestUpdateOfAVMThatIsGoneNamesTheNextStep: a third party has destroyed the VM since the plan.
func TestUpdateOfAVMThatIsGoneNamesTheNextStep(t *testing.T) {
	t.Parallel()
	config := rig.NodeVMBlock(rig.OneDisk)
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, config)
	rig.Must(t, s.Converge(t.Context()))
	w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(config, `name = "x"`, `name = "y"`, 1))
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	w.Change(func(world *state.World) {
		for key, v := range world.Volumes {
			if v.VMID == 400 {
				delete(world.Volumes, key)
			}
		}
		delete(world.Guests, 400)
	})
	rig.MustRefuse(t, s.Apply(t.Context(), pl), []string{"VM 400 is gone", "Next step: plan again"})
	next, err := s.Plan(t.Context())
	rig.Must(t, err)
	if change := next.Change("proxmox_vm.x"); change.Action != terraformtest.Create {
		t.Errorf("the new plan: %s", change.Action)
	}
}

// TestKilledMoveOfARunningGuest: QEMU goes on with its copy of a running guest's disk where PVE's worker is killed, and may have changed over to the
// new volume. No command frees that; the warning says how to look. A guest that is off runs on nothing.
func TestKilledMoveOfARunningGuest(t *testing.T) {
	t.Parallel()
	for power, runs := range map[string]bool{"": true, rig.Stopped: false} {
		l := rig.NewVM(t, power+"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { storage = \"local-zfs\", size = \"2G\" } }\n")
		l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/move_disk"}, Phase: fault.KillTask}})
		said := l.Fails(power+"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { storage = \"local\", size = \"2G\" } }\n", "local:400/") +
			l.Session.Diagnostics().String()
		if looks := strings.Contains(said, "`qm monitor 400`"); looks != runs || strings.Contains(said, "pvesm free local:400/") == runs {
			t.Errorf("running %t, and the update says:\n%s", runs, said)
		}
	}
}
