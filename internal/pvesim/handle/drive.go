package handle

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

var (
	// newDisk is "<storage>:<GiB>" (qemu-server QemuServer/Drive.pm, NEW_DISK_RE).
	newDisk = regexp.MustCompile(`^(?:([^/:\s]+):)?(\d+(?:\.\d+)?)$`)
	// cloudinitFile is the file of a cloud-init drive, asked for or made (Drive.pm drive_is_cloudinit).
	cloudinitFile = regexp.MustCompile(`[:/](?:vm-\d+-)?cloudinit(?:\.(?:raw|qcow2|vmdk|qcow|qed|cloop))?$`)
)

// drive is a parsed drive option: its keys and values.
type drive map[string]string

func (d drive) file() string      { return d["file"] }
func (d drive) isCloudinit() bool { return cloudinitFile.MatchString(d["file"]) }
func (d drive) isCDROM() bool     { return d["media"] == "cdrom" }

// isMedia reports a CD-ROM that is no cloud-init drive.
func (d drive) isMedia() bool { return d.isCDROM() && !d.isCloudinit() }

// isDrive reports whether the option is a drive; unusedN is not (Drive.pm is_valid_drivename).
func isDrive(option string) bool {
	base, _, ok := schema.OptionIndex(option)
	return ok && slices.Contains([]string{"ide", "sata", "scsi", "virtio", "efidisk", "tpmstate"}, base)
}

// hasIndex reports whether the option is base with an index ("net3").
func hasIndex(option string, bases ...string) bool {
	base, _, ok := schema.OptionIndex(option)
	return ok && slices.Contains(bases, base)
}

// parseDrive parses a drive option; nil if it cannot be (Drive.pm parse_drive).
func (s *Server) parseDrive(option, value string) drive {
	d, err := s.schema.ParseDrive(option, value)
	if err != nil {
		return nil
	}
	if d["media"] == "" && (d["file"] == "none" || d["file"] == "cdrom") {
		d["media"] = "cdrom"
	}
	return d
}

// printDrive writes a drive the way PVE stores it.
func (s *Server) printDrive(option string, d drive) string {
	f, ok := s.schema.Format(option)
	if !ok {
		return d["file"]
	}
	return f.Print(d)
}

// bootNames lists drive options in the order in which PVE looks for a boot disk (Drive.pm valid_drive_names_for_boot).
func bootNames(conf map[string]string) []string {
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

// defaultBoot is the boot order of a guest that was given none: first disk, first CD-ROM, first NIC
// (QemuServer.pm get_default_bootdevices).
func (s *Server) defaultBoot(conf map[string]string) string {
	var order []string
	for _, cdrom := range []bool{false, true} {
		for _, name := range bootNames(conf) {
			if d := s.parseDrive(name, conf[name]); d != nil && d.isCDROM() == cdrom {
				order = append(order, name)
				break
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		if hasIndex(k, "net") {
			order = append(order, k)
			break
		}
	}
	return printOrder(order)
}

// printOrder is print_bootorder (QemuServer.pm): no device, no text.
func printOrder(order []string) string {
	if len(order) == 0 {
		return ""
	}
	return "order=" + strings.Join(order, ";")
}

// without is a list less one item.
func without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
}

// bootOrder is the list in a boot option, nil for the legacy form.
func bootOrder(boot string) []string {
	for _, part := range strings.Split(boot, ",") {
		if list, ok := strings.CutPrefix(part, "order="); ok && list != "" {
			return strings.Split(list, ";")
		}
	}
	return nil
}

// owns reports whether the volume carries the guest's VMID (QemuServer.pm vm_is_volid_owner).
func owns(w *state.World, vmid int, volid string) bool {
	storage, name, ok := state.SplitVolid(volid)
	if !ok || w.Storages[storage] == nil {
		return false
	}
	n, err := w.Storages[storage].ParseName(name)
	return err == nil && n.VMID == vmid && vmid != 0
}

// used reports whether a drive of the guest, in its current, pending or snapshot section, refers to the volume,
// apart from the option itself (Drive.pm is_volume_in_use).
func (s *Server) used(g *state.Guest, option, volid string) bool {
	refers := func(conf map[string]string, skip string) bool {
		for k, v := range conf {
			if k == skip || !isDrive(k) {
				continue
			}
			if d := s.parseDrive(k, v); d != nil && d.file() == volid {
				return true
			}
		}
		return false
	}
	if refers(g.Config, option) || refers(g.Pending, option) {
		return true
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(g.Snaps)), func(snap map[string]string) bool { return refers(snap, "") })
}

// parseNet parses a netN option and draws a hardware address if it has none.
func (s *Server) parseNet(w *state.World, option, value string) map[string]string {
	f, ok := s.schema.Format(option)
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

func (s *Server) printNet(option string, n map[string]string) string {
	f, _ := s.schema.Format(option)
	return f.Print(n)
}
