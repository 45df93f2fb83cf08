package faults_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// restoreScenarios are the restores that are swept: where the disks were, with one moved and one grown, and all to one storage.
//
// `make test` does each with one identity of two, and the whole each with all.
func restoreScenarios(who engine.FaultIdentity) []engine.Scenario {
	all := []engine.Scenario{
		{Name: "restore", VMID: 101, Request: create.Request{Node: "pve1", Start: true, Pool: "web", Restore: &guest.Restore{Archive: rig.WebBackup},
			Spec: vm.Spec{Options: vm.Options{Name: rig.Pointer("web-4"), OnBoot: rig.Pointer(false)}, Disks: map[string]vm.Disk{
				"scsi0": {Size: rig.Pointer(int64(4 << 30)), DiskOptions: vm.DiskOptions{Discard: rig.Pointer(true)}},
				"scsi1": {Storage: "local-zfs", Size: rig.Pointer(int64(1 << 30))}}}}},
		{Name: "restore to one storage", VMID: 200, Request: create.Request{VMID: 200, Node: "pve1", Start: true,
			Restore: &guest.Restore{Archive: rig.WebBackup, Storage: "local-lvm"}, Spec: vm.Spec{
				Options: vm.Options{Name: rig.Pointer("web-5"), Protection: rig.Pointer(false)}, CPU: vm.CPU{Cores: rig.Pointer(int64(2))}}}},
	}
	switch {
	case share.IsWhole():
		return all
	case who.Ticket:
		return all[:1]
	case !who.SSH && who.Name != "token without SSH": // it has no Datastore.Allocate
		return all[1:]
	}
	return nil
}

// TestSweepRestore fails every operation of a restore in every way, for every identity: PVE itself takes nothing back.
func TestSweepRestore(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "restores", 60, restoreScenarios, sweepCreate)
}

// TestSweepRestoreUndo fails every operation of the undo as well.
func TestSweepRestoreUndo(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "undos of restores", 160, restoreScenarios, sweepUndo)
}
