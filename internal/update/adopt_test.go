package update

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestAdoptLooseVolume: a volume with the VM's id that is in no configuration is attached; one that another guest uses,
// or that is not there, is not.
func TestAdoptLooseVolume(t *testing.T) {
	for what, c := range map[string]struct{ volume, words string }{
		"loose":     {"local-zfs:vm-400-disk-7", ""},
		"used":      {"local-zfs:vm-400-disk-8", "8000"},
		"not there": {"local-zfs:vm-400-disk-9", "no such volume"},
	} {
		w := newWorld(t, nil)
		inWorld(w, func(all *state.World) {
			for _, name := range []string{"vm-400-disk-7", "vm-400-disk-8"} {
				all.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, Content: "images", VMID: theVM, Format: "raw",
					Size: 1 << 30, Data: name})
			}
			all.Guests[8000].Config["scsi5"] = "local-zfs:vm-400-disk-8,size=1G"
		})
		r := w.request()
		r.Planned.Disks = map[string]vm.Disk{"scsi3": {Volume: c.volume}}
		_, _, err := w.changer.Update(t.Context(), r)
		if c.words == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", what, err)
		}
		inWorld(w, func(all *state.World) {
			if has := all.Guests[theVM].Config["scsi3"]; strings.HasPrefix(has, c.volume) != (err == nil) {
				t.Errorf("%s: scsi3 is %q", what, has)
			}
		})
	}
}

func inWorld(w *world, f func(*state.World)) {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	f(all)
}

// TestDetachedVolumeOfAnotherGuest: an administrator has detached a disk and has attached it to another VM, to mend it
// there. PVE gives it back to its own VM without a word (qemu-server API2/Qemu.pm create_disks), and two guests on one
// disk destroy what is on it. So the update refuses, also in the name of an identity that sees no other guest than that.
func TestDetachedVolumeOfAnotherGuest(t *testing.T) {
	const volume = "local-zfs:vm-400-disk-7"
	for what, c := range map[string]struct {
		where string // in VM 8000
		words string
	}{
		"of no other":   {"", ""},
		"in a slot":     {"scsi5", "VM 8000"},
		"in a snapshot": {"snapshot", "VM 8000"},
	} {
		w := newWorld(t, nil)
		inWorld(w, func(all *state.World) {
			all.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: theVM,
				Format: "raw", Size: 1 << 30, Data: "theirs"})
			all.Guests[theVM].Config["unused0"] = volume
			switch rescue := all.Guests[8000]; c.where {
			case "":
			case "snapshot":
				rescue.Snaps = map[string]map[string]string{"old": {"snaptime": "1", "scsi5": volume + ",size=1G"}}
			default:
				rescue.Config[c.where] = volume + ",size=1G"
			}
		})
		r := w.request()
		r.Planned.Disks = map[string]vm.Disk{"scsi3": {Volume: volume}}
		_, _, err := w.changer.Update(t.Context(), r)
		if c.words == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", what, err)
		}
		inWorld(w, func(all *state.World) {
			if has := all.Guests[theVM].Config["scsi3"]; strings.HasPrefix(has, volume) != (err == nil) {
				t.Errorf("%s: scsi3 is %q", what, has)
			}
		})
	}
}
