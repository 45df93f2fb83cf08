package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDiskWhileANodeIsAway: the guests of a node that is off cannot be read. A disk that was taken off that node before
// its maintenance is planned and changed as before, and so is one that moves on a node of its own. The latter can be destroyed.
func TestDiskWhileANodeIsAway(t *testing.T) {
	const line = "resource \"proxmox_disk\" \"data\" {\n  node = %q\n  vmid = 300\n  storage = %q\n  size = \"1G\"\n}\n"
	for name, c := range map[string]struct {
		off, migrated string // migrated: the node to which the holder goes before
		was, is       string
	}{
		"drained": {"pve1", "pve2", fmt.Sprintf(line, "pve1", "shared-nfs"), fmt.Sprintf(line, "pve2", "shared-nfs")},
		"moved":   {"pve2", "", fmt.Sprintf(line, "pve1", "local-zfs"), fmt.Sprintf(line, "pve1", "local-lvm")},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDataDisk(t, c.was)
			if c.migrated != "" {
				rig.MigrateByHand(t, d.World, 300, c.migrated)
			}
			d.World.Change(func(w *state.World) {
				other := w.Guests[8000]
				other.Node = c.off
				delete(other.Config, "scsi0")
				w.Nodes[c.off].Online = false
			})
			d.Configure(c.is)
			rig.Must(t, d.Session.Run(t.Context()))
			if said := d.Session.Diagnostics().String(); strings.Contains(said, "moved outside Terraform") {
				t.Errorf("the plan says %s", said)
			}
			if c.migrated == "" { // else a guest of the node that is off may have it
				d.Configure("")
				rig.Must(t, d.Session.Run(t.Context()))
			}
		})
	}
}
