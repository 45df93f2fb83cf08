package create

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestDiskExchangedAroundAMove: a clone's disk is to go to another storage, and a backup's lock holds that up. After each request a third
// party detaches the disk and puts another one in its slot. That one is neither taken for the clone's own nor destroyed, whether the
// create would succeed or fails later.
func TestDiskExchangedAroundAMove(t *testing.T) {
	exchanged := 0
	for _, fails := range []bool{false, true} {
		for n := 2; n < 7; n++ { // then the guest is being started
			synctest.Test(t, func(t *testing.T) {
				b := meddled(t, n, func(w *state.World, g *state.Guest) {
					exchanged++
					if is := guest.VolumeOf(g.Config["scsi0"]); is != "" {
						g.Config["unused0"] = is
					}
					w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-150-disk-77", VMID: 150, Content: "images",
						Format: "raw", Size: 2 << 30, Data: "theirs"})
					g.Config["scsi0"] = "local-zfs:vm-150-disk-77,size=2G"
				}, func(s *pvesim.Sim) { s.HoldLock(150, "backup", 20*time.Second, "root@pam") })
				if fails {
					b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
						Phase: fault.Before, Status: 500, Reason: "no such bridge", Times: -1}})
				}
				r := ofTemplate()
				r.VMID, r.Start, r.Spec.Name = 150, true, to("web")
				r.Spec.Disks = map[string]vm.Disk{"scsi0": {Storage: "local-lvm"}}
				made, err := b.Create(t.Context(), r)
				kept := false
				for _, data := range b.volumesOf(150) {
					kept = kept || data == "theirs"
				}
				if !kept || err == nil {
					t.Errorf("the start fails %t, after request %d: theirs is there: %t, %v, left %v; %v, %v", fails, n, kept, err, made.Left, b.volumesOf(150), b.vms()[150])
				}
			})
		}
	}
	if exchanged == 0 {
		t.Error("nothing was exchanged")
	}
}
