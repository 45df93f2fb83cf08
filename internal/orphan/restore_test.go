package orphan

import (
	"net/http"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestRestoreThatFailedIsAnOrphan: PVE leaves of a restore that failed a VM that holds nothing, is not locked and
// bears no mark.
func TestRestoreThatFailedIsAnOrphan(t *testing.T) {
	r := newRig(t)
	r.change(func(w *state.World) { w.AddBackup("pve1") })
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"}, Phase: fault.Task}})
	upid, err := r.api.Node("pve1").CreateVM(t.Context(), pve.Params{"vmid": "100", "unique": "1",
		"archive": "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.api.Tasks().Wait(t.Context(), upid); err == nil {
		t.Fatal("the restore did not fail")
	}
	r.sim.SetFaults(nil)
	r.later(48 * time.Hour)
	r.mustFind("after a restore that failed", r.find(), "half_made 100 likely qm destroy 100 --purge")
}
