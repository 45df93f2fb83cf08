package create

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestInterruptedCloneOfARunningVM: Ctrl-C comes while PVE clones a running VM, whose guest stands still for the last
// moment. The task is stopped while it is far from that, else it is awaited; the source goes on, and no clone is left.
func TestInterruptedCloneOfARunningVM(t *testing.T) {
	early := 0
	for seconds := 5; seconds < 120; seconds += 10 {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			upid, err := b.api.QEMU("pve1", 8000).Start(t.Context(), pve.Params{})
			if err == nil {
				_, err = b.api.Tasks().Wait(t.Context(), upid)
			}
			if err != nil {
				t.Fatal(err)
			}
			b.sim.SetTaskTime(2 * time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
			defer cancel()
			began := time.Now()
			r := Request{Node: "pve1", VMID: 150, Clone: &guest.Clone{VMID: 8000, Full: to(true)}}
			r.Spec.Name = to("web")
			_, err = b.Create(ctx, r)
			if time.Since(began) < time.Duration(seconds+60)*time.Second {
				early++
			}
			b.change(func(w *state.World) {
				if g := w.Guests[8000]; g.Running == nil || g.Running.QMPStatus != "running" || g.Config["lock"] != "" {
					t.Errorf("interrupted after %d s: the source is %+v, lock %q: %v", seconds, g.Running, g.Config["lock"], err)
				}
			})
			left, made := b.volumesOf(150), b.vms()[150] != nil // it may have been over
			if made != (err == nil) || made != (len(left) > 0) {
				t.Errorf("interrupted after %d s: there are %v and %v: %v", seconds, b.vms()[150], left, err)
			}
		})
	}
	t.Logf("%d of 12 clones were stopped early", early)
	if early == 0 || early == 12 {
		t.Errorf("%d of 12 clones were stopped early", early)
	}
}
