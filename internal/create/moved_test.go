package create

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// TestMovedWhileItIsMade: an administrator or HA moves the new VM to another node, before any request after the first
// one. The create follows it and ends there; nothing is left over, and the guest is not stopped.
func TestMovedWhileItIsMade(t *testing.T) {
	step, moved := 5, 0
	if share.IsWhole() {
		step = 1
	}
	clone := ofTemplate()
	clone.Spec.CPU.Cores, clone.Spec.Disks = to(int64(4)), map[string]vm.Disk{"scsi0": {Size: to(int64(8 << 30))}}
	requests := map[string]Request{"create": onZFS(), "clone": clone, "restore": aRestore()}
	for i, name := range slices.Sorted(maps.Keys(requests)) {
		r := requests[name]
		r.VMID, r.Start = 150, true
		r.Firewall, r.HA = &firewall.Settings{Enabled: to(true)}, &guest.HA{State: to("started")}
		for n, more := 1+i%step, true; more; n += step {
			b := newBench(t, ticket)
			b.backedUp(nil)
			foreign := len(b.everything())
			b.sim.ResetOps()
			b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Migrate, VMID: 150, Node: "pve2", Before: fault.Match{Seq: n}}})
			what := fmt.Sprintf("%s, moved before request %d", name, n)
			created, err := b.Create(t.Context(), r)
			more = len(b.sim.Reports()) > 0
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			if !more || !b.sim.Reports()[0].Done {
				continue
			}
			moved++
			config, at := b.vms()[150], ""
			b.change(func(w *state.World) { at = w.Guests[150].Node })
			if created.Guest.Node != at || config["description"] != "" && name == "create" || created.Guest.Status != "running" {
				t.Errorf("%s: it is %s on %s: %v", what, created.Guest.Status, created.Guest.Node, config)
			}
			if own := 1 + len(b.volumesOf(150)); len(b.everything())-own != foreign {
				t.Errorf("%s: things of others became %v", what, b.everything())
			}
		}
	}
	t.Logf("%d moves", moved)
	if moved < 5 {
		t.Error("that is no sweep")
	}
}

// TestMovedAndThenUndone: the new VM is moved to another node before any request after the first one, and its guest does
// not start there. The undo removes it there, with its disks.
func TestMovedAndThenUndone(t *testing.T) {
	moved := 0
	for n, more := 1, true; more; n++ {
		b := newBench(t, ticket)
		before := b.everything()
		r := onZFS()
		r.VMID, r.Start, r.Firewall = 150, true, &firewall.Settings{Enabled: to(true)}
		b.sim.ResetOps()
		b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Migrate, VMID: 150, Node: "pve2", Before: fault.Match{Seq: n}}})
		start := fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}
		b.sim.SetFaults([]fault.Rule{{Match: start, Phase: fault.Task, Times: -1}})
		created, err := b.Create(t.Context(), r)
		more = len(b.sim.Reports()) > 0
		if more && b.sim.Reports()[0].Done {
			moved++
		}
		after := b.everything()
		slices.Sort(before)
		slices.Sort(after)
		if err == nil || created.Guest.VMID != 0 || !slices.Equal(before, after) {
			t.Errorf("moved before request %d: %v; %d is in state, and there are %v", n, err, created.Guest.VMID, after)
		}
	}
	t.Logf("%d moves", moved)
	if moved < 5 {
		t.Error("that is no sweep")
	}
}

// TestAddedDiskOfAMovedVMIsUndone: an administrator or HA moves the new VM to another node around its start, which fails. The undo knows the
// disk that the create has added to a copy or a restore by its name, or by the migration's log where another volume has that name there.
func TestAddedDiskOfAMovedVMIsUndone(t *testing.T) {
	step, moved := 4, 0
	if share.IsWhole() {
		step = 1
	}
	for i, kind := range []string{"full, moves, adds, imports", "of a snapshot", "restore, moves, grows", "to another node"} {
		for _, taken := range []bool{false, true} {
			for n, more := 16+i%step, true; more; n += step {
				b := newBench(t, ticket)
				b.change(kinds.World)
				b.backedUp(nil)
				r := requestOf(kind)
				node := map[string]string{"pve1": "pve2", "pve2": "pve1"}[r.Node]
				for j := 0; j < 6 && taken && node == "pve2"; j++ {
					b.change(func(w *state.World) {
						w.Put(&state.Volume{Storage: "local-zfs", Node: node, Name: fmt.Sprintf("vm-150-disk-%d", j), VMID: 150,
							Content: "images", Format: "raw", Size: 2 << 30, Data: "theirs"})
					})
				}
				before := b.everything()
				b.sim.ResetOps()
				b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Migrate, VMID: 150, Node: node, Before: fault.Match{Seq: n}}})
				b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
					Phase: fault.Task, Times: -1}})
				created, err := b.Create(t.Context(), r)
				if more = len(b.sim.Reports()) > 0; !more || !b.sim.Reports()[0].Done {
					continue
				}
				moved++
				after := b.everything()
				slices.Sort(before)
				slices.Sort(after)
				if err == nil || len(created.Left) > 0 || !slices.Equal(before, after) {
					t.Errorf("%s, names are taken %t, moved before request %d: %v; left %v", kind, taken, n, err, created.Left)
				}
			}
		}
	}
	t.Logf("%d moves", moved)
	if moved < 10 {
		t.Error("that is no sweep")
	}
}

// copyFor2 is the undo of a copy for pve2 whose migration fails in a phase, or which is moved back to pve1 right before its start fails. PVE
// cannot free some disks at once (busy). after is called when the VM was destroyed, until it is true.
func copyFor2(t *testing.T, phase fault.Phase, busy int, after func(*state.World) bool) (bench, Created, error) {
	var b bench
	moved, done := false, after == nil
	b = benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, func(c *pve.Config, cred pvesim.Credentials) {
		ticket(c, cred)
		c.Trace = func(_ context.Context, _ string, fields map[string]string) {
			if phase == "" && !moved && strings.Contains(fields["path"], "qmstart") {
				moved = true
				b.change(func(w *state.World) {
					w.Guests[150].Node = "pve1"
					for key, v := range w.Volumes {
						if v.VMID == 150 && v.Node == "pve2" {
							delete(w.Volumes, key)
							there := *v
							there.Node = "pve1"
							w.Put(&there)
						}
					}
					w.Storages["local-zfs"].BusyFrees = busy
				})
			}
			if !done && strings.Contains(fields["path"], "qmdestroy") {
				b.change(func(w *state.World) { done = w.Guests[150] == nil && after(w) })
			}
		}
	})
	b.change(kinds.World)
	failed := fault.Rule{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/migrate"}, Phase: phase, Status: 500,
		Reason: "no", Times: -1}
	if phase == "" {
		failed.Match.Path, failed.Phase = "/nodes/{node}/qemu/{vmid}/status/start", fault.Task
	} else {
		b.change(func(w *state.World) { w.Storages["local-zfs"].BusyFrees = busy })
	}
	b.sim.SetFaults([]fault.Rule{failed})
	created, err := b.Create(t.Context(), requestOf("to another node"))
	if err == nil || phase == "" && !moved || !done {
		t.Errorf("it was not played: %v", err)
	}
	return b, created, err
}

// TestBusyDisksOfACopyForAnotherNode: the undo looks at both nodes. It frees the disks which stay where the VM was, or they are among the
// leftovers, which a destroy removes.
func TestBusyDisksOfACopyForAnotherNode(t *testing.T) {
	for name, phase := range map[string]fault.Phase{"refused": fault.Before, "fails": fault.Task, "moved back": ""} {
		for _, busy := range []int{1, 3, -1} {
			synctest.Test(t, func(t *testing.T) {
				b, created, _ := copyFor2(t, phase, busy, nil)
				var stay []string
				b.change(func(w *state.World) {
					for _, v := range w.Volumes {
						if w.Storages["local-zfs"].BusyFrees = 0; v.VMID == 150 {
							stay = append(stay, v.Node+" "+v.Name)
						}
					}
				})
				if len(created.Left) != len(stay) || len(stay) > 0 != (busy < 0) || len(created.Warnings) > 0 {
					var left []string
					for _, l := range created.Left {
						left = append(left, l.Node+" "+l.ID)
					}
					t.Errorf("%s, busy %d: there are %v; left %v: %v", name, busy, stay, left, created.Warnings)
				}
				if len(stay) == 0 {
					return
				}
				if rest, said := b.again(t, ticket, created); len(rest) > 0 || len(b.volumesOf(150)) > 0 {
					t.Errorf("%s, destroyed: there are %v; left %v: %s", name, b.volumesOf(150), rest, said)
				}
			})
		}
	}
}

// TestFreedNameOfACopyForAnotherNode: once the undo has destroyed the VM, another user's volume gets the name of a disk that went, or of one
// that stayed and was freed by an administrator. The look at the other node leaves it alone.
func TestFreedNameOfACopyForAnotherNode(t *testing.T) {
	for _, disk := range []string{"vm-150-disk-0", "vm-150-disk-1"} {
		for _, phase := range []fault.Phase{fault.Before, fault.Task} {
			for _, busy := range []int{0, 1, 2, 3} {
				synctest.Test(t, func(t *testing.T) {
					b, created, err := copyFor2(t, phase, busy, func(w *state.World) bool {
						if disk == "vm-150-disk-0" && w.Volume("pve1", "local-zfs:"+disk) != nil { // firmware settings, whose size is not looked at
							return false
						}
						w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: disk, VMID: 150, Content: "images", Format: "raw",
							Size: 5 << 30, Data: "theirs"})
						return true
					})
					if !b.hasTheirs() {
						t.Errorf("%s, %v, busy %d: theirs is gone; left %v, %v: %v", disk, phase, busy, created.Left, created.Warnings, err)
					}
				})
			}
		}
	}
}
