package vm

import (
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

var diskFormat = sync.OnceValue(func() format[Disk] {
	return format[Disk]{
		defaultKey: "file",
		leaves:     slices.Concat(diskLeaves(), throttleLeaves()),
		aliases: map[string]string{
			"bps_rd_length": "bps_rd_max_length", "bps_wr_length": "bps_wr_max_length",
			"iops_rd_length": "iops_rd_max_length", "iops_wr_length": "iops_wr_max_length",
		},
		rest: func(d *Disk) *map[string]string { return &d.Rest },
	}
})

func diskLeaves() []leaf[Disk] {
	named := since(8, 1, 4, "8.2", "qemu-server 8.1.0: QemuServer/Drive.pm, scsi_fmt (d1feab4a)")
	return []leaf[Disk]{
		scalar("size", func(d *Disk) **int64 { return &d.Size }, property.ParseSizeOption, property.FormatSize),
		text("cache", func(d *Disk) **string { return &d.Cache }, usually("`none`")),
		text("aio", func(d *Disk) **string { return &d.AIO }, usually("`io_uring` where the storage can")),
		scalar("discard", func(d *Disk) **bool { return &d.Discard }, parseDiscard, showDiscard, initial("false")),
		flag("ssd", func(d *Disk) **bool { return &d.SSD }, initial("false")),
		flag("iothread", func(d *Disk) **bool { return &d.IOThread }, initial("false")),
		flag("backup", func(d *Disk) **bool { return &d.Backup }, initial("true")),
		flag("replicate", func(d *Disk) **bool { return &d.Replicate }, initial("true")),
		flag("ro", func(d *Disk) **bool { return &d.ReadOnly }, initial("false")),
		scalar("serial", func(d *Disk) **string { return &d.Serial }, property.ParseEscaped, property.PercentEncode),
		scalar("model", func(d *Disk) **string { return &d.Model }, property.ParseEscaped, property.PercentEncode),
		text("wwn", func(d *Disk) **string { return &d.WWN }),
		text("vendor", func(d *Disk) **string { return &d.Vendor }, named),
		text("product", func(d *Disk) **string { return &d.Product }, named),
		integer("queues", func(d *Disk) **int64 { return &d.Queues }, usually("one for each processor")),
		flag("scsiblock", func(d *Disk) **bool { return &d.SCSIBlock }, usually("`false`")),
		flag("snapshot", func(d *Disk) **bool { return &d.Snapshot }, usually("`false`")),
		flag("shared", func(d *Disk) **bool { return &d.Shared }, usually("`false`")),
		flag("detect_zeroes", func(d *Disk) **bool { return &d.DetectZeroes }, usually("`true`")),
		text("rerror", func(d *Disk) **string { return &d.RError }, usually("`report`")),
		text("werror", func(d *Disk) **string { return &d.WError }, usually("`enospc`")),
	}
}

// throttleLeaves leaves out bps, bps_rd and bps_wr: PVE turns any value of them into "mbps=0.000".
func throttleLeaves() []leaf[Disk] {
	return []leaf[Disk]{
		decimal("mbps", func(d *Disk) **float64 { return &d.Throttle.MBps }, at("throttle.mbps"), usually("none")),
		decimal("mbps_max", func(d *Disk) **float64 { return &d.Throttle.MBpsMax }, at("throttle.mbps_max")),
		integer("bps_max_length", func(d *Disk) **int64 { return &d.Throttle.MBpsMaxLength }, at("throttle.mbps_max_length"),
			usually("1")),
		integer("iops", func(d *Disk) **int64 { return &d.Throttle.IOPS }, at("throttle.iops"), usually("none")),
		integer("iops_max", func(d *Disk) **int64 { return &d.Throttle.IOPSMax }, at("throttle.iops_max")),
		integer("iops_max_length", func(d *Disk) **int64 { return &d.Throttle.IOPSMaxLength }, at("throttle.iops_max_length"),
			usually("1")),
		decimal("mbps_rd", func(d *Disk) **float64 { return &d.Throttle.MBpsRead }, at("throttle.mbps_rd"), usually("none")),
		decimal("mbps_rd_max", func(d *Disk) **float64 { return &d.Throttle.MBpsReadMax }, at("throttle.mbps_rd_max")),
		integer("bps_rd_max_length", func(d *Disk) **int64 { return &d.Throttle.MBpsReadMaxLength },
			at("throttle.mbps_rd_max_length"), usually("1")),
		integer("iops_rd", func(d *Disk) **int64 { return &d.Throttle.IOPSRead }, at("throttle.iops_rd"), usually("none")),
		integer("iops_rd_max", func(d *Disk) **int64 { return &d.Throttle.IOPSReadMax }, at("throttle.iops_rd_max")),
		integer("iops_rd_max_length", func(d *Disk) **int64 { return &d.Throttle.IOPSReadMaxLength },
			at("throttle.iops_rd_max_length"), usually("1")),
		decimal("mbps_wr", func(d *Disk) **float64 { return &d.Throttle.MBpsWrite }, at("throttle.mbps_wr"), usually("none")),
		decimal("mbps_wr_max", func(d *Disk) **float64 { return &d.Throttle.MBpsWriteMax }, at("throttle.mbps_wr_max")),
		integer("bps_wr_max_length", func(d *Disk) **int64 { return &d.Throttle.MBpsWriteMaxLength },
			at("throttle.mbps_wr_max_length"), usually("1")),
		integer("iops_wr", func(d *Disk) **int64 { return &d.Throttle.IOPSWrite }, at("throttle.iops_wr"), usually("none")),
		integer("iops_wr_max", func(d *Disk) **int64 { return &d.Throttle.IOPSWriteMax }, at("throttle.iops_wr_max")),
		integer("iops_wr_max_length", func(d *Disk) **int64 { return &d.Throttle.IOPSWriteMaxLength },
			at("throttle.iops_wr_max_length"), usually("1")),
	}
}

var efiFormat = sync.OnceValue(func() format[EFIDisk] {
	return format[EFIDisk]{
		defaultKey: "file",
		leaves: []leaf[EFIDisk]{
			text("efitype", func(d *EFIDisk) **string { return &d.Type }, at("type"), usually("`2m`")),
			flag("pre-enrolled-keys", func(d *EFIDisk) **bool { return &d.PreEnrolledKeys }, initial("false")),
			text("ms-cert", func(d *EFIDisk) **string { return &d.MSCert }, since(9, 0, 12, "9.1",
				"qemu-server 9.0.27: QemuServer/Drive.pm, efidisk_fmt (c5b3a314)"), backported(8, 4, 17)), // 8.4.6 (733a8b7d)
		},
		rest: func(d *EFIDisk) *map[string]string { return &d.Rest },
	}
})

var tpmFormat = sync.OnceValue(func() format[TPMState] {
	return format[TPMState]{
		defaultKey: "file",
		leaves:     []leaf[TPMState]{text("version", func(d *TPMState) **string { return &d.Version }, usually("`v1.2`"))},
		rest:       func(d *TPMState) *map[string]string { return &d.Rest },
	}
})

func parseDiscard(s string) (bool, bool) { return s == "on", s == "on" || s == "ignore" }

func showDiscard(on bool) string {
	if on {
		return "on"
	}
	return "ignore"
}

// DiskOptionBuses are the buses of the disk options that not every bus has (qemu-server Drive.pm, the descriptions of
// ide, sata, scsi and virtio).
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
