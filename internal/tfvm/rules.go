package tfvm

import (
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// rules says what sets single attributes apart; see tfplan.Rule. Everything that is not here follows the general rule.
func rules() map[string]tfplan.Rule {
	all := singleRules()
	add := func(rule tfplan.Rule, attributes ...string) {
		for _, attribute := range attributes {
			all[attribute] = rule
		}
	}
	add(tfplan.Rule{Volatile: true}, "status", "ipv4_address", "ipv6_address", "addresses", "unused_volumes", "pending_changes")
	add(tfplan.Rule{OnlyInState: true}, "clone", "restore", "nodes", "timeouts", "wait_for", "on_failure", "on_orphaned_volumes", "on_destroy",
		"reboot_policy", "shutdown_timeout", "removed_disks", "import_working_storage", "cloud_init_password_wo_version", "cloud_init_trigger",
		"disks.*.imported_disk", "disks.*.import_from", "efi_disk.import_from", "tpm_state.import_from")
	add(tfplan.Rule{OnlyInState: true, Same: sameDuration}, "timeouts.create", "timeouts.read", "timeouts.update", "timeouts.delete",
		"on_destroy.timeout")
	add(tfplan.Rule{KeepOnRemoval: true}, "disks.*.storage", "efi_disk.storage", "tpm_state.storage", "cloud_init.storage")
	add(tfplan.Rule{KeepOnRemoval: true, ServerChooses: true}, "vmid", "node", "disks.*.volume", "networks.*.model", "efi_disk.ms_cert",
		"ha.state", "cloud_init.slot")
	add(tfplan.Rule{KeepOnRemoval: true, ServerChooses: true, MayBeUnreported: true},
		"disks.*.format", "efi_disk.format", "cloud_init.format")
	add(tfplan.Rule{MayBeAbsent: true}, "machine_options", "startup", "vga", "spice_enhancements", "disks.*.throttle", "firewall",
		"cloud_init", "cloud_init.custom")
	add(tfplan.Rule{MayBeAbsent: true, OneObject: true}, // one sub-key is required, or there is one device
		"audio", "rng", "watchdog", "ivshmem", "amd_sev", "intel_tdx", "efi_disk", "tpm_state", "ha")
	add(tfplan.Rule{Default: truth(false)}, "onboot", "autostart", "protection", "template", "cpu.numa", "memory.keephugepages",
		"agent.enabled", "agent.fstrim_cloned_disks", "disks.*.discard", "disks.*.ssd", "disks.*.iothread", "disks.*.ro",
		"networks.*.firewall", "networks.*.link_down", "efi_disk.pre_enrolled_keys", "freeze", "tdf")
	add(tfplan.Rule{Default: truth(true)}, "disks.*.backup", "disks.*.replicate", "cloud_init.upgrade", "acpi", "tablet", "reboot",
		"agent.freeze_fs_on_backup")
	add(tfplan.Rule{Default: number(1)}, "cpu.cores", "cpu.sockets")
	add(tfplan.Rule{Same: sameText(strings.ToLower)},
		"pci.*.vendor_id", "pci.*.device_id", "pci.*.sub_vendor_id", "pci.*.sub_device_id", "usb.*.host")
	add(tfplan.Rule{Same: sameSet(verbatim)}, "hotplug", "cpu.flags", "networks.*.trunks")
	add(tfplan.Rule{Same: sameNumber}, "migrate_downtime", "disks.*.throttle.mbps", "disks.*.throttle.mbps_rd",
		"disks.*.throttle.mbps_wr", "disks.*.throttle.mbps_max", "disks.*.throttle.mbps_rd_max", "disks.*.throttle.mbps_wr_max")
	add(tfplan.Rule{Same: sameNumber, Default: number(0)}, "cpu.limit", "networks.*.rate")
	return all
}

// singleRules are those that one attribute has alone.
func singleRules() map[string]tfplan.Rule {
	return map[string]tfplan.Rule{
		"bios":                {Default: text("seabios")},
		"scsihw":              {Default: text("lsi")},
		"startdate":           {Default: text("now")},
		"migrate_speed":       {Default: number(0)},
		"cpu.type":            {Default: text("kvm64")},
		"memory.size":         {Default: number(512)},
		"memory.shares":       {Default: number(1000)},
		"agent.type":          {Default: text("virtio")},
		"description":         {Same: sameText(vm.TrimDescription), Default: text("")},
		"tags":                {Same: sameSet(strings.ToLower)},
		"boot_order":          {ServerChooses: true},
		"machine":             {ServerChooses: true}, // PVE pins it for Windows (qemu-server API2/Qemu.pm create_vm)
		"vmgenid":             {KeepOnRemoval: true, ServerChooses: true, NullStays: true, Same: sameGeneration},
		"smbios.uuid":         {KeepOnRemoval: true, ServerChooses: true, Same: sameText(strings.ToLower)},
		"cpu.units":           {Same: sameUnits},
		"disks.*.size":        {KeepOnRemoval: true, ServerChooses: true, Same: sameSize},
		"networks.*.macaddr":  {KeepOnRemoval: true, ServerChooses: true, Same: sameText(strings.ToUpper)},
		"networks.*.queues":   {Default: number(0)},
		"firewall.rules":      {Same: sameRules},
		"ha.comment":          {Same: sameText(strings.TrimSpace)},
		"cloud_init.ssh_keys": {Same: sameKeys},
	}
}

func verbatim(s string) string { return s }

// sameText compares two texts in their normal form.
func sameText(normal func(string) string) func(a, b tftypes.Value) bool {
	return func(a, b tftypes.Value) bool { return normal(stringOf(a)) == normal(stringOf(b)) }
}

// sameSet compares two sets of texts in their normal form.
func sameSet(normal func(string) string) func(a, b tftypes.Value) bool {
	return func(a, b tftypes.Value) bool { return slices.Equal(normalSet(a, normal), normalSet(b, normal)) }
}

func normalSet(v tftypes.Value, normal func(string) string) []string {
	all := texts(v)
	for i := range all {
		all[i] = normal(all[i])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sameKeys compares lists of SSH keys: PVE keeps them as lines.
func sameKeys(a, b tftypes.Value) bool { return slices.Equal(trimmed(texts(a)), trimmed(texts(b))) }

// sameNumber compares decimals as PVE prints them; a literal of the configuration has more digits than a float64.
func sameNumber(a, b tftypes.Value) bool {
	var x, y *big.Float
	if a.As(&x) != nil || b.As(&y) != nil || x == nil || y == nil {
		return false
	}
	p, _ := x.Float64()
	q, _ := y.Float64()
	return p == q
}

// sameDuration compares times in whatever units.
func sameDuration(a, b tftypes.Value) bool {
	x, errX := time.ParseDuration(stringOf(a))
	y, errY := time.ParseDuration(stringOf(b))
	return errX == nil && errY == nil && x == y
}

// sameUnits compares a weight with what PVE made of it: a node with cgroup v1 has no weight below 2, one with cgroup v2 none above
// 10000 (pve-common CGroup.pm clamp_cpu_shares).
func sameUnits(wish, is tftypes.Value) bool {
	return floatOf(wish) == 1 && floatOf(is) == 2 || floatOf(wish) > 10000 && floatOf(is) == 10000
}

// sameGeneration compares a wish for a generation id with what there is: "1" asks for one, whichever.
func sameGeneration(wish, is tftypes.Value) bool {
	has := stringOf(is)
	return stringOf(wish) == "1" && has != "0" || strings.EqualFold(stringOf(wish), has)
}

// sameSize compares sizes in bytes.
func sameSize(a, b tftypes.Value) bool {
	x, errX := vm.ParseSize(stringOf(a))
	y, errY := vm.ParseSize(stringOf(b))
	return errX == nil && errY == nil && x == y
}

// trimmed drops the line ends that file() leaves on keys. Nil stays nil, which is not the same as no keys.
func trimmed(list []string) []string {
	if list == nil {
		return nil
	}
	all := []string{}
	for _, text := range list {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	return all
}
