package vm

import (
	"maps"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// parseDrive splits a drive into its file and its other sub-keys. "volume" is another name of "file".
func parseDrive(value string) (file string, properties map[string]string, ok bool) {
	properties, ok = property.Parse(value, "file")
	if !ok {
		return "", nil, false
	}
	file = properties["file"]
	if volume, found := properties["volume"]; found {
		if file != "" {
			return "", nil, false
		}
		file = volume
	}
	delete(properties, "file")
	delete(properties, "volume")
	return file, properties, file != ""
}

// allocation takes the syntax for a new volume apart: "local-zfs:32" in GiB, "local-zfs:0" for an import
// (qemu-server Drive.pm NEW_DISK_RE).
func allocation(file string) (storage string, bytes int64, ok bool) {
	storage, number, found := strings.Cut(file, ":")
	if !found || strings.ContainsAny(storage, "/ \t") {
		return "", 0, false
	}
	count, ok := property.ParseDecimal(number)
	if !ok || count > 1<<32 {
		return "", 0, false
	}
	return storage, int64(count * property.GiB), true
}

// decodeDrive reads the drive in one of the disk slots into s.
func decodeDrive(s *Spec, slot, value string) bool {
	file, properties, ok := parseDrive(value)
	switch {
	case !ok:
		return false
	case volid.IsCloudInit(file):
		return decodeCloudInitDrive(s, slot, file, properties)
	case properties["media"] == "cdrom":
		delete(properties, "media")
		put(&s.CDROMs, slot, CDROM{File: file, Rest: nonEmpty(properties)})
		return true
	case file == "none" || file == "cdrom":
		return false
	}
	disk, ok := decodeDisk(file, properties)
	if ok {
		put(&s.Disks, slot, disk)
	}
	return ok
}

// decodeCloudInitDrive reads the first cloud-init drive; PVE allows no second one.
func decodeCloudInitDrive(s *Spec, slot, file string, properties map[string]string) bool {
	if s.CloudInit.Slot != "" {
		return false
	}
	storage, name, _ := strings.Cut(file, ":")
	s.CloudInit.Slot, s.CloudInit.Storage = slot, storage
	if properties["media"] == "cdrom" {
		delete(properties, "media")
	}
	if name == "cloudinit" {
		s.CloudInit.Format = take(properties, "format")
	} else {
		s.CloudInit.Volume = file
		s.CloudInit.Format = new(volid.Format(file))
	}
	s.CloudInit.Rest = nonEmpty(properties)
	return true
}

func decodeDisk(file string, properties map[string]string) (Disk, bool) {
	storage, bytes, isNew := allocation(file)
	if !isNew {
		d := Disk{Storage: volid.Storage(file), Volume: file, Format: new(volid.Format(file))}
		ok := diskFormat().readAll(&d, properties)
		return d, ok
	}
	if _, sized := properties["size"]; sized {
		return Disk{}, false
	}
	d := Disk{Storage: storage, Format: take(properties, "format"), ImportFrom: take(properties, "import-from")}
	if d.ImportFrom == nil {
		d.Size = &bytes
	}
	ok := diskFormat().readAll(&d, properties)
	return d, ok
}

func decodeEFIDisk(value string) (*EFIDisk, bool) {
	file, properties, ok := parseDrive(value)
	if !ok {
		return nil, false
	}
	d := EFIDisk{Storage: volid.Storage(file), Volume: file}
	if storage, _, isNew := allocation(file); isNew {
		d.Storage, d.Volume, d.Format = storage, "", take(properties, "format")
		d.ImportFrom = take(properties, "import-from")
	} else {
		d.Format = new(volid.Format(file))
	}
	return &d, efiFormat().readAll(&d, properties)
}

func decodeTPMState(value string) (*TPMState, bool) {
	file, properties, ok := parseDrive(value)
	if !ok {
		return nil, false
	}
	d := TPMState{Storage: volid.Storage(file), Volume: file}
	if storage, _, isNew := allocation(file); isNew {
		d.Storage, d.Volume, d.ImportFrom = storage, "", take(properties, "import-from")
	}
	return &d, tpmFormat().readAll(&d, properties)
}

// take removes a sub-key and gives its value.
func take(properties map[string]string, key string) *string {
	val, ok := properties[key]
	if !ok {
		return nil
	}
	delete(properties, key)
	return &val
}

func nonEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// Resized is the value of a drive's option as PVE writes it once the disk has another size (qemu-server API2/Qemu.pm
// resize_vm, Drive.pm print_drive). One that names no size stays as it is.
func Resized(drive string, bytes int64) string {
	fields := strings.Split(drive, ",")
	for i, field := range fields {
		if strings.HasPrefix(field, "size=") {
			fields[i] = "size=" + property.FormatSize(bytes)
		}
	}
	return strings.Join(fields, ",")
}

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
			properties["file"] = d.Storage + ":" + property.FormatGiB(*d.Size)
		}
		setFormat(properties, d.Format)
	}
	return property.Print(properties, "file")
}

func encodeCDROM(c CDROM) string {
	properties := maps.Clone(c.Rest)
	if properties == nil {
		properties = map[string]string{}
	}
	properties["file"], properties["media"] = c.File, "cdrom"
	return property.Print(properties, "file")
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
	return property.Print(properties, "file")
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
	return property.Print(properties, "file")
}

// encodeTPMState prints the TPM state. PVE ignores the size asked for: it is always 4 MiB, raw.
func encodeTPMState(d TPMState) string {
	properties := tpmFormat().showAll(&d)
	properties["file"] = d.Volume
	if d.Volume == "" {
		properties["file"] = d.Storage + ":1"
		setImport(properties, d.Storage, d.ImportFrom)
	}
	return property.Print(properties, "file")
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
