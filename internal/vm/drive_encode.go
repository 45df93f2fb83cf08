package vm

import "maps"

// encodeDisk prints an existing volume as PVE stores it, or the request to allocate or import one. An import takes the
// size of its source, so Size is left out of the request.
func encodeDisk(d Disk) string {
	properties := diskFormat().showAll(&d)
	properties["file"] = d.Volume
	if d.Volume == "" {
		delete(properties, "size")
		properties["file"] = d.Storage + ":0"
		if d.ImportFrom != nil {
			properties["import-from"] = *d.ImportFrom
		} else if d.Size != nil {
			properties["file"] = d.Storage + ":" + formatGiB(*d.Size)
		}
		setFormat(properties, d.Format)
	}
	return printProperties(properties, "file")
}

func encodeCDROM(c CDROM) string {
	properties := maps.Clone(c.Rest)
	if properties == nil {
		properties = map[string]string{}
	}
	properties["file"], properties["media"] = c.File, "cdrom"
	return printProperties(properties, "file")
}

// encodeCloudInitDrive prints the drive; PVE itself makes a new one a CD-ROM, and refuses media=cdrom beside format.
func encodeCloudInitDrive(c CloudInit) string {
	properties := map[string]string{}
	maps.Copy(properties, c.Rest)
	if c.Volume == "" {
		properties["file"] = c.Storage + ":cloudinit"
		setFormat(properties, c.Format)
	} else {
		properties["file"], properties["media"] = c.Volume, "cdrom"
	}
	return printProperties(properties, "file")
}

// encodeEFIDisk prints the EFI disk. PVE ignores the size asked for: it is that of the OVMF variables.
func encodeEFIDisk(d EFIDisk) string {
	properties := efiFormat().showAll(&d)
	properties["file"] = d.Volume
	if d.Volume == "" {
		properties["file"] = d.Storage + ":1"
		setFormat(properties, d.Format)
		setImport(properties, d.Storage, d.ImportFrom)
	}
	return printProperties(properties, "file")
}

// encodeTPMState prints the TPM state. PVE ignores the size asked for: it is always 4 MiB, raw.
func encodeTPMState(d TPMState) string {
	properties := tpmFormat().showAll(&d)
	properties["file"] = d.Volume
	if d.Volume == "" {
		properties["file"] = d.Storage + ":1"
		setImport(properties, d.Storage, d.ImportFrom)
	}
	return printProperties(properties, "file")
}

// setImport asks for a copy; PVE wants the size 0 then (qemu-server API2/Qemu.pm).
func setImport(properties map[string]string, storage string, source *string) {
	if source != nil {
		properties["file"], properties["import-from"] = storage+":0", *source
	}
}

func setFormat(properties map[string]string, format *string) {
	if format != nil && *format != "" {
		properties["format"] = *format
	}
}
