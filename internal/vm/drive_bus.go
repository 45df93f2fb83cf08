package vm

import (
	"slices"
	"strings"
)

// DiskOptionBuses are the buses of the disk options that not every bus has (qemu-server Drive.pm, the descriptions of ide,
// sata, scsi and virtio).
func DiskOptionBuses() map[string][]string {
	return map[string][]string{
		"model":     {"ide"},
		"ssd":       {"ide", "sata", "scsi"},
		"wwn":       {"ide", "sata", "scsi"},
		"iothread":  {"scsi", "virtio"},
		"ro":        {"scsi", "virtio"},
		"queues":    {"scsi"},
		"scsiblock": {"scsi"},
		"product":   {"scsi"},
		"vendor":    {"scsi"},
	}
}

// FitDisk takes out of a disk that comes from another slot what the bus of its new one does not know.
func FitDisk(slot string, d Disk) Disk {
	bus := strings.TrimRight(slot, "0123456789")
	properties := diskFormat().showAll(&d)
	for option, buses := range DiskOptionBuses() {
		if !slices.Contains(buses, bus) {
			delete(properties, option)
		}
	}
	fit := Disk{Storage: d.Storage, Volume: d.Volume, Format: d.Format, ImportFrom: d.ImportFrom}
	diskFormat().readAll(&fit, properties)
	return fit
}
