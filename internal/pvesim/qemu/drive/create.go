package drive

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

const (
	CloudinitSize = 4 << 20   // Cloudinit.pm CLOUDINIT_DISK_SIZE
	TpmSize       = 4 << 20   // Drive.pm TPMSTATE_DISK_SIZE
	efiSize4m     = 528 << 10 // size of OVMF's variable store, efitype 4m
	efiSize2m     = 128 << 10
)

// Maker makes the volumes that drive options ask for (qemu-server API2/Qemu.pm, create_disks).
type Maker struct {
	engine.Process
	Node     string
	Vmid     int
	Conf     map[string]string // the guest's configuration so far: template, other cloud-init drives
	Fallback string            // storage for sizes that name none
	Made     []string          // volumes allocated
	// Midway, if set, is where a create may be struck: with the last drive's volume made, and its copy under way.
	Midway func() error
	last   string // that drive
}

// Make allocates and imports, drive by drive in plain string order, and returns the options to store. On an error it
// has freed what it made.
func (m *Maker) Make(params map[string]string) (map[string]string, error) {
	out := map[string]string{}
	drives := slices.DeleteFunc(slices.Sorted(maps.Keys(params)), func(opt string) bool { return !IsDrive(opt) })
	m.last = ""
	if len(drives) > 0 {
		m.last = drives[len(drives)-1]
	}
	for _, opt := range drives {
		d := Parse(m.Engine, opt, params[opt])
		if d == nil {
			volume.CleanUp(m.Process, m.Node, m.Made)
			return nil, perl.Die("unable to parse drive options for '%s'", opt)
		}
		err := m.drive(opt, d, out)
		if err == nil {
			err = m.strike(opt)
		}
		if err != nil {
			volume.CleanUp(m.Process, m.Node, m.Made)
			return nil, err
		}
	}
	return out, nil
}

func (m *Maker) drive(opt string, d Drive, out map[string]string) error {
	file := d.File()
	storage, name, _ := state.SplitVolid(file)
	switch {
	case file == "none" || file == "cdrom":
		delete(d, "size")
	case file == "cloudinit" || name == "cloudinit":
		if err := m.cloudinit(opt, storage, d, out); err != nil {
			return err
		}
	case !d.IsCDROM() && newDisk.MatchString(file):
		if err := m.allocate(opt, d); err != nil {
			return err
		}
	default:
		if err := VolumeAccess(m.Process.Request, m.Vmid, file); err != nil {
			return err
		}
		v, err := volume.Activate(m.Process, m.Node, file)
		if err != nil {
			return err
		}
		if v == nil && !m.hasPath(file) {
			return perl.Die("volume %s does not exist", file)
		}
		if v != nil {
			d["size"] = schema.FormatSize(v.Size)
		}
		out[opt] = Print(m.Engine, opt, d)
		return nil
	}
	if err := m.strike(opt); err != nil {
		return err
	}
	out[opt] = Print(m.Engine, opt, d)
	if file != "none" && file != "cdrom" {
		m.Logf("%s: successfully created disk '%s'", opt, out[opt])
	}
	return nil
}

// hasPath reports whether a path of the node, which only root may name, is a file or the device of a volume.
func (m *Maker) hasPath(path string) bool {
	if _, ok := m.W.Nodes[m.Node].Files[path]; ok {
		return true
	}
	for _, s := range m.W.Storages {
		for _, v := range m.W.VolumesOn(m.Node, s) {
			if s.VolumePath(v.Name) == path {
				return true
			}
		}
	}
	return false
}

// strike is the moment of the last drive at which a create may be struck; it comes once.
func (m *Maker) strike(opt string) error {
	if m.Midway == nil || opt != m.last {
		return nil
	}
	strike := m.Midway
	m.Midway = nil
	return strike()
}

func (m *Maker) cloudinit(opt, storage string, d Drive, out map[string]string) error {
	if storage == "" {
		storage = m.Fallback
	}
	if storage == "" {
		return perl.Die("no storage ID specified (and no default storage)")
	}
	for _, section := range []map[string]string{m.Conf, out} {
		for _, k := range slices.Sorted(maps.Keys(section)) {
			if other := Parse(m.Engine, k, section[k]); IsDrive(k) && k != opt && other != nil && other.IsCloudinit() {
				if _, ready := section[k]; ready && !strings.HasSuffix(other.File(), ":cloudinit") {
					return perl.Die("%s - cloud-init drive is already attached at '%s'", opt, k)
				}
			}
		}
	}
	s, err := m.W.StorageConfig(storage)
	if err != nil {
		return err
	}
	name, format := fmt.Sprintf("vm-%d-cloudinit", m.Vmid), d["format"]
	if format == "" {
		format = "raw"
		if s.IsDir() {
			format = "qcow2"
		}
	}
	if s.IsDir() {
		name += "." + format
	}
	v, err := volume.Alloc(m.Process, m.Node, storage, m.Vmid, name, format, CloudinitSize)
	if err != nil {
		return err
	}
	volume.Formatted(m.Process, s, v)
	m.Made = append(m.Made, v.Volid())
	d["file"], d["media"] = v.Volid(), "cdrom"
	delete(d, "format")
	delete(d, "size")
	return nil
}

// allocate makes a new volume for "<storage>:<GiB>", empty or filled from import-from.
func (m *Maker) allocate(opt string, d Drive) error {
	match := newDisk.FindStringSubmatch(d.File())
	storage := match[1]
	if storage == "" {
		storage = m.Fallback
	}
	if storage == "" {
		return perl.Die("no storage ID specified (and no default storage)")
	}
	if src := d["import-from"]; src != "" {
		delete(d, "import-from")
		return m.ImportDisk(opt, d, storage, src)
	}
	gib, _ := strconv.ParseFloat(match[2], 64)  // digits, by the pattern
	size := int64(math.Ceil(gib*(1<<20))) << 10 // a fraction of a KiB is rounded up by the storages' tools
	format := d["format"]
	switch {
	case opt == "tpmstate0":
		size, format = TpmSize, "raw"
	case opt == "efidisk0":
		size = EfiVars(d)
	}
	v, err := volume.Alloc(m.Process, m.Node, storage, m.Vmid, "", format, size)
	if err != nil {
		return err
	}
	if opt == "efidisk0" { // PVE asks the storage for the size of the copied variable store
		size = v.Size
		m.transferred(efiSize4m)
		m.marksCertificate(d)
	}
	return m.finish(d, v, size)
}

// marksCertificate notes that the template of the variable store holds Microsoft's certificates of 2023 (QemuServer.pm,
// create_efidisk). A mark that was asked for stays, since not every template of a release holds them.
func (m *Maker) marksCertificate(d Drive) {
	if d["pre-enrolled-keys"] != "1" || d["ms-cert"] != "" {
		return
	}
	if f, ok := m.Engine.Config.Schema.Format("efidisk0"); ok && f.Has("ms-cert") {
		d["ms-cert"] = "2023k"
	}
}

// EfiVars is the size of the firmware's variables (QemuServer.pm, get_efivars_size).
func EfiVars(d Drive) int64 {
	if d["efitype"] == "4m" {
		return efiSize4m
	}
	return efiSize2m
}

func (m *Maker) finish(d Drive, v *state.Volume, size int64) error {
	volume.Formatted(m.Process, m.W.Storages[v.Storage], v)
	if m.Conf["template"] == "1" {
		if _, err := m.W.CreateBase(v); err != nil {
			m.Made = append(m.Made, v.Volid())
			return err
		}
	}
	m.Made = append(m.Made, v.Volid())
	d["file"], d["size"] = v.Volid(), schema.FormatSize(size)
	delete(d, "format")
	return nil
}

func (m *Maker) transferred(size int64) {
	m.Logf("transferred 0.0 B of %s (0.00%%)", perl.HumanSize(size))
	m.Logf("transferred %s of %s (100.00%%)", perl.HumanSize(size), perl.HumanSize(size))
}
