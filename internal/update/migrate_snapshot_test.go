package update

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestMigrationTakesNoDiskOfASnapshot: a migration takes the local disks along that only a snapshot names, and frees
// them where they were (qemu-server QemuMigrate.pm scan_local_volumes, phase3_cleanup). Another guest that has got one
// of them keeps it.
func TestMigrationTakesNoDiskOfASnapshot(t *testing.T) {
	for _, used := range []bool{true, false} {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
		w.task(w.api.QEMU("pve1", theVM).TakeSnapshot(t.Context(), pve.Params{"snapname": "before"}))
		volume, _, _ := strings.Cut(w.config()["scsi1"], ",")
		w.alter(func(g *state.Guest) { delete(g.Config, "scsi1") })
		if used {
			all := w.sim.World()
			all.Lock()
			all.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve1",
				Config: map[string]string{"memory": "512", "scsi0": volume + ",size=1G"}}
			all.Unlock()
		}
		r := w.request()
		r.Node = "pve2"
		_, _, err := w.update(r)
		kept := false
		all := w.sim.World()
		all.Lock()
		for _, v := range all.Volumes {
			kept = kept || v.Volid() == volume && v.Node == "pve1"
		}
		all.Unlock()
		if used != kept || used && (err == nil || !strings.Contains(err.Error(), "VM 600")) || !used && err != nil {
			t.Errorf("used by VM 600 %t: it is where it was: %t; %v; sent %v", used, kept, err, slices.Compact(w.writes()))
		}
	}
}

// TestTemplateOfAVMWithSnapshotsLeavesTheGuestRunning: PVE makes no template of a VM with snapshots. The apply looks
// for them before it shuts the guest down, and names them.
func TestTemplateOfAVMWithSnapshotsLeavesTheGuestRunning(t *testing.T) {
	for names, want := range map[string]string{
		"one":     "Snapshot one keeps VM 400 from becoming a template: remove it first",
		"one two": "Snapshots one, two keep VM 400 from becoming a template: remove them first",
	} {
		w := newWorld(t, nil)
		for _, name := range strings.Fields(names) {
			w.task(w.api.QEMU("pve1", theVM).TakeSnapshot(t.Context(), pve.Params{"snapname": name}))
		}
		w.start()
		r := w.request()
		r.Planned.Template, r.PowerState = new(true), guest.Stopped
		_, _, err := w.update(r)
		if err == nil || !strings.Contains(err.Error(), want) || len(w.writes()) > 0 || w.running() == nil {
			t.Errorf("%v, want %q; sent %v", err, want, w.writes())
		}
	}
}

// TestMoveOfADiskWithSnapshotsLeavesTheGuestRunning: PVE moves no disk that a snapshot has. The apply looks for one
// before it shuts the guest down. A disk that is newer than the snapshot moves.
func TestMoveOfADiskWithSnapshotsLeavesTheGuestRunning(t *testing.T) {
	for slot, refused := range map[string]bool{"scsi0": true, "scsi1": false} {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
		w.task(w.api.QEMU("pve1", theVM).TakeSnapshot(t.Context(), pve.Params{"snapname": "before"}))
		w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{"scsi1": "local-zfs:1"}))
		w.start()
		r := w.request()
		r.PowerState = guest.Stopped
		disk := r.Planned.Disks[slot]
		disk.Storage = "local-lvm"
		r.Planned.Disks[slot] = disk
		_, _, err := w.update(r)
		const want = "Nothing was changed. Snapshot before keeps scsi0 on local-zfs: remove it first"
		switch {
		case refused && (err == nil || !strings.Contains(err.Error(), want) || len(w.writes()) > 0 || w.running() == nil):
			t.Errorf("%s: %v, want %q; sent %v", slot, err, want, w.writes())
		case !refused && (err != nil || !strings.HasPrefix(w.config()[slot], "local-lvm:")):
			t.Errorf("%s: %v; %s", slot, err, w.config()[slot])
		}
	}
}
