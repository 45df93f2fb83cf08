package tfvm

import (
	"reflect"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// locator finds the attribute behind what PVE and package provision complain about. The zero locator knows everything
// but what a drive slot holds, and takes it for a disk.
type locator struct {
	cdroms    map[string]cdromModel
	cloudInit string // slot of the cloud-init drive
	restores  bool   // it is made of a backup
}

var _ tfkit.Locator = locator{}

func (m *model) locator() locator {
	l := locator{cdroms: m.CDROMs, restores: m.Restore != nil}
	if c := m.CloudInit; c != nil {
		l.cloudInit = value(c.Slot)
		if c.Slot == nil && c.Storage != nil {
			l.cloudInit = vm.DefaultCloudInitSlot
		}
	}
	return l
}

// otherwiseNamed are PVE's parameters whose attribute has another name, or stands in a group.
func otherwiseNamed() map[string]string {
	return map[string]string{
		"newid": "vmid", "target": "node", "boot": "boot_order", "bootdisk": "boot_order",
		"sockets": "cpu.sockets", "cores": "cpu.cores", "vcpus": "cpu.vcpus", "cpulimit": "cpu.limit", "cpuunits": "cpu.units",
		"affinity": "cpu.affinity", "numa": "cpu.numa",
		"memory": "memory.size", "balloon": "memory.balloon", "shares": "memory.shares", "hugepages": "memory.hugepages",
		"keephugepages": "memory.keephugepages", "allow-ksm": "memory.allow_ksm",
		"efidisk0": "efi_disk", "tpmstate0": "tpm_state", "smbios1": "smbios", "audio0": "audio", "rng0": "rng",
		"citype": "cloud_init.type", "ciuser": "cloud_init.user", "cipassword": "cloud_init_password_wo",
		"sshkeys": "cloud_init.ssh_keys", "nameserver": "cloud_init.nameservers", "searchdomain": "cloud_init.searchdomain",
		"ciupgrade": "cloud_init.upgrade", "cicustom": "cloud_init.custom",
		"snapname": "clone.snapshot", "full": "clone.full", "storage": "clone.storage", "format": "clone.format", "bwlimit": "clone.bwlimit",
		"archive": "restore.archive",
	}
}

// slotFamilies maps the prefixes of PVE's numbered options to the maps that hold them by slot.
func slotFamilies() map[string]string {
	return map[string]string{"net": "networks", "hostpci": "pci", "usb": "usb", "numa": "numa_nodes", "virtiofs": "virtiofs",
		"serial": "serial", "parallel": "parallel"}
}

// attributeOf is the dotted path of the attribute for a parameter of PVE that is no slot.
func attributeOf(parameter string) (string, bool) {
	if dotted, ok := otherwiseNamed()[parameter]; ok {
		return dotted, true
	}
	name := strings.ReplaceAll(parameter, "-", "_")
	_, ok := typeOf(reflect.TypeFor[model](), name)
	return name, ok
}

// Parameter is the attribute behind a parameter of PVE's API.
func (l locator) Parameter(name string) (path.Path, bool) {
	if dotted, ok := attributeOf(name); ok {
		if option, ok := strings.CutPrefix(dotted, "clone."); ok && l.restores {
			dotted = "restore." + option
		}
		return l.Attribute(dotted)
	}
	bus, number := splitSlot(name)
	_, isCDROM := l.cdroms[name]
	switch {
	case number < 0:
		return path.Empty(), false
	case slotFamilies()[bus] != "":
		return path.Root(slotFamilies()[bus]).AtMapKey(name), true
	case bus == "ipconfig":
		return path.Root("cloud_init").AtName("addresses").AtMapKey("net" + strings.TrimPrefix(name, bus)), true
	case !isDisk(bus):
		return path.Empty(), false
	case isCDROM:
		return path.Root("cdroms").AtMapKey(name), true
	case l.cloudInit == name:
		return path.Root("cloud_init"), true
	}
	return path.Root("disks").AtMapKey(name), true
}

// attributePath is the dotted path behind an option of PVE.
func (m *model) attributePath(option string) (string, bool) {
	at, ok := m.locator().Parameter(option)
	if !ok {
		return "", false
	}
	var steps []string
	for _, step := range at.Steps() {
		switch s := step.(type) {
		case path.PathStepAttributeName:
			steps = append(steps, string(s))
		case path.PathStepElementKeyString:
			steps = append(steps, string(s))
		}
	}
	return strings.Join(steps, "."), true
}

// Attribute is the path behind its dotted form. A parameter of PVE is accepted too.
func (l locator) Attribute(dotted string) (path.Path, bool) {
	steps := strings.Split(dotted, ".")
	at, in := path.Empty(), reflect.TypeFor[model]()
	for i, step := range steps {
		inside, ok := typeOf(in, step)
		switch {
		case i == 0 && !ok:
			return l.Parameter(dotted)
		case ok && in.Kind() == reflect.Map:
			at = at.AtMapKey(step)
		default:
			at = at.AtName(step)
		}
		in = inside
	}
	return at, true
}

// typeOf is the type of an attribute of a model or a group, or of the elements of a map.
func typeOf(in reflect.Type, name string) (reflect.Type, bool) {
	if in == nil {
		return nil, false
	}
	if in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	switch in.Kind() {
	case reflect.Map:
		return in.Elem(), true
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(in) {
			if field.Tag.Get("tfsdk") == name && !field.Anonymous {
				return field.Type, true
			}
		}
	}
	return nil, false
}

// isBySlot reports whether an attribute is a map whose keys are PVE's slots.
func isBySlot(name string) bool {
	t, ok := typeOf(reflect.TypeFor[model](), name)
	return ok && t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct
}
