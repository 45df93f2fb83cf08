package model

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// Rules says what sets single attributes apart; see plan.Rule. Everything that is not here follows the general rule.
func Rules() map[string]plan.Rule {
	all := singleRules()
	add := func(rule plan.Rule, attributes ...string) {
		for _, attribute := range attributes {
			all[attribute] = rule
		}
	}
	add(plan.Rule{Volatile: true}, "status", "ipv4_address", "ipv6_address", "addresses", "unused_volumes",
		"pending_changes")
	add(plan.Rule{OnlyInState: true}, "clone", "restore", "nodes", "timeouts", "wait_for", "on_failure",
		"on_orphaned_volumes", "on_destroy",
		"reboot_policy", "shutdown_timeout", "removed_disks", "import_working_storage", "cloud_init_password_wo_version",
		"cloud_init_trigger",
		"disks.*.imported_disk", "disks.*.import_from", "efi_disk.import_from", "tpm_state.import_from")
	add(plan.Rule{OnlyInState: true, Same: SameDuration}, "timeouts.create", "timeouts.read", "timeouts.update",
		"timeouts.delete",
		"on_destroy.timeout")
	add(plan.Rule{KeepOnRemoval: true}, "disks.*.storage", "efi_disk.storage", "tpm_state.storage", "cloud_init.storage",
		"efi_disk.type", "efi_disk.pre_enrolled_keys", "tpm_state.version") // as they were made
	add(plan.Rule{KeepOnRemoval: true, ServerChooses: true}, "vmid", "node", "disks.*.volume", "networks.*.model",
		"efi_disk.ms_cert",
		"ha.state", "cloud_init.slot")
	add(plan.Rule{KeepOnRemoval: true, ServerChooses: true, MayBeUnreported: true},
		"disks.*.format", "efi_disk.format", "cloud_init.format")
	add(plan.Rule{MayBeAbsent: true}, "machine_options", "startup", "vga", "spice_enhancements", "disks.*.throttle",
		"firewall",
		"cloud_init", "cloud_init.custom")
	add(plan.Rule{MayBeAbsent: true, OneObject: true}, // one sub-key is required, or there is one device
		"audio", "rng", "watchdog", "ivshmem", "amd_sev", "intel_tdx", "efi_disk", "tpm_state", "ha")
	add(plan.Rule{Same: sameText(strings.ToLower)},
		"pci.*.vendor_id", "pci.*.device_id", "pci.*.sub_vendor_id", "pci.*.sub_device_id", "usb.*.host")
	add(plan.Rule{Same: sameSet(verbatim)}, "hotplug")
	add(plan.Rule{Same: sameSet(verbatim), EmptyIsAbsent: true}, "cpu.flags", "networks.*.trunks")
	add(plan.Rule{EmptyIsAbsent: true}, "cloud_init.nameservers")
	for _, a := range vm.Attributes() {
		if a.Default != "" {
			rule := all[a.Path]
			rule.Default = typed(a.Path, a.Default)
			all[a.Path] = rule
		}
	}
	return all
}

// singleRules are those that one attribute has alone.
func singleRules() map[string]plan.Rule {
	return map[string]plan.Rule{
		"description":         {Same: sameText(property.TrimDescription), Default: Text("")},
		"tags":                {Same: sameSet(strings.ToLower), EmptyIsAbsent: true},
		"tags_all":            {Same: sameSet(strings.ToLower), EmptyIsAbsent: true},
		"boot_order":          {ServerChooses: true},
		"machine":             {ServerChooses: true}, // PVE pins it for Windows (qemu-server API2/Qemu.pm create_vm)
		"vmgenid":             {KeepOnRemoval: true, ServerChooses: true, NullStays: true, Same: sameGeneration},
		"smbios.uuid":         {KeepOnRemoval: true, ServerChooses: true, Same: sameText(strings.ToLower)},
		"cpu.units":           {Same: sameUnits},
		"disks.*.size":        {KeepOnRemoval: true, ServerChooses: true, Same: SameSize},
		"networks.*.macaddr":  {KeepOnRemoval: true, ServerChooses: true, Same: sameText(strings.ToUpper)},
		"firewall.rules":      {Same: sameRules, EmptyIsAbsent: true},
		"power_state":         {NullStays: true},
		"ha.comment":          {Same: sameText(strings.TrimSpace)},
		"cloud_init.ssh_keys": {Same: sameKeys, EmptyIsAbsent: true},
	}
}

// typed is PVE's default in the type of its attribute.
func typed(at, value string) tftypes.Value {
	in := reflect.TypeFor[Model]()
	for step := range strings.SplitSeq(at, ".") {
		in, _ = typeOf(in, step)
	}
	switch in {
	case reflect.TypeFor[*bool]():
		return truth(value == "true")
	case reflect.TypeFor[*int64](), reflect.TypeFor[*float64]():
		n, _ := strconv.ParseInt(value, 10, 64)
		return number(n)
	}
	return Text(value)
}

func verbatim(s string) string { return s }

// sameText compares two texts in their normal form.
func sameText(normal func(string) string) func(a, b tftypes.Value) bool {
	return func(a, b tftypes.Value) bool { return normal(StringOf(a)) == normal(StringOf(b)) }
}

// sameSet compares two sets of texts in their normal form.
func sameSet(normal func(string) string) func(a, b tftypes.Value) bool {
	return func(a, b tftypes.Value) bool { return slices.Equal(normalSet(a, normal), normalSet(b, normal)) }
}

func normalSet(v tftypes.Value, normal func(string) string) []string {
	all := Texts(v)
	for i := range all {
		all[i] = normal(all[i])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sameKeys compares lists of SSH keys: PVE keeps them as lines.
func sameKeys(a, b tftypes.Value) bool { return slices.Equal(trimmed(Texts(a)), trimmed(Texts(b))) }

// SameDuration compares times in whatever units.
func SameDuration(a, b tftypes.Value) bool {
	x, errX := time.ParseDuration(StringOf(a))
	y, errY := time.ParseDuration(StringOf(b))
	return errX == nil && errY == nil && x == y
}

// sameUnits compares a weight with what PVE made of it: a node with cgroup v1 has no weight below 2, one with cgroup v2
// none above 10000 (pve-common CGroup.pm clamp_cpu_shares).
func sameUnits(wish, is tftypes.Value) bool {
	return FloatOf(wish) == 1 && FloatOf(is) == 2 || FloatOf(wish) > 10000 && FloatOf(is) == 10000
}

// sameGeneration compares a wish for a generation id with what there is: "1" asks for one, whichever.
func sameGeneration(wish, is tftypes.Value) bool {
	has := StringOf(is)
	return StringOf(wish) == "1" && has != "0" || strings.EqualFold(StringOf(wish), has)
}

// SameSize compares sizes in bytes.
func SameSize(a, b tftypes.Value) bool {
	x, errX := property.ParseSize(StringOf(a))
	y, errY := property.ParseSize(StringOf(b))
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
