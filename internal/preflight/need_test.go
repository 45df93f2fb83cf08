package preflight

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func TestMissingOfListings(t *testing.T) {
	for name, c := range map[string]struct {
		need  Need
		has   []string
		lacks bool
	}{
		"an IP set":              {Need{Kind: FirewallRef, Value: "+admins"}, []string{"+Admins", "home"}, false},
		"no such IP set":         {Need{Kind: FirewallRef, Value: "+admins"}, []string{"admins", "+web"}, true},
		"a security group":       {Need{Kind: SecurityGroup, Value: "web"}, []string{"web"}, false},
		"no such security group": {Need{Kind: SecurityGroup, Value: "web"}, nil, true},
		"a disk of an appliance": {Need{Kind: Import, Value: "local:import/a.ova/disk.vmdk"},
			[]string{"local:import/a.ova"}, false},
		"no such appliance": {Need{Kind: Import, Value: "local:import/a.ova/disk.vmdk"},
			[]string{"local:import/b.ova"}, true},
		"a machine of an older version": {Need{Kind: Machine, Value: "pc-q35-5.1"}, []string{"pc-q35-9.2+pve1", "pc-q35-6.0"},
			false},
		"a machine without a version": {Need{Kind: Machine, Value: "q35"}, []string{"pc-q35-9.2"}, false},
		"a newer pin of one version":  {Need{Kind: Machine, Value: "pc-q35-9.2+pve1"}, []string{"pc-q35-9.2"}, false},
		"a machine that is too new":   {Need{Kind: Machine, Value: "pc-q35-10.0"}, []string{"pc-q35-9.2"}, true},
		"a mapping of other nodes":    {Need{Kind: PCIMapping, Value: "gpu"}, []string{"gpu of pve2"}, true},
		"one of a VM that is off":     {Need{Kind: PCIMapping, Value: "gpu", Off: true}, []string{"gpu of pve2"}, false},
		"no mapping of one that is":   {Need{Kind: PCIMapping, Value: "gpu", Off: true}, []string{"gpu2 of pve2"}, true},
		"a machine of another family": {Need{Kind: Machine, Value: "virt-10.0"}, []string{"pc-q35-9.2"}, false},
	} {
		if report := missing(c.need, c.has, "pve1"); (report != nil) != c.lacks {
			t.Errorf("%s: %v", name, report)
		}
	}
}

// TestMissingNameThatWasMeant: a volume is compared by its last part, and another file of the storage is not suggested.
func TestMissingNameThatWasMeant(t *testing.T) {
	has := []string{"local:iso/debian.iso", "local:iso/windows.iso"}
	for value, want := range map[string]string{
		"local:iso/debain.iso": `Did you mean "local:iso/debian.iso"? Storage local`, "local:iso/ubuntu.iso": "Storage local",
	} {
		if got := missing(Need{Kind: Medium, Path: "cdroms.ide2.file", Value: value}, has, "pve1"); !strings.HasPrefix(got.Detail, want) {
			t.Errorf("%s: %s", value, got.Detail)
		}
	}
	for _, has := range []string{"gpu", "gpu of pve2"} {
		if got := missing(Need{Kind: PCIMapping, Value: "gpuu"}, []string{has}, "pve1"); !strings.HasPrefix(got.Detail, `Did you mean "gpu"?`) {
			t.Error(got.Detail)
		}
	}
}

// TestFormatsOfStorages: a plan refuses a format that PVE refuses to make, or makes as another one.
func TestFormatsOfStorages(t *testing.T) {
	chains := map[string]string{"snapshot-as-volume-chain": "1"}
	for name, c := range map[string]struct {
		storage *state.Storage
		format  string
		refuses bool
	}{
		"qcow2 on RBD":                    {&state.Storage{ID: "it", Type: "rbd", Shared: true}, "qcow2", true},
		"raw on RBD":                      {&state.Storage{ID: "it", Type: "rbd", Shared: true}, "raw", false},
		"qcow2 on LVM":                    {&state.Storage{ID: "it", Type: "lvm"}, "qcow2", true},
		"vmdk on LVM":                     {&state.Storage{ID: "it", Type: "lvm", Options: chains}, "vmdk", true},
		"qcow2 on LVM with volume chains": {&state.Storage{ID: "it", Type: "lvm", Options: chains}, "qcow2", false},
		"qcow2 in a directory":            {&state.Storage{ID: "it", Type: "dir"}, "qcow2", false},
		"a vmdk to grow in a directory":   {&state.Storage{ID: "it", Type: "dir"}, "vmdk", true},
		"a vmdk to grow on ZFS":           {&state.Storage{ID: "it", Type: "zfspool"}, "vmdk", false},
	} {
		w := newWorld(t)
		w.change(func(all *state.World) {
			c.storage.Path, c.storage.Content, c.storage.Total = "it", []string{"images"}, 100<<30
			all.Storages["it"] = c.storage
		})
		found := w.Check(t.Context(), Request{Node: "pve1", Formats: []Format{{Path: "disks.scsi0.format", Storage: "it", Format: c.format, Grows: strings.Contains(name, "grow")}}})
		if refused := len(found.Refused) == 1 && found.Refused[0].Path == "disks.scsi0.format"; refused != c.refuses {
			t.Errorf("%s: %v", name, found.Refused)
		}
	}
}

// TestSnapshotsThatThePlanRemovesKeepNothing: a plan that takes a snapshot away says nothing of it, wherever it would
// keep a disk or the VM as it is.
func TestSnapshotsThatThePlanRemovesKeepNothing(t *testing.T) {
	for begins, c := range cases() {
		if !strings.HasPrefix(begins, "A snapshot keeps") && !strings.HasPrefix(begins, "VM 8000 has snapshots") {
			continue
		}
		w := newWorld(t)
		c.happens(w)
		c.request.SnapshotsGo = []string{"before"}
		if found := w.Check(t.Context(), c.request); len(found.Refused)+len(found.Doubtful) > 0 {
			t.Errorf("%s: %v, %v", begins, found.Refused, found.Doubtful)
		}
	}
}
