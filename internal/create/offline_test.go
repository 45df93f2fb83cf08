package create

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// farGuest is a guest on another node, which is off.
func farGuest(w *state.World) {
	w.Guests[8200] = &state.Guest{VMID: 8200, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "far", "memory": "512",
		"meta": "creation-qemu=9.2.0,ctime=1"}}
	w.Nodes["pve2"].Online = false
}

// TestTemplateWhileANodeIsOff: a guest that cannot be read keeps no create from making a template with a disk on a shared storage, or
// from moving a disk, and none waits for it.
func TestTemplateWhileANodeIsOff(t *testing.T) {
	gib := to(int64(1 << 30))
	for name, options := range map[string]vm.Options{"a template": {Template: to(true)}, "a VM": {}} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.change(farGuest)
			r := Request{Node: "pve1", VMID: 150, Spec: vm.Spec{Options: options, Disks: map[string]vm.Disk{"scsi0": {Storage: "shared-nfs", Size: gib}}}}
			r.Spec.Name = to("web")
			began := time.Now()
			if made, err := b.Create(t.Context(), r); err != nil || time.Since(began) > 30*time.Second {
				t.Errorf("%s: after %s: %v, left %v", name, time.Since(began), err, made.Left)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := meddled(t, 0, func(w *state.World, _ *state.Guest) { farGuest(w) },
			func(s *pvesim.Sim) { s.HoldLock(150, "backup", 20*time.Second, "root@pam") })
		r := ofTemplate()
		r.VMID, r.Clone.Storage = 150, "shared-nfs"
		r.Spec.Disks = map[string]vm.Disk{"scsi0": {Storage: "local-lvm"}}
		began := time.Now()
		if made, err := b.Create(t.Context(), r); err != nil || time.Since(began) > time.Minute {
			t.Errorf("a move after a lock, after %s: %v, left %v", time.Since(began), err, made.Left)
		}
	})
}

// TestSourceThatGetsADisk: the source of a clone gets a further disk after the create has read it, and before PVE clones it, which
// reads it itself (qemu-server API2/Qemu.pm clone_vm). The copy of that disk is the create's own: it is completed with it, or goes whole.
func TestSourceThatGetsADisk(t *testing.T) {
	for _, fails := range []bool{true, false} {
		for k := 1; k < 7; k++ {
			synctest.Test(t, func(t *testing.T) {
				var b bench
				answers := 0
				b = benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, func(c *pve.Config, cred pvesim.Credentials) {
					ticket(c, cred)
					c.Trace = func(_ context.Context, m string, _ map[string]string) {
						if m != "PVE request" || b.sim == nil {
							return
						}
						if answers++; answers != k {
							return
						}
						b.change(func(w *state.World) {
							w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "base-9000-disk-5", VMID: 9000, Content: "images", Format: "raw",
								Size: 1 << 30, Data: "more"})
							w.Guests[9000].Config["scsi1"] = "local-zfs:base-9000-disk-5,size=1G"
						})
					}
				})
				r := ofTemplate()
				r.VMID, r.Start, r.Spec.Name = 150, true, to("web")
				if fails {
					b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
						Phase: fault.Before, Status: 500, Reason: "no such bridge", Times: -1}})
				} else {
					r.Spec.Disks = map[string]vm.Disk{"scsi1": {Storage: "local-zfs", Size: to(int64(2 << 30))}}
				}
				made, err := b.Create(t.Context(), r)
				if left := b.volumesOf(150); (err != nil) != fails || len(made.Left) > 0 || fails && len(left) > 0 {
					t.Errorf("fails %t, after request %d: %v, left %v, volumes %v", fails, k, err, made.Left, left)
				}
			})
		}
	}
}
