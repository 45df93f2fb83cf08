package vm

import (
	"slices"
	"testing"
)

// TestTakesDisk: a slot takes disks of a running guest where its bus can and the guest's hotplug setting lets it.
func TestTakesDisk(t *testing.T) {
	for _, tt := range []struct {
		slot    string
		hotplug []string
		want    bool
	}{
		{"scsi1", nil, true}, {"virtio3", []string{"1"}, true}, {"scsi1", []string{"network", "disk"}, true},
		{"scsi1", []string{"network"}, false}, {"scsi1", []string{}, false}, {"ide0", nil, false}, {"sata2", []string{"disk"}, false},
		{"efidisk0", nil, false}, {"tpmstate0", nil, false},
	} {
		if got := TakesDisk(tt.slot, tt.hotplug); got != tt.want {
			t.Errorf("%s with %v: %v", tt.slot, tt.hotplug, got)
		}
	}
}

// TestNeedsRestartWithoutDiskHotplug: a guest that takes no disks keeps its old ones until it is restarted; what changes of a
// disk that stays is another matter.
func TestNeedsRestartWithoutDiskHotplug(t *testing.T) {
	disk := func(volume string, mbps float64) map[string]Disk {
		return map[string]Disk{"scsi0": {Storage: "aa", Volume: volume, Throttle: Throttle{MBps: &mbps}}}
	}
	off := []string{"network"}
	for name, tt := range map[string]struct {
		from, to Spec
		want     []string
	}{
		"a new disk": {Spec{Options: Options{Hotplug: off}}, Spec{Options: Options{Hotplug: off}, Disks: disk("aa:vm-1-disk-0", 1)},
			[]string{"scsi0"}},
		"a disk that goes": {Spec{Options: Options{Hotplug: off}, Disks: disk("aa:vm-1-disk-0", 1)}, Spec{Options: Options{Hotplug: off}},
			[]string{"scsi0"}},
		"another volume": {Spec{Options: Options{Hotplug: off}, Disks: disk("aa:vm-1-disk-0", 1)},
			Spec{Options: Options{Hotplug: off}, Disks: disk("aa:vm-1-disk-1", 1)}, []string{"scsi0"}},
		"another limit": {Spec{Options: Options{Hotplug: off}, Disks: disk("aa:vm-1-disk-0", 1)},
			Spec{Options: Options{Hotplug: off}, Disks: disk("aa:vm-1-disk-0", 2)}, nil},
		"a new disk, hotplugged": {Spec{}, Spec{Disks: disk("aa:vm-1-disk-0", 1)}, nil},
	} {
		if got := NeedsRestart(tt.from, tt.to); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestBootOrderAlone reads the boot order in each spelling.
func TestBootOrderAlone(t *testing.T) {
	for _, tt := range []struct {
		config map[string]string
		want   []string
	}{
		{map[string]string{"boot": "order=scsi0;net0"}, []string{"scsi0", "net0"}},
		{map[string]string{"boot": " "}, nil},
		{map[string]string{}, nil},
		{map[string]string{"boot": "cdn", "bootdisk": "scsi0", "scsi0": "a:vm-1-disk-0", "net0": "virtio"}, []string{"scsi0", "net0"}},
		{map[string]string{"bootdisk": "ide0", "ide0": "a:vm-1-disk-0"}, []string{"ide0"}},
	} {
		if got := BootOrder(tt.config); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.config, got, tt.want)
		}
	}
}

// TestStorages lists each storage once.
func TestStorages(t *testing.T) {
	s := Spec{Disks: map[string]Disk{"scsi0": {Storage: "b"}, "scsi1": {Storage: "a"}, "scsi2": {}}, EFIDisk: &EFIDisk{Storage: "b"},
		TPMState: &TPMState{Storage: "c"}, CloudInit: CloudInit{Storage: "d"}}
	if got := s.Storages(); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("got %v", got)
	}
	if got := new(Spec).Storages(); len(got) != 0 {
		t.Errorf("a VM without drives is on %v", got)
	}
}
