package handle

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const (
	cloudinitSize = 4 << 20   // Cloudinit.pm CLOUDINIT_DISK_SIZE
	tpmSize       = 4 << 20   // Drive.pm TPMSTATE_DISK_SIZE
	efiSize4m     = 528 << 10 // size of OVMF's variable store, efitype 4m
	efiSize2m     = 128 << 10

	// Activating a ZFS volume waits for its device link: long in a worker, short in a synchronous call (ZFSPoolPlugin.pm).
	zvolWaitWorker = 300
	zvolWaitSync   = 10
)

// diskMaker makes the volumes that drive options ask for (qemu-server API2/Qemu.pm, create_disks).
type diskMaker struct {
	process
	node     string
	vmid     int
	conf     map[string]string // the guest's configuration so far: template, other cloud-init drives
	fallback string            // storage for sizes that name none
	made     []string          // volumes allocated
	// midway, if set, is where a create may be struck: with the last drive's volume made, and its copy under way.
	midway func() error
	last   string // that drive
}

// make allocates and imports, drive by drive in plain string order, and returns the options to store. On an error it has
// freed what it made.
func (m *diskMaker) make(params map[string]string) (map[string]string, error) {
	out := map[string]string{}
	drives := slices.DeleteFunc(slices.Sorted(maps.Keys(params)), func(opt string) bool { return !isDrive(opt) })
	m.last = ""
	if len(drives) > 0 {
		m.last = drives[len(drives)-1]
	}
	for _, opt := range drives {
		d := m.Server.parseDrive(opt, params[opt])
		if d == nil {
			m.cleanUp(m.node, m.made)
			return nil, Die("unable to parse drive options for '%s'", opt)
		}
		err := m.drive(opt, d, out)
		if err == nil {
			err = m.strike(opt)
		}
		if err != nil {
			m.cleanUp(m.node, m.made)
			return nil, err
		}
	}
	return out, nil
}

func (m *diskMaker) drive(opt string, d drive, out map[string]string) error {
	file := d.file()
	storage, name, _ := state.SplitVolid(file)
	switch {
	case file == "none" || file == "cdrom":
		delete(d, "size")
	case file == "cloudinit" || name == "cloudinit":
		if err := m.cloudinit(opt, storage, d, out); err != nil {
			return err
		}
	case !d.isCDROM() && newDisk.MatchString(file):
		if err := m.allocate(opt, d); err != nil {
			return err
		}
	default:
		if err := m.volumeAccess(m.vmid, file); err != nil {
			return err
		}
		v, err := m.activate(m.node, file)
		if err != nil {
			return err
		}
		if v != nil {
			d["size"] = schema.FormatSize(v.Size)
		}
		out[opt] = m.Server.printDrive(opt, d)
		return nil
	}
	if err := m.strike(opt); err != nil {
		return err
	}
	out[opt] = m.Server.printDrive(opt, d)
	if file != "none" && file != "cdrom" {
		m.logf("%s: successfully created disk '%s'", opt, out[opt])
	}
	return nil
}

// strike is the moment of the last drive at which a create may be struck; it comes once.
func (m *diskMaker) strike(opt string) error {
	if m.midway == nil || opt != m.last {
		return nil
	}
	strike := m.midway
	m.midway = nil
	return strike()
}

func (m *diskMaker) cloudinit(opt, storage string, d drive, out map[string]string) error {
	if storage == "" {
		storage = m.fallback
	}
	if storage == "" {
		return Die("no storage ID specified (and no default storage)")
	}
	for _, section := range []map[string]string{m.conf, out} {
		for _, k := range slices.Sorted(maps.Keys(section)) {
			if other := m.Server.parseDrive(k, section[k]); isDrive(k) && k != opt && other != nil && other.isCloudinit() {
				if _, ready := section[k]; ready && !strings.HasSuffix(other.file(), ":cloudinit") {
					return Die("%s - cloud-init drive is already attached at '%s'", opt, k)
				}
			}
		}
	}
	s, err := m.W.StorageConfig(storage)
	if err != nil {
		return err
	}
	name, format := fmt.Sprintf("vm-%d-cloudinit", m.vmid), d["format"]
	if format == "" {
		format = "raw"
		if s.IsDir() {
			format = "qcow2"
		}
	}
	if s.IsDir() {
		name += "." + format
	}
	v, err := m.alloc(m.node, storage, m.vmid, name, format, cloudinitSize)
	if err != nil {
		return err
	}
	m.made = append(m.made, v.Volid())
	d["file"], d["media"] = v.Volid(), "cdrom"
	delete(d, "format")
	delete(d, "size")
	return nil
}

// allocate makes a new volume for "<storage>:<GiB>", empty or filled from import-from.
func (m *diskMaker) allocate(opt string, d drive) error {
	match := newDisk.FindStringSubmatch(d.file())
	storage := match[1]
	if storage == "" {
		storage = m.fallback
	}
	if storage == "" {
		return Die("no storage ID specified (and no default storage)")
	}
	if src := d["import-from"]; src != "" {
		delete(d, "import-from")
		return m.importDisk(opt, d, storage, src)
	}
	gib, _ := strconv.ParseFloat(match[2], 64) // digits, by the pattern
	size := int64(math.Floor(gib*(1<<20))) << 10
	format := d["format"]
	switch {
	case opt == "tpmstate0":
		size, format = tpmSize, "raw"
	case opt == "efidisk0":
		size = efiVars(d)
	}
	v, err := m.alloc(m.node, storage, m.vmid, "", format, size)
	if err != nil {
		return err
	}
	if opt == "efidisk0" { // PVE asks the storage for the size of the copied variable store
		size = v.Size
		m.transferred(efiSize4m)
	}
	return m.finish(d, v, size)
}

// efiVars is the size of the firmware's variables (QemuServer.pm, get_efivars_size).
func efiVars(d drive) int64 {
	if d["efitype"] == "4m" {
		return efiSize4m
	}
	return efiSize2m
}

func (m *diskMaker) finish(d drive, v *state.Volume, size int64) error {
	m.formatted(m.W.Storages[v.Storage], v)
	if m.conf["template"] == "1" {
		if _, err := m.W.CreateBase(v); err != nil {
			m.made = append(m.made, v.Volid())
			return err
		}
	}
	m.made = append(m.made, v.Volid())
	d["file"], d["size"] = v.Volid(), schema.FormatSize(size)
	delete(d, "format")
	return nil
}

func (m *diskMaker) transferred(size int64) {
	m.logf("transferred 0.0 B of %s (0.00%%)", humanSize(size))
	m.logf("transferred %s of %s (100.00%%)", humanSize(size), humanSize(size))
}
