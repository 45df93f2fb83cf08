package update

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const theirs = "local-zfs:vm-400-disk-7"

// swap has a third party put a disk into a slot, and leave the one that was there with the VM.
func swap(slot, size string) func(*state.World, *state.Guest) {
	return func(all *state.World, g *state.Guest) {
		bytes := int64(1 << 30)
		if size == "5G" {
			bytes *= 5
		}
		all.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: "vm-400-disk-7", Content: "images", VMID: theVM,
			Format: "raw", Size: bytes, Data: "theirs"})
		g.Config["unused0"], g.Config[slot] = guest.VolumeOf(g.Config[slot]), theirs+",size="+size
	}
}

// rewrite has a third party set an option.
func rewrite(option, value string) func(*state.World, *state.Guest) {
	return func(_ *state.World, g *state.Guest) { g.Config[option] = value }
}

// waits are the ways in which an update waits before it changes anything. Each calls act once meanwhile.
func waits() map[string]func(t *testing.T, w *world, r *Request, act func()) {
	during := func(w *world, request string, act func()) {
		did := false
		w.answered = func() {
			if !did && slices.Contains(w.writes(), request) {
				did = true
				act()
			}
		}
	}
	const shutdown = "POST /nodes/{node}/qemu/{vmid}/status/shutdown"
	return map[string]func(t *testing.T, w *world, r *Request, act func()){
		"for its turn to shut down": func(t *testing.T, w *world, r *Request, act func()) {
			t.Helper()
			w.start()
			r.PowerState, r.Ref.Status = guest.Stopped, string(guest.Running)
			w.changer.LimitRestarts(1)
			other, err := w.changer.turns.take(t.Context(), 999)
			w.must(err)
			go func() {
				synctest.Wait()
				act()
				other.leave(t.Context())
			}()
		},
		"for the shutdown": func(_ *testing.T, w *world, r *Request, act func()) {
			w.start()
			r.PowerState, r.Ref.Status = guest.Stopped, string(guest.Running)
			during(w, shutdown, act)
		},
		"for the shutdown, with an option that waits": func(_ *testing.T, w *world, r *Request, act func()) {
			w.start()
			w.alter(func(g *state.Guest) { g.Pending = map[string]string{"memory": "1024"} })
			r.PowerState, r.Ref.Status = guest.Stopped, string(guest.Running)
			during(w, shutdown, act)
		},
		"for HA": func(_ *testing.T, w *world, r *Request, act func()) {
			inWorld(w, func(all *state.World) {
				all.HA = map[string]*state.HAResource{"vm:400": {SID: "vm:400", State: "stopped"}}
				for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
					all.ACL = append(all.ACL, state.ACLEntry{Path: "/", Role: "Administrator", Subject: who, Propagate: true})
				}
			})
			r.PriorHA, r.Ref.HA = &guest.HA{State: new("stopped")}, true
			during(w, "DELETE /cluster/ha/resources/{sid}", act)
		},
	}
}

// TestUpdateThatWaited: an update waits, and a third party changes the VM meanwhile. The update changes it as it is by
// then: it keeps their values, and does to no disk of theirs what was planned for another one.
func TestUpdateThatWaited(t *testing.T) {
	const net0 = "virtio=BC:24:11:00:00:01,bridge=vmbr0"
	disk := func(slot string, alter func(*vm.Disk)) func(*Request) {
		return func(r *Request) { with(r, slot, alter) }
	}
	bridge := func(r *Request) {
		nic := r.Planned.Networks["net0"]
		nic.Bridge = new("vmbr1")
		r.Planned.Networks = map[string]vm.NIC{"net0": nic}
	}
	remove := func(r *Request) {
		r.DestroyRemoved = true
		r.Planned.Disks = maps.Clone(r.Planned.Disks)
		delete(r.Planned.Disks, "scsi1")
	}
	for name, c := range map[string]struct {
		plan  func(*Request)
		act   func(*state.World, *state.Guest)
		holds string // the option that the third party wants
		value string
	}{
		"a VLAN":          {bridge, rewrite("net0", net0+",tag=77"), "net0", "virtio=BC:24:11:00:00:01,bridge=vmbr1,tag=77"},
		"disk options":    {disk("scsi0", func(d *vm.Disk) { d.SSD = new(true) }), swap("scsi0", "1G"), "scsi0", theirs + ",size=1G"},
		"a larger disk":   {disk("scsi0", func(d *vm.Disk) { d.Size = new(int64(6 << 30)) }), swap("scsi0", "1G"), "scsi0", theirs + ",size=1G"},
		"another storage": {disk("scsi0", func(d *vm.Disk) { d.Storage = "local-lvm" }), swap("scsi0", "1G"), "scsi0", theirs + ",size=1G"},
		"no disk":         {remove, rewrite("scsi1", "local-zfs:vm-400-disk-1,size=50G"), "scsi1", "local-zfs:vm-400-disk-1,size=50G"},
		"a boot order": {func(r *Request) {
			r.BootOrder, r.Planned.CDROMs = []string{"scsi0"}, map[string]vm.CDROM{"ide0": {File: "local:iso/debian.iso"}}
		}, rewrite("boot", "order=net0;scsi0"), "boot", "order=net0;scsi0"},
		"another node, and no disk": {func(r *Request) { remove(r); r.Node = "pve2" }, swap("scsi1", "1G"), "unused", theirs},
	} {
		for how, wait := range waits() {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, pve.Params{"net0": net0, "scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "boot": "order=scsi0",
						"scsihw": "virtio-scsi-pci"})
					r := w.request()
					c.plan(&r)
					did := false
					wait(t, w, &r, func() {
						did = true
						inWorld(w, func(all *state.World) { c.act(all, all.Guests[theVM]) })
					})
					_, _, err := w.update(r)
					w.answered = nil
					var is map[string]string
					inWorld(w, func(all *state.World) { is = maps.Clone(all.Guests[theVM].Config) })
					kept := is[c.holds] == c.value
					if c.holds == "unused" {
						kept = slices.Contains(w.everyVolume(), c.value)
					}
					if !did || !kept {
						t.Errorf("acted %t, and %s is %q\n%v\n%v: %v", did, c.holds, is[c.holds], is, strings.Join(w.writes(), "\n"), err)
					}
				})
			})
		}
	}
}

// TestMoveThatWaitedForARestart: a disk moves after the restart that puts its new aio in force, and the restart waits for
// its turn. A third party's disk that is in the slot by then is not moved.
func TestMoveThatWaitedForARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
		w.start()
		r := w.request()
		r.PowerState = guest.Running
		with(&r, "scsi0", func(d *vm.Disk) { d.AIO, d.Storage = new("native"), "local-lvm" })
		w.changer.LimitRestarts(1)
		other, err := w.changer.turns.take(t.Context(), 999)
		w.must(err)
		go func() {
			synctest.Wait()
			inWorld(w, func(all *state.World) {
				g := all.Guests[theVM]
				swap("scsi0", "1G")(all, g)
				g.Pending = nil
			})
			other.leave(t.Context())
		}()
		_, _, err = w.update(r)
		if err == nil || !strings.Contains(err.Error(), "scsi0 of VM 400 has another disk than before its restart") {
			t.Errorf("the update says %v", err)
		}
		if is := guest.VolumeOf(w.config()["scsi0"]); is != theirs {
			t.Errorf("scsi0 is %s after %v", is, w.writes())
		}
	})
}

// TestMigrationBesideAThirdParty: a third party exchanges a disk that leaves the configuration, after any answer that a
// migration gets. The disk of theirs, of another size, is not destroyed in its place.
func TestMigrationBesideAThirdParty(t *testing.T) {
	swaps := 0
	for n, more := 1, true; more; n++ {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci",
			"boot": "order=scsi0"})
		r := w.request()
		r.DestroyRemoved, r.Node = true, "pve2"
		r.Planned.Disks = map[string]vm.Disk{"scsi0": r.Planned.Disks["scsi0"]}
		answers, swapped := 0, false
		w.answered = func() {
			if answers++; answers != n {
				return
			}
			inWorld(w, func(all *state.World) {
				if g := all.Guests[theVM]; g.Config["lock"] == "" && g.Config["scsi1"] != "" {
					swap("scsi1", "5G")(all, g)
					swapped = true
				}
			})
		}
		_, _, err := w.update(r)
		w.answered = nil
		if more = answers >= n; swapped {
			swaps++
			if !slices.Contains(w.everyVolume(), theirs) {
				t.Errorf("after answer %d their disk is destroyed: %v\n%v", n, err, w.writes())
			}
		}
	}
	if swaps < 5 {
		t.Errorf("%d swaps are no sweep", swaps)
	}
}

// TestRefusedChangeDestroysNothing: PVE refuses a change by its digest, which has emptied no slot. A third party has
// detached the disk that was to go; it stays.
func TestRefusedChangeDestroysNothing(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
	r := w.request()
	r.DestroyRemoved = true
	r.Planned.Disks = map[string]vm.Disk{"scsi1": r.Planned.Disks["scsi1"]}
	w.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Detach, VMID: theVM,
		Before: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config"}}})
	_, _, err := w.update(r)
	if err == nil || !slices.Contains(w.everyVolume(), r.Prior.Disks["scsi0"].Volume) {
		t.Errorf("the disk that a third party has detached is destroyed: %v after %v", err, w.writes())
	}
}

// TestSlotFilledDuringAWait: a third party fills the slot of a new disk while the guest is shut down. The update is
// refused as one that has not reached its options: the state gets no such disk.
func TestSlotFilledDuringAWait(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
	r := w.request()
	with(&r, "scsi1", func(d *vm.Disk) { *d = vm.Disk{Storage: "local-zfs", Size: new(int64(1 << 30))} })
	waits()["for the shutdown"](t, w, &r, func() {
		inWorld(w, func(all *state.World) { swap("scsi1", "1G")(all, all.Guests[theVM]) })
	})
	_, _, err := w.update(r)
	w.answered = nil
	var unfinished *UnfinishedError
	if err == nil || !strings.Contains(err.Error(), "scsi1 of VM 400 has changed since the plan") ||
		!errors.As(err, &unfinished) || unfinished.Options {
		t.Errorf("the update says %v", err)
	}
	if is := guest.VolumeOf(w.config()["scsi1"]); is != theirs {
		t.Errorf("scsi1 is %s after %v", is, w.writes())
	}
}

// TestLeftoverThatIsCompletedDuringAWait: the update is of an untainted VM, whose create has failed. While it waits
// another create completes the VM, and takes the mark away. Then it changes nothing of the VM.
func TestLeftoverThatIsCompletedDuringAWait(t *testing.T) {
	for how, wait := range waits() {
		for _, completed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, completed %t", how, completed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, pve.Params{"cores": "1"})
					mark := w.changer.guests.NewMark("pve1,pve2", theVM)
					w.alter(func(g *state.Guest) { g.Config["description"] = mark.String() })
					r := w.request()
					r.Planned.CPU.Cores, r.Planned.Description = new(int64(2)), new("")
					r.Leftover = &guest.Proof{VMID: theVM, Cluster: "pve1,pve2", Saga: mark.Saga, Identity: r.Ref.Identity}
					wait(t, w, &r, func() {
						inWorld(w, func(all *state.World) {
							if all.Guests[theVM].Config["tags"] = "a"; completed {
								delete(all.Guests[theVM].Config, "description")
							}
						})
					})
					_, _, err := w.update(r)
					w.answered = nil
					var unfinished *UnfinishedError
					refused := err != nil && strings.Contains(err.Error(), "VM 400 has changed since the plan") &&
						errors.As(err, &unfinished) && !unfinished.Options
					if refused != completed || (w.config()["cores"] == "1") != completed {
						t.Errorf("the update says %v; the VM is %v", err, w.config())
					}
				})
			})
		}
	}
}

// TestRemovalThatStillHolds: a change that sets nothing holds while its option is as it was, and no longer.
func TestRemovalThatStillHolds(t *testing.T) {
	const net1 = "virtio=BC:24:11:00:00:01,bridge=vmbr0"
	for name, c := range map[string]struct {
		option, value string
		holds         bool
	}{"another option changed": {"cores", "2", true}, "its option changed": {"net1", net1 + ",tag=77", false}} {
		w := newWorld(t, pve.Params{"net1": net1})
		read := func() pve.PendingConfig {
			config, err := w.api.QEMU("pve1", theVM).Pending(t.Context())
			w.must(err)
			return config
		}
		work := todo{read: read(), change: vm.Change{Delete: []string{"net1"}}}
		w.alter(func(g *state.Guest) { g.Config[c.option] = c.value })
		if err := work.stillHolds(theVM, read()); (err == nil) != c.holds {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRemovalByHandDuringAWait: a third party has a disk destroyed at the stop of the guest, while a shutdown waits for
// its turn. The plan keeps its data: on another storage, or detached.
func TestRemovalByHandDuringAWait(t *testing.T) {
	for name, plan := range map[string]func(*Request){
		"moved":    func(r *Request) { with(r, "scsi1", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" }) },
		"detached": func(r *Request) { r.Planned.Disks = map[string]vm.Disk{"scsi0": r.Planned.Disks["scsi0"]} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
				r := w.request()
				plan(&r)
				waits()["for its turn to shut down"](t, w, &r, func() {
					w.alter(func(g *state.Guest) { g.Deletes = map[string]int{"scsi1": 2} })
				})
				_, _, err := w.update(r)
				if err == nil || !strings.Contains(err.Error(), "scsi1 of VM 400 would lose its disk") ||
					!slices.Contains(w.everyVolume(), r.Prior.Disks["scsi1"].Volume) {
					t.Errorf("%v; there is %v after %v", err, w.everyVolume(), w.writes())
				}
			})
		})
	}
}
