package server

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestBackupOfAll: a backup of all guests opens the disks of one that is off with a QEMU that it starts paused and ends
// again, unless no disk of it is to be backed up; one that runs is not started (VZDump/QemuServer.pm).
func TestBackupOfAll(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1", "OK"},
		{"", "POST", "/qemu", "vmid=101&scsi0=local-zfs:1,backup=0", "OK"},
		{"", "POST", "/qemu", "vmid=102&scsi0=local-zfs:1&start=1", "OK"},
		{"", "POST", "/qemu", "vmid=103&scsi0=local-zfs:1", "OK"},
		{"", "POST", "/vzdump", "all=1&exclude=103,8000,9000&storage=local", "OK"},
	})
	log := g.log("vzdump")
	for id, want := range map[string]string{"100": "starting kvm to execute", "101": "backup contains no disks", "102": "", "103": "-"} {
		_, of, is := strings.Cut(log, "Starting Backup of VM "+id+" (qemu)")
		of, _, _ = strings.Cut(of, "Finished Backup")
		started, none := strings.Contains(of, "starting kvm"), strings.Contains(of, "no disks")
		if is == (want == "-") || started != strings.Contains(want, "starting") || none != strings.Contains(want, "no disks") {
			t.Errorf("VM %s: want %q in %q", id, want, of)
		}
	}
	g.s.Do(func(w *state.World) {
		if w.Guests[100].Running != nil || w.Guests[102].Running == nil {
			t.Errorf("VM 100 runs: %+v; VM 102: %+v", w.Guests[100].Running, w.Guests[102].Running)
		}
	})
}
