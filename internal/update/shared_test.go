package update

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// runs starts a guest in the simulated cluster.
func runs(all *state.World, vmid, pid int) {
	g := all.Guests[vmid]
	g.Running = &state.Running{QMPStatus: "running", PID: pid, StartedAt: all.Clock.Now(), Booted: maps.Clone(g.Config)}
}

// sharing is a world in which VM 8000 has run with scsi1 of VM 400 for an hour, as the nodes of a cluster file system do.
// VM 400 does not hear a request to shut down, and is to be restarted.
func sharing(t *testing.T, restart Restart) (*world, Request) {
	t.Helper()
	w := newWorld(t, pve.Params{"cores": "1", "scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
	inWorld(w, func(all *state.World) {
		all.Guests[8000].Config["scsi5"] = all.Guests[theVM].Config["scsi1"]
		runs(all, 8000, 99)
	})
	w.start()
	w.sim.Advance(time.Hour)
	w.ignoreShutdown()
	r := w.request()
	r.Planned.CPU.Cores, r.Restart = new(int64(2)), restart
	return w, r
}

// other is the update of VM 8000 that the same apply does: it gets more cores, too, and obeys at once.
func other(w *world) error {
	config, err := w.api.QEMU("pve1", 8000).Config(w.t.Context())
	if err != nil {
		return err
	}
	r := Request{Ref: guest.Ref{VMID: 8000, Node: "pve1", Identity: guest.IdentityOf(config.Values), Status: "running"},
		Prior: vm.Decode(config.Values), Planned: vm.Decode(config.Values)}
	r.Planned.CPU.Cores = new(int64(2))
	_, _, err = w.changer.Update(w.t.Context(), r)
	return err
}

// TestRestartOfTwoGuestsThatShare: one apply restarts two guests that share a disk, at about the same time. Each comes
// back beside the other: when that one was restarted, and by whom, is no reason to leave it off.
func TestRestartOfTwoGuestsThatShare(t *testing.T) {
	for name, c := range map[string]struct {
		restart Restart
		with    func(t *testing.T, w *world)
	}{
		"the other is restarted before ours is cut off": {RestartForcibly, func(t *testing.T, w *world) {
			t.Helper()
			w.when(time.Minute, func() { w.must(other(w)) })
		}},
		"a third party restarts the other": {RestartForcibly, func(_ *testing.T, w *world) {
			w.when(time.Minute, func() { inWorld(w, func(all *state.World) { runs(all, 8000, 100) }) })
		}},
		"the other is down while ours is cut off": {RestartForcibly, func(_ *testing.T, w *world) {
			w.when(time.Minute, func() {
				inWorld(w, func(all *state.World) {
					g := all.Guests[8000]
					w.changer.restarts.note(8000, guest.DisksToRun(g.Config))
					g.Running = nil
				})
			})
			w.answered = onceSent(w, "/status/stop", func() { inWorld(w, func(all *state.World) { runs(all, 8000, 100) }) })
		}},
		"ours obeys late": {RestartGracefully, func(_ *testing.T, w *world) {
			w.when(time.Minute, func() { w.must(other(w)) })
			w.when(200*time.Second, func() { w.sim.EndGuest(theVM) })
		}},
		"the other is restarted while ours is late": {RestartGracefully, func(_ *testing.T, w *world) {
			w.when(200*time.Second, func() {
				w.must(other(w))
				w.sim.EndGuest(theVM)
			})
		}},
		"ours obeys late, of a third party's restart": {RestartGracefully, func(_ *testing.T, w *world) {
			w.when(time.Minute, func() { inWorld(w, func(all *state.World) { runs(all, 8000, 100) }) })
			w.when(200*time.Second, func() { w.sim.EndGuest(theVM) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := sharing(t, c.restart)
			c.with(t, w)
			before := w.running()
			_, _, err := w.update(r)
			w.answered = nil
			if now := w.running(); err != nil || now == nil || now == before {
				t.Errorf("%v, it runs %+v after %v", err, now, w.writes())
			}
		})
	}
}

// awaitsADisk has a disk of the VM wait for its restart. It returns what gives that to VM 8000, which runs.
func awaitsADisk(t *testing.T, w *world) (give func()) {
	t.Helper()
	waits := strings.Replace(w.config()["scsi0"], "disk-0", "disk-7", 1)
	w.alter(func(g *state.Guest) { g.Pending = map[string]string{"sata1": waits} })
	inWorld(w, func(all *state.World) {
		all.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: theVM,
			Format: "raw", Size: 1 << 30})
		runs(all, 8000, 100)
	})
	root := w.asRoot(t)
	return func() { w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi6": waits})) }
}

// TestNoRestartOntoATakenDisk: a disk of the VM waits for its restart, and VM 8000 runs with it by then. PVE would start
// the guest beside that one, so it is not restarted, and runs on.
func TestNoRestartOntoATakenDisk(t *testing.T) {
	for name, given := range map[string]func(w *world, give func()){
		"before the update": func(_ *world, give func()) { give() },
		"during a lock": func(w *world, give func()) {
			w.lock(http.MethodPost, "/nodes/{node}/qemu/{vmid}/status/reboot", nil)
			w.answered = onceSent(w, "/status/reboot", give)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"cores": "1", "scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
			w.start()
			w.sim.Advance(time.Hour)
			give := awaitsADisk(t, w)
			w.sim.Advance(time.Minute) // the listing shows late that VM 8000 runs
			r := w.request()
			r.Planned.CPU.Cores = new(int64(2))
			given(w, give)
			before := w.running()
			_, _, err := w.update(r)
			w.answered = nil
			if now := w.running(); now != before || !strings.Contains(fmt.Sprint(err), "VM 400 was changed, but not restarted") ||
				!strings.Contains(fmt.Sprint(err), "VM 8000") || !strings.Contains(fmt.Sprint(err), "`qm reboot 400` on node pve1") {
				t.Errorf("%v, it runs %+v after %v", err, now, w.writes())
			}
		})
	}
}

// TestNoCutOffWithATakenDisk: a disk of the VM waits for its restart, and while the guest does not hear that, VM 8000
// gets the disk and runs with it. The guest could not be started again, so it is not cut off. It was asked to shut down
// and may still obey, and the error says so.
func TestNoCutOffWithATakenDisk(t *testing.T) {
	t.Parallel()
	w, r := sharing(t, RestartForcibly)
	w.when(time.Minute, awaitsADisk(t, w))
	before := w.running()
	_, _, err := w.update(r)
	if now := w.running(); now != before || w.sent("/status/stop") > 0 ||
		!strings.Contains(fmt.Sprint(err), "VM 400 was not cut off") || !strings.Contains(fmt.Sprint(err), "VM 8000") ||
		!strings.Contains(fmt.Sprint(err), "may go off later, and then stays off until it is started") {
		t.Errorf("%v, it runs %+v after %v", err, now, w.writes())
	}
}

// TestLateStartWithTheDisksOfThatMoment: the guest does not hear its restart, and goes off late. While that is awaited, a
// disk with which VM 8000 runs comes to the VM by mistake, or one of the VM's is handed over to VM 8000. The start
// goes by the disks that the VM has by then.
func TestLateStartWithTheDisksOfThatMoment(t *testing.T) {
	for name, starts := range map[string]bool{"a disk of VM 8000 comes": false, "a disk leaves for VM 8000": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := sharing(t, RestartGracefully)
			inWorld(w, func(all *state.World) { delete(all.Guests[8000].Config, "scsi5") })
			root := w.asRoot(t)
			w.when(200*time.Second, func() {
				if !starts {
					w.alter(func(g *state.Guest) { g.Pending = map[string]string{"sata1": "local-lvm:vm-8000-disk-0"} })
					return
				}
				given := pve.Params{"scsi5": w.config()["scsi1"]}
				w.alter(func(g *state.Guest) { delete(g.Config, "scsi1") })
				w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), given))
			})
			w.when(260*time.Second, func() { w.sim.EndGuest(theVM) })
			_, _, err := w.update(r)
			now := w.running()
			if (now != nil) != starts || (err == nil) != starts || !starts && !strings.Contains(err.Error(), "VM 8000") {
				t.Errorf("%v, it runs %+v after %v", err, now, w.writes())
			}
		})
	}
}

// TestNoStartBesideAGuestThatMendsIt: the hard stop of a guest waits for a lock. Meanwhile an administrator stops the
// guest and gives its disk to VM 8000, which has run for an hour. The guest is not started beside that one.
func TestNoStartBesideAGuestThatMendsIt(t *testing.T) {
	t.Parallel()
	w, r := sharing(t, RestartForcibly)
	root := w.asRoot(t)
	w.lock(http.MethodPost, "/nodes/{node}/qemu/{vmid}/status/stop", nil)
	w.answered = onceSent(w, "/status/stop", func() {
		w.sim.EndGuest(theVM)
		w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi6": w.config()["scsi0"]}))
	})
	_, _, err := w.update(r)
	w.answered = nil
	if now := w.running(); now != nil || !strings.Contains(fmt.Sprint(err), "VM 8000") {
		t.Errorf("%v, it runs %+v after %v", err, now, w.writes())
	}
}

// TestDeviceOfTwoGuests: VM 8000 runs with a device of the node that VM 400 has, too. Whether they share it, as two nodes
// of a cluster share a LUN, or VM 8000 has just got it, cannot be told: VM 400 is started beside it by hand only, and the
// next apply goes on from there.
func TestDeviceOfTwoGuests(t *testing.T) {
	for path, plan := range map[string]func(*Request){
		"/nodes/{node}/qemu/{vmid}/status/start": func(r *Request) { r.PowerState = guest.Running },
		"/cluster/ha/resources":                  func(r *Request) { r.HA = &guest.HA{} },
	} {
		for _, when := range []string{"before the plan", "since the plan", "during a lock"} {
			t.Run(path+", "+when, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
				root := w.asRoot(t)
				w.must(root.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"scsi1": passed}))
				inWorld(w, func(all *state.World) { runs(all, 8000, 99) })
				w.sim.Advance(time.Minute) // the listing shows it late
				give := func() { w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi1": passed})) }
				if when == "before the plan" {
					give()
				}
				r := w.request()
				switch plan(&r); when {
				case "since the plan":
					give()
				case "during a lock":
					w.lock(http.MethodPost, path, nil)
					w.answered = onceSent(w, path, give)
				}
				_, _, err := w.update(r)
				w.answered = nil
				isInHA := func() (is bool) {
					inWorld(w, func(all *state.World) { is = all.HA["vm:400"] != nil })
					return is
				}
				if w.running() != nil || isInHA() || !strings.Contains(fmt.Sprint(err), "VM 8000") ||
					!strings.Contains(detailOf(err), "`qm start 400` on node pve1") {
					t.Errorf("%v: %s, after %v", err, detailOf(err), w.writes())
				}
				w.sim.SetFaults(nil)
				w.start()
				r = w.request()
				plan(&r)
				if _, _, err := w.update(r); err != nil || w.running() == nil || isInHA() != (r.HA != nil) {
					t.Errorf("after a start by hand: %v, after %v", err, w.writes())
				}
			})
		}
	}
}

// TestRestartBesideAGuestWithItsDevice: a guest that has run beside another one with the same device of the node starts
// again after its restart, when it is cut off and when it obeys late.
func TestRestartBesideAGuestWithItsDevice(t *testing.T) {
	for _, restart := range []Restart{RestartForcibly, RestartGracefully} {
		t.Run(fmt.Sprint(restart), func(t *testing.T) {
			t.Parallel()
			w, r := sharing(t, restart)
			w.alter(func(g *state.Guest) { g.Config["scsi1"] = passed })
			inWorld(w, func(all *state.World) { all.Guests[8000].Config["scsi5"] = passed })
			r.Prior, r.Planned = w.request().Prior, w.request().Planned
			r.Planned.CPU.Cores = new(int64(2))
			if restart == RestartGracefully {
				w.when(260*time.Second, func() { w.sim.EndGuest(theVM) })
			}
			before := w.running()
			if _, _, err := w.update(r); err != nil || w.running() == nil || w.running() == before {
				t.Errorf("%v, it runs %+v after %v", err, w.running(), w.writes())
			}
		})
	}
}

// TestDeviceOfTheNodeThatTheVMGoesTo: a VM with a device moves to another node and is started there, where a guest runs
// with the device of that path.
func TestDeviceOfTheNodeThatTheVMGoesTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pve.Params{"scsi0": "shared-nfs:1", "scsihw": "virtio-scsi-pci"})
	root := w.asRoot(t)
	w.must(root.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"scsi1": passed + ",shared=1"}))
	inWorld(w, func(all *state.World) {
		all.Nodes["pve2"].WriteFile(passed, "another disk")
		all.Put(&state.Volume{Storage: "local-lvm", Node: "pve2", Name: "vm-8000-disk-0", Content: "images", VMID: 8000,
			Format: "raw", Size: 4 << 30})
		all.Guests[8000].Node, all.Guests[8000].Config["scsi1"] = "pve2", passed
		runs(all, 8000, 99)
	})
	w.sim.Advance(time.Minute)
	r := w.request()
	r.Node, r.PowerState = "pve2", guest.Running
	_, _, err := w.update(r)
	if w.sent("/migrate") != 1 || w.sent("/status/start") > 0 || !strings.Contains(fmt.Sprint(err), "VM 8000") ||
		!strings.Contains(detailOf(err), "`qm start 400` on node pve2") {
		t.Errorf("%v: %s, after %v", err, detailOf(err), w.writes())
	}
}
