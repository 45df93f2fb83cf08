package vm

import (
	"slices"
	"strings"
)

// FitDisk takes out of a disk that comes from another slot what the bus of its new one does not know (qemu-server
// Drive.pm, $scsidesc and its like).
func FitDisk(slot string, d Disk) Disk {
	bus := strings.TrimRight(slot, "0123456789")
	on := func(buses ...string) bool { return slices.Contains(buses, bus) }
	if !on("scsi", "virtio") {
		d.IOThread, d.ReadOnly = nil, nil
	}
	if !on("scsi") {
		d.Queues, d.SCSIBlock, d.Vendor, d.Product = nil, nil, nil, nil
	}
	if !on("ide") {
		d.Model = nil
	}
	if !on("ide", "sata", "scsi") {
		d.SSD, d.WWN = nil, nil
	}
	return d
}
