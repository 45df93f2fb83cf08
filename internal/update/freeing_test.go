package update

import (
	"context"
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

// put adds a volume of an id.
func (w *world) put(storage, name string, vmid int, busy string) {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	all.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: vmid, Content: "images", Format: "raw",
		Size: 4 << 20, Busy: busy})
}

// updating is an update in its middle.
func (w *world) updating() *update {
	w.t.Helper()
	r := w.request()
	at, err := w.changer.guests.FindUnlocked(w.t.Context(), r.Ref)
	if err != nil {
		w.t.Fatal(err)
	}
	w.sim.ResetOps()
	return w.changer.newUpdate(r, at)
}

func text(warnings []guest.Warning) string {
	var all []string
	for _, w := range warnings {
		all = append(all, w.Summary+": "+w.Detail)
	}
	return strings.Join(all, "\n")
}

// TestLeftVolume: a volume that a move has left is freed, or named where it cannot be. A volume that anything names,
// or that a third party has, stays.
func TestLeftVolume(t *testing.T) {
	const volume = "local-lvm:vm-400-cloudinit"
	cases := map[string]struct {
		prepare func(*world)
		moved   string
		stays   bool
		says    string
	}{
		"freed":        {prepare: func(w *world) { w.put("local-lvm", "vm-400-cloudinit", theVM, "") }, moved: volume},
		"gone already": {prepare: func(*world) {}, moved: volume},
		"still in use": {moved: volume, stays: true,
			prepare: func(w *world) { w.put("local-lvm", "vm-400-cloudinit", theVM, "Logical volume pve/x in use") },
			says:    "`pvesm free " + volume + "` on node pve1"},
		"named as unused": {prepare: named("unused0"), moved: volume, stays: true},
		"named in a slot": {prepare: named("ide0"), moved: volume, stays: true},
		"of another's id": {prepare: func(w *world) { w.put("local-lvm", "vm-401-cloudinit", 401, "") },
			moved: "local-lvm:vm-401-cloudinit", stays: true},
		"needed by a snapshot": {prepare: func(w *world) {
			w.put("local-lvm", "vm-400-cloudinit", theVM, "")
			w.alter(func(g *state.Guest) {
				g.Snaps = map[string]map[string]string{"before": {"ide2": volume + ",media=cdrom", "snaptime": "1"}}
				g.Config["parent"] = "before"
			})
		}, moved: volume, stays: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			c.prepare(w)
			u := w.updating()
			volumes{u}.freeMoved(t.Context(), map[string]string{"ide2": c.moved},
				func(context.Context, string) (bool, error) { return true, nil })
			if there := slices.Contains(w.everyVolume(), c.moved); there != c.stays {
				t.Errorf("it is there: %v", there)
			}
			if said := text(u.warnings); !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("says %q", said)
			}
		})
	}
}

// named puts the volume into an option of the VM.
func named(option string) func(*world) {
	return func(w *world) {
		w.put("local-lvm", "vm-400-cloudinit", theVM, "")
		w.alter(func(g *state.Guest) { g.Config[option] = "local-lvm:vm-400-cloudinit" })
	}
}

// everyVolume are all volumes of the node.
func (w *world) everyVolume() []string {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	var ids []string
	for _, v := range all.Volumes {
		ids = append(ids, v.Volid())
	}
	return ids
}

// TestOneLookForAMove: a move costs one look at the storage, and nothing is freed twice.
func TestOneLookForAMove(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
	r := w.request()
	disk := r.Planned.Disks["scsi0"]
	disk.Storage = "local-lvm"
	r.Planned.Disks["scsi0"] = disk
	if _, warnings, err := w.update(r); err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	looks := 0
	for _, op := range w.sim.Ops() {
		if strings.HasSuffix(op.Path, "/content") {
			looks++
		}
	}
	if looks != 1 || len(w.writes()) != 1 {
		t.Errorf("%d looks, sent %v", looks, w.writes())
	}
}

// TestMovedNameIsTaken: a disk was moved away, and a third party makes a volume of the name that it had. PVE's log says
// nothing of a volume that it could not free, so this one is his: it stays, and no command is printed for it.
func TestMovedNameIsTaken(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
	old := guest.VolumeOf(w.config()["scsi0"])
	r := w.request()
	disk := r.Planned.Disks["scsi0"]
	disk.Storage = "local-lvm"
	r.Planned.Disks = map[string]vm.Disk{"scsi0": disk}
	w.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Plant, VMID: theVM, Storage: "local-zfs",
		Before: fault.Match{Method: "GET", Path: "/nodes/{node}/storage/{storage}/content"}}})
	_, warnings, err := w.update(r)
	if err != nil || !slices.Contains(w.everyVolume(), old) {
		t.Errorf("%v, volumes %v; he has made %s", err, w.everyVolume(), old)
	}
	if said := text(warnings); !strings.Contains(said, "Volume "+old+" was left as it is") ||
		strings.Contains(said, "pvesm free") {
		t.Errorf("says %q", said)
	}
}

// TestLeftVolumeWentWithItsVM: of a volume that could not be freed, since a third party has destroyed it with the VM,
// nothing is said.
func TestLeftVolumeWentWithItsVM(t *testing.T) {
	const volume = "local-lvm:vm-400-cloudinit"
	w := newWorld(t, nil)
	w.put("local-lvm", "vm-400-cloudinit", theVM, "")
	u := w.updating()
	volumes{u}.freeMoved(t.Context(), map[string]string{"ide2": volume}, func(context.Context, string) (bool, error) {
		return w.sim.ThirdParty(thirdparty.Order{Act: thirdparty.Delete, VMID: theVM}).Done, nil
	})
	if said := text(u.warnings); slices.Contains(w.everyVolume(), volume) || said != "" {
		t.Errorf("volumes %v, says %q", w.everyVolume(), said)
	}
}

// TestLeftDriveOfAVMThatWasMigrated: a cloud-init drive has left its volume, and a third party migrates the VM before that is freed.
// It stays on the former node, which the warning names with a command that looks first. Of a disk no command is printed.
func TestLeftDriveOfAVMThatWasMigrated(t *testing.T) {
	w := newWorld(t, nil)
	w.put("local-lvm", "vm-400-cloudinit", theVM, "")
	w.put("local-lvm", "vm-400-disk-7", theVM, "")
	u := w.updating()
	w.alter(func(g *state.Guest) { g.Node = "pve2" })
	volumes{u}.freeMoved(t.Context(), map[string]string{"ide2": "local-lvm:vm-400-cloudinit", "scsi0": "local-lvm:vm-400-disk-7"},
		func(context.Context, string) (bool, error) { return true, nil })
	said := text(u.warnings)
	if !strings.Contains(said, "[ $? = 1 ] && pvesm free local-lvm:vm-400-cloudinit` on node pve1") || strings.Contains(said, "free local-lvm:vm-400-disk-7") {
		t.Errorf("says %q", said)
	}
}

// TestLeftVolumeThatPVEDoesNotList: a disk moves off a storage that is not configured for images any more, so PVE lists none there. The
// old volume, which PVE could not free, is freed all the same, or named. One that went is not.
func TestLeftVolumeThatPVEDoesNotList(t *testing.T) {
	const volume = "local-zfs:vm-400-disk-0"
	for busy, says := range map[int]bool{0: false, 1: false, -1: true} {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
		r := w.request()
		with(&r, "scsi0", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
		all := w.sim.World()
		all.Lock()
		all.Storages["local-zfs"].BusyFrees, all.Storages["local-zfs"].Content = busy, []string{"rootdir"}
		all.Unlock()
		_, warnings, err := w.update(r)
		if err != nil {
			t.Fatal(err)
		}
		if named := strings.Contains(text(warnings), "`pvesm free "+volume+"`"); named != says {
			t.Errorf("busy %d: it says %q", busy, text(warnings))
		}
		if there := slices.Contains(w.everyVolume(), volume); there != says {
			t.Errorf("busy %d: the volume is there: %t", busy, there)
		}
	}
}
