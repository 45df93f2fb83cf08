package plan_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// The outcomes of a change that sends nothing.
const (
	notedOnly     = ""        // only the provider notes it
	replacedBy    = "replace" // the VM is replaced
	refusedChange = "refused" // the plan refuses it
)

// laterBackup is another backup of the VM of rig.WebBackup.
const laterBackup = "local:backup/vzdump-qemu-700-2026_02_01-00_00_00.vma.zst"

// oneChange is one attribute that goes from one value to another, in a configuration with the others that it needs.
type oneChange struct {
	path     string // a real one, with a slot
	from, to cty.Value
	beside   flat
	want     string // the writes: method, path and options of each
}

// configs are the configurations before and after.
func (c oneChange) configs(vmid int) (before, after flat) {
	before = flat{"name": cty.StringVal("it"), "node": cty.StringVal("pve1"), "power_state": cty.StringVal("stopped"), "ostype": cty.StringVal("l26")}
	maps.Copy(before, c.beside)
	before["vmid"] = cty.NumberIntVal(int64(vmid))
	maps.DeleteFunc(before, func(_ string, v cty.Value) bool { return v == cty.NilVal })
	if c.from != cty.NilVal {
		before[c.path] = c.from
	}
	before.repair()
	after = maps.Clone(before)
	after[c.path] = c.to
	if c.to == cty.NilVal {
		delete(after, c.path)
	}
	return before, after
}

// noChange are the attributes without a change of their own, with the reason.
func noChange() map[string]string {
	return map[string]string{
		"cpu.reported_model":           "for CPU models of the datacenter's own only, which the simulated cluster has none of",
		"intel_tdx.type":               "PVE has one type only",
		"disks.*.imported_disk.volume": "names a volume that the VM has already: TestNoDrift and the tests of disks that change slots",
		"disks.*.imported_disk.sha256": "is looked at before a new VM is made: TestAdoptMigratedDisk",
		"disks.*.imported_disk.source": "is for people: TestAdoptMigratedDisk",
		"restore.storage":              "counts only when a VM is made of a backup: TestRestoreOptions",
		"restore.bwlimit":              "counts only when a VM is made of a backup: TestRestoreOptions",
	}
}

// oneChanges are the changes, by attribute with "*" for its slot.
func oneChanges(t *testing.T) map[string]oneChange {
	t.Helper()
	values, all := scalarValues(), map[string]oneChange{}
	maps.Copy(values, deviceValues())
	for path, choice := range values {
		c := oneChange{path: path, from: choice[0]}
		if family, key, device := strings.Cut(path, ".*."); device {
			slot := deviceSlots()[family][0]
			if path == "disks.*.model" {
				slot = "ide0"
			}
			c.path = family + "." + slot + "." + key
		}
		if len(choice) > 1 {
			c.to = choice[1]
		}
		if to, ok := otherValues()[path]; ok {
			c.to = to
		}
		c.want = "PUT config " + optionOf(c.path)
		c.beside = companions(path)
		all[path] = c
	}
	maps.DeleteFunc(all, func(path string, _ oneChange) bool { return noChange()[path] != "" })
	for path, c := range specialChanges() {
		if c.path == "" {
			c.path = all[path].path
		}
		if c.path == "" {
			c.path = path
		}
		if c.from == cty.NilVal {
			c.from = all[path].from
		}
		if c.to == cty.NilVal {
			c.to = all[path].to
		}
		if c.beside == nil {
			c.beside = companions(path)
		}
		all[path] = c
	}
	return all
}

// otherValues are second values of attributes that the drawn configurations have one value of.
func otherValues() map[string]cty.Value {
	all := map[string]cty.Value{
		"name": cty.StringVal("other"), "description": cty.StringVal("other notes"), "arch": cty.StringVal("aarch64"), "args": cty.StringVal("-x"), "startup.down": cty.NumberIntVal(7),
		"hookscript": cty.StringVal("local:snippets/other.pl"), "hotplug": cty.ListVal(texts("usb")), "tags": cty.ListVal(texts("b")),
		"cpu.affinity": cty.StringVal("1"), "cpu.hv_vendor_id": cty.StringVal("xyz"), "cpu.guest_phys_bits": cty.NumberIntVal(48), "cpu.level": cty.NumberIntVal(31),
		"cpu.vcpus": cty.NumberIntVal(2), "cpu.flags": cty.ListVal(texts("+aes")), "cpu.phys_bits": cty.StringVal("41"), "cpu.limit": cty.NumberFloatVal(1.5),
		"vga.clipboard": cty.NilVal, "rng.source": cty.StringVal("/dev/random"), "ivshmem.name": cty.StringVal("shared-2"), "machine": cty.StringVal("pc"),
		"smbios.product": cty.StringVal("Crate"), "smbios.version": cty.StringVal("2.0"), "smbios.sku": cty.StringVal("K2"), "smbios.serial": cty.StringVal("x"),
		"smbios.uuid": cty.StringVal("0d4e83a9-947b-41d9-acb7-93796cdd896b"), "vmgenid": cty.StringVal("6F4FA7B2-f022-48c4-8346-876f8d66b359"),
		"intel_tdx.vsock_cid": cty.NumberIntVal(3), "intel_tdx.vsock_port": cty.NumberIntVal(4051),
		"cloud_init.user": cty.StringVal("root"), "cloud_init.searchdomain": cty.StringVal("wan"), "cloud_init.nameservers": cty.ListVal(texts("10.0.0.9")),
		"cloud_init.addresses.*.gateway4": cty.StringVal("10.0.0.2"), "cloud_init.addresses.*.gateway6": cty.StringVal("2001:db8::2"),
		"disks.*.model": cty.StringVal("Disk 2"), "disks.*.wwn": cty.StringVal("0x5000c50015ea71ad"), "disks.*.vendor": cty.StringVal("EMCA"), "disks.*.product": cty.StringVal("Disk-2"),
		"networks.*.trunks": cty.ListVal(texts("7")), "numa_nodes.*.hostnodes": cty.StringVal("1"), "numa_nodes.*.memory": cty.NumberIntVal(512),
		"pci.*.mapping": cty.StringVal("gpu2"), "pci.*.mdev": cty.StringVal("nvidia-64"), "pci.*.romfile": cty.StringVal("other.bin"), "usb.*.mapping": cty.StringVal("other"),
		"virtiofs.*.dirid": cty.StringVal("other"), "efi_disk.ms_cert": cty.StringVal("2023"),
	}
	for _, document := range []string{"user", "network", "meta", "vendor"} {
		all["cloud_init.custom."+document] = cty.StringVal("local:snippets/other.yaml")
	}
	for _, id := range []string{"vendor_id", "device_id", "sub_vendor_id", "sub_device_id"} {
		all["pci.*."+id] = cty.StringVal("0x1234")
	}
	for _, direction := range []string{"", "_rd", "_wr"} {
		at := "disks.*.throttle."
		all[at+"mbps"+direction+"_max"], all[at+"iops"+direction+"_max"] = cty.NumberFloatVal(300), cty.NumberFloatVal(3000)
		all[at+"iops"+direction], all[at+"mbps"+direction] = cty.NumberFloatVal(200), cty.NumberFloatVal(10)
		all[at+"iops"+direction+"_max_length"], all[at+"mbps"+direction+"_max_length"] = cty.NumberFloatVal(6), cty.NumberFloatVal(6)
	}
	return all
}

// companions are the attributes that another one needs beside it, beyond those that repair adds.
func companions(path string) flat {
	group, _, _ := strings.Cut(path, ".")
	special := map[string]flat{
		"cpu.vcpus":          {"cpu.cores": cty.NumberIntVal(4)},
		"memory.hugepages":   {"cpu.numa": cty.True, "memory.size": cty.NumberIntVal(1024)},
		"pci.*.pcie":         {"machine": cty.StringVal("q35")},
		"networks.*.mtu":     {"networks.net0.model": cty.StringVal("virtio")},
		"networks.*.queues":  {"networks.net0.model": cty.StringVal("virtio")},
		"boot_order":         {"disks.scsi0.storage": cty.StringVal("local-zfs")},
		"numa_nodes.*.cpus":  {},
		"cpu.type":           {},
		"cpu.reported_model": {},
	}
	groups := map[string]flat{
		"cpu":             {"cpu.type": cty.StringVal("host")},
		"memory":          {"memory.size": cty.NumberIntVal(1024)},
		"machine_options": {"machine": cty.StringVal("q35"), "machine_options.viommu": cty.StringVal("virtio")},
		"intel_tdx":       {"intel_tdx.type": cty.StringVal("tdx"), "intel_tdx.attestation": cty.True},
		"vga":             {"vga.type": cty.StringVal("std")},
		"numa_nodes":      {"numa_nodes.numa0.policy": cty.StringVal("bind")},
		"wait_for": {"power_state": cty.NilVal, "agent.enabled": cty.True, "networks.net0.bridge": cty.StringVal("vmbr0"),
			"wait_for.on_timeout": cty.StringVal("warn")},
		"ha": {"power_state": cty.NilVal, "ha.state": cty.StringVal("started")},
	}
	if needs, ok := special[path]; ok {
		return needs
	}
	if strings.HasPrefix(path, "cloud_init.addresses.") {
		return flat{"cloud_init.addresses.net0.ipv4": cty.StringVal("10.0.0.5/24"), "cloud_init.addresses.net0.ipv6": cty.StringVal("2001:db8::5/64")}
	}
	limit, isLimit := strings.CutPrefix(path, "disks.*.throttle.")
	if !isLimit {
		return maps.Clone(groups[group])
	}
	unit, at := limit[:4], "disks.scsi0.throttle."
	base, _, _ := strings.Cut(limit, "_max")
	return flat{at + base: cty.NumberIntVal(map[string]int64{"mbps": 1, "iops": 100}[unit]), at + base + "_max": cty.NumberIntVal(250)}
}

// specialChanges are those that are no option of the configuration, or not only one.
func specialChanges() map[string]oneChange {
	yes, no, text := cty.True, cty.False, cty.StringVal
	local, zfs, lvm := text("local"), text("local-zfs"), text("local-lvm")
	all := map[string]oneChange{
		"vmid": {from: cty.NilVal, to: cty.NumberIntVal(499), want: replacedBy}, "node": {to: text("pve2"), want: "POST migrate target,with-local-disks"},
		"pool":            {want: "PUT pools delete,poolid,vms"},
		"power_state":     {beside: flat{"power_state": cty.NilVal}, from: text("running"), to: text("stopped"), want: "POST status/shutdown timeout"},
		"template":        {from: no, to: yes, want: "POST template"},
		"protection":      {from: no, to: yes, want: "PUT config protection"},
		"restore.archive": {from: text(rig.WebBackup), to: text(laterBackup), beside: flat{"protection": no}, want: replacedBy},
		"template, back":  {path: "template", from: yes, to: no, beside: flat{"disks.scsi0.storage": zfs}, want: replacedBy},
		"boot_order":      {from: cty.ListVal(texts("scsi0")), to: cty.ListValEmpty(cty.String), want: "PUT config boot"},
		"disks.*.size":    {to: text("6G"), want: "PUT resize disk,size"},
		"disks.*.model":   {want: "PUT config ide0"},

		"disks.*.storage":     {from: zfs, to: lvm, want: "POST move_disk delete,disk,storage"},
		"disks.*.format":      {beside: flat{"disks.scsi0.storage": local}, want: "POST move_disk delete,disk,format,storage"},
		"disks.*.import_from": {to: text("local:import/other.qcow2"), want: replacedBy},
		"efi_disk.storage":    {from: zfs, to: lvm, want: "POST move_disk delete,disk,storage"}, "tpm_state.storage": {from: zfs, to: lvm, want: "POST move_disk delete,disk,storage"},
		"efi_disk.format": {beside: flat{"efi_disk.storage": local}, from: text("qcow2"), to: text("raw"), want: "POST move_disk delete,disk,format,storage"},
		"efi_disk.type":   {want: refusedChange}, "efi_disk.pre_enrolled_keys": {want: refusedChange}, "tpm_state.version": {want: refusedChange},
		"efi_disk.ms_cert":               {want: "PUT config efidisk0"},
		"efi_disk.import_from":           {from: text("local-zfs:vm-8000-efi"), to: text("local-zfs:vm-8000-tpm"), want: replacedBy},
		"tpm_state.import_from":          {from: text("local-zfs:vm-8000-tpm"), to: text("local-zfs:vm-8000-efi"), want: replacedBy},
		"cloud_init.storage":             {from: zfs, to: lvm, want: "POST move_disk delete,disk,storage"},
		"cloud_init.format":              {beside: flat{"cloud_init.storage": local}, from: text("qcow2"), to: text("raw"), want: "POST move_disk delete,disk,format,storage"},
		"cloud_init.slot":                {want: "PUT config ide2; POST config scsi9"},
		"cloud_init_password_wo":         {beside: flat{"cloud_init_password_wo_version": cty.NumberIntVal(1), "cloud_init.user": text("ops")}, to: text("other"), want: notedOnly},
		"cloud_init_trigger":             {beside: flat{"cloud_init.user": text("ops")}, from: text("one"), to: text("two"), want: notedOnly},
		"firewall.rules":                 {from: ruleLists()[1], to: ruleLists()[0], want: "DELETE firewall/rules/{pos} pos"},
		"cloud_init_password_wo_version": {beside: flat{"cloud_init_password_wo": text("secret"), "cloud_init.user": text("ops")}, want: "PUT config cipassword"},
	}
	for key, option := range map[string]string{"enabled": "enable", "dhcp": "dhcp", "ndp": "ndp", "radv": "radv", "ipfilter": "ipfilter", "macfilter": "macfilter"} {
		all["firewall."+key] = oneChange{from: no, to: yes, want: "PUT firewall/options " + option}
	}
	for key := range map[string]bool{"log_level_in": true, "log_level_out": true, "policy_in": true, "policy_out": true} {
		to := text("warning")
		if strings.HasPrefix(key, "policy") {
			to = text("ACCEPT")
		}
		all["firewall."+key] = oneChange{to: to, want: "PUT firewall/options " + key}
	}
	for key, to := range map[string]cty.Value{"state": text("ignored"), "max_restart": cty.NumberIntVal(2), "max_relocate": cty.NumberIntVal(3), "comment": text("other"), "failback": no} {
		c := oneChange{to: to, want: "PUT cluster/ha/resources/{sid} " + key}
		if key == "state" {
			c.from = text("started")
		}
		all["ha."+key] = c
	}
	for path, to := range map[string]cty.Value{
		"nodes": cty.ListVal(texts("pve1")), "reboot_policy": text("force"), "shutdown_timeout": text("2m"), "removed_disks": text("destroy"), "wait_for.agent": no, "wait_for.ipv4": no, "wait_for.ipv6": no,
		"wait_for.timeout": text("2m"), "wait_for.on_timeout": text("fail"), "on_destroy.purge": no, "on_destroy.power_off": text("graceful"), "on_destroy.timeout": text("2m"), "on_failure": text("keep"),
		"on_orphaned_volumes": text("destroy"), "import_working_storage": text("local2"), "timeouts.create": text("1h"), "timeouts.read": text("1h"), "timeouts.update": text("1h"), "timeouts.delete": text("1h"),
	} {
		all[path] = oneChange{to: to, want: notedOnly}
	}
	for key, values := range map[string][2]cty.Value{"vmid": {cty.NumberIntVal(9000), cty.NumberIntVal(8000)}, "name": {text("template"), text("existing")}, "full": {yes, no}, "snapshot": {text("before"), text("other")}, "tags": {cty.ListVal(texts("golden")), cty.ListVal(texts("silver"))},
		"node": {text("pve1"), text("pve2")}, "storage": {local, zfs}, "format": {text("qcow2"), text("raw")}, "bwlimit": {cty.NumberIntVal(0), cty.NumberIntVal(1 << 20)}} {
		c := oneChange{from: values[0], to: values[1], want: replacedBy, beside: flat{"protection": no}}
		switch key {
		case "node", "storage", "format", "bwlimit":
			c.want = notedOnly
			c.beside["clone.vmid"], c.beside["clone.full"] = cty.NumberIntVal(9000), yes
			if key == "format" {
				c.beside["clone.storage"] = local
			}
		case "snapshot":
			c.beside["clone.vmid"], c.beside["clone.full"] = cty.NumberIntVal(8000), yes
		case "full":
			c.beside["clone.vmid"] = cty.NumberIntVal(9000)
		}
		all["clone."+key] = c
	}
	return all
}
