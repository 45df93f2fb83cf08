package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// TestMeet: every kind of source beside every way in which a VM leaves. Whichever of the two plans comes first, the later one warns,
// once, and names both objects.
func TestMeet(t *testing.T) {
	t.Parallel()
	const disk = "local-zfs:vm-101-disk-0"
	sources := map[string]Source{
		"volume":   {At: "disks.scsi0.import_from", Volume: disk},
		"filled":   {At: "disks.scsi0.import_from", Volume: disk, Filled: true},
		"id":       {At: "clone.vmid", Clone: &guest.Clone{VMID: 101}},
		"name":     {At: "clone.name", Clone: &guest.Clone{Name: "old"}},
		"tags":     {At: "clone.tags", Clone: &guest.Clone{Tags: []string{"golden"}}},
		"snapshot": {At: "clone.vmid", Clone: &guest.Clone{VMID: 101, Snapshot: "before"}},
		"another":  {At: "clone.vmid", Clone: &guest.Clone{VMID: 102}},
	}
	old := pve.Resource{Type: "qemu", VMID: 101, Node: "pve1", Name: "old", Tags: "golden", Template: true}
	leaving := map[string]Leaving{
		"destroyed":  {Resource: old},
		"loses":      {Resource: old, Disks: []LeavingDisk{{Slot: "scsi1", Volume: disk}}},
		"loses more": {Resource: old, Disks: []LeavingDisk{{Slot: "scsi2", Volume: "local-zfs:vm-101-disk-7"}}},
		"moves":      {Resource: old, Disks: []LeavingDisk{{Slot: "scsi1", Volume: disk, Moves: true}}},
	}
	const stays = ""
	wants := map[string]string{
		"volume destroyed": "is copied of a VM that is destroyed", "volume loses": "is copied of a disk that is destroyed",
		"volume loses more": stays, "volume moves": "is copied of a disk that moves",
		"filled destroyed": "gets no copy of a VM that is destroyed", "filled loses": "gets no copy of a disk that is destroyed",
		"filled loses more": stays, "filled moves": stays,
		"id destroyed": "is copied of a VM that is destroyed", "id loses": "is copied of a VM that loses a disk",
		"id loses more": "is copied of a VM that loses a disk", "id moves": stays,
		"name destroyed": "is copied of a VM that is destroyed", "name loses": "is copied of a VM that loses a disk",
		"name loses more": "is copied of a VM that loses a disk", "name moves": stays,
		"tags destroyed": "is copied of a VM that is destroyed", "tags loses": "is copied of a VM that loses a disk",
		"tags loses more": "is copied of a VM that loses a disk", "tags moves": stays,
		// A snapshot keeps the disks that it has, and goes with its VM.
		"snapshot destroyed": "is copied of a VM that is destroyed", "snapshot loses": stays,
		"snapshot loses more": stays, "snapshot moves": stays,
		"another destroyed": stays, "another loses": stays, "another loses more": stays, "another moves": stays,
	}
	for from, source := range sources {
		for goes, l := range leaving {
			says, hasRow := wants[from+" "+goes]
			if !hasRow {
				t.Errorf("no row for %s beside a VM that %s", from, goes)
			}
			mine := Copy{Thing: "VM 200", Sources: []Source{source}, VMID: 200}
			same := func(a, b string) bool { return a == b }
			for order, diags := range map[string]said{
				"copy last":  {Meet(mine, nil, nil, []Leaving{l}, same).Warnings()},
				"copy first": {Meet(Copy{}, &l, []Copy{mine}, nil, same).Warnings()},
			} {
				text := diags.String()
				switch {
				case says == stays && text != "":
					t.Errorf("%s %s, %s: warned without a loss: %s", from, goes, order, text)
				case says != stays && (len(diags.Diagnostics) != 1 || !strings.Contains(text, "VM 200 "+says) ||
					!strings.Contains(text, "VM 101 stays as it is")):
					t.Errorf("%s %s, %s: %s; want one warning that says %q", from, goes, order, text, says)
				}
			}
		}
	}
}

// TestMeetRenamed: a VM that is destroyed, and made again under another address by its id or name, is a block that was renamed
// without a moved block.
func TestMeetRenamed(t *testing.T) {
	t.Parallel()
	old := pve.Resource{Type: "qemu", VMID: 101, Node: "pve1", Name: "old"}
	for name, c := range map[string]struct {
		new   Copy
		goes  Leaving
		shows string
	}{
		"its id":                         {Copy{VMID: 101, Name: "new"}, Leaving{Resource: old}, "has its vmid"},
		"its name":                       {Copy{Name: "old"}, Leaving{Resource: old}, "has its name"},
		"its name, and an id of its own": {Copy{VMID: 102, Name: "old"}, Leaving{Resource: old}, ""},
		"nothing of it":                  {Copy{Name: "new"}, Leaving{Resource: old}, ""},
		"its id, and it loses a disk":    {Copy{VMID: 101}, Leaving{Resource: old, Disks: []LeavingDisk{{Slot: "scsi1"}}}, ""},
	} {
		for order, diags := range map[string]said{
			"copy last":  {Meet(c.new, nil, nil, []Leaving{c.goes}, nil).Warnings()},
			"copy first": {Meet(Copy{}, &c.goes, []Copy{c.new}, nil, nil).Warnings()},
		} {
			if is := diags.String(); (c.shows == "") != (is == "") || !strings.Contains(is, c.shows) {
				t.Errorf("%s, %s: %q, want %q", name, order, is, c.shows)
			}
		}
	}
}

// said are diagnostics as text, one a line.
type said struct{ diag.Diagnostics }

func (s said) String() string {
	var text strings.Builder
	for _, d := range s.Diagnostics {
		fmt.Fprintf(&text, "%s: %s\n", d.Summary(), d.Detail())
	}
	return text.String()
}
