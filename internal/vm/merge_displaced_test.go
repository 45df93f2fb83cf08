package vm

import (
	"slices"
	"testing"
)

// TestDisplaced: the drives of a source that lose their slot, which Merge takes over without a word.
func TestDisplaced(t *testing.T) {
	t.Parallel()
	disk := map[string]Disk{"scsi0": {Volume: "a:1"}, "ide2": {Volume: "a:2"}}
	drive := CloudInit{Slot: "ide2", Storage: "a", Volume: "a:ci"}
	user := CloudInit{CloudInitOptions: CloudInitOptions{User: new("ops")}}
	file := func(slots ...string) map[string]CDROM {
		all := map[string]CDROM{}
		for _, slot := range slots {
			all[slot] = CDROM{File: "none"}
		}
		return all
	}
	for name, c := range map[string]struct {
		base, want Spec
		at         []string
		drive      string
	}{
		"a medium where a disk is":                  {Spec{Disks: disk}, Spec{CDROMs: file("scsi0", "ide0")}, []string{"cdroms.scsi0"}, ""},
		"a cloud-init drive where a disk is":        {Spec{Disks: disk}, Spec{CloudInit: CloudInit{Slot: "scsi0", Storage: "a"}}, []string{"cloud_init.slot"}, ""},
		"one in its usual slot where a disk is":     {Spec{Disks: disk}, Spec{CloudInit: CloudInit{Storage: "a"}}, []string{"cloud_init.slot"}, ""},
		"a user, and no drive":                      {Spec{Disks: disk}, Spec{CloudInit: user}, []string{"cloud_init.storage"}, ""},
		"a slot, and no drive":                      {Spec{Disks: disk}, Spec{CloudInit: CloudInit{Slot: "ide0"}}, []string{"cloud_init.storage"}, ""},
		"no keys, and no drive":                     {Spec{Disks: disk}, Spec{CloudInit: CloudInit{CloudInitOptions: CloudInitOptions{SSHKeys: []string{}}}}, nil, ""},
		"a medium where its drive is":               {Spec{CloudInit: drive}, Spec{CDROMs: file("ide2"), CloudInit: user}, []string{"cdroms.ide2"}, ""},
		"a disk where its drive is":                 {Spec{CloudInit: drive}, Spec{Disks: disk, CloudInit: user}, []string{"disks.ide2"}, ""},
		"a medium where a drive is, no cloud-init":  {Spec{CloudInit: drive}, Spec{CDROMs: file("ide2")}, nil, "ide2"},
		"a medium where a drive was, which moves":   {Spec{CloudInit: drive}, Spec{CDROMs: file("ide2"), CloudInit: CloudInit{Slot: "ide0"}}, nil, ""},
		"its own disk and drive":                    {Spec{Disks: disk, CloudInit: drive}, Spec{Disks: map[string]Disk{"scsi0": {}}, CloudInit: user}, nil, ""},
		"another medium, and a drive in its place":  {Spec{CDROMs: file("ide2", "ide0")}, Spec{CDROMs: file("ide0"), CloudInit: CloudInit{Storage: "a"}}, nil, ""},
		"a disk in the place of a medium":           {Spec{CDROMs: file("ide2")}, Spec{Disks: disk}, nil, ""},
		"another disk in the place of its own disk": {Spec{Disks: disk}, Spec{Disks: map[string]Disk{"scsi0": {Volume: "b:1"}}}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems, goes := Displaced(c.base, c.want)
			var at []string
			for _, p := range problems {
				at = append(at, p.At)
			}
			if !slices.Equal(at, c.at) || goes != c.drive {
				t.Errorf("%v, %q, want %v, %q", problems, goes, c.at, c.drive)
			}
		})
	}
}
