package update

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// must ends the test if a third party's change fails.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestSlotThatChangedSinceThePlan: a third party has put another disk into a slot since the plan was made, or emptied
// it. An update that would bring the old disk back, or do to the new one what was planned for the old, is refused.
func TestSlotThatChangedSinceThePlan(t *testing.T) {
	set := func(params pve.Params) func(*world) {
		return func(w *world) { w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), params)) }
	}
	discard := func(r *Request) { with(r, "scsi0", func(d *vm.Disk) { d.Discard = new(true) }) }
	first, second := "local-zfs:vm-400-disk-0", "local-zfs:vm-400-disk-1"
	for name, c := range map[string]struct {
		acts    []func(*world)
		change  func(*Request)
		refused bool
	}{
		"moved": {[]func(*world){func(w *world) {
			w.task(w.api.QEMU("pve1", theVM).MoveDiskAndFree(t.Context(), pve.Params{"disk": "scsi0",
				"storage": "local-lvm"}))
		}}, discard, true},
		"in another slot by now": {[]func(*world){set(pve.Params{"delete": "scsi0"}), set(pve.Params{"scsi5": first})},
			discard, true},
		"detached": {[]func(*world){set(pve.Params{"delete": "scsi0"})}, discard, true},
		"changed places": {[]func(*world){set(pve.Params{"delete": "scsi0,scsi1"}),
			set(pve.Params{"scsi0": second, "scsi1": first})}, discard, true},
		"grown": {[]func(*world){set(pve.Params{"delete": "scsi0,scsi1"}),
			set(pve.Params{"scsi0": second, "scsi1": first})},
			func(r *Request) { with(r, "scsi0", func(d *vm.Disk) { d.Size = new(int64(3 << 30)) }) }, true},
		"moved by the plan": {[]func(*world){set(pve.Params{"delete": "scsi0,scsi1"}),
			set(pve.Params{"scsi0": second, "scsi1": first})},
			func(r *Request) { with(r, "scsi0", func(d *vm.Disk) { d.Storage = "local-lvm" }) }, true},
		"not concerned": {[]func(*world){set(pve.Params{"delete": "scsi0"})},
			func(r *Request) { r.Planned.Name = new("renamed") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
			r := w.request()
			c.change(&r)
			for _, act := range c.acts {
				act(w)
			}
			before := w.config()
			w.sim.ResetOps()
			_, _, err := w.update(r)
			var field *guest.FieldError
			refused := errors.As(err, &field) && field.Path == "disks.scsi0" && strings.Contains(err.Error(), first)
			if refused != c.refused || !c.refused && err != nil {
				t.Errorf("got %v", err)
			}
			if after := w.config(); c.refused && (!maps.Equal(before, after) || len(w.writes()) > 0) {
				t.Errorf("it was\n%v, and is\n%v after %v", before, after, w.writes())
			}
		})
	}
}

// TestMoveThatIsDone: a disk that is on its planned storage by now is not moved, and takes the rest of the change. One
// that a third party has put in its place is another, while the old one is there: nothing is done to it.
func TestMoveThatIsDone(t *testing.T) {
	const theirs = "local-lvm:vm-400-disk-7,size=1G"
	for name, c := range map[string]struct {
		act  func(w *world, was string)
		done bool
	}{
		"moved": {func(w *world, _ string) {
			w.task(w.api.QEMU("pve1", theVM).MoveDiskAndFree(t.Context(), pve.Params{"disk": "scsi1", "storage": "local-lvm"}))
		}, true},
		"the old one detached": {func(w *world, was string) {
			w.alter(func(g *state.Guest) { g.Config["unused0"], g.Config["scsi1"] = was, theirs })
		}, false},
		"the old one in another slot": {func(w *world, was string) {
			w.alter(func(g *state.Guest) { g.Config["scsi5"], g.Config["scsi1"] = was, theirs })
		}, false},
		"the old one in no entry": {func(w *world, _ string) {
			w.alter(func(g *state.Guest) { g.Config["scsi1"] = theirs })
		}, false},
		"the old one on a storage that lists none": {func(w *world, _ string) {
			w.alter(func(g *state.Guest) { g.Config["scsi1"] = theirs })
			all := w.sim.World()
			all.Lock()
			defer all.Unlock()
			all.Storages["local-zfs"].Content = []string{"rootdir"}
		}, false},
		"another size": {func(w *world, was string) {
			all := w.sim.World()
			all.Lock()
			maps.DeleteFunc(all.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Volid() == was })
			all.Unlock()
			w.alter(func(g *state.Guest) { g.Config["scsi1"] = "local-lvm:vm-400-disk-7,size=2G" })
		}, false},
		"moved, and rounded up": {func(w *world, was string) {
			all := w.sim.World()
			all.Lock()
			maps.DeleteFunc(all.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Volid() == was })
			all.Unlock()
			w.alter(func(g *state.Guest) { g.Config["scsi1"] = "local-lvm:vm-400-disk-7,size=1026M" })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
			r := w.request()
			with(&r, "scsi1", func(d *vm.Disk) { d.Storage, d.Discard, d.Size = "local-lvm", new(true), new(int64(3<<30)) })
			w.put("local-lvm", "vm-400-disk-7", theVM, "")
			c.act(w, r.Prior.Disks["scsi1"].Volume)
			before := w.config()
			w.sim.ResetOps()
			_, _, err := w.update(r)
			is := w.config()["scsi1"]
			var field *guest.FieldError
			switch refused := errors.As(err, &field) && field.Path == "disks.scsi1"; {
			case c.done && (err != nil || w.sent("/move_disk") > 0 || !strings.HasPrefix(is, "local-lvm:") ||
				!strings.Contains(is, "discard=on") || !strings.Contains(is, "size=3G")):
				t.Errorf("got %v, scsi1 is %s after %v", err, is, w.writes())
			case !c.done && (!refused || len(w.writes()) > 0 || !maps.Equal(before, w.config())):
				t.Errorf("not refused: %v, scsi1 is %s after %v", err, is, w.writes())
			}
		})
	}
}

// TestMoveOfAnotherDisk: a third party exchanges the disks of two slots when the move of one is about to be sent. The
// disk that is there now stays on its storage.
func TestMoveOfAnotherDisk(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
	u, was := w.updating(), w.config()
	from := map[string]string{"scsi0": guest.VolumeOf(was["scsi0"])}
	w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"delete": "scsi0,scsi1"}))
	w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"scsi0": was["scsi1"], "scsi1": was["scsi0"]}))
	w.sim.ResetOps()
	_, err := u.moveDisks(t.Context(), []vm.Move{{Slot: "scsi0", Storage: "local-lvm"}}, from)
	if err == nil || !strings.Contains(err.Error(), guest.VolumeOf(was["scsi1"])) || len(w.writes()) > 0 {
		t.Errorf("got %v after %v; scsi0 is %s", err, w.writes(), w.config()["scsi0"])
	}
}

// TestSlotThatWasFilledSinceThePlan: the plan adds a device to a slot. One that a third party has put there since is not
// taken for it; one that the plan has known is, with its content, and one that is as planned.
func TestSlotThatWasFilledSinceThePlan(t *testing.T) {
	for slot, c := range map[string]struct {
		has, attribute, asPlanned string
		plan                      func(*vm.Spec)
	}{
		"scsi3": {"local-zfs:1", "disks.scsi3", "", func(s *vm.Spec) {
			s.Disks = map[string]vm.Disk{"scsi3": {Storage: "local-zfs", Size: new(int64(1 << 30))}}
		}},
		"efidisk0": {"local-zfs:1,efitype=4m", "efi_disk", "", func(s *vm.Spec) {
			s.EFIDisk = &vm.EFIDisk{Storage: "local-zfs"}
		}},
		"tpmstate0": {"local-zfs:1,version=v2.0", "tpm_state", "", func(s *vm.Spec) {
			s.TPMState = &vm.TPMState{Storage: "local-zfs"}
		}},
		"net1": {"virtio=BC:24:11:00:00:07,bridge=vmbr0,tag=77", "networks.net1", "virtio=BC:24:11:00:00:07,bridge=vmbr1", func(s *vm.Spec) {
			s.Networks = map[string]vm.NIC{"net1": {Model: "virtio", NICOptions: vm.NICOptions{Bridge: new("vmbr1")}}}
		}},
		"serial1": {"/dev/ttyS0", "serial.serial1", "socket", func(s *vm.Spec) { s.Serial = map[string]string{"serial1": "socket"} }},
	} {
		for _, when := range []string{"since", "before", "as planned"} {
			w := newWorld(t, pve.Params{"bios": "ovmf"})
			r := w.request()
			c.plan(&r.Planned)
			put := c.has
			switch {
			case when == "as planned" && c.asPlanned == "":
				continue
			case when == "as planned":
				put = c.asPlanned
			}
			if vm.IsSlot(slot) {
				w.task(w.api.QEMU("pve1", theVM).UpdateConfigTask(t.Context(), pve.Params{slot: put}))
			} else {
				w.alter(func(g *state.Guest) { g.Config[slot] = put })
			}
			was := w.config()[slot]
			if when == "before" {
				r.Others = vm.Devices(vm.Decode(w.config()))
			}
			w.sim.ResetOps()
			_, _, err := w.update(r)
			var field *guest.FieldError
			var unfinished *UnfinishedError
			refused := errors.As(err, &field) && field.Path == c.attribute && errors.As(err, &unfinished) && !unfinished.Options
			is := w.config()[slot]
			if when == "since" && (!refused || is != was || len(w.writes()) > 0) {
				t.Errorf("%s %s: it was %s, and is %s: %v after %v", slot, when, was, is, err, w.writes())
			}
			if when != "since" && (err != nil || vm.IsSlot(slot) && guest.VolumeOf(is) != guest.VolumeOf(was)) {
				t.Errorf("%s %s: it was %s, and is %s: %v after %v", slot, when, was, is, err, w.writes())
			}
			if slot == "net1" && when != "since" && (!strings.Contains(is, "BC:24:11:00:00:07") || !strings.Contains(is, "vmbr1")) {
				t.Errorf("%s %s: it is %s", slot, when, is)
			}
		}
	}
}

// TestSlotWithAnotherDiskOfAName: the plan takes over a disk that it has known in a slot. Since then that disk has left,
// and PVE has given its name to another one.
func TestSlotWithAnotherDiskOfAName(t *testing.T) {
	for name, c := range map[string]struct {
		known   int64 // the size of the disk that the plan has known
		refused bool
	}{
		"the same disk":        {1 << 30, false},
		"another disk":         {5 << 30, true},
		"a size not known":     {0, false},
		"another, smaller one": {1 << 29, true},
	} {
		w := newWorld(t, pve.Params{})
		r := w.request()
		r.Planned.Disks = map[string]vm.Disk{"scsi3": {Storage: "local-zfs"}}
		w.task(w.api.QEMU("pve1", theVM).UpdateConfigTask(t.Context(), pve.Params{"scsi3": "local-zfs:1"}))
		volume := guest.VolumeOf(w.config()["scsi3"])
		r.Others, r.Sizes = map[string]string{"scsi3": volume}, map[string]int64{volume: c.known}
		w.sim.ResetOps()
		_, _, err := w.update(r)
		var field *guest.FieldError
		refused := errors.As(err, &field) && field.Path == "disks.scsi3" && strings.Contains(field.Detail, "another size")
		if refused != c.refused || err != nil && !refused || refused && len(w.writes()) > 0 {
			t.Errorf("%s: %v after %v", name, err, w.writes())
		}
	}
}

// TestRemovedDiskWhoseNameWasReused: a third party has destroyed the disk of the plan and made another one since, to
// which PVE has given the name that became free. It is not destroyed.
func TestRemovedDiskWhoseNameWasReused(t *testing.T) {
	for size, refusal := range map[string]string{"1G": "", "1025M": "It has 1025M by now, and the plan knows one of 1G",
		"5G": "a disk of that name with another size, 5G, is in it now"} {
		destroyed := refusal == ""
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1"})
		r := w.request()
		r.DestroyRemoved = true
		r.Planned.Disks = map[string]vm.Disk{"scsi0": r.Planned.Disks["scsi0"]}
		volume := r.Prior.Disks["scsi1"].Volume
		w.alter(func(g *state.Guest) { g.Config["scsi1"] = volume + ",size=" + size })
		_, _, err := w.update(r)
		if said := err != nil && strings.Contains(err.Error(), refusal); said == destroyed {
			t.Errorf("%s: the update said %v", size, err)
		}
		if gone := !slices.Contains(w.everyVolume(), volume); gone != destroyed {
			t.Errorf("%s: the disk is gone: %v", size, gone)
		}
	}
}

// TestUpdateOfAVMThatAnotherRunMakes: the VM's own create has failed, and its mark has become that of another run since
// the plan. Nothing is changed. The VM's own mark is taken away, also where no refresh has seen it.
func TestUpdateOfAVMThatAnotherRunMakes(t *testing.T) {
	for name, c := range map[string]struct{ seen, taken bool }{
		"seen": {seen: true}, "not seen": {}, "taken over since": {seen: true, taken: true},
	} {
		w := newWorld(t, pve.Params{"cores": "1"})
		describe := func() string {
			mark := w.changer.guests.NewMark("pve1,pve2", theVM).String()
			w.alter(func(g *state.Guest) { g.Config["description"] = mark })
			return mark
		}
		mark := describe()
		r := w.request()
		r.Planned.Description, r.Planned.CPU.Cores = new(""), new(int64(2))
		if !c.seen {
			r.Prior.Description = new("")
		}
		if c.taken {
			mark = describe()
		}
		_, _, err := w.update(r)
		if said := err != nil && strings.Contains(err.Error(), "VM 400 is being made by another run"); said != c.taken {
			t.Errorf("%s: the update said %v", name, err)
		}
		if is := w.config()["description"]; c.taken && (is != mark || len(w.writes()) > 0) || c.seen && !c.taken && is == mark {
			t.Errorf("%s: the description is %q after %v", name, is, w.writes())
		}
	}
}
