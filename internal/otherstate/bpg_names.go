package otherstate

import "slices"

// bpgDevices are the arguments of bpg/proxmox with their defaults (proxmoxtf/resource/vm and fwprovider/nodes/vm of
// v0.111.1).
// Arguments that the refresh fills in without a configuration, such as mac_address, are left out, and those that a move
// takes over.
func bpgDevices() []device {
	disk := slices.Concat([]name{{"datastore_id", "storage", "local-lvm"}, {"discard", "discard", "ignore"},
		{"aio", "aio", "io_uring"}, {"cache", "cache", "none"}, {"backup", "backup", "true"},
		{"replicate", "replicate", "true"}, {"size", "size", "8"}, {"size_gb", "size", ""}},
		same("ssd", "iothread", "serial", "queues"))
	nic := []name{{"bridge", "bridge", "vmbr0"}, {"model", "model", "virtio"}, {"vlan_id", "tag", ""}, {"tag", "tag", ""},
		{"rate_limit", "rate", ""}, {"disconnected", "link_down", ""}, {"link_down", "link_down", ""},
		{"mtu", "mtu", ""}, {"queues", "queues", ""}, {"firewall", "firewall", ""}, {"trunks", "trunks", ""}}
	cloudInit := []name{{"datastore_id", "storage", "local-lvm"}, {"type", "type", ""},
		{"upgrade", "upgrade", "true"}, {"user_data_file_id", "custom.user", ""}, {"meta_data_file_id", "custom.meta", ""},
		{"network_data_file_id", "custom.network", ""}, {"vendor_data_file_id", "custom.vendor", ""}}
	return slices.Concat(bpgGeneral(), []device{
		{block: "disk", slot: "@interface", ours: "disks.*", names: disk},
		{block: "disk", slot: "@interface", part: "speed", ours: "disks.*.throttle", names: []name{
			{"read", "mbps_rd", ""}, {"write", "mbps_wr", ""}, {"read_burstable", "mbps_rd_max", ""},
			{"write_burstable", "mbps_wr_max", ""}, {"iops_read", "iops_rd", ""}, {"iops_write", "iops_wr", ""},
			{"iops_read_burstable", "iops_rd_max", ""}, {"iops_write_burstable", "iops_wr_max", ""}}},
		{block: "efi_disk", ours: "efi_disk", names: []name{{"datastore_id", "storage", "local-lvm"}, {"type", "type", "2m"},
			{"pre_enrolled_keys", "pre_enrolled_keys", ""}}},
		{block: "tpm_state", ours: "tpm_state", names: []name{{"datastore_id", "storage", "local-lvm"},
			{"version", "version", "v2.0"}}},
		{block: "network_device", slot: "net", ours: "networks.*", names: nic},
		{block: "network", ours: "networks.*", names: nic},
		{block: "initialization", ours: "cloud_init", names: cloudInit},
		{block: "initialization.user_account", ours: "cloud_init", names: []name{{"username", "user", ""},
			{"keys", "ssh_keys", ""}}},
		{block: "initialization.dns", ours: "cloud_init", names: []name{{"servers", "nameservers", ""},
			{"domain", "searchdomain", ""}}},
		{block: "initialization.ip_config", slot: "net", part: "ipv4", ours: "cloud_init.addresses.*",
			names: []name{{"address", "ipv4", ""}, {"gateway", "gateway4", ""}}},
		{block: "initialization.ip_config", slot: "net", part: "ipv6", ours: "cloud_init.addresses.*",
			names: []name{{"address", "ipv6", ""}, {"gateway", "gateway6", ""}}},
		{block: "hostpci", slot: "@device", ours: "pci.*", names: append(same("mapping", "mdev", "pcie"),
			name{"id", "host", ""}, name{"rom_file", "romfile", ""}, name{"xvga", "x_vga", ""})},
		{block: "usb", slot: "usb", ours: "usb.*", names: same("mapping", "host", "usb3")},
		{block: "virtiofs", slot: "virtiofs", ours: "virtiofs.*", names: append(same("direct_io", "expose_acl",
			"expose_xattr"), name{"mapping", "dirid", ""}, name{"cache", "cache", "auto"})},
	})
}

// bpgGeneral are those of the VM itself and of groups that it has once.
func bpgGeneral() []device {
	return []device{
		{names: append(same("name", "description", "tags", "protection", "template", "machine", "hotplug"),
			name{"pool_id", "pool", ""}, name{"on_boot", "onboot", "true"}, name{"hook_script_file_id", "hookscript", ""},
			name{"started", "power_state", "true"},
			name{"bios", "bios", "seabios"}, name{"scsi_hardware", "scsihw", "virtio-scsi-pci"},
			name{"keyboard_layout", "keyboard", "en-us"}, name{"kvm_arguments", "args", ""})},
		{block: "operating_system", names: []name{{"type", "ostype", "other"}}},
		{block: "startup", ours: "startup", names: []name{{"order", "order", "-1"}, {"up_delay", "up", "-1"},
			{"down_delay", "down", "-1"}}},
		{block: "cpu", ours: "cpu", names: append(same("limit", "numa", "affinity", "flags", "vcpus"),
			name{"cores", "cores", "1"}, name{"sockets", "sockets", "1"}, name{"type", "type", "qemu64"},
			name{"units", "units", "100|1024"}, name{"hotplugged", "vcpus", ""})},
		{block: "memory", ours: "memory", names: append(same("size", "balloon", "shares", "hugepages"),
			name{"dedicated", "size", "512"}, name{"floating", "balloon", ""},
			name{"keep_hugepages", "keephugepages", ""})},
		{block: "memory", ours: "ivshmem", names: []name{{"shared", "size", ""}}},
		{block: "agent", ours: "agent", names: []name{{"enabled", "enabled", ""}, {"type", "type", "virtio"},
			{"trim", "fstrim_cloned_disks", ""}}},
		{block: "vga", ours: "vga", names: []name{{"type", "type", "std"}, {"memory", "memory", "16"},
			{"clipboard", "clipboard", ""}}},
		{block: "audio_device", ours: "audio", names: []name{{"device", "device", ""}, {"driver", "driver", "spice"}}},
		{block: "rng", ours: "rng", names: []name{{"source", "source", ""}, {"max_bytes", "max_bytes", "1024"},
			{"period", "period", "1000"}}},
		{block: "smbios", ours: "smbios", names: same("serial", "manufacturer", "product", "version", "sku", "family")},
		{block: "watchdog", ours: "watchdog", names: []name{{"model", "model", "i6300esb"}, {"action", "action", "none"}}},
		{block: "amd_sev", ours: "amd_sev", names: append(same("allow_smt", "kernel_hashes", "no_debug", "no_key_sharing"),
			name{"type", "type", "std"})},
	}
}
