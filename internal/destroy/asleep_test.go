package destroy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestSleepingDestroyTouchesNothingOfOthers: the machine sleeps for an hour after any answer that a destroy gets.
// Meanwhile a third party has destroyed the VM and made another one under its id, which runs or is off. That one is not
// shut down, not cut off and not destroyed, whatever the policy. The monotonic clock stands still meanwhile.
func TestSleepingDestroyTouchesNothingOfOthers(t *testing.T) {
	const his = "99999999-2222-3333-4444-000000000300"
	for name, request := range map[string]Request{"asks": {}, "forces": {ForceStop: true}, "gives up": {GracefulOnly: true}} {
		for _, runs := range []bool{true, false} {
			met := 0
			for nth, came := 1, true; came; nth++ {
				r := newRig(t, asToken)
				r.parting = true
				request.Ref = r.vm(300)
				r.change(func(w *state.World) {
					if w.Guests[300].ShutdownSeconds = 3; runs {
						w.Guests[300].Running = &state.Running{QMPStatus: "running", PID: 4711, StartedAt: w.Clock.Now(), Booted: map[string]string{}}
					}
				})
				if came = false; runs {
					request.Ref.Status = string(guest.Running)
				}
				n, done, before := 0, false, map[string]bool{}
				r.answered = func(_, path string) {
					if strings.HasSuffix(path, "/access/permissions") { // is asked beside the shutdown
						return
					}
					if n++; n != nth {
						return
					}
					came = true
					r.slept = time.Hour
					r.change(func(w *state.World) {
						g := w.Guests[300]
						for upid, task := range w.Tasks {
							before[upid] = true
							done = done || task.Running // that one is under way already
						}
						if done = done || g == nil; done {
							return
						}
						g.Config["smbios1"], g.Config["name"] = "uuid="+his, "his"
						if g.Running = nil; runs {
							g.Running = &state.Running{QMPStatus: "running", PID: 4712, StartedAt: w.Clock.Now(), Booted: map[string]string{}}
						}
						for _, v := range w.Volumes {
							if v.VMID == 300 {
								v.Data = "his"
							}
						}
					})
				}
				r.sim.ResetPowerOffs()
				_, _, err := r.s.Delete(t.Context(), request)
				if !came || done {
					continue
				}
				met++
				offs := slices.DeleteFunc(r.sim.PowerOffs(), func(off state.PowerOff) bool { return before[off.Task] })
				is, kept := r.has(300, "local-zfs:vm-300-disk-0")
				if !is || !kept || len(offs) > 0 {
					t.Errorf("%s, runs %t, asleep after answer %d: his VM is there: %t, its disk: %t, went off: %v; %v", name, runs, nth, is, kept,
						fmt.Sprint(offs), err)
				}
			}
			if met == 0 {
				t.Errorf("%s: no third party came", name)
			}
		}
	}
}
