package tfvm

import (
	"slices"
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
}

var _ tfkit.Locator = locator{}

func (m *model) locator() locator {
	l := locator{cdroms: m.CDROMs}
	if c := m.CloudInit; c != nil {
		l.cloudInit = value(c.Slot)
		if c.Slot == nil && c.Storage != nil {
			l.cloudInit = vm.DefaultCloudInitSlot
		}
	}
	return l
}

// parameters maps PVE's options to attributes. Slots are computed.
func parameters() map[string]string {
	return map[string]string{
		"name": "name", "description": "description", "tags": "tags", "pool": "pool", "vmid": "vmid", "newid": "vmid", "node": "node",
		"onboot": "onboot", "autostart": "autostart", "bootdisk": "boot_order", "protection": "protection", "template": "template", "machine": "machine", "bios": "bios",
		"ostype": "ostype", "scsihw": "scsihw", "boot": "boot_order",
		"cpu": "cpu", "sockets": "cpu.sockets", "cores": "cpu.cores", "vcpus": "cpu.vcpus", "cpulimit": "cpu.limit",
		"cpuunits": "cpu.units", "affinity": "cpu.affinity", "numa": "cpu.numa",
		"memory": "memory.size", "balloon": "memory.balloon", "shares": "memory.shares", "hugepages": "memory.hugepages",
		"keephugepages": "memory.keephugepages", "agent": "agent", "efidisk0": "efi_disk", "tpmstate0": "tpm_state",
		"citype": "cloud_init.type", "ciuser": "cloud_init.user", "cipassword": "cloud_init_password_wo",
		"sshkeys": "cloud_init.ssh_keys", "nameserver": "cloud_init.nameservers", "searchdomain": "cloud_init.searchdomain",
		"ciupgrade": "cloud_init.upgrade", "cicustom": "cloud_init.custom",
		"snapname": "clone.snapshot", "full": "clone.full", "storage": "clone.storage", "format": "clone.format",
		"bwlimit": "clone.bwlimit", "target": "node",
		"startup": "startup", "hookscript": "hookscript", "acpi": "acpi", "kvm": "kvm", "tablet": "tablet", "localtime": "localtime",
		"tdf": "tdf", "reboot": "reboot", "freeze": "freeze", "keyboard": "keyboard", "hotplug": "hotplug", "startdate": "startdate",
		"vmstatestorage": "vmstatestorage", "migrate_downtime": "migrate_downtime", "migrate_speed": "migrate_speed", "args": "args",
		"arch": "arch", "vmgenid": "vmgenid", "smbios1": "smbios", "vga": "vga", "audio0": "audio", "rng0": "rng", "watchdog": "watchdog",
		"spice_enhancements": "spice_enhancements", "ivshmem": "ivshmem", "amd-sev": "amd_sev", "intel-tdx": "intel_tdx",
		"allow-ksm": "memory.allow_ksm",
	}
}

// families maps the prefixes of PVE's numbered options to the maps that hold them by slot.
func families() map[string]string {
	return map[string]string{"net": "networks", "hostpci": "pci", "usb": "usb", "numa": "numa_nodes", "virtiofs": "virtiofs", "serial": "serial", "parallel": "parallel"}
}

// Parameter is the attribute behind an option of PVE's API.
func (l locator) Parameter(name string) (path.Path, bool) {
	if dotted, ok := parameters()[name]; ok {
		return l.Attribute(dotted)
	}
	bus, number := splitSlot(name)
	_, isDrive := diskBuses()[bus]
	_, isCDROM := l.cdroms[name]
	switch {
	case number < 0:
		return path.Empty(), false
	case families()[bus] != "":
		return path.Root(families()[bus]).AtMapKey(name), true
	case bus == "ipconfig":
		return path.Root("cloud_init").AtName("addresses").AtMapKey("net" + strings.TrimPrefix(name, bus)), true
	case !isDrive:
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

// Attribute is the path behind its dotted form. An option of PVE is accepted too.
func (l locator) Attribute(dotted string) (path.Path, bool) {
	steps := strings.Split(dotted, ".")
	if !slices.Contains(rootAttributes(), steps[0]) {
		return l.Parameter(dotted)
	}
	at := path.Root(steps[0])
	for i, step := range steps[1:] {
		if parent := strings.Join(steps[:i+1], "."); slices.Contains(slotMaps(), parent) {
			at = at.AtMapKey(step)
		} else {
			at = at.AtName(step)
		}
	}
	return at, true
}

// slotMaps are the attributes whose children are map keys.
func slotMaps() []string {
	return []string{"disks", "cdroms", "networks", "cloud_init.addresses", "pci", "usb", "numa_nodes", "virtiofs", "serial", "parallel"}
}

func rootAttributes() []string {
	return []string{
		"vmid", "node", "name", "description", "tags", "pool", "onboot", "autostart", "protection", "template", "machine", "bios", "ostype",
		"scsihw", "boot_order", "clone", "cpu", "memory", "agent", "disks", "cdroms", "networks", "efi_disk", "tpm_state",
		"firewall", "ha", "cloud_init", "cloud_init_password_wo", "cloud_init_password_wo_version", "power_state", "on_failure",
		"on_orphaned_volumes", "on_destroy", "timeouts", "nodes", "reboot_policy", "shutdown_timeout", "wait_for", "removed_disks",
		"startup", "hookscript", "acpi", "kvm", "tablet", "localtime", "tdf", "reboot", "freeze", "keyboard", "hotplug", "startdate",
		"vmstatestorage", "migrate_downtime", "migrate_speed", "args", "arch", "vmgenid", "machine_options", "smbios", "vga", "audio",
		"rng", "watchdog", "spice_enhancements", "ivshmem", "amd_sev", "intel_tdx", "pci", "usb", "numa_nodes", "virtiofs", "serial", "parallel",
	}
}
