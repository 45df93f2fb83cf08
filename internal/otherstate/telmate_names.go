package otherstate

import "slices"

// telmateDevices are the arguments of Telmate/proxmox with their defaults (proxmox/resource_vm_qemu.go, 2.9 to
// 3.0.2-rc). Arguments that the refresh fills in without a configuration, such as macaddr and boot, are left out, and
// those that a move takes over. Neither value of replicate tells that it was set: its default is false, and a refresh
// says true of an imported disk.
func telmateDevices() []device {
	disk := slices.Concat(same("storage", "size", "serial", "wwn", "discard"), []name{{"cache", "cache", "none"},
		{"backup", "backup", "true"}, {"replicate", "replicate", "true|false"}, {"iothread", "iothread", ""},
		{"emulatessd", "ssd", ""}, {"asyncio", "aio", ""}, {"readonly", "ro", ""}})
	throttle := []name{{"mbps_r_concurrent", "mbps_rd", ""}, {"mbps_wr_concurrent", "mbps_wr", ""},
		{"mbps_r_burst", "mbps_rd_max", ""}, {"mbps_wr_burst", "mbps_wr_max", ""}, {"iops_r_concurrent", "iops_rd", ""},
		{"iops_wr_concurrent", "iops_wr", ""}, {"iops_r_burst", "iops_rd_max", ""}, {"iops_wr_burst", "iops_wr_max", ""},
		{"iops_r_burst_length", "iops_rd_max_length", ""}, {"iops_wr_burst_length", "iops_wr_max_length", ""}}
	all := append(telmateGeneral(),
		device{block: "disk", slot: "@slot", ours: "disks.*", names: disk},
		device{block: "disk", slot: "@slot", ours: "disks.*.throttle", names: throttle})
	for _, bus := range []string{"ide", "sata", "scsi", "virtio"} {
		all = append(all,
			device{block: "disks." + bus, slot: "=", part: "disk", ours: "disks.*", names: disk},
			device{block: "disks." + bus, slot: "=", part: "disk", ours: "disks.*.throttle", names: throttle},
			device{block: "disks." + bus, slot: "=", part: "cdrom", ours: "cdroms.*", names: []name{{"iso", "file", ""}}},
			device{block: "disks." + bus, slot: "=", part: "cloudinit", ours: "cloud_init", names: same("storage")})
	}
	mapping := append(same("mdev", "pcie"), name{"mapping_id", "mapping", ""}, name{"raw_id", "host", ""},
		name{"rombar", "rombar", "true"}, name{"primary_gpu", "x_vga", ""})
	return append(all,
		device{block: "pci", slot: "hostpci#id", ours: "pci.*", names: mapping},
		device{block: "pcis", slot: "=", part: "mapping", ours: "pci.*", names: mapping},
		device{block: "pcis", slot: "=", part: "raw", ours: "pci.*", names: mapping},
		device{block: "network", slot: "net#id", ours: "networks.*", names: append(same("model", "bridge", "firewall",
			"mtu", "queues", "rate", "link_down"), name{"tag", "tag", "-1"})},
		device{block: "usb", slot: "usb#id", ours: "usb.*", names: []name{{"mapping_id", "mapping", ""},
			{"device_id", "host", ""}, {"port_id", "host", ""}, {"usb3", "usb3", ""}}},
		device{block: "serial", slot: "serial#id", ours: "serial.*", names: []name{{"type", "device", ""}}})
}

// telmateGeneral are those of the VM itself and of groups that it has once.
func telmateGeneral() []device {
	cpu := append(same("limit", "numa", "affinity"), name{"cores", "cores", "1"}, name{"sockets", "sockets", "1"},
		name{"type", "type", "host"}, name{"units", "units", "100|1024"}, name{"vcores", "vcpus", ""})
	return []device{
		{names: append(same("name", "tags", "pool", "protection", "machine", "args", "onboot"),
			name{"desc", "description", ""}, name{"power_state", "power_state", ""}, name{"vm_state", "power_state", ""},
			name{"description", "description", "Managed by Terraform."}, name{"start_at_node_boot", "onboot", ""},
			name{"bios", "bios", "seabios"}, name{"qemu_os", "ostype", "l26|other"}, name{"scsihw", "scsihw", "lsi"},
			name{"hotplug", "hotplug", "network,disk,usb"}, name{"memory", "memory.size", "512"},
			name{"balloon", "memory.balloon", ""}, name{"cores", "cpu.cores", "1"}, name{"sockets", "cpu.sockets", "1"},
			name{"cpu_type", "cpu.type", "host"}, name{"vcpus", "cpu.vcpus", ""}, name{"numa", "cpu.numa", ""},
			name{"agent", "agent.enabled", ""}, name{"hastate", "ha.state", ""}, name{"hagroup", "ha.group", ""},
			name{"ciuser", "cloud_init.user", ""}, name{"sshkeys", "cloud_init.ssh_keys", ""},
			name{"nameserver", "cloud_init.nameservers", ""}, name{"searchdomain", "cloud_init.searchdomain", ""},
			name{"cicustom", "cloud_init.custom", ""}, name{"ipconfig0", "cloud_init.addresses.net0", ""},
			name{"ipconfig1", "cloud_init.addresses.net1", ""}, name{"ipconfig2", "cloud_init.addresses.net2", ""})},
		{block: "startup_shutdown", ours: "startup", names: []name{{"order", "order", "-1"}, {"startup_delay", "up", "-1"},
			{"shutdown_timeout", "down", "-1"}}},
		{block: "cpu", ours: "cpu", names: append(cpu, name{"flags", "flags", ""})},
		{block: "efidisk", ours: "efi_disk", names: append(same("storage", "pre_enrolled_keys"),
			name{"efitype", "type", ""})},
		{block: "tpm_state", ours: "tpm_state", names: same("storage", "version")},
		{block: "vga", ours: "vga", names: same("type", "memory")},
		{block: "rng", ours: "rng", names: append(same("source", "period"), name{"limit", "max_bytes", ""})},
		{block: "smbios", ours: "smbios", names: same("serial", "manufacturer", "product", "version", "sku", "family")},
	}
}
