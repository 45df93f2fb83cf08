package update

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// toSlot has the plan put the disk of scsi1 into scsi2, and grow that of scsi0.
func toSlot(r *Request) {
	r.Planned.Disks = maps.Clone(r.Prior.Disks)
	r.Planned.Disks["scsi2"] = r.Planned.Disks["scsi1"]
	delete(r.Planned.Disks, "scsi1")
	with(r, "scsi0", func(d *vm.Disk) { d.Size = new(int64(2 << 30)) })
}

// heldInSCSI1 makes the VM that holds a disk, and gives the disk to the VM.
func heldInSCSI1(t *testing.T, w *world) (volume string) {
	t.Helper()
	w.task(w.api.Node("pve1").CreateVM(t.Context(), pve.Params{"vmid": "300", vm.HolderSlot: "shared-nfs:1",
		"description": vm.HolderDescription(""), "protection": "1"}))
	inWorld(w, func(all *state.World) {
		volume = guest.VolumeOf(all.Guests[holder].Config[vm.HolderSlot])
		all.Guests[theVM].Config["scsi1"] = volume + ",size=1G"
	})
	return volume
}

// TestSlotChangeIsNoNewUse: a disk changes its slot that the VM shares with another guest, or whose holder is busy. It
// had the disk all along, so it keeps it.
func TestSlotChangeIsNoNewUse(t *testing.T) {
	runs := func(g *state.Guest) {
		g.Running = &state.Running{QMPStatus: "running", PID: 99, Booted: maps.Clone(g.Config)}
	}
	for name, prepare := range map[string]func(t *testing.T, w *world) string{
		"a device of two guests": func(t *testing.T, w *world) string {
			t.Helper()
			root := w.asRoot(t)
			w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi5": passed + ",shared=1"}))
			w.must(root.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"scsi1": passed + ",shared=1"}))
			return passed
		},
		"a held disk of two guests": func(t *testing.T, w *world) string {
			t.Helper()
			volume := heldInSCSI1(t, w)
			inWorld(w, func(all *state.World) { all.Guests[8000].Config["unused3"] = volume })
			return volume
		},
		"its holder is locked": func(t *testing.T, w *world) string {
			t.Helper()
			w.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Lock, VMID: holder, Lock: "migrate", ForMS: 600_000,
				Before: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/qemu/{vmid}/pending"}}})
			return heldInSCSI1(t, w)
		},
		"its holder runs": func(t *testing.T, w *world) string {
			t.Helper()
			volume := heldInSCSI1(t, w)
			inWorld(w, func(all *state.World) { runs(all.Guests[holder]) })
			return volume
		},
	} {
		for _, power := range []string{"running", "stopped"} {
			t.Run(name+", "+power, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
				volume := prepare(t, w)
				if power == "running" {
					w.start()
				}
				r := w.request()
				toSlot(&r)
				_, warnings, err := w.update(r)
				if config := w.config(); err != nil || len(warnings) > 0 || guest.VolumeOf(config["scsi2"]) != volume {
					t.Errorf("%v, %v; %v after %v", err, warnings, config, w.writes())
				}
			})
		}
	}
}

var (
	// refusesTheSecond: PVE refuses the request that attaches the disk after it was unplugged.
	refusesTheSecond = fault.Rule{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config",
		Nth: 2}, Phase: fault.Before, Status: 500, Reason: "storage is busy"}
	// refusesTheRest: and all that follow.
	refusesTheRest = fault.Rule{Match: refusesTheSecond.Match, Phase: fault.Before, Status: 500, Reason: "it broke", Times: -1}
	// unlisted: the storages cannot be listed.
	unlisted = fault.Rule{Match: fault.Match{Method: http.MethodGet, Path: "/storage"}, Phase: fault.Before, Status: 500,
		Reason: "no storages", Times: -1}
)

// TestSlotChangeBesideADetachedTwin: a running guest's disk changes its slot, and the VM has it detached under another
// name, too. It comes into the new slot, or back into the old one.
func TestSlotChangeBesideADetachedTwin(t *testing.T) {
	const own = "400/vm-400-disk-7.raw"
	for slot, fails := range map[string]bool{"scsi2": false, "scsi1": true} {
		t.Run(slot, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			inWorld(w, mountTwice)
			inWorld(w, func(all *state.World) {
				all.Put(&state.Volume{Storage: "shared-nfs", Name: own, Content: "images", VMID: theVM, Format: "raw",
					Size: 1 << 30})
				all.Guests[theVM].Config["scsi1"] = "shared-nfs:" + own + ",size=1G"
				all.Guests[theVM].Config["unused0"] = "nfs-new:" + own
			})
			w.start()
			r := w.request()
			toSlot(&r)
			if fails {
				w.sim.SetFaults([]fault.Rule{refusesTheSecond})
			}
			_, _, err := w.update(r)
			if config := w.config(); (err != nil) != fails || guest.VolumeOf(config[slot]) != "shared-nfs:"+own {
				t.Errorf("%v; %v after %v", err, config, w.writes())
			}
		})
	}
}

// TestSlotChangeWithANodeOff: a running guest's disk changes its slot while a guest of a node that is off cannot be
// read. It comes into the new slot, or back into the old one.
func TestSlotChangeWithANodeOff(t *testing.T) {
	for slot, fails := range map[string]bool{"scsi2": false, "scsi1": true} {
		for _, held := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, held %t", slot, held), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "shared-nfs:1", "scsihw": "virtio-scsi-pci",
					"boot": "order=scsi0"})
				w.task(w.api.Node("pve2").CreateVM(t.Context(), pve.Params{"vmid": "555", "scsi0": "shared-nfs:1"}))
				if held {
					heldInSCSI1(t, w)
				}
				w.start()
				r := w.request()
				volume := r.Prior.Disks["scsi1"].Volume
				inWorld(w, func(all *state.World) { all.Nodes["pve2"].Online = false })
				toSlot(&r)
				if fails {
					w.sim.SetFaults([]fault.Rule{refusesTheSecond})
				}
				_, warnings, err := w.update(r)
				if config := w.config(); (err != nil) != fails || len(warnings) > 0 ||
					guest.VolumeOf(config[slot]) != volume {
					t.Errorf("%v, %v; %v after %v", err, warnings, config, w.writes())
				}
			})
		}
	}
}

// TestHalfASwap: a running guest swaps two disks, and PVE attaches the first one and fails at the second. That one can
// come into neither slot, and the error says so. Likewise for a disk that PVE does not destroy, and whose slot is filled.
func TestHalfASwap(t *testing.T) {
	const path = "/nodes/{node}/qemu/{vmid}/config"
	for name, c := range map[string]struct {
		plan  func(*Request)
		fails fault.Match
	}{
		"swap": {func(r *Request) {
			r.Planned.Disks = maps.Clone(r.Prior.Disks)
			r.Planned.Disks["scsi1"], r.Planned.Disks["scsi2"] = r.Prior.Disks["scsi2"], r.Prior.Disks["scsi1"]
		}, fault.Match{Method: http.MethodPut, Path: path, Nth: 2}},
		"destroy": {func(r *Request) {
			r.DestroyRemoved = true
			r.Planned.Disks = maps.Clone(r.Prior.Disks)
			delete(r.Planned.Disks, "scsi1")
		}, fault.Match{Method: http.MethodPost, Path: path}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsi2": "local-zfs:1",
				"scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			w.start()
			r := w.request()
			first, second := r.Prior.Disks["scsi1"].Volume, r.Prior.Disks["scsi2"].Volume
			c.plan(&r)
			w.sim.SetFaults([]fault.Rule{{Match: c.fails, Phase: fault.Before, Status: 500, Reason: "it broke"}})
			w.answered = func() {
				if w.sim.FaultsFired() == 0 {
					return
				}
				w.answered = nil
				w.alter(func(g *state.Guest) {
					delete(g.Config, "scsi2")
					delete(g.Config, unusedEntry(g.Config, second))
					g.Config["scsi1"] = second + ",size=1G"
				})
			}
			_, _, err := w.update(r)
			for _, want := range []string{first, "It stays detached, as unused0", "scsi1 of VM 400 has " + second} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("want %q, got %v\n%v", want, err, w.config())
				}
			}
		})
	}
}

// TestSlotChangeOfADeviceTakesRoot: PVE takes the path of a device from root@pam with a password only. Another identity
// takes no device out of its slot that it could put into none.
func TestSlotChangeOfADeviceTakesRoot(t *testing.T) {
	for _, power := range []string{"running", "stopped"} {
		t.Run(power, func(t *testing.T) {
			t.Parallel()
			w, r := withDevice(t, power == "running", false)
			_, _, err := w.update(r)
			if said := detailOf(err); guest.VolumeOf(w.config()["scsi1"]) != passed || len(w.writes()) > 0 ||
				!strings.Contains(said, passed) || !strings.Contains(said, "root@pam with a password") {
				t.Errorf("%v: %s; %v after %v", err, said, w.config(), w.writes())
			}
		})
	}
}

// TestSlotChangeOfAHeldDiskTakesRights: PVE attaches the disk of another VM by privileges on its storage and on that VM.
// An identity without them takes it out of no slot. A disk that stays out after another error is in no unusedN, so the
// error has the command that attaches it.
func TestSlotChangeOfAHeldDiskTakesRights(t *testing.T) {
	const fails = "`qm set 400 --scsi1 shared-nfs:300/vm-300-disk-0.raw,size=1G` on node pve1"
	for name, c := range map[string]struct {
		onHolder, onStorage string
		is                  int // in scsi1, in scsi2, or -1
		says                string
	}{
		"neither":            {"PVEAuditor", "PVEDatastoreUser", 0, "VM.Config.Disk on /vms/300"},
		"the storage":        {"PVEAuditor", "PVEDatastoreAdmin", 1, ""},
		"both":               {"PVEVMAdmin", "PVEDatastoreUser", 1, ""},
		"both, and it fails": {"PVEVMAdmin", "PVEDatastoreUser", -1, fails},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			volume := heldInSCSI1(t, w)
			w.start()
			r := w.request()
			toSlot(&r)
			inWorld(w, func(all *state.World) {
				all.ACL = nil
				for at, role := range map[string]string{"/": "PVEAuditor", "/vms/400": "PVEVMAdmin", "/vms/300": c.onHolder,
					"/storage": c.onStorage} {
					for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
						all.ACL = append(all.ACL, state.ACLEntry{Path: at, Role: role, Subject: who, Propagate: true})
					}
				}
			})
			if c.says == fails {
				w.sim.SetFaults([]fault.Rule{refusesTheRest})
			}
			_, _, err := w.update(r)
			said, config := fmt.Sprint(err, detailOf(err)), w.config()
			is := slices.IndexFunc([]string{"scsi1", "scsi2"}, func(slot string) bool {
				return guest.VolumeOf(config[slot]) == volume
			})
			if (err == nil) != (c.says == "") || !strings.Contains(said, c.says) || is != c.is ||
				c.is == 0 && w.sent("/config") > 0 {
				t.Errorf("%s; %v after %v", said, config, w.writes())
			}
		})
	}
}

// TestDeviceThatStaysOut: a device has left its slot, and PVE attaches it nowhere. It is in no unusedN either, so the
// error names it, with the command that attaches it. Not so where the slot has another disk by then, which that would
// throw out, or where another guest has the device, or may have.
func TestDeviceThatStaysOut(t *testing.T) {
	const command = "`qm set 400 --scsi1 " + passed + ",ssd=1` on node pve1"
	for name, c := range map[string]struct {
		then func(t *testing.T, w *world, root *pve.Client)
		want string
	}{
		"free":   {nil, command},
		"unseen": {nil, "whether another guest has it by now could not be seen"},
		"filled": {func(_ *testing.T, w *world, _ *pve.Client) {
			w.alter(func(g *state.Guest) { g.Config["scsi1"] = theirs })
		}, "scsi1 has another disk by now"},
		"taken": {func(t *testing.T, w *world, root *pve.Client) {
			t.Helper()
			w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi5": passed}))
		}, "another guest has it by now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := withDevice(t, true, true)
			root := w.asRoot(t)
			fails := []fault.Rule{refusesTheRest, unlisted}
			switch {
			case c.want == command:
				fails = fails[:1]
			case c.then != nil:
				fails = []fault.Rule{refusesTheSecond}
				w.answered = func() {
					if w.sim.FaultsFired() > 0 {
						w.answered = nil
						c.then(t, w, root)
					}
				}
			}
			w.sim.SetFaults(fails)
			_, _, err := w.update(r)
			said := fmt.Sprint(err)
			if !strings.Contains(said, "Device "+passed+" of VM 400") || !strings.Contains(said, c.want) ||
				strings.Contains(said, "qm set") != (c.want == command) {
				t.Errorf("want %q, got %s; %v", c.want, said, w.config())
			}
		})
	}
}

// withDevice is a VM to which root has given a device of the node, whose slot changes.
func withDevice(t *testing.T, runs, asRoot bool) (*world, Request) {
	t.Helper()
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
	token := w.changer
	root := w.asRoot(t)
	if !asRoot {
		w.changer = token
	}
	w.must(root.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"scsi1": passed + ",ssd=1"}))
	if runs {
		w.start()
	}
	r := w.request()
	r.Planned.Disks = maps.Clone(r.Prior.Disks)
	r.Planned.Disks["scsi2"] = r.Planned.Disks["scsi1"]
	delete(r.Planned.Disks, "scsi1")
	return w, r
}
