package create

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
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

// TestDiskOfAUserInANewVM: while a VM is made a user adds a disk on local-zfs, which gets a name that the create has freed by its move or
// migration, or that its disk has on the other node, or the size of a disk that its clone was to make. The start fails. The disk stays.
func TestDiskOfAUserInANewVM(t *testing.T) {
	moved := func(w *state.World, g *state.Guest, _ string) bool {
		return strings.HasPrefix(g.Config["scsi0"], "local-lvm:") && w.Volume("pve1", "local-zfs:vm-150-disk-0") == nil
	}
	migrated := func(w *state.World, g *state.Guest, _ string) bool {
		return g.Node == "pve2" && w.Volume("pve1", "local-zfs:vm-150-disk-1") == nil
	}
	migrates := func(_ *state.World, g *state.Guest, _ string) bool { return g.Node == "pve1" }
	starts := func(_ *state.World, _ *state.Guest, path string) bool { return strings.Contains(path, "status/start") }
	clone := func(disk vm.Disk) Request {
		r := ofTemplate()
		r.VMID, r.Clone.Full, r.Start = 150, to(true), true
		r.Spec.Disks = map[string]vm.Disk{"scsi0": disk}
		return r
	}
	for _, c := range []struct {
		node, name, slot string
		when             func(w *state.World, g *state.Guest, path string) bool
		of               Request
		rescan, killed   bool
	}{
		{"pve1", "vm-150-disk-0", "scsi5", moved, clone(vm.Disk{Storage: "local-lvm"}), false, false},
		{"pve1", "vm-150-disk-0", "unused0", moved, clone(vm.Disk{Storage: "local-lvm"}), false, false},
		{"pve1", "vm-150-disk-0", "", moved, clone(vm.Disk{Storage: "local-lvm"}), false, false},
		{"pve1", "vm-150-disk-1", "", migrated, requestOf("to another node"), false, false},
		{"pve2", "vm-150-disk-1", "", migrates, requestOf("to another node"), true, false},
		{"pve1", "vm-150-disk-9", "scsi5", starts, clone(vm.Disk{Size: to(int64(8 << 30))}), false, true},
		{"pve1", "vm-150-disk-9", "unused0", starts, clone(vm.Disk{Size: to(int64(8 << 30))}), false, true},
		{"pve1", "vm-150-disk-9", "", starts, clone(vm.Disk{Size: to(int64(8 << 30))}), false, true},
	} {
		name := fmt.Sprintf("%s of %s in %q, killed %t", c.name, c.node, c.slot, c.killed)
		synctest.Test(t, func(t *testing.T) {
			b := given(t, c.node, c.name, c.slot, c.when)
			b.change(kinds.World)
			start := fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}
			fails := fault.Rule{Match: start, Phase: fault.Task, Times: -1}
			if c.killed {
				fails.Phase = fault.KillTask
			}
			b.sim.SetFaults([]fault.Rule{fails})
			if c.rescan {
				b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Rescan, VMID: 150, Before: start}})
			}
			c.of.Start = true
			created, err := b.Create(t.Context(), c.of)
			b.change(func(w *state.World) {
				if v := w.Volume(c.node, "local-zfs:"+c.name); err == nil || v == nil || v.Data != "theirs" {
					t.Errorf("%s: it is gone, or never came: %v; %v, left %v", name, err, created.Warnings, created.Left)
				}
			})
		})
	}
}

// given is a bench in which a user gives VM 150 a disk of 2 GiB as soon as that may be.
func given(t *testing.T, node, name, slot string, when func(w *state.World, g *state.Guest, path string) bool) bench {
	var b bench
	done := false
	b = benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, func(c *pve.Config, cred pvesim.Credentials) {
		token(c, cred)
		c.Trace = func(_ context.Context, _ string, fields map[string]string) {
			if b.sim == nil || done {
				return
			}
			b.change(func(w *state.World) {
				g := w.Guests[150]
				if done = g != nil && g.Config["lock"] == "" && when(w, g, fields["path"]); !done {
					return
				}
				w.Put(&state.Volume{Storage: "local-zfs", Node: node, Name: name, VMID: 150, Content: "images", Format: "raw",
					Size: 2 << 30, Data: "theirs"})
				switch slot {
				case "":
				case "unused0":
					g.Config[slot] = "local-zfs:" + name
				default:
					g.Config[slot] = "local-zfs:" + name + ",size=2G"
				}
			})
		}
	})
	return b
}

// TestDiskExchangedBeforeAMigrationThatFails: a clone is to go to another node, and the migration fails, at its begin or in the middle. Between the create's look
// and the roll-back a user detaches the disk in a slot and puts another one there. That one stays, as the VM is where it was.
func TestDiskExchangedBeforeAMigrationThatFails(t *testing.T) {
	for _, phase := range []fault.Phase{fault.Task, fault.Partial} {
		synctest.Test(t, func(t *testing.T) {
			var b bench
			asked, done := false, false
			b = benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, func(c *pve.Config, cred pvesim.Credentials) {
				ticket(c, cred)
				c.Trace = func(_ context.Context, _ string, fields map[string]string) {
					asked = asked || strings.HasSuffix(fields["path"], "/migrate")
					if done || !asked {
						return
					}
					b.change(func(w *state.World) {
						g := w.Guests[150]
						if done = g.Config["lock"] == ""; !done {
							return
						}
						w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-150-disk-77", VMID: 150, Content: "images",
							Format: "raw", Size: 2 << 30, Data: "theirs"})
						g.Config["unused0"], g.Config["scsi0"] = guest.VolumeOf(g.Config["scsi0"]), "local-zfs:vm-150-disk-77,size=2G"
					})
				}
			})
			b.change(kinds.World)
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/migrate"},
				Phase: phase, Times: -1}})
			r := ofTemplate()
			r.VMID, r.Clone.Full, r.Node = 150, to(true), "pve2"
			created, err := b.Create(t.Context(), r)
			b.change(func(w *state.World) {
				v := w.Volume("pve1", "local-zfs:vm-150-disk-77")
				if !done || err == nil || v == nil || v.Data != "theirs" {
					t.Errorf("%s: exchanged %t, and theirs is gone: %v; %v, left %v", phase, done, err, created.Warnings, created.Left)
				}
			})
		})
	}
}
