package update

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// with changes a planned disk.
func with(r *Request, slot string, change func(*vm.Disk)) {
	disk := r.Planned.Disks[slot]
	change(&disk)
	r.Planned.Disks[slot] = disk
}

// TestDiskChangesItsSlot: a running guest gives the disk up first, by hotplug; a stopped one takes it in one request.
func TestDiskChangesItsSlot(t *testing.T) {
	for power, writes := range map[string]int{"running": 2, "stopped": 1} {
		t.Run(power, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:2,backup=0", "boot": "order=scsi0"})
			if power == "running" {
				w.start()
			}
			r := w.request()
			volume := r.Prior.Disks["scsi1"].Volume
			r.Planned.Disks["scsi4"] = vm.Disk{Storage: "local-zfs", Volume: volume}
			delete(r.Planned.Disks, "scsi1")
			if _, _, err := w.update(r); err != nil {
				t.Fatal(err)
			}
			config := w.config()
			if len(w.writes()) != writes || guest.VolumeOf(config["scsi4"]) != volume || config["scsi1"] != "" ||
				unusedEntry(config, volume) != "" {
				t.Errorf("sent %v; scsi4 is %q", w.writes(), config["scsi4"])
			}
		})
	}
}

// TestDiskGoesBack: where the new slot is refused, or the guest does not give the disk away, it is in its old slot again.
// An option that waits there for a restart waits again: PVE drops it with the removal.
func TestDiskGoesBack(t *testing.T) {
	for name, c := range map[string]struct {
		slot  string
		fails []fault.Rule
	}{
		"refused": {"scsi1", []fault.Rule{refusesTheSecond}},
		"refused, and the storages are not listed": {"scsi1", []fault.Rule{refusesTheSecond, unlisted}},
		"kept by the guest":                        {slot: "virtio1"},
	} {
		t.Run(name, func(t *testing.T) {
			slot := c.slot
			t.Parallel()
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", slot: "local-zfs:2", "boot": "order=scsi0"})
			w.start()
			w.alter(func(g *state.Guest) { g.Pending = map[string]string{slot: g.Config[slot] + ",ro=1"} })
			r := w.request()
			volume := r.Prior.Disks[slot].Volume
			r.Planned.Disks["scsi4"] = vm.Disk{Storage: "local-zfs", Volume: volume}
			delete(r.Planned.Disks, slot)
			w.alter(func(g *state.Guest) { g.Ignores = []string{"unplug"} }) // only virtio asks the guest
			w.sim.SetFaults(c.fails)
			_, _, err := w.update(r)
			now, _ := w.api.QEMU("pve1", theVM).Pending(t.Context())
			if err == nil || guest.VolumeOf(w.config()[slot]) != volume || w.config()["scsi4"] != "" ||
				now.Merged()[slot] != volume+",ro=1,size=2G" {
				t.Errorf("%v; %v, for the next start %q", err, w.config(), now.Merged()[slot])
			}
		})
	}
}

// TestSlotsThatCannotChange: what a running guest does not do is refused before anything is sent.
func TestSlotsThatCannotChange(t *testing.T) {
	cases := map[string]struct {
		from, to string
		hotplug  string
		says     string
	}{
		"out of the boot order": {from: "scsi0", to: "scsi4", says: "boot order"},
		"out of IDE":            {from: "ide0", to: "scsi4", says: "next stop only"},
		"into SATA":             {from: "scsi1", to: "sata1", says: "next start only"},
		"within cold slots":     {from: "ide0", to: "sata1"},
		"without disk hotplug":  {from: "scsi1", to: "scsi4", hotplug: "network"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			options := pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "ide0": "local-zfs:1", "boot": "order=scsi0"}
			if c.hotplug != "" {
				options["hotplug"] = c.hotplug
			}
			w := newWorld(t, options)
			w.start()
			r := w.request()
			r.Restart, r.Ref.Status = RestartNever, "" // no plan has foretold it
			r.Planned.Disks[c.to] = vm.Disk{Storage: "local-zfs", Volume: r.Prior.Disks[c.from].Volume}
			delete(r.Planned.Disks, c.from)
			_, warnings, err := w.update(r)
			switch {
			case c.says != "" && (!strings.Contains(detailOf(err), c.says) || len(w.writes()) > 0):
				t.Errorf("says %q, sent %v", detailOf(err), w.writes())
			case c.says == "" && (err != nil || !strings.Contains(text(warnings), "old values")):
				t.Errorf("it waits for the restart: %v, %s", err, text(warnings))
			}
		})
	}
}

// TestVolumesThatAreNotOurs: a VM attaches only what it has, into a slot that is its to fill.
func TestVolumesThatAreNotOurs(t *testing.T) {
	for name, c := range map[string]struct{ slot, volume, says string }{
		"another id's":        {"scsi4", "local-lvm:vm-8000-disk-0", "its own id"},
		"a volume it lacks":   {"scsi4", "local-zfs:vm-400-disk-9", "no such volume"},
		"into a foreign slot": {"scsi7", "local-zfs:vm-400-disk-0", "which this configuration has not put there"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
			r := w.request()
			w.alter(func(g *state.Guest) { g.Config["scsi7"] = "none,media=cdrom" })
			r.Planned.Disks[c.slot] = vm.Disk{Volume: c.volume}
			_, _, err := w.update(r)
			if !strings.Contains(detailOf(err), c.says) || len(w.writes()) > 0 {
				t.Errorf("says %q of %v, sent %v", detailOf(err), err, w.writes())
			}
		})
	}
}

// TestGrowth: what is there grows at once, what is imported afterwards; what waits for a restart cannot grow before.
func TestGrowth(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
	r := w.request()
	with(&r, "scsi0", func(d *vm.Disk) { d.Size = new(int64(3 << 30)) })
	r.Planned.Disks["scsi1"] = vm.Disk{Storage: "local-zfs", ImportFrom: new("local:import/disk.qcow2"),
		Size: new(int64(4 << 30))}
	if _, _, err := w.update(r); err != nil {
		t.Fatal(err)
	}
	if c := w.config(); !strings.Contains(c["scsi0"], "size=3G") || !strings.Contains(c["scsi1"], "size=4G") ||
		w.sent("/resize") != 2 {
		t.Errorf("%v, sent %v", c, w.writes())
	}
	r = w.request()
	with(&r, "scsi0", func(d *vm.Disk) { d.Size = new(int64(1 << 30)) })
	if _, _, err := w.update(r); err == nil || !strings.Contains(err.Error(), "shrunk") || len(w.writes()) > 0 {
		t.Errorf("shrunk: %v, sent %v", err, w.writes())
	}
}

// TestRemovedDisks: a disk that leaves is detached, or destroyed where that is asked for and no snapshot needs it.
func TestRemovedDisks(t *testing.T) {
	cases := map[string]struct {
		destroy, snapshot, refused bool
		says                       string
		there, unused              bool
	}{
		"detached":               {there: true, unused: true},
		"destroyed":              {destroy: true},
		"a snapshot needs it":    {destroy: true, snapshot: true, says: "Snapshot before needs it", there: true},
		"PVE refuses to free it": {destroy: true, refused: true, says: "It could not be destroyed", there: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:2"})
			r := w.request()
			volume := r.Prior.Disks["scsi1"].Volume
			if c.snapshot {
				w.alter(func(g *state.Guest) {
					g.Snaps = map[string]map[string]string{"before": {"scsi1": g.Config["scsi1"], "snaptime": "1"}}
					g.Config["parent"] = "before"
				})
			}
			if c.refused {
				w.occupy(volume)
			}
			delete(r.Planned.Disks, "scsi1")
			r.DestroyRemoved = c.destroy
			_, _, err := w.update(r)
			if (err == nil) != (c.says == "") || !strings.Contains(detailOf(err), c.says) {
				t.Errorf("says %q of %v", detailOf(err), err)
			}
			config := w.config()
			if there := slices.Contains(w.everyVolume(), volume); there != c.there ||
				(unusedEntry(config, volume) != "") != c.unused {
				t.Errorf("the volume is there: %v; %v", there, config)
			}
			if back := guest.VolumeOf(config["scsi1"]) == volume; back != (c.says != "") {
				t.Errorf("it is in its slot: %v", back)
			}
		})
	}
}

// occupy has a third party use a volume.
func (w *world) occupy(volume string) {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	for _, v := range all.Volumes {
		if v.Volid() == volume {
			v.Busy = "dataset is busy"
		}
	}
}

// TestKeepPendingDisk: a disk that waits to leave, and that is wanted again, is kept if it was the VM's in state, or the
// plan has told that it is taken over, also where it is to be on another storage. That of a third party leaves, and the
// slot gets a new one, unless PVE would refuse that. One that cannot be the planned one is an error: no new disk takes
// its place.
func TestKeepPendingDisk(t *testing.T) {
	refused := map[string]string{"grown": "another disk than the plan", "another of its name": "another disk than the plan",
		"a third party's, with hotplug": "cannot get another disk while it runs"}
	for name, kept := range map[string]bool{"in state": true, "told": true, "a third party's": false,
		"another of its name": true, "grown": true, "moved": true, "a third party's, with hotplug": true} {
		options := pve.Params{"scsi0": "local-zfs:1", "sata0": "local-zfs:1", "boot": "order=scsi0"}
		if name == "a third party's" {
			options["hotplug"] = "network"
		}
		w := newWorld(t, options)
		w.start()
		r := w.request()
		was := r.Prior.Disks["sata0"].Volume
		w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"delete": "sata0"}))
		w.sim.ResetOps()
		switch name {
		case "in state":
			r.Detached, r.Sizes = []string{was}, map[string]int64{was: 1 << 30}
		case "another of its name":
			r.Detached, r.Sizes = []string{was}, map[string]int64{was: 50 << 30}
		case "grown":
			r.Detached = []string{was}
			w.alter(func(g *state.Guest) { g.Config["sata0"] = strings.Replace(g.Config["sata0"], "=1G", "=5G", 1) })
		case "moved":
			r.Detached = []string{was}
		case "told":
			r.Others = map[string]string{"sata0": was}
		}
		r.Prior.Disks = maps.Clone(r.Prior.Disks)
		delete(r.Prior.Disks, "sata0")
		with(&r, "sata0", func(d *vm.Disk) { d.Volume, d.Size = "", new(int64(2<<30)) })
		if name == "moved" {
			with(&r, "sata0", func(d *vm.Disk) { d.Storage, was = "local-lvm", "local-lvm:vm-400-disk-0" })
		}
		if _, _, err := w.update(r); refused[name] != "" {
			if err == nil || !strings.Contains(err.Error(), refused[name]) || len(w.writes()) > 0 {
				t.Errorf("%s: %v after %v", name, err, w.writes())
			}
			continue
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pending, err := w.api.QEMU("pve1", theVM).Pending(t.Context())
		has := pending.Current()
		if is := guest.VolumeOf(has["sata0"]); err != nil || len(pending.Waiting()) > 0 || is == "" || (is == was) != kept ||
			!kept && (unusedEntry(has, was) == "" || strings.Contains(has[unusedEntry(has, was)], "2G")) {
			t.Errorf("%s: %v, waits %v, has %v after %v", name, err, pending.Waiting(), has, w.writes())
		}
	}
}

// TestBootOrderBesideADiskThatIsKept: PVE takes a disk that is about to leave out of the boot order, and it comes back
// into it when it is kept. An order that was set meanwhile waits on, and so does the planned one.
func TestBootOrderBesideADiskThatIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		set, waits string // an order that is set, and the one that waits in the end
		planned    []string
		leaves     string // another disk that leaves, and is not wanted again
	}{
		"PVE's own":                {},
		"PVE's own, of two":        {leaves: "sata1"},
		"planned":                  {planned: []string{"scsi0", "sata1"}, waits: "order=scsi0;sata1"},
		"set":                      {set: "order=sata1", waits: "order=sata1"},
		"set, less another":        {set: "order=scsi0", waits: "order=scsi0"},
		"set, in other succession": {set: "order=sata1;scsi0", waits: "order=sata1;scsi0"},
		"set, with the disk":       {set: "order=sata0", waits: "order=sata0"},
	} {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "sata0": "local-zfs:1", "sata1": "local-zfs:1",
			"boot": "order=scsi0;sata0;sata1"})
		w.start()
		r := w.request()
		was := r.Prior.Disks["sata0"].Volume
		r.Detached, r.Sizes = []string{was}, map[string]int64{was: 1 << 30}
		change := func(params pve.Params) { w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), params)) }
		change(pve.Params{"delete": strings.Trim("sata0,"+c.leaves, ",")})
		if c.set != "" {
			change(pve.Params{"boot": c.set})
		}
		now, err := w.api.QEMU("pve1", theVM).Pending(t.Context())
		w.must(err)
		r.Prior, r.Planned, r.BootOrder = vm.Decode(now.Merged()), vm.Decode(now.Merged()), c.planned
		with(&r, "sata0", func(d *vm.Disk) { *d = vm.Disk{Storage: "local-zfs", Size: new(int64(1 << 30))} })
		_, _, failed := w.update(r)
		now, err = w.api.QEMU("pve1", theVM).Pending(t.Context())
		waits := ""
		if is := now.Merged()["boot"]; is != now.Current()["boot"] {
			waits = is
		}
		if failed != nil || err != nil || waits != c.waits || guest.VolumeOf(now.Merged()["sata0"]) != was {
			t.Errorf("%s: %v, %v; %q waits, and in the end there is %v", name, failed, err, waits, now.Merged())
		}
	}
}

// TestPendingOptionsOfADiskThatChanges: a third party has changed an option of a disk, which waits for a restart. It waits
// on after the disk was grown or moved, or could not be, and is no reason to restart the guest.
func TestPendingOptionsOfADiskThatChanges(t *testing.T) {
	grow := func(d *vm.Disk) { d.Size = new(int64(2 << 30)) }
	for name, c := range map[string]struct {
		change  func(*vm.Disk)
		refused string
		has     string
	}{
		"grown":     {grow, "", "local-zfs:vm-400-disk-0,aio=threads,size=2G"},
		"moved":     {func(d *vm.Disk) { d.Storage = "local-lvm" }, "", "local-lvm:vm-400-disk-0,aio=threads,size=1G"},
		"not grown": {grow, "/nodes/{node}/qemu/{vmid}/resize", "local-zfs:vm-400-disk-0,aio=threads,size=1G"},
		"grown, with another option": {func(d *vm.Disk) { grow(d); d.Cache = new("writeback") }, "",
			"local-zfs:vm-400-disk-0,aio=threads,cache=writeback,size=2G"},
	} {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
		w.start()
		r := w.request()
		r.Restart = RestartGracefully
		if name == "grown, with another option" {
			r.Restart = RestartNever
		}
		with(&r, "scsi0", c.change)
		w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"scsi0": w.config()["scsi0"] + ",aio=threads"}))
		if c.refused != "" {
			w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", Path: c.refused}, Phase: fault.Before, Status: 400, Reason: "no room"}})
		}
		w.sim.ResetOps()
		_, _, err := w.update(r)
		after, readErr := w.api.QEMU("pve1", theVM).Pending(t.Context())
		if readErr != nil || (err != nil) != (c.refused != "") || !vm.MeansSame("scsi0", after.Merged()["scsi0"], c.has) ||
			!slices.Equal(after.Waiting(), []string{"scsi0"}) || w.sent("/reboot") > 0 {
			t.Errorf("%s: %v; waits %v, scsi0 is %s and will be %s after %v", name, err, after.Waiting(), after.Current()["scsi0"],
				after.Merged()["scsi0"], w.writes())
		}
	}
}
