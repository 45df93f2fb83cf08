package update

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestMoveOfADiskThatWaits: SATA has no hotplug, so a running guest has one disk in a slot, and another one waits for its
// restart. The plan moves the other one: after the restart, or not at all.
func TestMoveOfADiskThatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		restart Restart
		due     []string
		says    string
	}{
		"restart":           {RestartGracefully, []string{"sata0"}, ""},
		"no restart":        {RestartNever, nil, "sata0 of VM 400 cannot be moved yet"},
		"no reason for one": {RestartGracefully, nil, "sata0 of VM 400 cannot be moved yet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"sata0": "local-zfs:1"})
			w.start()
			was := guest.VolumeOf(w.config()["sata0"])
			inWorld(w, func(all *state.World) {
				g := all.Guests[theVM]
				all.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: "vm-400-disk-7", Content: "images", VMID: theVM,
					Format: "raw", Size: 1 << 30, Data: "the one that waits"})
				g.Pending = map[string]string{"sata0": theirs + ",size=1G"}
			})
			r := w.request()
			config, err := w.api.QEMU("pve1", theVM).Pending(t.Context())
			w.must(err)
			r.Prior, r.Planned = vm.Decode(config.Merged()), vm.Decode(config.Merged())
			r.Restart, r.Due = c.restart, c.due
			with(&r, "sata0", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
			_, _, err = w.update(r)
			var is, waits map[string]string
			content := ""
			inWorld(w, func(all *state.World) {
				g := all.Guests[theVM]
				is, waits = maps.Clone(g.Config), maps.Clone(g.Pending)
				if v := all.Volume("pve1", guest.VolumeOf(is["sata0"])); v != nil {
					content = v.Data
				}
			})
			switch {
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || guest.VolumeOf(waits["sata0"]) != theirs || guest.VolumeOf(is["sata0"]) != was):
				t.Errorf("%v, and %v waits, after %v: %v", is, waits, w.writes(), err)
			case c.says == "" && (err != nil || content != "the one that waits" || !strings.HasPrefix(is["sata0"], "local-lvm:") || is["unused0"] != was):
				t.Errorf("%v with %q, and %v waits, after %v: %v", is, content, waits, w.writes(), err)
			}
		})
	}
}

// TestLateMoveBesideWhatWaits: a disk that gets another aio and another storage moves after the restart. No restart comes,
// or a value waits in the slot by then. The next start brings back no volume that PVE has freed at the end of the move.
func TestLateMoveBesideWhatWaits(t *testing.T) {
	goesOff := func(w *world) { // its user shuts it down; qm cleanup leaves pending what waits (vm_stop_cleanup)
		w.answered = onceSent(w, "/config", func() { w.alter(func(g *state.Guest) { g.Running = nil }) })
	}
	isSet := func(w *world) { // an administrator sets an option of the disk after the restart
		pid := w.running().PID
		w.answered = func() {
			now := ""
			w.alter(func(g *state.Guest) {
				if g.Running != nil && g.Running.PID != pid && len(g.Pending) == 0 {
					now = g.Config["scsi1"]
				}
			})
			if now != "" {
				w.answered = nil
				w.must(w.api.QEMU("pve1", theVM).UpdateConfig(w.t.Context(), pve.Params{"scsi1": now + ",ssd=1"}))
			}
		}
	}
	for name, c := range map[string]struct {
		ha     *guest.HA
		begins func(*world)
		option string
	}{
		"HA stops it":               {&guest.HA{State: new("stopped")}, func(*world) {}, ""},
		"HA stops it, disabled":     {&guest.HA{State: new("disabled")}, func(*world) {}, ""},
		"it goes off":               {nil, goesOff, ""},
		"an administrator's option": {nil, isSet, ",ssd=1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			inWorld(w, administer)
			w.start()
			r := w.request()
			with(&r, "scsi1", func(d *vm.Disk) { d.AIO, d.Storage, d.Volume = new("threads"), "local-lvm", "" })
			r.HA = c.ha
			c.begins(w)
			g, _, err := w.update(r)
			if w.answered = nil; err != nil {
				t.Fatal(err, w.writes())
			}
			moved := guest.VolumeOf(w.config()["scsi1"])
			if w.sim.Advance(5 * time.Minute); c.ha == nil {
				if w.running() != nil {
					w.task(w.api.QEMU("pve1", theVM).HardStop(t.Context(), pve.Params{}))
				}
				w.task(w.api.QEMU("pve1", theVM).Start(t.Context(), pve.Params{}))
			}
			is, exists := w.config()["scsi1"], false
			inWorld(w, func(all *state.World) { exists = all.Volume("pve1", guest.VolumeOf(is)) != nil })
			if !exists || !strings.HasPrefix(is, moved+",") || !strings.HasPrefix(is, "local-lvm:") ||
				!strings.Contains(is, "aio=threads") || !strings.Contains(is, c.option) || g.Spec.Disks["scsi1"].Volume != moved {
				t.Errorf("scsi1 is %s, which exists: %t, and was moved to %s; state has %s", is, exists, moved,
					g.Spec.Disks["scsi1"].Volume)
			}
		})
	}
}

// TestPendingValueOfAThirdPartyIsKept: an option of a disk waits for a restart, and is dropped while the disk grows or
// moves. A third party sets another value, or another disk for the next start: while the request that drops it waits for a
// lock, after its answer was lost, or before the disk changes. That waits on, and a disk of theirs is not changed.
func TestPendingValueOfAThirdPartyIsKept(t *testing.T) {
	put := func(phase fault.Phase, status int, reason string, times int) []fault.Rule {
		return []fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: phase,
			Status: status, Reason: reason, Times: times}}
	}
	const changed = "sata0 was changed by a third party since it was read, and is left as it is"
	const dropped, exchanged = "The value of sata0 that waited for a restart of VM 400 was dropped", "sata0 of VM 400 has another disk than"
	for name, faults := range map[string][]fault.Rule{
		"a lock":             put(fault.Before, 0, "VM is locked (backup)", 2),
		"a lock of the file": put(fault.Before, 0, "can't lock file '/var/lock/qemu-server/lock-400.conf' - got timeout", 2),
		"a lost request":     put(fault.Before, 596, "", 1),
		"a lost answer":      put(fault.After, 596, "", 1),
		"nothing":            nil,
	} {
		for what, c := range map[string]struct {
			set             func(*state.World, *state.Guest)
			keeps           string
			says, saysLater string
		}{
			"an option": {func(_ *state.World, g *state.Guest) {
				g.Pending = map[string]string{"sata0": g.Config["sata0"] + ",discard=on"}
			}, "discard=on", changed, dropped},
			"a disk": {func(all *state.World, g *state.Guest) {
				all.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: "vm-400-disk-7", Content: "images", VMID: theVM,
					Format: "raw", Size: 1 << 30, Data: "theirs"})
				g.Pending = map[string]string{"sata0": theirs + ",size=1G"}
			}, theirs + ",size=1G", changed, exchanged},
			"other options": {func(_ *state.World, g *state.Guest) {
				g.Config["description"], g.Config["ide2"] = "theirs", "none,media=cdrom"
			}, "ssd=1", "", ""},
		} {
			for how, plan := range map[string]func(*vm.Disk){
				"grows": func(d *vm.Disk) { d.Size = new(int64(2 << 30)) },
				"moves": func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" },
			} {
				t.Run(name+", "+what+", "+how, func(t *testing.T) {
					w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "sata0": "local-zfs:1", "ide2": "local:iso/debian.iso,media=cdrom"})
					w.start()
					w.alter(func(g *state.Guest) { g.Pending = map[string]string{"sata0": g.Config["sata0"] + ",ssd=1"} })
					r := w.request()
					config, err := w.api.QEMU("pve1", theVM).Pending(t.Context())
					w.must(err)
					r.Prior, r.Planned = vm.Decode(config.Merged()), vm.Decode(config.Merged())
					r.Planned.CPU.Cores = new(int64(2)) // it waits for a restart, after which disks would grow that waited
					with(&r, "sata0", plan)
					w.sim.SetFaults(faults)
					w.answered = onceSent(w, "/config", func() {
						inWorld(w, func(all *state.World) { c.set(all, all.Guests[theVM]) })
					})
					_, warnings, err := w.update(r)
					w.answered = nil
					is, size := "", int64(0)
					inWorld(w, func(all *state.World) {
						g := all.Guests[theVM]
						is = cmp.Or(g.Pending["sata0"], g.Config["sata0"])
						if v := all.Volume(g.Node, theirs); v != nil {
							size = v.Size
						}
					})
					says, said := c.says, fmt.Sprint(err, text(warnings))
					if faults == nil {
						says = c.saysLater
					}
					if !strings.Contains(is, c.keeps) || size > 1<<30 || !strings.Contains(said, says) || says == "" && said != "<nil>" {
						t.Errorf("sata0 is %s, theirs has %d bytes, after %v: %s", is, size, w.writes(), said)
					}
				})
			}
		}
	}
}
