package update

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestTurnedSinceThePlan: a third party starts or stops a guest after the plan, which says nothing of that. The apply of
// that plan leaves it as it is, and says so. A planned shutdown, start or restart is done.
func TestTurnedSinceThePlan(t *testing.T) {
	const running, stopped = string(guest.Running), string(guest.Stopped)
	for name, c := range map[string]struct {
		was, wanted string
		runs        bool // now
		cores       bool // the plan changes them
		warns       string
		power       string // the request that is sent, "" for none
	}{
		"started, is to be off":            {stopped, stopped, true, false, "VM 400 was left running", ""},
		"stopped, is to run":               {running, running, false, false, "VM 400 was left off", ""},
		"planned start":                    {stopped, running, false, false, "", "start"},
		"planned shutdown":                 {running, stopped, true, false, "", "shutdown"},
		"planned restart":                  {running, "", true, true, "", "reboot"},
		"not known what the plan has seen": {"", running, false, false, "", "start"},
		"started, its change waits":        {stopped, "", true, true, "VM 400 runs with the old values of cores", ""},
		"started as planned, and waits":    {stopped, running, true, true, "VM 400 runs with the old values of cores", ""},
		"planned start with a change":      {stopped, running, false, true, "", "start"},
		"stopped, its change waits":        {running, running, false, true, "VM 400 was left off", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
			if c.runs {
				w.start()
			}
			r := w.request()
			r.Ref.Status, r.PowerState = c.was, guest.PowerState(c.wanted)
			if c.cores {
				r.Planned.CPU.Cores = new(int64(2))
			}
			w.sim.ResetOps()
			_, warnings, err := w.update(r)
			sent := ""
			for _, request := range w.writes() {
				if _, power, ok := strings.Cut(request, "/status/"); ok {
					sent += power
				}
			}
			if said := fmt.Sprint(warnings); err != nil || sent != c.power || !strings.Contains(said, c.warns) || c.warns == "" && len(warnings) > 0 {
				t.Errorf("sent %q: %v, %s", sent, err, said)
			}
		})
	}
}

// TestStartBesideAnotherGuest: a guest is not started while another one runs with one of its disks, on whatever node.
// One that is off, or that has the disk in a snapshot only, is in no one's way.
func TestStartBesideAnotherGuest(t *testing.T) {
	for name, c := range map[string]struct {
		give    func(g *state.Guest, disk string)
		refused bool
		scsi1   string // of the VM
	}{
		"runs with its device":            {func(g *state.Guest, _ string) { g.Config["scsi5"] = passed }, true, passed},
		"runs with such a medium":         {func(g *state.Guest, _ string) { g.Config["ide2"] = passed + ",media=cdrom" }, false, passed + ",media=cdrom"},
		"runs with that path of its node": {func(g *state.Guest, _ string) { g.Config["scsi5"], g.Node = passed, "pve2" }, false, passed},
		"is paused with it":               {func(g *state.Guest, disk string) { g.Config["scsi5"], g.Running.QMPStatus = disk, "paused" }, true, ""},
		"runs with it":                    {func(g *state.Guest, disk string) { g.Config["scsi5"] = disk }, true, ""},
		"names it in args":                {func(g *state.Guest, _ string) { g.Config["args"] = "-drive file=/dev/zvol/rpool/data/vm-400-disk-0" }, true, ""},
		"is off":                          {func(g *state.Guest, disk string) { g.Config["scsi5"], g.Running = disk, nil }, false, ""},
		"gets it at its next start":       {func(g *state.Guest, disk string) { g.Pending = map[string]string{"scsi5": disk} }, false, ""},
		"has a snapshot with it": {func(g *state.Guest, disk string) {
			section := maps.Clone(g.Config)
			section["scsi5"], section["snaptime"] = disk, "1700000000"
			g.Snaps = map[string]map[string]string{"before": section}
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
			inWorld(w, func(all *state.World) {
				g := all.Guests[8000]
				g.Running = &state.Running{QMPStatus: "running", PID: 99, StartedAt: all.Clock.Now(), Booted: maps.Clone(g.Config)}
				ours := all.Guests[theVM].Config
				c.give(g, ours["scsi0"])
				if c.scsi1 != "" {
					all.Nodes["pve1"].WriteFile(passed, "a disk")
					ours["scsi1"] = c.scsi1
				}
			})
			w.sim.Advance(time.Minute) // the listing shows it late
			r := w.request()
			r.PowerState = guest.Running
			_, _, err := w.update(r)
			started := w.sent("/status/start") > 0
			said := err != nil && strings.Contains(detailOf(err)+err.Error(), "8000")
			if started == c.refused || said != c.refused {
				t.Errorf("started %t: %v", started, err)
			}
		})
	}
}

// TestStartByWhatRunsNow: PVE's listing is some seconds old, so the guest with the disk is asked itself.
func TestStartByWhatRunsNow(t *testing.T) {
	for _, runs := range []bool{true, false} {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
		set := func(on bool) {
			inWorld(w, func(all *state.World) {
				g := all.Guests[8000]
				g.Config["scsi5"], g.Running = all.Guests[theVM].Config["scsi0"], nil
				if on {
					g.Running = &state.Running{QMPStatus: "running", PID: 99, StartedAt: all.Clock.Now(), Booted: maps.Clone(g.Config)}
				}
			})
		}
		set(!runs)
		w.sim.Advance(time.Minute)
		_, err := w.api.Cluster().Resources(t.Context())
		w.must(err)
		set(runs)
		r := w.request()
		r.PowerState = guest.Running
		_, _, err = w.update(r)
		if started := w.sent("/status/start") > 0; started == runs {
			t.Errorf("the other one runs %t, started %t: %v", runs, started, err)
		}
	}
}

// TestStartBesideAGuestWhileANodeIsAway: guests of a node that is off hide no guest of another node that runs with the
// disk.
func TestStartBesideAGuestWhileANodeIsAway(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "shared-nfs:1", "scsihw": "virtio-scsi-pci"})
	inWorld(w, func(all *state.World) {
		g := all.Guests[8000]
		away := *g
		away.VMID, away.Node, away.Config = 8001, "pve2", map[string]string{"name": "away"}
		all.Guests[8001], all.Nodes["pve2"].Online = &away, false
		g.Config["scsi5"] = all.Guests[theVM].Config["scsi0"]
		g.Running = &state.Running{QMPStatus: "running", PID: 99, StartedAt: all.Clock.Now(), Booted: maps.Clone(g.Config)}
	})
	w.sim.Advance(time.Minute)
	r := w.request()
	r.PowerState = guest.Running
	if _, _, err := w.update(r); w.sent("/status/start") > 0 || !strings.Contains(fmt.Sprint(err), "8000") {
		t.Errorf("%v after %v", err, w.writes())
	}
}

// TestStartWhileANodeIsAway: guests of a node that is off cannot be read. A VM on another node is started all the same,
// with a warning where its disk is on a storage that they share. The start waits for a lock: the warning comes once, and
// not if the node is back by then.
func TestStartWhileANodeIsAway(t *testing.T) {
	for storage, warns := range map[string]int{"local-zfs": 0, "shared-nfs": 1} {
		for _, back := range []bool{false, true} {
			w := newWorld(t, pve.Params{"scsi0": storage + ":1", "scsihw": "virtio-scsi-pci"})
			inWorld(w, func(all *state.World) {
				delete(all.Guests[8000].Config, "scsi0")
				all.Guests[8000].Node, all.Nodes["pve2"].Online = "pve2", false
			})
			w.sim.Advance(time.Minute)
			r := w.request()
			r.PowerState = guest.Running
			w.lock("POST", "/nodes/{node}/qemu/{vmid}/status/start", func(all *state.World) { all.Nodes["pve2"].Online = back })
			_, warnings, err := w.update(r)
			w.answered = nil
			warned := strings.Count(fmt.Sprint(warnings), "beside guests that were not seen")
			if err != nil || w.sent("/status/start") != 3 || back && warned > 0 || !back && warned != warns {
				t.Errorf("%s, back %t: %v, %v after %v", storage, back, err, warnings, w.writes())
			}
		}
	}
}
