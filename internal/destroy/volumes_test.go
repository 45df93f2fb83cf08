package destroy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// TestLogged: what the log of a task says that it has made. A bare name is that of one volume; where several have it,
// none is meant.
func TestLogged(t *testing.T) {
	resources := pve.Resources{{Type: "storage", Node: "pve1", Storage: "local-zfs", PluginType: "zfspool"},
		{Type: "storage", Node: "pve1", Storage: "local-lvm", PluginType: "lvmthin"}, {Type: "storage", Node: "pve1", Storage: "fast", PluginType: "lvmthin"}}
	const (
		zfs, lvm, fast = "local-zfs:vm-100-disk-0", "local-lvm:vm-100-disk-0", "fast:vm-100-disk-0"
		file, other    = "local:100/vm-100-disk-0.qcow2", "nfs:100/vm-100-disk-0.qcow2"
		created        = `  Logical volume "vm-100-disk-0" created.`
		formatting     = "Formatting '/var/lib/vz/images/100/vm-100-disk-0.qcow2', fmt=qcow2 size=1073741824"
	)
	of := func(slot, volume string) string { return slot + ": successfully created disk '" + volume + ",size=1G'" }
	for name, c := range map[string]struct {
		log, found, want []string
	}{
		"nothing":                           {nil, []string{zfs}, nil},
		"by id":                             {[]string{of("scsi0", zfs)}, []string{zfs, lvm}, []string{zfs}},
		"by id, of a clone":                 {[]string{"allocated target volume '" + zfs + "'"}, []string{zfs}, []string{zfs}},
		"by name":                           {[]string{created}, []string{lvm}, []string{lvm}},
		"by name, and another user has one": {[]string{created}, []string{lvm, fast}, nil},
		"by name, two":                      {[]string{created, created}, []string{lvm, fast}, []string{fast, lvm}},
		"the name is that of the other":     {[]string{created, of("scsi0", lvm)}, []string{lvm, fast}, []string{lvm}},
		"one by each":                       {[]string{of("scsi0", zfs), created}, []string{zfs, lvm}, []string{lvm, zfs}},
		"a file":                            {[]string{formatting}, []string{file}, []string{file}},
		"a file, of two":                    {[]string{formatting}, []string{file, other}, nil},
		"another file":                      {[]string{formatting}, []string{"local:100/vm-100-disk-1.qcow2"}, nil},
		"removed":                           {[]string{`  Logical volume "vm-100-disk-0" successfully removed.`}, []string{lvm}, nil},
	} {
		var found []pve.Volume
		for _, id := range c.found {
			found = append(found, pve.Volume{ID: id})
		}
		made := logged(c.log, found, &guest.Baseline{Node: "pve1", Resources: resources})
		maps.DeleteFunc(made, func(_ string, is bool) bool { return !is })
		if got := slices.Sorted(maps.Keys(made)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestUnderWay: the volume that a killed task was just making is told by the volumes that were still to be made.
func TestUnderWay(t *testing.T) {
	const gib = 1 << 30
	disk, here := Wanted{Storage: "zfs", Size: 4 * gib}, &guest.Baseline{Node: "pve1"}
	firmware := []Wanted{{Storage: "zfs"}, {Storage: "zfs", Size: 1}, {Storage: "zfs", Size: 4 << 20}, {Storage: "zfs", Name: "vm-100-cloudinit"}}
	for name, c := range map[string]struct {
		wanted []Wanted
		known  []pve.Volume
		v      pve.Volume
		want   bool
	}{
		"as asked for":      {[]Wanted{disk}, nil, pve.Volume{ID: "zfs:vm-100-disk-0", Size: 4 * gib}, true},
		"rounded up":        {[]Wanted{disk}, nil, pve.Volume{ID: "zfs:vm-100-disk-0", Size: 4*gib + 1<<20}, true},
		"of another size":   {[]Wanted{disk}, nil, pve.Volume{ID: "zfs:vm-100-disk-0", Size: gib}, false},
		"in another format": {[]Wanted{{Storage: "dir", Format: "qcow2"}}, nil, pve.Volume{ID: "dir:100/vm-100-disk-0.raw", Format: "raw"}, false},
		"elsewhere":         {[]Wanted{disk}, nil, pve.Volume{ID: "lvm:vm-100-disk-0", Size: 4 * gib}, false},
		"made already":      {[]Wanted{disk}, []pve.Volume{{ID: "zfs:vm-100-disk-0", Size: 4 * gib}}, pve.Volume{ID: "zfs:vm-100-disk-1", Size: 4 * gib}, false},
		"one of two":        {[]Wanted{disk, disk}, []pve.Volume{{ID: "zfs:vm-100-disk-0", Size: 4 * gib}}, pve.Volume{ID: "zfs:vm-100-disk-1", Size: 4 * gib}, true},
		"an image":          {[]Wanted{{Storage: "zfs"}}, nil, pve.Volume{ID: "zfs:vm-100-disk-0", Size: gib}, true},
		"an image beside firmware": {firmware, []pve.Volume{{ID: "zfs:vm-100-cloudinit", Size: 4 << 20}, {ID: "zfs:vm-100-disk-2", Size: 1 << 20},
			{ID: "zfs:vm-100-disk-1", Size: 4 << 20}}, pve.Volume{ID: "zfs:vm-100-disk-0", Size: gib}, true},
		"cloud-init":         {[]Wanted{{Storage: "zfs", Name: "vm-100-cloudinit"}}, nil, pve.Volume{ID: "zfs:vm-100-cloudinit"}, true},
		"cloud-init, a file": {[]Wanted{{Storage: "dir", Name: "vm-100-cloudinit"}}, nil, pve.Volume{ID: "dir:100/vm-100-cloudinit.qcow2"}, true},
		"no cloud-init":      {[]Wanted{{Storage: "zfs", Name: "vm-100-cloudinit"}}, nil, pve.Volume{ID: "zfs:vm-100-disk-0"}, false},
		"linked":             {[]Wanted{{Storage: "zfs", Base: "zfs:base-9-disk-0"}}, nil, pve.Volume{ID: "zfs:base-9-disk-0/vm-100-disk-0"}, true},
		"linked to another":  {[]Wanted{{Storage: "zfs", Base: "zfs:base-9-disk-0"}}, nil, pve.Volume{ID: "zfs:base-9-disk-1/vm-100-disk-0"}, false},
	} {
		m := NewMade(here.Node, idsOf(c.known), c.wanted, nil)
		if m.addUnderWay(here, append(c.known, c.v)); m.isKnown(here, c.v.ID) {
			t.Errorf("%s: no task has died", name)
		}
		m.died = []string{""}
		if m.addUnderWay(here, append(c.known, c.v)); m.isKnown(here, c.v.ID) != c.want {
			t.Errorf("%s: %v", name, m.facts)
		}
		if m.addUnderWay(here, []pve.Volume{{ID: "zfs:vm-100-disk-9", Size: 4 * gib}}); m.isKnown(here, "zfs:vm-100-disk-9") {
			t.Errorf("%s: what it had made is gone, and another's is in its place", name)
		}
		twin := c.v
		twin.ID = strings.TrimSuffix(c.v.ID, "0") + "7"
		if m = NewMade(here.Node, idsOf(c.known), c.wanted, nil); strings.HasSuffix(c.v.ID, "0") {
			m.died = []string{""}
			if m.addUnderWay(here, append(c.known, c.v, twin)); m.isKnown(here, c.v.ID) || m.isKnown(here, twin.ID) {
				t.Errorf("%s: one of two that fit is none: %v", name, m.facts)
			}
		}
	}
}

// TestTellsNotFreed: a task that failed names what it could not free, or the lock that it did not get for something
// that it has made.
func TestTellsNotFreed(t *testing.T) {
	const busy, lock = "cannot destroy 'rpool/data/vm-100-disk-0': dataset is busy", "can't lock file '/var/lock/pve-manager/pve-storage-zfs' - got timeout"
	for text, want := range map[string][2]bool{busy: {true, true}, lock: {false, true}, "TASK ERROR: no": {false, false}} {
		for n, made := range []bool{false, true} {
			if got := tellsNotFreed([]string{"create full clone of drive scsi0", text}, "zfs:vm-100-disk-0", made); got != want[n] {
				t.Errorf("%s, made %v: %v", text, made, got)
			}
		}
	}
	if strings.Contains(nameOf("dir:9/base-9-disk-0.qcow2/100/vm-100-disk-0.qcow2"), "base") {
		t.Error("a linked clone has the name of its base")
	}
}
