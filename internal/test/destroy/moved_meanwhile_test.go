package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

const movedVM = `resource "proxmox_vm" "a" {
  vmid        = 400
  nodes       = ["pve1", "pve2"]
  power_state = "running"
  %s
  disks       = {
    scsi0 = { storage = "local-zfs", size = "1G" }
    scsi1 = { storage = "local-zfs", size = "2G" }
  }
}
`

// TestDestroySparesDisksWhereTheVMIsMigrated: a third party migrates the VM before any request of its destroy, to a node
// where volumes of others have the names of its disks, so that PVE renames them. Neither this destroy nor the next one frees
// or names those of others, and the next one leaves nothing of the VM. HA starts again what the first has shut down.
func TestDestroySparesDisksWhereTheVMIsMigrated(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"VM":       fmt.Sprintf(movedVM, ""),
		"under HA": fmt.Sprintf(movedVM, `ha = { state = "started" }`),
		"disk":     "resource \"proxmox_disk\" \"d\" {\n node = \"pve1\"\n storage = \"local-zfs\"\n vmid = 400\n size = \"1G\"\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; migratedBefore(t, config, n); n += share.Of(3) {
			}
		})
	}
}

// migratedBefore plays a destroy before whose nth request the VM is migrated; false: it has not so many.
func migratedBefore(t *testing.T, config string, n int) bool {
	w := rig.NewWorld(t, pvesim.Options{Clock: rig.NewFastClock()})
	defer w.Close()
	w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
	s := w.Session(t, rig.RootTicket, config)
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		for disk := range 2 {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: fmt.Sprintf("vm-400-disk-%d", disk), VMID: 400,
				Content: "images", Format: "raw", Size: int64(disk+1) << 30, Data: "theirs"})
		}
	})
	pl, err := s.Plan(t.Context(), terraformtest.ToDestroy())
	rig.Must(t, err)
	w.Sim.ResetOps()
	w.Sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Migrate, VMID: 400, Node: "pve2", Before: fault.Match{Seq: n}}})
	err = s.Apply(t.Context(), pl)
	if len(w.Sim.Reports()) == 0 {
		return false
	}
	said := s.Diagnostics().String()
	if err != nil {
		said += err.Error()
		w.Change(func(world *state.World) {
			if entry := world.HA["vm:400"]; entry != nil && entry.State == "ignored" {
				t.Errorf("request %d: HA still ignores the VM: %s", n, said)
			}
		})
		rig.Must(t, s.Destroy(t.Context()))
	}
	for disk := range 2 {
		if strings.Contains(said, fmt.Sprintf("pvesm free local-zfs:vm-400-disk-%d", disk)) && strings.Contains(said, "as root on pve2") {
			t.Errorf("request %d: a command frees another's volume: %s", n, said)
		}
	}
	if own, theirs := disksOn(w); own != "" || theirs != "pve2pve2" {
		t.Errorf("request %d: volumes of the VM are on %q, those of others on %q: %s", n, own, theirs, said)
	}
	return true
}
