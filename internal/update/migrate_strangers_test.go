package update

import (
	"strings"
	"testing"

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
