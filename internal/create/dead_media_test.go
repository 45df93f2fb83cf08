package create

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// insert puts a third party's volume with the id of VM 150 into an optical drive of that VM.
func (b bench) insert(slot string) {
	b.give(slot, 1)
	b.change(func(w *state.World) { w.Guests[150].Config[slot] += ",media=cdrom" })
}

// startFails makes each start of a guest fail.
func startFails() fault.Rule {
	return fault.Rule{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
		Phase: fault.Before, Status: 500, Reason: "no", Times: -1}
}

// TestMediumInADeadRunsVM: PVE leaves it when it destroys the VM (qemu-server QemuServer.pm destroy_vm), so the next
// apply completes the VM as it would without it. Where that fails its roll-back leaves it, too.
func TestMediumInADeadRunsVM(t *testing.T) {
	for _, fails := range []bool{false, true} {
		completed, undone := 0, 0
		eachDeadVM(t, startedVM(), func(t *testing.T, b bench, n int, was string) {
			b.insert("ide3")
			if fails {
				b.sim.SetFaults([]fault.Rule{startFails()})
			}
			time.Sleep(startUp)
			_, err := creatorOf(t, b.sim, token).Create(t.Context(), startedVM())
			is, kept := b.left()
			if !kept || (err != nil) != fails && is != was {
				t.Errorf("fails %t, killed before %d: the medium is there %t, it is the same VM %t: %v", fails, n, kept, is == was, err)
			}
			switch is {
			case was:
				completed++
			case "":
				undone++
			}
		})
		if !fails && completed < 2 || fails && undone < 2 {
			t.Errorf("fails %t: %d VMs were completed, %d taken back", fails, completed, undone)
		}
	}
}

// TestMediumInAVMWhoseRollBackWasBegun: the next apply ends the roll-back of a run that is over, and leaves the medium.
func TestMediumInAVMWhoseRollBackWasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		doomed := creatorOf(t, b.sim, token)
		doomed.guests.Process = deadProcess(t, b.Creator)
		b.sim.SetFaults([]fault.Rule{startFails(),
			{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Task, Times: -1}})
		_, err := doomed.Create(t.Context(), startedVM())
		b.sim.SetFaults(nil)
		was, _ := b.left()
		if err == nil || was == "" {
			t.Fatalf("the create has not failed, or left nothing: %v", err)
		}
		b.insert("ide3")
		time.Sleep(startUp)
		_, err = creatorOf(t, b.sim, token).Create(t.Context(), startedVM())
		if is, kept := b.left(); !kept || is == was || err != nil && !strings.Contains(err.Error(), theirs) {
			t.Errorf("the VM is the same %t, the medium is there %t: %v", is == was, kept, err)
		}
	})
}
