package faults_test

import (
	"strings"
	"testing"

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
	rig.MustRefuse(t, s.Run(t.Context()), []string{"has snapshots, and was not moved", "Next step: remove the snapshots"})
	w.Reconfigure(t, s, rig.TokenNoSSH, config)
	rig.Must(t, s.Run(t.Context()))
	w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(config, "local-zfs", "local-lvm", 1))
	rig.Must(t, s.Run(t.Context()))
}
