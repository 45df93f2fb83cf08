package vm

import "strings"

// parseDrive splits a drive into its file and its other sub-keys. "volume" is another name of "file".
func parseDrive(value string) (file string, properties map[string]string, ok bool) {
	properties, ok = parseProperties(value, "file")
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
	count, ok := parseDecimal(number)
	if !ok || count > 1<<32 {
		return "", 0, false
	}
	return storage, int64(count * gib), true
}

// decodeDrive reads the drive in one of the disk slots into s.
func decodeDrive(s *Spec, slot, value string) bool {
	file, properties, ok := parseDrive(value)
	switch {
	case !ok:
		return false
	case isCloudInitVolume(file):
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
		s.CloudInit.Format = new(volumeFormat(file))
	}
	s.CloudInit.Rest = nonEmpty(properties)
	return true
}

func decodeDisk(file string, properties map[string]string) (Disk, bool) {
	storage, bytes, isNew := allocation(file)
	if !isNew {
		d := Disk{Storage: VolumeStorage(file), Volume: file, Format: new(volumeFormat(file))}
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
	d := EFIDisk{Storage: VolumeStorage(file), Volume: file}
	if storage, _, isNew := allocation(file); isNew {
		d.Storage, d.Volume, d.Format = storage, "", take(properties, "format")
		d.ImportFrom = take(properties, "import-from")
	} else {
		d.Format = new(volumeFormat(file))
	}
	return &d, efiFormat().readAll(&d, properties)
}

func decodeTPMState(value string) (*TPMState, bool) {
	file, properties, ok := parseDrive(value)
	if !ok {
		return nil, false
	}
	d := TPMState{Storage: VolumeStorage(file), Volume: file}
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
