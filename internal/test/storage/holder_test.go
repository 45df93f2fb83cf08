package storage_test

import (
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestHolderIsNoVM: neither an import nor a query takes the VM of a proxmox_disk over as a proxmox_vm, whose destroy
// would take the disk along.
func TestHolderIsNoVM(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	rig.Must(t, w.Session(t, rig.TokenNoSSH, rig.DiskBlock(rig.SmallDisk)).Converge(t.Context()))
	w.Sim.Advance(time.Minute) // until the listing knows the VM
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("node = \"pve1\"\n"))
	rig.MustSay(t, s.Import(t.Context(), rig.VMAddress, "pve1/300"), "only holds the disk of a proxmox_disk")
	if len(s.Addresses()) > 0 {
		t.Error("the state has the VM")
	}
	found, err := s.Query(t.Context(), "list \"proxmox_vm\" \"all\" {\n  provider = proxmox\n  include_resource = true\n  config {}\n}\n", false)
	rig.Must(t, err)
	for _, one := range found {
		if terraformtest.Text(one.Identity, "vmid") == "300" {
			t.Errorf("the query lists %s", one.DisplayName)
		}
	}
	rig.MustSayAll(t, s.Diagnostics().String(), "only holds the disk of a proxmox_disk")
}
