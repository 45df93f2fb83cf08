package update

import (
	"errors"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestMigrationLeavesOthersOnTheirStorage: a planned disk goes to another storage with the node. One beside it that the
// state does not know stays on its storage where the node has that; else it goes along, and a warning says where to.
func TestMigrationLeavesOthersOnTheirStorage(t *testing.T) {
	for name, tt := range map[string]struct {
		power  string
		lacks  bool // the node lacks the storage
		others string
	}{
		"stopped": {others: "local-zfs"}, "running": {power: "running", others: "local-zfs"},
		"without the storage": {lacks: true, others: "local-lvm"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			if tt.power != "" {
				w.start()
			}
			r := w.request()
			d := r.Prior.Disks["scsi0"]
			r.Prior.Disks = map[string]vm.Disk{"scsi0": d}
			d.Storage = "local-lvm"
			r.Planned.Disks, r.Node = map[string]vm.Disk{"scsi0": d}, "pve2"
			if tt.lacks {
				inWorld(w, func(all *state.World) { all.Storages["local-zfs"].Nodes = []string{"pve1"} })
			}
			_, warnings, err := w.update(r)
			w.must(err)
			c, err := w.api.QEMU("pve2", theVM).Config(t.Context())
			w.must(err)
			if !strings.HasPrefix(c.Values["scsi0"], "local-lvm:") || !strings.HasPrefix(c.Values["scsi1"], tt.others+":") {
				t.Errorf("scsi0 is %s, scsi1 is %s", c.Values["scsi0"], c.Values["scsi1"])
			}
			if said := strings.Contains(text(warnings), "scsi1 from storage local-zfs to local-lvm"); said != tt.lacks {
				t.Errorf("warned %v", warnings)
			}
		})
	}
}

// TestMigrationBesideAVolumeByItsName: the plan did not know that the VM goes to another node, or which volume comes
// into the slot. A local volume may have another name there, so nothing is sent; a shared one keeps its name.
func TestMigrationBesideAVolumeByItsName(t *testing.T) {
	for name, c := range map[string]struct {
		storage, power string
		detached       bool
		refused        bool
	}{
		"running": {"local-zfs", "running", false, true}, "stopped": {"local-zfs", "", false, true},
		"detached": {"local-zfs", "", true, true}, "goes off first": {"local-zfs", "stopped", false, true},
		"shared": {"shared-nfs", "", false, false}, "shared, detached": {"shared-nfs", "", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": c.storage + ":2", "scsi2": "local-zfs:2",
				"scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			volume := guest.VolumeOf(w.config()["scsi1"])
			if c.detached {
				w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"delete": "scsi1"}))
			}
			if c.power != "" {
				w.start()
			}
			r := w.request()
			if r.Node = "pve2"; c.power == "stopped" {
				r.PowerState = guest.Stopped
			}
			r.Detached = []string{volume}
			delete(r.Planned.Disks, "scsi1")
			r.Planned.Disks["scsi5"] = vm.Disk{Storage: c.storage, Volume: volume}
			_, _, err := w.update(r)
			var field *guest.FieldError
			refused := errors.As(err, &field) && field.Path == "disks.scsi5.imported_disk.volume" &&
				strings.Contains(field.Detail, "first change the node alone")
			if refused != c.refused || refused && len(w.writes()) > 0 || !refused && err != nil {
				t.Errorf("%v after %v", err, w.writes())
			}
			if c.refused {
				return
			}
			there, err := w.api.QEMU("pve2", theVM).Config(t.Context())
			w.must(err)
			if guest.VolumeOf(there.Values["scsi5"]) != volume {
				t.Errorf("scsi5 is %q, not %s", there.Values["scsi5"], volume)
			}
		})
	}
}

// TestCopyBesideAChangeOfItsOriginal: a new disk is a copy of one of the VM's own, which the same change moves, destroys
// or takes to another node. The copy may be of the disk that has the name by then, or be taken back with the original
// gone, so nothing is sent, though the plan did not know it.
func TestCopyBesideAChangeOfItsOriginal(t *testing.T) {
	moves := func(r *Request) {
		with(r, "scsi1", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
		with(r, "scsi2", func(d *vm.Disk) { d.Storage, d.Volume = "local-zfs", "" })
	}
	leaves := func(r *Request) { delete(r.Planned.Disks, "scsi1") }
	goes := func(r *Request) { r.Node = "pve2"; leaves(r) }
	for name, c := range map[string]struct {
		alter           func(*Request)
		storage, source string
		destroys        bool
		power           string
		says            string // "": the copy is made
	}{
		"moves":                {moves, "local-zfs", "scsi1", false, "", "That disk moves first"},
		"another one moves":    {moves, "local-zfs", "scsi0", false, "", ""},
		"is destroyed":         {leaves, "local-zfs", "scsi1", true, "running", "neither is left"},
		"is detached":          {leaves, "local-zfs", "scsi1", false, "running", ""},
		"another one goes":     {leaves, "local-zfs", "scsi0", true, "running", ""},
		"migrates, runs":       {goes, "local-zfs", "scsi1", false, "running", "first change the node alone"},
		"migrates, stopped":    {goes, "local-zfs", "scsi1", false, "", "first change the node alone"},
		"shared, and migrates": {goes, "shared-nfs", "scsi1", false, "running", ""},
		"shared, goes with it": {goes, "shared-nfs", "scsi1", true, "running", "neither is left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": c.storage + ":2", "scsi2": "local-lvm:2",
				"scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			inWorld(w, func(all *state.World) {
				for _, slot := range []string{"scsi0", "scsi1", "scsi2"} {
					all.Volume("pve1", guest.VolumeOf(all.Guests[theVM].Config[slot])).Data = slot
				}
			})
			if c.power != "" {
				w.start()
			}
			r := w.request()
			r.DestroyRemoved = c.destroys
			source := r.Prior.Disks[c.source].Volume
			c.alter(&r)
			r.Planned.Disks["scsi5"] = vm.Disk{Storage: "local-lvm", ImportFrom: &source}
			_, _, err := w.update(r)
			var field *guest.FieldError
			refused := errors.As(err, &field) && field.Path == "disks.scsi5.import_from" && c.says != "" &&
				strings.Contains(field.Detail, c.says)
			if refused != (c.says != "") || refused && len(w.writes()) > 0 || !refused && err != nil {
				t.Fatalf("%v after %v", err, w.writes())
			}
			inWorld(w, func(all *state.World) {
				g := all.Guests[theVM]
				if v := all.Volume(g.Node, guest.VolumeOf(g.Config["scsi5"])); !refused && (v == nil || v.Data != c.source) {
					t.Errorf("scsi5 is no copy of %s: %+v", c.source, v)
				}
			})
		})
	}
}

// TestWantedAgainBesideAMigration: the removal of a disk waits for the stop of its guest. The disk is wanted again in an
// apply that takes the guest to another node, where PVE gives it another name. It stays, whether it was the VM's in state
// or is one that the plan takes over.
func TestWantedAgainBesideAMigration(t *testing.T) {
	for name, note := range map[string]func(n *Notes, volume string){
		"ours":       func(n *Notes, volume string) { n.Detached = []string{volume} },
		"taken over": func(n *Notes, volume string) { n.Others = map[string]string{"sata1": volume} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"sata1": "local-zfs:2"}))
			volume := guest.VolumeOf(w.config()["sata1"])
			w.start()
			r := w.request()
			inWorld(w, func(all *state.World) {
				all.Volume("pve1", volume).Data = "theirs or ours"
				all.Guests[theVM].Deletes = map[string]int{"sata1": 1}
			})
			note(&r.Notes, volume)
			r.Sizes, r.Node, r.Restart = map[string]int64{volume: 2 << 30}, "pve2", RestartNever
			delete(r.Prior.Disks, "sata1")
			with(&r, "sata1", func(d *vm.Disk) { d.Volume = "" })
			_, _, err := w.update(r)
			w.must(err)
			inWorld(w, func(all *state.World) {
				g := all.Guests[theVM]
				is := guest.VolumeOf(g.Config["sata1"])
				if v := all.Volume("pve2", is); v == nil || v.Data == "" || len(g.Deletes)+len(g.Pending) > 0 || is == volume {
					t.Errorf("sata1 has %s (%+v), and %v and %v wait", is, v, g.Pending, g.Deletes)
				}
			})
		})
	}
}
