package vm

import "slices"

func diskFormat() format[Disk] {
	return format[Disk]{
		defaultKey: "file",
		leaves:     slices.Concat(diskLeaves(), throttleLeaves()),
		aliases: map[string]string{
			"bps_rd_length": "bps_rd_max_length", "bps_wr_length": "bps_wr_max_length",
			"iops_rd_length": "iops_rd_max_length", "iops_wr_length": "iops_wr_max_length",
		},
		rest: func(d *Disk) *map[string]string { return &d.Rest },
	}
}

func diskLeaves() []leaf[Disk] {
	return []leaf[Disk]{
		scalar("size", func(d *Disk) **int64 { return &d.Size }, parseSizeOption, FormatSize),
		text("cache", func(d *Disk) **string { return &d.Cache }),
		text("aio", func(d *Disk) **string { return &d.AIO }),
		scalar("discard", func(d *Disk) **bool { return &d.Discard }, parseDiscard, showDiscard),
		flag("ssd", func(d *Disk) **bool { return &d.SSD }),
		flag("iothread", func(d *Disk) **bool { return &d.IOThread }),
		flag("backup", func(d *Disk) **bool { return &d.Backup }),
		flag("replicate", func(d *Disk) **bool { return &d.Replicate }),
		flag("ro", func(d *Disk) **bool { return &d.ReadOnly }),
		scalar("serial", func(d *Disk) **string { return &d.Serial }, parseEscaped, percentEncode),
		scalar("model", func(d *Disk) **string { return &d.Model }, parseEscaped, percentEncode),
		text("wwn", func(d *Disk) **string { return &d.WWN }),
		text("vendor", func(d *Disk) **string { return &d.Vendor }),
		text("product", func(d *Disk) **string { return &d.Product }),
		integer("queues", func(d *Disk) **int64 { return &d.Queues }),
		flag("scsiblock", func(d *Disk) **bool { return &d.SCSIBlock }),
		flag("snapshot", func(d *Disk) **bool { return &d.Snapshot }),
		flag("shared", func(d *Disk) **bool { return &d.Shared }),
		flag("detect_zeroes", func(d *Disk) **bool { return &d.DetectZeroes }),
		text("rerror", func(d *Disk) **string { return &d.RError }),
		text("werror", func(d *Disk) **string { return &d.WError }),
	}
}

// throttleLeaves leaves out bps, bps_rd and bps_wr: PVE turns any value of them into "mbps=0.000".
func throttleLeaves() []leaf[Disk] {
	return []leaf[Disk]{
		decimal("mbps", func(d *Disk) **float64 { return &d.Throttle.MBps }),
		decimal("mbps_max", func(d *Disk) **float64 { return &d.Throttle.MBpsMax }),
		integer("bps_max_length", func(d *Disk) **int64 { return &d.Throttle.MBpsMaxLength }),
		integer("iops", func(d *Disk) **int64 { return &d.Throttle.IOPS }),
		integer("iops_max", func(d *Disk) **int64 { return &d.Throttle.IOPSMax }),
		integer("iops_max_length", func(d *Disk) **int64 { return &d.Throttle.IOPSMaxLength }),
		decimal("mbps_rd", func(d *Disk) **float64 { return &d.Throttle.MBpsRead }),
		decimal("mbps_rd_max", func(d *Disk) **float64 { return &d.Throttle.MBpsReadMax }),
		integer("bps_rd_max_length", func(d *Disk) **int64 { return &d.Throttle.MBpsReadMaxLength }),
		integer("iops_rd", func(d *Disk) **int64 { return &d.Throttle.IOPSRead }),
		integer("iops_rd_max", func(d *Disk) **int64 { return &d.Throttle.IOPSReadMax }),
		integer("iops_rd_max_length", func(d *Disk) **int64 { return &d.Throttle.IOPSReadMaxLength }),
		decimal("mbps_wr", func(d *Disk) **float64 { return &d.Throttle.MBpsWrite }),
		decimal("mbps_wr_max", func(d *Disk) **float64 { return &d.Throttle.MBpsWriteMax }),
		integer("bps_wr_max_length", func(d *Disk) **int64 { return &d.Throttle.MBpsWriteMaxLength }),
		integer("iops_wr", func(d *Disk) **int64 { return &d.Throttle.IOPSWrite }),
		integer("iops_wr_max", func(d *Disk) **int64 { return &d.Throttle.IOPSWriteMax }),
		integer("iops_wr_max_length", func(d *Disk) **int64 { return &d.Throttle.IOPSWriteMaxLength }),
	}
}

func efiFormat() format[EFIDisk] {
	return format[EFIDisk]{
		defaultKey: "file",
		leaves: []leaf[EFIDisk]{
			text("efitype", func(d *EFIDisk) **string { return &d.Type }),
			flag("pre-enrolled-keys", func(d *EFIDisk) **bool { return &d.PreEnrolledKeys }),
			text("ms-cert", func(d *EFIDisk) **string { return &d.MSCert }),
		},
		rest: func(d *EFIDisk) *map[string]string { return &d.Rest },
	}
}

func tpmFormat() format[TPMState] {
	return format[TPMState]{
		defaultKey: "file",
		leaves:     []leaf[TPMState]{text("version", func(d *TPMState) **string { return &d.Version })},
		rest:       func(d *TPMState) *map[string]string { return &d.Rest },
	}
}

func parseDiscard(s string) (bool, bool) { return s == "on", s == "on" || s == "ignore" }

func showDiscard(on bool) string {
	if on {
		return "on"
	}
	return "ignore"
}
