package plan_test

import (
	"strings"

	"github.com/zclconf/go-cty/cty"
)

func texts(all ...string) []cty.Value {
	values := make([]cty.Value, len(all))
	for i, s := range all {
		values[i] = cty.StringVal(s)
	}
	return values
}

func counts(all ...float64) []cty.Value {
	values := make([]cty.Value, len(all))
	for i, n := range all {
		values[i] = cty.NumberFloatVal(n)
	}
	return values
}

func flags() []cty.Value { return []cty.Value{cty.True, cty.False} }

// lists are lists or sets of texts, the empty one among them.
func lists(all ...[]string) []cty.Value {
	values := []cty.Value{cty.ListValEmpty(cty.String)}
	for _, elements := range all {
		values = append(values, cty.ListVal(texts(elements...)))
	}
	return values
}

// scalarValues are values of the attributes that are neither in a device map nor depend on the cluster, by path. A group
// is drawn or left out as a whole before its attributes are.
func scalarValues() map[string][]cty.Value {
	return map[string][]cty.Value{
		"name": texts("web-1", "Db.lan"), "description": texts("notes", "two\nlines\n", "", "ünï\n\n"), "tags": lists([]string{"prod", "Web"}, []string{"a_b"}),
		"pool": texts("web"), "onboot": flags(), "node": texts("pve1"), "hotplug": lists([]string{"disk", "network"}, []string{"usb", "cpu", "disk"}),
		"machine": texts("q35", "pc", "pc-q35-9.0"), "bios": texts("ovmf", "seabios"), "ostype": texts("l26", "win11", "other"),
		"scsihw": texts("virtio-scsi-single", "lsi", "virtio-scsi-pci"), "acpi": flags(), "kvm": flags(), "tablet": flags(), "localtime": flags(),
		"tdf": flags(), "reboot": flags(), "freeze": flags(), "keyboard": texts("de", "en-us"), "startdate": texts("now", "2006-06-17", "2006-06-17T16:01:21"),
		"vmstatestorage": texts("local-zfs", "local"), "migrate_downtime": counts(0, 0.1, 1.5), "migrate_speed": counts(0, 100),
		"hookscript": texts("local:snippets/user.yaml"), "args": texts("-no-hpet", "-cpu host,+x -m 1"), "arch": texts("x86_64"),
		"vmgenid": texts("1", "0", "6F4FA7B2-f022-48c4-8346-876f8d66b359"),

		"autostart": flags(), "nodes": {cty.ListVal(texts("pve1", "pve2")), cty.ListVal(texts("pve1"))}, "reboot_policy": texts("auto", "force", "never"),
		"shutdown_timeout": texts("90s"), "removed_disks": texts("detach", "destroy"), "wait_for.agent": flags(), "wait_for.ipv4": flags(), "wait_for.ipv6": flags(),
		"wait_for.timeout": texts("1m"), "wait_for.on_timeout": texts("warn"), "on_destroy.purge": flags(),

		"power_state": texts("running", "stopped"), "on_failure": texts("rollback", "keep"), "on_orphaned_volumes": texts("fail", "destroy"), "import_working_storage": texts("local", "local2"),
		"on_destroy.power_off": texts("force"), "on_destroy.timeout": texts("1m", "90s"),
		"timeouts.create": texts("20m"), "timeouts.read": texts("3m"), "timeouts.update": texts("25m"), "timeouts.delete": texts("11m"),

		"startup.order": counts(0, 3), "startup.up": counts(0, 30), "startup.down": counts(60),
		"machine_options.viommu": texts("virtio", "intel"), "machine_options.aw_bits": counts(39, 48),
		"machine_options.enable_s3": flags(), "machine_options.enable_s4": flags(),
		"smbios.uuid": texts("7D4E83A9-947b-41d9-acb7-93796cdd896b"), "smbios.manufacturer": texts("Acme", "Acme, Inc."), "smbios.product": texts("Box"),
		"smbios.version": texts("1.0"), "smbios.serial": texts("ds=nocloud;h=x"), "smbios.sku": texts("K1"), "smbios.family": texts("F", "ä"),
		"vga.type": texts("std", "virtio", "qxl2", "serial0"), "vga.memory": counts(4, 64), "vga.clipboard": texts("vnc"),
		"audio.device": texts("ich9-intel-hda", "AC97"), "audio.driver": texts("spice", "none"),
		"rng.source": texts("/dev/urandom", "/dev/hwrng"), "rng.max_bytes": counts(0, 1024), "rng.period": counts(1000, 50),
		"watchdog.model": texts("i6300esb", "ib700"), "watchdog.action": texts("reset", "none", "poweroff"),
		"spice_enhancements.foldersharing": flags(), "spice_enhancements.videostreaming": texts("off", "all", "filter"),
		"ivshmem.size": counts(1, 32), "ivshmem.name": texts("shared-1"),
		"amd_sev.type": texts("std", "es", "snp"), "amd_sev.no_debug": flags(), "amd_sev.no_key_sharing": flags(), "amd_sev.allow_smt": flags(), "amd_sev.kernel_hashes": flags(),
		"intel_tdx.type": texts("tdx"), "intel_tdx.attestation": flags(), "intel_tdx.vsock_cid": counts(2), "intel_tdx.vsock_port": counts(4050),

		"cpu.type": texts("host", "x86-64-v2-AES", "kvm64"), "cpu.flags": lists([]string{"+aes", "-pcid"}), "cpu.sockets": counts(1, 2), "cpu.cores": counts(1, 4),
		"cpu.vcpus": counts(1), "cpu.limit": counts(0, 0.5, 2), "cpu.units": counts(2, 100, 10000), "cpu.affinity": texts("0,2-3"), "cpu.numa": flags(),
		"cpu.hidden": flags(), "cpu.hv_vendor_id": texts("abc123"), "cpu.phys_bits": texts("host", "40"), "cpu.guest_phys_bits": counts(40), "cpu.level": counts(30),
		"memory.size": counts(1024, 2048), "memory.balloon": counts(0, 512), "memory.shares": counts(0, 1000, 50000), "memory.hugepages": texts("any", "2"),
		"memory.keephugepages": flags(), "memory.allow_ksm": flags(),
		"agent.enabled": flags(), "agent.type": texts("virtio", "isa"), "agent.fstrim_cloned_disks": flags(), "agent.freeze_fs_on_backup": flags(),

		"efi_disk.storage": texts("local-zfs", "local-lvm"), "efi_disk.format": texts("raw"), "efi_disk.type": texts("4m", "2m"), "efi_disk.pre_enrolled_keys": flags(), "efi_disk.ms_cert": texts("2011", "2023"),

		"tpm_state.storage": texts("local-zfs", "local-lvm"), "tpm_state.version": texts("v2.0", "v1.2"),

		"cloud_init.storage": texts("local-zfs", "local"), "cloud_init.slot": texts("ide2", "scsi9"), "cloud_init.format": texts("raw"), "cloud_init.type": texts("nocloud", "configdrive2"),
		"cloud_init.user": texts("ops"), "cloud_init.ssh_keys": lists([]string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN a", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJUWfVZMyWxb3ChGAKPF2O9vRIsmR9R9jVRn1HUeSYOH b\n"}), "cloud_init.nameservers": lists([]string{"10.0.0.2", "10.0.0.1"}),
		"cloud_init.searchdomain": texts("lan"), "cloud_init.upgrade": flags(),
		"cloud_init.custom.user": texts("local:snippets/user.yaml"), "cloud_init.custom.network": texts("local:snippets/user.yaml"),
		"cloud_init.custom.meta": texts("local:snippets/user.yaml"), "cloud_init.custom.vendor": texts("local:snippets/user.yaml"),
		"firewall.enabled": flags(), "firewall.dhcp": flags(), "firewall.ndp": flags(), "firewall.radv": flags(), "firewall.ipfilter": flags(), "firewall.macfilter": flags(),
		"firewall.log_level_in": texts("info", "nolog"), "firewall.log_level_out": texts("err"), "firewall.policy_in": texts("DROP", "ACCEPT"), "firewall.policy_out": texts("REJECT"),
		"firewall.rules": ruleLists(),
		"ha.state":       texts("ignored", "started"), "ha.max_restart": counts(0, 1, 3), "ha.max_relocate": counts(0, 2), "ha.comment": texts("a note", "ünï"), "ha.failback": flags(),

		"cloud_init_password_wo": texts("secret"), "cloud_init_password_wo_version": counts(1, 7), "cloud_init_trigger": texts("one", "two"),
	}
}

// ruleLists are lists of firewall rules with every property, the empty one among them.
func ruleLists() []cty.Value {
	ssh := cty.ObjectVal(map[string]cty.Value{"type": cty.StringVal("in"), "action": cty.StringVal("ACCEPT"), "macro": cty.StringVal("ssh"), "source": cty.StringVal("10.0.0.0/8"),
		"dest": cty.StringVal("10.0.0.1"), "comment": cty.StringVal(" admins "), "log": cty.StringVal("info"), "iface": cty.StringVal("net0")})
	web := cty.ObjectVal(map[string]cty.Value{"type": cty.StringVal("in"), "action": cty.StringVal("DROP"), "enabled": cty.False, "proto": cty.StringVal("tcp"),
		"sport": cty.StringVal("1024:65535"), "dport": cty.StringVal("80,443")})
	ping := cty.ObjectVal(map[string]cty.Value{"type": cty.StringVal("out"), "action": cty.StringVal("REJECT"), "enabled": cty.True, "proto": cty.StringVal("icmp"), "icmp_type": cty.StringVal("echo-request")})
	group := cty.ObjectVal(map[string]cty.Value{"type": cty.StringVal("group"), "action": cty.StringVal("web-servers")})
	return []cty.Value{cty.EmptyTupleVal, cty.TupleVal([]cty.Value{ssh}), cty.TupleVal([]cty.Value{web, ping, ssh, group}), cty.TupleVal([]cty.Value{ping, web})}
}

// deviceValues are values of the attributes in device maps, by path with "*" for the slot, and deviceSlots the slots.
func deviceValues() map[string][]cty.Value {
	all := map[string][]cty.Value{
		"disks.*.storage": texts("local-zfs", "local-lvm", "local"), "disks.*.size": texts("4G", "4096M", "5.5G"), "disks.*.format": texts("qcow2", "raw"),
		"disks.*.import_from": texts("local:import/disk.qcow2"), "disks.*.cache": texts("none", "writeback", "unsafe"), "disks.*.aio": texts("native", "threads"),
		"disks.*.discard": flags(), "disks.*.ssd": flags(), "disks.*.iothread": flags(), "disks.*.backup": flags(), "disks.*.replicate": flags(), "disks.*.ro": flags(),
		"disks.*.serial": texts("abc", "a b"), "disks.*.model": texts("Disk 1"), "disks.*.wwn": texts("0x5000c50015ea71ac"), "disks.*.vendor": texts("ACME"),
		"disks.*.product": texts("Disk-1"), "disks.*.queues": counts(2, 8), "disks.*.scsiblock": flags(), "disks.*.snapshot": flags(), "disks.*.shared": flags(),
		"disks.*.detect_zeroes": flags(), "disks.*.rerror": texts("ignore", "stop"), "disks.*.werror": texts("enospc", "stop"),

		"cdroms.*.file": texts("none", "local:iso/debian.iso", "cdrom"),

		"networks.*.model": texts("virtio", "e1000", "rtl8139"), "networks.*.bridge": texts("vmbr0", "vmbr1"), "networks.*.macaddr": texts("BC:24:11:00:00:01", "bc:24:11:00:00:02"),
		"networks.*.tag": counts(1, 4094), "networks.*.trunks": lists([]string{"5", "10-20"}, []string{"30", "4"}), "networks.*.firewall": flags(), "networks.*.link_down": flags(),
		"networks.*.mtu": counts(1, 1400), "networks.*.queues": counts(0, 4), "networks.*.rate": counts(0.3, 10), "networks.*.host_tunnel": flags(),

		"cloud_init.addresses.*.ipv4": texts("dhcp", "10.0.0.5/24"), "cloud_init.addresses.*.gateway4": texts("10.0.0.1"),
		"cloud_init.addresses.*.ipv6": texts("auto", "2001:db8::5/64"), "cloud_init.addresses.*.gateway6": texts("2001:db8::1"),

		"pci.*.mapping": texts("gpu"), "pci.*.host": texts("01:00.0", "0000:02:00;0000:03:00.1"), "pci.*.pcie": flags(), "pci.*.rombar": flags(), "pci.*.romfile": texts("vbios.bin"),
		"pci.*.x_vga": flags(), "pci.*.legacy_igd": flags(), "pci.*.mdev": texts("nvidia-63"), "pci.*.vendor_id": texts("0x10DE"), "pci.*.device_id": texts("0x1eb8"),
		"pci.*.sub_vendor_id": texts("0x10de"), "pci.*.sub_device_id": texts("0x12A2"), "pci.*.driver": texts("vfio", "keep"),
		"usb.*.mapping": texts("stick"), "usb.*.host": texts("spice", "1234:ABCD", "1-2.3"), "usb.*.usb3": flags(),
		"numa_nodes.*.cpus": texts("0", "0-1;3"), "numa_nodes.*.memory": counts(1024), "numa_nodes.*.hostnodes": texts("0"), "numa_nodes.*.policy": texts("bind", "preferred"),
		"virtiofs.*.dirid": texts("share"), "virtiofs.*.cache": texts("auto", "never"), "virtiofs.*.direct_io": flags(), "virtiofs.*.expose_xattr": flags(), "virtiofs.*.expose_acl": flags(),
		"serial.*.device": texts("socket", "/dev/ttyS0"), "parallel.*.device": texts("/dev/parport0", "/dev/usb/lp0"),
	}
	for _, direction := range []string{"", "_rd", "_wr"} {
		at := "disks.*.throttle."
		all[at+"mbps"+direction], all[at+"mbps"+direction+"_max"], all[at+"mbps"+direction+"_max_length"] = counts(0.5, 100), counts(200.25), counts(1, 10)
		all[at+"iops"+direction], all[at+"iops"+direction+"_max"], all[at+"iops"+direction+"_max_length"] = counts(100), counts(2000), counts(5)
	}
	return all
}

func deviceSlots() map[string][]string {
	return map[string][]string{
		"disks": {"scsi0", "virtio1", "sata2", "ide0"}, "cdroms": {"ide3", "sata5"}, "networks": {"net0", "net1"}, "cloud_init.addresses": {"net0", "net1"},
		"pci": {"hostpci0", "hostpci3"}, "usb": {"usb0", "usb2"}, "numa_nodes": {"numa0", "numa1"}, "virtiofs": {"virtiofs0", "virtiofs4"},
		"serial": {"serial0", "serial2"}, "parallel": {"parallel0", "parallel1"},
	}
}

// cloneValues are configurations of clone, each a whole.
func cloneValues() []map[string]cty.Value {
	full := map[string]cty.Value{"full": cty.True, "node": cty.StringVal("pve1"), "storage": cty.StringVal("local"), "format": cty.StringVal("qcow2"), "bwlimit": cty.NumberIntVal(1 << 20), "vmid": cty.NumberIntVal(9000)}
	return []map[string]cty.Value{
		full,
		{"name": cty.StringVal("template"), "full": cty.True},
		{"tags": cty.ListVal(texts("golden")), "full": cty.True, "bwlimit": cty.NumberIntVal(0)},
		{"vmid": cty.NumberIntVal(9000)},
		{"vmid": cty.NumberIntVal(8000), "full": cty.True, "snapshot": cty.StringVal("before")},
	}
}

// repairStart makes the configuration one that PVE starts.
func (f flat) repairStart() {
	if f.has("amd_sev") || f.has("intel_tdx") {
		f["bios"] = cty.StringVal("ovmf")
	}
	if f.text("cpu.type") == "host" {
		f.drop("kvm")
	}
	if strings.HasPrefix(f.text("vga.type"), "serial") {
		f.drop("vga.clipboard")
	}
	for _, slot := range f.slots("numa_nodes") {
		if at := "numa_nodes." + slot; f.has("memory.hugepages") {
			f[at+".hostnodes"], f[at+".policy"] = cty.StringVal("0"), orElse(f[at+".policy"], "bind")
		}
	}
	for _, slot := range f.slots("virtiofs") {
		if strings.HasPrefix(f.text("ostype"), "w") {
			f.drop("virtiofs." + slot + ".expose_acl")
		}
	}
	f.repairPCI()
}

// repairPCI lets each device be in one slot, and one in the legacy mode.
func (f flat) repairPCI() {
	taken, legacy := map[string]bool{}, ""
	for _, slot := range f.slots("pci") {
		at := "pci." + slot
		if host := f.text(at + ".host"); host != "" && taken[host] {
			f[at+".host"] = cty.StringVal("03:00.0")
		} else {
			taken[host] = true
		}
		if !f.isTrue(at + ".legacy_igd") {
			continue
		}
		if legacy != "" {
			f.drop(at + ".legacy_igd")
			continue
		}
		legacy = slot
		f.drop("vga.memory", "vga.clipboard", at+".rombar", at+".x_vga", at+".mdev")
		f["vga.type"] = cty.StringVal("none")
	}
}
