package update

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestSlotFilledBetweenSteps: a third party fills the slot of a new disk while another disk moves, or while HA has not
// acted on a migration yet. The disk is theirs still. One that the plan has known there is taken over.
func TestSlotFilledBetweenSteps(t *testing.T) {
	move := func(_ *world, r *Request) {
		with(r, "scsi0", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
	}
	migrate := func(w *world, r *Request) {
		inWorld(w, func(all *state.World) {
			all.HA = map[string]*state.HAResource{"vm:400": {SID: "vm:400", State: "stopped"}}
			for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
				all.ACL = append(all.ACL, state.ACLEntry{Path: "/", Role: "Administrator", Subject: who, Propagate: true})
			}
		})
		r.PriorHA, r.HA, r.Ref.HA = &guest.HA{State: new("stopped")}, &guest.HA{State: new("stopped")}, true
		r.Node = "pve2"
	}
	fill := func(w *world) {
		inWorld(w, func(all *state.World) {
			if g := all.Guests[theVM]; g.Config["lock"] == "" && g.Node == "pve1" {
				swap("scsi1", "1G")(all, g)
				delete(g.Config, "unused0")
			}
		})
	}
	for name, c := range map[string]struct {
		plan  func(*world, *Request)
		after string
		known bool
	}{
		"during a move":               {move, "move_disk", false},
		"during a migration by HA":    {migrate, "/migrate", false},
		"before the plan, and a move": {move, "", true},
		"before the plan, and HA":     {migrate, "", true},
		"before the plan, and both":   {func(w *world, r *Request) { move(w, r); migrate(w, r) }, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
			r := w.request()
			c.plan(w, &r)
			with(&r, "scsi1", func(d *vm.Disk) { *d = vm.Disk{Storage: "local-lvm", Size: new(int64(5 << 30))} })
			did := c.known
			if c.known {
				fill(w)
				r.Others, r.Sizes = map[string]string{"scsi1": theirs}, map[string]int64{theirs: 1 << 30}
			}
			w.answered = func() {
				if !did && w.sent(c.after) > 0 {
					did = true
					fill(w)
				}
			}
			_, _, err := w.update(r)
			w.answered = nil
			var is map[string]string
			inWorld(w, func(all *state.World) { is = maps.Clone(all.Guests[theVM].Config) })
			var unfinished *UnfinishedError
			switch {
			case c.known && (err != nil || !strings.HasPrefix(is["scsi1"], "local-lvm:") || !strings.HasSuffix(is["scsi1"], "size=5G")):
				t.Errorf("it is not taken over: %v after %v\n%v", is, w.writes(), err)
			case !c.known && (!did || !errors.As(err, &unfinished) || unfinished.Options ||
				!strings.Contains(err.Error(), "scsi1 of VM 400 has changed since the plan") || !strings.HasSuffix(is["scsi1"], "size=1G")):
				t.Errorf("it is taken over: %v after %v\n%v", is, w.writes(), err)
			}
		})
	}
}

// TestOptionsWhoseAnswerIsLost: PVE has changed the options, its answer is lost, and a third party changes one of them
// before the update has looked. Then the options count as reached: the VM has what the plan has added.
func TestOptionsWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pve.Params{"cores": "1"})
		r := w.request()
		r.Planned.CPU.Cores = new(int64(2))
		r.Planned.Networks = map[string]vm.NIC{"net1": {Model: "virtio", NICOptions: vm.NICOptions{Bridge: new("vmbr0")}}}
		w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"},
			Phase: fault.After, Status: 596, Reason: "broken pipe", Times: 1}})
		changed := false
		w.answered = func() {
			if !changed && w.sent("/config") > 0 {
				changed = true
				inWorld(w, func(all *state.World) { all.Guests[theVM].Config["cores"] = "4" })
			}
		}
		_, _, err := w.update(r)
		w.answered = nil
		var unfinished *UnfinishedError
		if !errors.As(err, &unfinished) || !unfinished.Options || w.config()["net1"] == "" {
			t.Errorf("changed %t, reached %+v: %v; the VM has %v", changed, unfinished, err, w.config())
		}
	})
}

// TestSlotFilledOnceTheDiskIsBack: a disk that was to change its slot is back, and a third party exchanges it between any
// two requests after that. An option that waited there for a restart does not wait for their disk.
func TestSlotFilledOnceTheDiskIsBack(t *testing.T) {
	for at, did := 1, true; did; at++ {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:2", "boot": "order=scsi0"})
		w.start()
		w.alter(func(g *state.Guest) { g.Pending = map[string]string{"scsi1": g.Config["scsi1"] + ",ro=1"} })
		r := w.request()
		r.Planned.Disks["scsi4"] = vm.Disk{Storage: "local-zfs", Volume: r.Prior.Disks["scsi1"].Volume}
		delete(r.Planned.Disks, "scsi1")
		w.sim.SetFaults([]fault.Rule{refusesTheSecond})
		answers, waits := 0, ""
		w.answered = func() {
			if w.sent("/config") < 3 {
				return
			}
			if answers++; answers == at {
				inWorld(w, func(all *state.World) {
					g := all.Guests[theVM]
					swap("scsi1", "1G")(all, g)
					waits = g.Pending["scsi1"]
				})
			}
		}
		_, _, err := w.update(r)
		w.answered, did = nil, answers >= at
		is, next := "", ""
		w.alter(func(g *state.Guest) { is, next = guest.VolumeOf(g.Config["scsi1"]), g.Pending["scsi1"] })
		if did && (err == nil || is != theirs || next != waits) {
			t.Errorf("answer %d: scsi1 has %s, and %q waits, after %v: %v", at, is, next, w.writes(), err)
		}
		if !did && at < 3 {
			t.Errorf("%d answers after %v: %v", answers, w.writes(), err)
		}
	}
}
