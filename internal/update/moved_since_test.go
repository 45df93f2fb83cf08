package update

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestSwapAtTheEndOfAMove: the plan moves a disk, grows it and gives it another option, at once or after a restart. An
// administrator's request to put another disk into the slot waits for PVE's lock, and gets it when the move ends. His
// disk is neither grown nor changed. One that he only detaches from another slot meanwhile is no reason to refuse.
func TestSwapAtTheEndOfAMove(t *testing.T) {
	for name, c := range map[string]struct {
		late, swap bool
	}{"at once": {false, true}, "after a restart": {true, true}, "another slot": {false, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-lvm:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			if c.late {
				w.start()
			}
			r := w.request()
			r.Planned.Disks = map[string]vm.Disk{"scsi0": r.Prior.Disks["scsi0"]}
			r.Prior.Disks = map[string]vm.Disk{"scsi0": r.Prior.Disks["scsi0"]}
			with(&r, "scsi0", func(d *vm.Disk) {
				d.Storage, d.Volume, d.Size = "local-lvm", "", new(int64(5<<30))
				if d.SSD = new(true); c.late {
					d.AIO = new("native")
				}
			})
			const his = "local-lvm:vm-400-disk-7,size=1G"
			did := false
			w.answered = func() {
				if did || w.sent("move_disk") == 0 {
					return
				}
				inWorld(w, func(all *state.World) {
					g := all.Guests[theVM]
					if did = strings.HasPrefix(g.Config["scsi0"], "local-lvm:"); !did { // the move is at work still
						return
					}
					if !c.swap {
						g.Config["unused0"] = guest.VolumeOf(g.Config["scsi1"])
						delete(g.Config, "scsi1")
						return
					}
					all.Put(&state.Volume{Storage: "local-lvm", Node: g.Node, Name: "vm-400-disk-7", Content: "images", VMID: theVM,
						Format: "raw", Size: 1 << 30, Data: "theirs"})
					g.Config["unused0"], g.Config["scsi0"] = guest.VolumeOf(g.Config["scsi0"]), his
				})
			}
			_, _, err := w.update(r)
			w.answered = nil
			is := ""
			inWorld(w, func(all *state.World) { is = all.Guests[theVM].Config["scsi0"] })
			refused := err != nil && strings.Contains(err.Error(), "scsi0 of VM 400 has another disk than the one that was moved")
			if !did || refused != c.swap || c.swap != (is == his) || err != nil && !refused {
				t.Errorf("scsi0 is %s after %v: %v", is, w.writes(), err)
			}
		})
	}
}

// TestSwapBesideAnOptionThatWaits: an option of a disk waits for a restart, and the disk moves. After any answer a third
// party puts a disk of theirs into the slot, from the storage of the move or another: the option does not wait for that.
func TestSwapBesideAnOptionThatWaits(t *testing.T) {
	for _, storage := range []string{"local-zfs", "local-lvm"} {
		for at := 1; at < 6; at++ {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:2", "scsihw": "virtio-scsi-pci",
				"boot": "order=scsi0"})
			w.start()
			w.alter(func(g *state.Guest) { g.Pending = map[string]string{"scsi1": g.Config["scsi1"] + ",ro=1"} })
			r := w.request()
			with(&r, "scsi1", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
			answers, waits, his := 0, "", storage+":vm-400-disk-7"
			w.answered = func() {
				inWorld(w, func(all *state.World) {
					g := all.Guests[theVM]
					if answers >= at || !strings.HasPrefix(g.Config["scsi1"], "local-lvm:") {
						return
					}
					if answers++; answers == at {
						all.Put(&state.Volume{Storage: storage, Node: g.Node, Name: "vm-400-disk-7", Content: "images", VMID: theVM,
							Format: "raw", Size: 2 << 30})
						g.Config["unused0"], g.Config["scsi1"] = guest.VolumeOf(g.Config["scsi1"]), his+",size=2G"
						waits = g.Pending["scsi1"]
					}
				})
			}
			_, _, err := w.update(r)
			w.answered = nil
			next := ""
			w.alter(func(g *state.Guest) { next = g.Pending["scsi1"] })
			if guest.VolumeOf(next) == his && next != waits {
				t.Errorf("answer %d: %s waits for theirs, after %v: %v", at, next, w.writes(), err)
			}
		}
	}
}

// TestRescanBesideAMove: an option of a disk waits for a restart, and the disk moves. After any answer a loose volume of
// the VM on the target is noted as unused, as `qm disk rescan` does. The option waits on for the disk. Where the log of
// the move does not tell which of the two it has made, the error says so, and a warning has the option.
func TestRescanBesideAMove(t *testing.T) {
	open := 0
	for target, source := range map[string]string{"local-lvm": "local-zfs", "local-zfs": "local-lvm"} {
		for at := 1; at < 6; at++ {
			w := newWorld(t, pve.Params{"scsi0": source + ":1", "scsi1": source + ":2", "scsihw": "virtio-scsi-pci",
				"boot": "order=scsi0"})
			loose := target + ":vm-400-disk-7"
			inWorld(w, func(all *state.World) {
				all.Put(&state.Volume{Storage: target, Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: theVM,
					Format: "raw", Size: 1 << 30})
			})
			w.start()
			w.alter(func(g *state.Guest) { g.Pending = map[string]string{"scsi1": g.Config["scsi1"] + ",ro=1"} })
			r := w.request()
			with(&r, "scsi1", func(d *vm.Disk) { d.Storage, d.Volume = target, "" })
			answers := 0
			w.answered = func() {
				w.alter(func(g *state.Guest) {
					if answers >= at || !strings.HasPrefix(g.Config["scsi1"], target+":") {
						return
					}
					if answers++; answers == at {
						g.Config["unused0"] = loose
					}
				})
			}
			_, warnings, err := w.update(r)
			w.answered = nil
			next, is := "", ""
			w.alter(func(g *state.Guest) { next, is = g.Pending["scsi1"], guest.VolumeOf(g.Config["scsi1"]) })
			waits := guest.VolumeOf(next) == is && strings.Contains(next, "ro=1")
			isOpen := err != nil && strings.Contains(err.Error(), "scsi1 of VM 400 may have another disk") &&
				strings.Contains(text(warnings), ",ro=1")
			if waits != (err == nil) || isOpen != (err != nil) || isOpen && target == "local-lvm" || answers < at {
				t.Errorf("%s, answer %d: %s waits for %s, after %v: %v %s", target, at, next, is, w.writes(), err, text(warnings))
			}
			if isOpen {
				open++
			}
		}
	}
	if open == 0 || open == 5 { // it is only before the first look after the move
		t.Errorf("%d times it was open", open)
	}
}
