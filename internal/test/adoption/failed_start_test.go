package adoption_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestAdoptingVMThatDoesNotStart: the error of a VM that has taken a volume over and is not started says that the VM stays, and how it is
// kept, whatever has failed. An apply starts it where power_state says so.
func TestAdoptingVMThatDoesNotStart(t *testing.T) {
	t.Parallel()
	const volume, start = "local-zfs:vm-400-disk-5", "/nodes/{node}/qemu/{vmid}/status/start"
	for power, runs := range map[string]bool{"": false, "power_state = \"running\"\n": true} {
		for _, phase := range []fault.Phase{fault.Before, fault.Task} {
			t.Run(string(phase)+" "+power, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				w.Change(func(world *state.World) {
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-5", VMID: 400, Content: "images", Format: "raw", Size: 1 << 30, Data: "kept"})
				})
				s := w.Session(t, rig.TokenNoSSH, rig.NodeVMBlock(power+"disks = { scsi0 = { imported_disk = { volume = \""+volume+"\" } } }"))
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: start}, Phase: phase}})
				err := s.Run(t.Context())
				rig.MustSay(t, err, "VM 400 was made and stays", volume, "terraform untaint")
				if says := strings.Contains(err.Error(), `power_state = "running"`); says == runs {
					t.Errorf("it says how the guest is started: %t\n%v", says, err)
				}
				w.Sim.SetFaults(nil)
				s.Taint("proxmox_vm.x", false)
				rig.Must(t, s.Converge(t.Context()))
				if g := rig.GuestOf(w, 400); (g.Running != nil) != runs || !strings.HasPrefix(g.Config["scsi0"], volume+",") {
					t.Errorf("the guest runs: %t; %v", g.Running != nil, g.Config)
				}
			})
		}
	}
}
