package tfvm

import (
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// rules says what sets single attributes apart; see tfplan.Rule. Everything that is not here follows the general rule.
func rules() map[string]tfplan.Rule {
	all := map[string]tfplan.Rule{
		"vmid":        {KeepOnRemoval: true, ServerChooses: true},
		"node":        {KeepOnRemoval: true, ServerChooses: true},
		"description": {Same: sameText(trimEnd), Default: text("")},
		"tags":        {Same: sameSet(strings.ToLower)},
		"boot_order":  {ServerChooses: true},
		"machine":     {ServerChooses: true}, // PVE pins it for Windows (qemu-server API2/Qemu.pm create_vm)

		"status": {Volatile: true}, "ipv4_address": {Volatile: true}, "ipv6_address": {Volatile: true},
		"addresses": {Volatile: true}, "unused_volumes": {Volatile: true}, "pending_changes": {Volatile: true},

		"clone": {OnlyInState: true}, "on_failure": {OnlyInState: true}, "on_orphaned_volumes": {OnlyInState: true}, "on_destroy": {OnlyInState: true},
		"nodes": {OnlyInState: true}, "reboot_policy": {OnlyInState: true}, "shutdown_timeout": {OnlyInState: true}, "wait_for": {OnlyInState: true}, "removed_disks": {OnlyInState: true},
		"timeouts": {OnlyInState: true}, "cloud_init_password_wo_version": {OnlyInState: true},

		"hotplug":          {Same: sameSet(verbatim)},
		"migrate_downtime": {Same: sameNumber},
		"vmgenid":          {KeepOnRemoval: true, ServerChooses: true, Same: sameGeneration},
		"smbios.uuid":      {KeepOnRemoval: true, ServerChooses: true, Same: sameText(strings.ToLower)},

		"cpu.units": {Same: sameUnits},
		"cpu.limit": {Same: sameNumber, Default: number(0)},
		"cpu.flags": {Same: sameSet(verbatim)},

		"disks.*.storage":     {KeepOnRemoval: true},
		"disks.*.size":        {KeepOnRemoval: true, ServerChooses: true, Same: sameSize},
		"disks.*.format":      {KeepOnRemoval: true, ServerChooses: true, MayBeUnreported: true},
		"disks.*.import_from": {OnlyInState: true},
		"disks.*.volume":      {KeepOnRemoval: true, ServerChooses: true},

		"networks.*.model":   {KeepOnRemoval: true, ServerChooses: true},
		"networks.*.macaddr": {KeepOnRemoval: true, ServerChooses: true, Same: sameText(strings.ToUpper)},
		"networks.*.trunks":  {Same: sameSet(verbatim)},
		"networks.*.rate":    {Same: sameNumber, Default: number(0)},
		"networks.*.queues":  {Default: number(0)},

		"disks.*.throttle": {MayBeAbsent: true},
		"efi_disk.ms_cert": {KeepOnRemoval: true, ServerChooses: true}, "efi_disk.import_from": {OnlyInState: true}, "tpm_state.import_from": {OnlyInState: true},

		"efi_disk":         {MayBeAbsent: true, OneObject: true},
		"efi_disk.storage": {KeepOnRemoval: true}, "efi_disk.format": {KeepOnRemoval: true, ServerChooses: true, MayBeUnreported: true},
		"tpm_state":         {MayBeAbsent: true, OneObject: true},
		"tpm_state.storage": {KeepOnRemoval: true},

		"firewall":       {MayBeAbsent: true},
		"firewall.rules": {Same: sameRules},
		"ha":             {MayBeAbsent: true, OneObject: true},
		"ha.state":       {KeepOnRemoval: true, ServerChooses: true},
		"ha.comment":     {Same: sameText(strings.TrimSpace)},

		"cloud_init":          {MayBeAbsent: true},
		"cloud_init.storage":  {KeepOnRemoval: true},
		"cloud_init.slot":     {KeepOnRemoval: true, ServerChooses: true},
		"cloud_init.format":   {KeepOnRemoval: true, ServerChooses: true, MayBeUnreported: true},
		"cloud_init.ssh_keys": {Same: sameKeys},
		"cloud_init.custom":   {MayBeAbsent: true},
	}
	for _, group := range []string{"machine_options", "startup", "vga", "spice_enhancements"} {
		all[group] = tfplan.Rule{MayBeAbsent: true}
	}
	for _, whole := range []string{"audio", "rng", "watchdog", "ivshmem", "amd_sev", "intel_tdx"} { // one sub-key is required, or there is one device
		all[whole] = tfplan.Rule{MayBeAbsent: true, OneObject: true}
	}
	for _, limit := range []string{"mbps", "mbps_rd", "mbps_wr", "mbps_max", "mbps_rd_max", "mbps_wr_max"} {
		all["disks.*.throttle."+limit] = tfplan.Rule{Same: sameNumber}
	}
	for _, hexadecimal := range []string{"pci.*.vendor_id", "pci.*.device_id", "pci.*.sub_vendor_id", "pci.*.sub_device_id", "usb.*.host"} {
		all[hexadecimal] = tfplan.Rule{Same: sameText(strings.ToLower)}
	}
	for _, off := range []string{"onboot", "autostart", "protection", "template", "cpu.numa", "memory.keephugepages", "agent.enabled",
		"agent.fstrim_cloned_disks", "disks.*.discard", "disks.*.ssd", "disks.*.iothread", "disks.*.ro", "networks.*.firewall",
		"networks.*.link_down", "efi_disk.pre_enrolled_keys"} {
		all[off] = tfplan.Rule{Default: truth(false)}
	}
	for _, on := range []string{"disks.*.backup", "disks.*.replicate", "cloud_init.upgrade"} {
		all[on] = tfplan.Rule{Default: truth(true)}
	}
	return all
}

func text(s string) tftypes.Value         { return tftypes.NewValue(tftypes.String, s) }
func truth(b bool) tftypes.Value          { return tftypes.NewValue(tftypes.Bool, b) }
func number(n int64) tftypes.Value        { return tftypes.NewValue(tftypes.Number, n) }
func verbatim(s string) string            { return s }
func trimEnd(s string) string             { return strings.TrimRight(s, " \t\r\n") }
func stringOf(v tftypes.Value) (s string) { _ = v.As(&s); return s }

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

func texts(v tftypes.Value) []string {
	var elements []tftypes.Value
	_ = v.As(&elements)
	all := make([]string, len(elements))
	for i, e := range elements {
		all[i] = stringOf(e)
	}
	return all
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

// sameUnits compares a weight with what PVE made of it: a node with cgroup v1 has no weight below 2 (pve-common CGroup.pm
// clamp_cpu_shares).
func sameUnits(wish, is tftypes.Value) bool { return floatOf(wish) == 1 && floatOf(is) == 2 }

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

// floatOf is a known number; 0 for anything else.
func floatOf(v tftypes.Value) float64 {
	var x *big.Float
	if v.As(&x) != nil || x == nil {
		return 0
	}
	f, _ := x.Float64()
	return f
}
