package drive

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

var (
	// newDisk is "<storage>:<GiB>" (qemu-server QemuServer/Drive.pm, NEW_DISK_RE).
	newDisk = regexp.MustCompile(`^(?:([^/:\s]+):)?(\d+(?:\.\d+)?)$`)
	// CloudinitFile is the file of a cloud-init drive, asked for or made (Drive.pm drive_is_cloudinit).
	CloudinitFile = regexp.MustCompile(`[:/](?:vm-\d+-)?cloudinit(?:\.(?:raw|qcow2|vmdk|qcow|qed|cloop))?$`)
)

// Drive is a parsed drive option: its keys and values.
type Drive map[string]string

// File is the volume, path or keyword of the drive.
func (d Drive) File() string { return d["file"] }

// IsCloudinit reports whether it is a cloud-init drive.
func (d Drive) IsCloudinit() bool { return CloudinitFile.MatchString(d["file"]) }

// IsCDROM reports whether it is an optical drive; a cloud-init drive is one.
func (d Drive) IsCDROM() bool { return d["media"] == "cdrom" }

// IsMedia reports a CD-ROM that is no cloud-init drive.
func (d Drive) IsMedia() bool { return d.IsCDROM() && !d.IsCloudinit() }

// IsDrive reports whether the option is a drive; unusedN is not (Drive.pm is_valid_drivename).
func IsDrive(option string) bool {
	base, _, ok := schema.OptionIndex(option)
	return ok && slices.Contains([]string{"ide", "sata", "scsi", "virtio", "efidisk", "tpmstate"}, base)
}

// HasIndex reports whether the option is base with an index ("net3").
func HasIndex(option string, bases ...string) bool {
	base, _, ok := schema.OptionIndex(option)
	return ok && slices.Contains(bases, base)
}

// Parse parses a drive option; nil if it cannot be (Drive.pm parse_drive).
func Parse(e *engine.Engine, option, value string) Drive {
	d, err := e.Config.Schema.ParseDrive(option, value)
	if err != nil {
		return nil
	}
	if d["media"] == "" && (d["file"] == "none" || d["file"] == "cdrom") {
		d["media"] = "cdrom"
	}
	return d
}

// Print writes a drive the way PVE stores it.
func Print(e *engine.Engine, option string, d Drive) string {
	f, ok := e.Config.Schema.Format(option)
	if !ok {
		return d["file"]
	}
	return f.Print(d)
}

// BootNames lists drive options in the order in which PVE looks for a boot disk (Drive.pm valid_drive_names_for_boot).
func BootNames(conf map[string]string) []string {
	rank := map[string]int{"ide": 0, "scsi": 1, "virtio": 2, "sata": 3}
	var names []string
	for k := range conf {
		base, _, ok := schema.OptionIndex(k)
		if _, bootable := rank[base]; ok && bootable {
			names = append(names, k)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		ba, na, _ := schema.OptionIndex(a)
		bb, nb, _ := schema.OptionIndex(b)
		if ba != bb {
			return rank[ba] - rank[bb]
		}
		return na - nb
	})
	return names
}

// DefaultBoot is the boot order of a guest that was given none: first disk, first CD-ROM, first NIC
// (QemuServer.pm get_default_bootdevices).
func DefaultBoot(e *engine.Engine, conf map[string]string) string {
	var order []string
	for _, cdrom := range []bool{false, true} {
		for _, name := range BootNames(conf) {
			if d := Parse(e, name, conf[name]); d != nil && d.IsCDROM() == cdrom {
				order = append(order, name)
				break
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		if HasIndex(k, "net") {
			order = append(order, k)
			break
		}
	}
	return PrintOrder(order)
}

// PrintOrder is print_bootorder (QemuServer.pm): no device, no text.
func PrintOrder(order []string) string {
	if len(order) == 0 {
		return ""
	}
	return "order=" + strings.Join(order, ";")
}

// BootOrder is the list in a boot option, nil for the legacy form.
func BootOrder(boot string) []string {
	for _, part := range strings.Split(boot, ",") {
		if list, ok := strings.CutPrefix(part, "order="); ok && list != "" {
			return strings.Split(list, ";")
		}
	}
	return nil
}

// BootsFrom are the devices that the firmware tries: QEMU runs with -boot strict=on, and PVE gives no other one an
// index. Without an order that is of the hard disks the one in bootdisk alone (QemuServer.pm device_bootorder,
// bootorder_from_legacy).
func BootsFrom(e *engine.Engine, conf map[string]string) []string {
	letters, has := conf["boot"]
	if strings.HasPrefix(letters, "order=") || has && strings.TrimSpace(letters) == "" {
		return BootOrder(letters)
	}
	if letters = strings.TrimPrefix(letters, "legacy="); !has {
		letters = "cdn"
	}
	var devices []string
	for _, letter := range letters {
		for _, name := range slices.Sorted(maps.Keys(conf)) {
			d := Parse(e, name, conf[name])
			isDisk := letter == 'c' && name == conf["bootdisk"]
			isOptical := letter == 'd' && IsDrive(name) && d != nil && d.IsMedia()
			if isDisk || isOptical || letter == 'n' && HasIndex(name, "net") {
				devices = append(devices, name)
			}
		}
	}
	return devices
}

// Owns reports whether the volume carries the guest's VMID (QemuServer.pm vm_is_volid_owner).
func Owns(w *state.World, vmid int, volid string) bool {
	storage, name, ok := state.SplitVolid(volid)
	if !ok || w.Storages[storage] == nil {
		return false
	}
	n, err := w.Storages[storage].ParseName(name)
	return err == nil && n.VMID == vmid && vmid != 0
}

// Used reports whether a drive of the guest, in its current or a snapshot section, refers to the volume by its id or by
// its path, apart from the option itself: two storages may have one path. Pending changes are not asked
// (qemu-server QemuServer/Drive.pm is_volume_in_use).
func Used(r *engine.Request, g *state.Guest, option, volid string) bool {
	path := Path(r.W, volid)
	refers := func(conf map[string]string, skip string) bool {
		for k, v := range conf {
			if k == skip || !IsDrive(k) {
				continue
			}
			d := Parse(r.Engine, k, v)
			if d != nil && !d.IsCDROM() && (d.File() == volid || path != "" && Path(r.W, d.File()) == path) {
				return true
			}
		}
		return false
	}
	return refers(g.Config, option) || slices.ContainsFunc(slices.Collect(maps.Values(g.Snaps)),
		func(snap map[string]string) bool { return refers(snap, "") })
}

// Path is the path on the node of a volume, or a path as it is; "" if there is none.
func Path(w *state.World, file string) string {
	storage, name, ok := state.SplitVolid(file)
	switch {
	case strings.HasPrefix(file, "/"):
		return file
	case !ok || w.Storages[storage] == nil:
		return ""
	}
	return w.Storages[storage].VolumePath(name)
}

// ParseNet parses a netN option and draws a hardware address if it has none.
func ParseNet(e *engine.Engine, w *state.World, option, value string) map[string]string {
	f, ok := e.Config.Schema.Format(option)
	if !ok {
		return nil
	}
	n, err := f.Parse(value)
	if err != nil {
		return nil
	}
	if n["macaddr"] == "" {
		n["macaddr"] = w.MAC()
	}
	return n
}

// PrintNet writes a netN option the way PVE stores it.
func PrintNet(e *engine.Engine, option string, n map[string]string) string {
	f, _ := e.Config.Schema.Format(option)
	return f.Print(n)
}

// FileFormat is the image format that a volume's name ends in, "" if none.
func FileFormat(name string) string {
	for _, f := range []string{"raw", "qcow2", "vmdk"} {
		if strings.HasSuffix(name, "."+f) {
			return f
		}
	}
	return ""
}

// DriveNames are the drives of a section in the order in which PVE goes through them (Drive.pm, valid_drive_names).
func DriveNames(conf map[string]string) []string {
	names := BootNames(conf)
	for _, opt := range []string{"efidisk0", "tpmstate0"} {
		if _, ok := conf[opt]; ok {
			names = append(names, opt)
		}
	}
	return names
}

// DisksOf are the drives of a section that are no CD-ROMs, with their volumes' names.
func DisksOf(e *engine.Engine, conf map[string]string) (opts []string, volids map[string]string) {
	volids = map[string]string{}
	for _, opt := range DriveNames(conf) {
		if d := Parse(e, opt, conf[opt]); d != nil && !d.IsCDROM() {
			opts, volids[opt] = append(opts, opt), d.File()
		}
	}
	return opts, volids
}
