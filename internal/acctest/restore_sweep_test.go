package acctest_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// restoreScenarios are the restores that are swept: where the disks were, with one moved and one grown, and all to one storage.
//
// `make test` does each with one identity of two; CANCEL_ALL=1 each with all.
func restoreScenarios(who sweepIdentity) []scenario {
	all := []scenario{
		{name: "restore", vmid: 101, request: create.Request{Node: "pve1", Start: true, Pool: "web", Restore: &guest.Restore{Archive: theBackup},
			Spec: vm.Spec{Options: vm.Options{Name: to("web-4"), OnBoot: to(false)}, Disks: map[string]vm.Disk{
				"scsi0": {Size: to(int64(4 << 30)), DiskOptions: vm.DiskOptions{Discard: to(true)}},
				"scsi1": {Storage: "local-zfs", Size: to(int64(1 << 30))}}}}},
		{name: "restore to one storage", vmid: 200, request: create.Request{VMID: 200, Node: "pve1", Start: true,
			Restore: &guest.Restore{Archive: theBackup, Storage: "local-lvm"}, Spec: vm.Spec{
				Options: vm.Options{Name: to("web-5"), Protection: to(false)}, CPU: vm.CPU{Cores: to(int64(2))}}}},
	}
	switch {
	case everything():
		return all
	case who.ticket:
		return all[:1]
	case !who.ssh && who.name != "token without SSH": // it has no Datastore.Allocate
		return all[1:]
	}
	return nil
}

// TestSweepRestore fails every operation of a restore in every way, for every identity: PVE itself takes nothing back.
func TestSweepRestore(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "restores", 60, restoreScenarios, sweepCreate)
}

// TestSweepRestoreUndo fails every operation of the undo as well; `make test` one in five.
func TestSweepRestoreUndo(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "undos of restores", 40, restoreScenarios, func(t *testing.T, b *bench, who sweepIdentity, sc scenario, counts tally) {
		share := 5
		if everything() {
			share = 1
		}
		sweepUndoOf(t, b, who, sc, counts, share)
	})
}
