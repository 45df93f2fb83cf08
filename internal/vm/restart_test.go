package vm

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
)

// TestNeedsRestart holds the forecast against what a live PVE 8.4 did to a running guest: an option that is said to wait
// did wait in every recorded change.
func TestNeedsRestart(t *testing.T) {
	file, err := os.Open("../test/conformance/testdata/running.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	foretold, waited, rows := 0, 0, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row struct {
			Option       string
			Sent, Before *string
			Status       int
			Effect       string
			Delete       bool
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.Status != 200 || row.Delete || row.Sent == nil {
			continue
		}
		base := map[string]string{} // the guest had no ostype
		if row.Before != nil {
			base[row.Option] = *row.Before
		}
		changed := maps.Clone(base)
		changed[row.Option] = *row.Sent
		rows++
		options := NeedsRestart(Decode(base), Decode(changed))
		if row.Effect == "pending" {
			waited++
		}
		if len(options) > 0 {
			foretold++
			if row.Effect != "pending" {
				t.Errorf("%s = %s: a restart is foretold, and PVE says %q", row.Option, *row.Sent, row.Effect)
			}
		} else if row.Effect == "pending" {
			t.Logf("%s = %s waits and is not foretold", row.Option, *row.Sent)
		}
	}
	t.Logf("%d changes, %d waited for a restart, %d of them foretold", rows, waited, foretold)
	if foretold < waited*3/4 {
		t.Errorf("only %d of %d restarts are foretold", foretold, waited)
	}
}

// TestNeedsRestartHeedsHotplug: what waits depends on the hotplug setting that the guest runs with, not on the one that the
// same change sets (qemu-server QemuServer.pm vmconfig_hotplug_pending).
func TestNeedsRestartHeedsHotplug(t *testing.T) {
	const disk, other = "local-zfs:vm-100-disk-0,size=1G", "local-zfs:vm-100-disk-1,size=1G"
	for name, c := range map[string]struct {
		hotplug       string
		before, after map[string]string
		want          []string
	}{
		"a new disk":                     {"disk", nil, map[string]string{"scsi1": "local-zfs:1"}, nil},
		"a new disk without hotplug":     {"network", nil, map[string]string{"scsi1": "local-zfs:1"}, []string{"scsi1"}},
		"a removed disk":                 {"disk", map[string]string{"virtio0": disk}, nil, nil},
		"a removed disk without hotplug": {"network", map[string]string{"virtio0": disk}, nil, []string{"virtio0"}},
		"another volume":                 {"disk", map[string]string{"scsi0": disk}, map[string]string{"scsi0": other}, nil},
		"another volume without hotplug": {"network", map[string]string{"scsi0": disk}, map[string]string{"scsi0": other},
			[]string{"scsi0"}},
		"a disk that changes its slot": {"disk", map[string]string{"ide0": disk}, map[string]string{"scsi1": disk}, []string{"ide0"}},
		"the same without hotplug": {"network", map[string]string{"ide0": disk}, map[string]string{"scsi1": disk},
			[]string{"ide0", "scsi1"}},
		"another medium without hotplug": {"network", map[string]string{"scsi0": "none,media=cdrom"},
			map[string]string{"scsi0": "cdrom,media=cdrom"}, nil},
		"a throttle without hotplug": {"network", map[string]string{"scsi0": disk}, map[string]string{"scsi0": disk + ",mbps=5"}, nil},
		"a network device":           {"disk,network", nil, map[string]string{"net0": "virtio,bridge=vmbr0"}, nil},
		"a network device and its hotplug": {"disk", nil, map[string]string{"net0": "virtio,bridge=vmbr0", "hotplug": "network"},
			[]string{"net0"}},
		"a network device, last with hotplug": {"network", nil, map[string]string{"net0": "virtio,bridge=vmbr0", "hotplug": "disk"}, nil},
		"hotplug of memory":                   {"disk", nil, map[string]string{"hotplug": "disk,memory"}, []string{"hotplug"}},
		"no hotplug of memory any more":       {"memory", nil, map[string]string{"hotplug": "disk"}, []string{"hotplug"}},
		"a USB device":                        {"usb", map[string]string{"ostype": "l26"}, map[string]string{"ostype": "l26", "usb0": "spice"}, nil},
		"a USB device, another guest": {"usb", map[string]string{"machine": "q35"}, map[string]string{"machine": "q35", "usb0": "spice"},
			[]string{"usb0"}},
		"a USB device, an old machine": {"usb", map[string]string{"ostype": "l26", "machine": "pc-q35-6.2"},
			map[string]string{"ostype": "l26", "machine": "pc-q35-6.2", "usb0": "spice"}, []string{"usb0"}},
		"hotplug of vCPUs":             {"disk", nil, map[string]string{"hotplug": "cpu,disk"}, []string{"hotplug"}},
		"no hotplug of vCPUs any more": {"cpu", nil, map[string]string{"hotplug": "0"}, []string{"hotplug"}},
	} {
		before, after := map[string]string{"hotplug": c.hotplug}, map[string]string{"hotplug": c.hotplug}
		maps.Copy(before, c.before)
		maps.Copy(after, c.after)
		if got := NeedsRestart(Decode(before), Decode(after)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v wait, want %v", name, got, c.want)
		}
	}
}
