package update

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// spot is a request of an update with a restart, before which a third party acts: "1 GET pending".
type spot struct {
	seq  int
	name string
}

// aged is a world whose guest has run for a minute, and a change of it that waits for a restart.
func aged(t *testing.T) (*world, Request) {
	w := newWorld(t, nil)
	w.start()
	w.sim.Advance(time.Minute)
	r := w.request()
	r.Planned.CPU.Cores = new(int64(2))
	return w, r
}

// sentIn are the requests of an update, tasks aside.
func sentIn(ops []pvesim.Op) (all []spot) {
	for _, op := range ops {
		if name, ok := strings.CutPrefix(op.Path, "/nodes/{node}/qemu/{vmid}/"); ok {
			all = append(all, spot{op.Seq, op.Method + " " + name})
		}
	}
	return all
}

// TestRestartByWhatIsSeen: what each look of an update with a restart is for. A third party acts right before each of its
// requests. Nothing but the reading before the PUT, the digest of it, and the status before the reboot keeps the update
// from changing or restarting his VM, from starting a guest that he has stopped, and from restarting one that he has
// restarted already. The last reading tells the state what he has changed since.
func TestRestartByWhatIsSeen(t *testing.T) {
	w, r := aged(t)
	base := w.sim.Snapshot()
	g, _, err := w.update(r)
	if err != nil || len(g.Pending) > 0 {
		t.Fatalf("%v, waiting %v", err, g.Pending)
	}
	spots := sentIn(w.sim.Ops())
	at := func(name string) int {
		return slices.IndexFunc(spots, func(s spot) bool { return s.name == name })
	}
	put, reboot := at("PUT config"), at("POST status/reboot")
	if put != 1 || reboot != 3 || spots[0].name != "GET pending" || spots[2].name != "GET status/current" {
		t.Fatalf("%v", spots)
	}
	for name, acts := range map[string][]thirdparty.Act{
		"his VM":    {thirdparty.Delete, thirdparty.TakeID, thirdparty.Start},
		"his guest": {thirdparty.Stop, thirdparty.RestoreHis, thirdparty.Start},
		"stopped":   {thirdparty.Stop},
		"restarted": {thirdparty.Stop, thirdparty.Start},
	} {
		for n, spot := range spots[:reboot] { // PVE has no request that looks and restarts at once
			w.again(base, acts, fault.Match{Seq: spot.seq})
			g, _, err := w.update(r)
			if reports := w.sim.Reports(); len(reports) != len(acts) || !reports[len(acts)-1].Done {
				t.Fatalf("%s before %s: %+v", name, spot.name, reports)
			}
			at := fmt.Sprintf("%s before %s: %v, %v", name, spot.name, err, sentIn(w.sim.Ops()))
			restarted, his := w.sent("/reboot") > 0, strings.HasPrefix(name, "his ")
			switch {
			case his && (err == nil || restarted || n <= put && w.config()["cores"] == "2"):
				t.Errorf("%s: his VM was changed", at)
			case name == "stopped" && (err != nil || restarted || w.sent("/start") > 0 || g.Status != string(guest.Stopped)):
				t.Errorf("%s: it was restarted, or is %q", at, g.Status)
			case name == "restarted" && (err != nil || restarted != (n <= put)):
				t.Errorf("%s: restarted by the update: %t", at, restarted)
			}
			if name != "his VM" && name != "his guest" && (*g.Spec.CPU.Cores != 2 || len(g.Pending) > 0) {
				t.Errorf("%s: cores %d, waiting %v", at, *g.Spec.CPU.Cores, g.Pending)
			}
		}
	}
}

// TestRestartTellsWhatIsThere: the reading after the restart is for the state. A third party has changed the VM
// meanwhile, and PVE tells it.
func TestRestartTellsWhatIsThere(t *testing.T) {
	w, r := aged(t)
	w.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Rename, Name: "his", VMID: theVM,
		Before: fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/pending", Nth: 2}}})
	g, _, err := w.update(r)
	if err != nil || g.Spec.Name == nil || *g.Spec.Name != "his" || g.Status != string(guest.Running) {
		t.Errorf("%v: %+v", err, g.Spec.Name)
	}
}

// TestNoRestartTakesADiskThatWasSent: the update sends an option of a disk, which waits, and a third party has that disk
// removed with its volume before the restart. The guest is not restarted, and the error says how the disk is kept.
func TestNoRestartTakesADiskThatWasSent(t *testing.T) {
	for kind, becomes := range map[int]string{1: "is detached", 2: "is destroyed with its data"} {
		w := newWorld(t, pve.Params{"cores": "1", "sata1": "local-zfs:1"})
		w.start()
		r := w.request()
		r.Planned.CPU.Cores = new(int64(2))
		with(&r, "sata1", func(d *vm.Disk) { d.SSD = new(true) })
		w.answered = onceSent(w, "/config", func() {
			w.alter(func(g *state.Guest) {
				delete(g.Pending, "sata1")
				g.Deletes = map[string]int{"sata1": kind}
			})
		})
		_, _, err := w.update(r)
		w.answered = nil
		if said := detailOf(err); w.sent("/status/reboot") > 0 || !strings.Contains(said, becomes) ||
			!strings.Contains(said, "`qm set 400 --revert sata1` on node pve1") {
			t.Errorf("%v after %v", err, w.writes())
		}
	}
}

// TestRestartPutsOurDiskInPlace: a disk of the VM takes the place of another one, as this update has sent it, or an
// earlier one that made no restart. The restart is made, and nothing is said of another user.
func TestRestartPutsOurDiskInPlace(t *testing.T) {
	const detached = "local-zfs:vm-400-disk-7"
	for _, earlier := range []bool{false, true} {
		w := newWorld(t, pve.Params{"sata1": "local-zfs:1", "hotplug": "network"})
		w.start()
		inWorld(w, func(all *state.World) {
			all.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: theVM,
				Format: "raw", Size: 1 << 30})
			all.Guests[theVM].Config["unused0"] = detached
		})
		r := w.request()
		with(&r, "sata1", func(d *vm.Disk) { d.Volume = detached })
		if earlier {
			w.alter(func(g *state.Guest) { g.Pending = map[string]string{"sata1": detached + ",size=1G"} })
			r.Prior, r.Due = r.Planned, []string{"sata1"}
		}
		_, warnings, err := w.update(r)
		if said := text(warnings); err != nil || w.sent("/status/reboot") != 1 || strings.Contains(said, "Another user") ||
			!strings.HasPrefix(w.config()["sata1"], detached) {
			t.Errorf("%v, %s after %v", err, said, w.writes())
		}
	}
}
