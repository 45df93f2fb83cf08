package lab

import "strings"

const oneDisk = `disks = { scsi0 = { storage = "<storage>", size = "1G" } }`

const oneNIC = `networks = { net0 = { model = "virtio", bridge = "<bridge>" } }`

const scratch = `
  name        = "acc-scratch"
  description = "made by an acceptance test"
  tags        = ["acc", "test"]
  ostype      = "l26"
  scsihw      = "virtio-scsi-single"
  bios        = "ovmf"
  machine     = "q35"
  cpu         = { type = "x86-64-v2", cores = 1 }
  memory      = { size = 512 }
  disks       = { scsi0 = { storage = "<storage>", size = "1G", discard = true }, scsi1 = { storage = "<storage>", size = "1G" } }
  efi_disk    = { storage = "<storage>", type = "4m", pre_enrolled_keys = false }
  ` + oneNIC

const scratchChanged = `
  name        = "acc-renamed"
  tags        = ["acc"]
  ostype      = "l26"
  scsihw      = "virtio-scsi-single"
  bios        = "ovmf"
  machine     = "q35"
  onboot      = true
  cpu         = { type = "x86-64-v2", cores = 1 }
  memory      = { size = 512 }
  disks       = { scsi0 = { storage = "<storage>", size = "2G", discard = true }, scsi1 = { storage = "<storage>", size = "1G" } }
  efi_disk    = { storage = "<storage>", type = "4m", pre_enrolled_keys = false }
  networks    = { net0 = { model = "virtio", bridge = "<bridge>", firewall = true } }
`

// cloned is VM <vmid+0> as a clone of the tests' template, which may be protected.
const cloned = `
  name       = "acc-clone"
  clone      = { vmid = <template>, full = true, storage = "<storage>" }
  protection = false
`

const golden = `
resource "proxmox_vm" "template" {
  node       = "<node>"
  vmid       = <vmid+1>
  name       = "acc-golden"
  template   = true
  ostype     = "l26"
  scsihw     = "virtio-scsi-single"
  memory     = { size = 512 }
  disks      = { scsi0 = { storage = "<storage>", size = "1G" } }
  networks   = { net0 = { model = "virtio", bridge = "<bridge>" } }
  cloud_init = { storage = "<storage>", user = "template" }
}
`

const linkedClone = `
resource "proxmox_vm" "clone" {
  name       = "acc-clone"
  clone      = { vmid = proxmox_vm.template.vmid, full = false }
  on_destroy = { power_off = "force", timeout = "5s" }
}
`

const addresses = `
  cloud_init = {
    user        = "ops"
    ssh_keys    = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJUWfVZMyWxb3ChGAKPF2O9vRIsmR9R9jVRn1HUeSYOH ops@example.org"]
    addresses   = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" } }
    nameservers = ["10.0.0.1"]
  }
`

// lifeCases: VMs are made, changed, adopted and replaced.
func lifeCases() []Case {
	return []Case{
		{Name: "a VM is made, changed in place and imported", Steps: []Step{
			{Config: acc(scratch), Looks: []Look{config("description", "made by an acceptance test"), running()}, State: map[string]string{
				accAddress + " id": "<vmid+0>", accAddress + " status": "running", accAddress + " uuid": "[0-9a-f-]{36}",
				accAddress + " disks.scsi1.volume": "<storage>:.*vm-<vmid+0>-disk-.*", accAddress + " networks.net0.macaddr": "[0-9A-F:]{17}"}},
			{Config: acc(scratchChanged), Power: Steady, Looks: []Look{config("name", "acc-renamed"), config("onboot", "1"),
				config("description", ""),
				config("tags", "acc"), config("net0", ".*firewall=1.*")}, State: map[string]string{accAddress + " disks.scsi0.size": "2G"}},
			{Act: Forget, Address: accAddress},
			{Act: Import, Address: accAddress, ID: "<node>/<vmid+0>"},
			{Power: Steady},
		}},
		{Name: "a full clone is changed while it is made", Steps: []Step{
			{Config: acc(cloned + `disks = { scsi0 = { size = "20G" } }` + addresses), State: map[string]string{
				accAddress + " clone.source_vmid": "<template>", accAddress + " disks.scsi0.size": "20G", accAddress + " status": "running"},
				Looks: []Look{config("ciuser", "ops"), config("ipconfig0", "gw=10.0.0.1,ip=10.0.0.5/24|ip=10.0.0.5/24,gw=10.0.0.1")}},
		}},
		{Name: "linked clones go before their template", Needs: []Need{LinkedClones, Program}, Steps: []Step{
			// The template's id is the server's choice, so that a plan which replaces the template does not know it and replaces the clone.
			{Config: strings.Replace(golden, "  vmid       = <vmid+1>\n", "", 1) + linkedClone, State: map[string]string{
				"proxmox_vm.clone status": "running", "proxmox_vm.template template": "true"}},
			{Act: Replace, Address: "proxmox_vm.template", State: map[string]string{
				"proxmox_vm.clone status": "running", "proxmox_vm.template template": "true"}},
		}},
		{Name: "a VM becomes a template", Steps: []Step{
			{Config: acc("power_state = \"stopped\"\n" + oneDisk)},
			{Config: acc("template = true\n" + oneDisk), Looks: []Look{config("template", "1"), stopped()}},
		}},
		{Name: "a VM is replaced", Steps: []Step{
			{Config: acc(oneDisk)},
			{Act: Replace, Address: accAddress, Power: Restarted},
		}},
		{Name: "several VMs get ids of the range", Steps: []Step{{
			Config: `
resource "proxmox_vm" "many" {
  count      = 4
  node       = "<node>"
  name       = "acc-${count.index}"
  memory     = { size = 128 }
  disks      = { scsi0 = { storage = "<storage>", size = "1G" } }
  on_destroy = { power_off = "force", timeout = "5s" }
}`, State: map[string]string{"proxmox_vm.many[3] status": "running", "proxmox_vm.many[0] name": "acc-0"}}}},
		{Name: "an import writes the configuration", Needs: []Need{Program}, Steps: []Step{
			{Config: acc(scratchChanged)},
			{Act: Forget, Address: accAddress},
			{Act: Generate, Address: accAddress, ID: "<vmid+0>", Says: "1 imported, 0 added, 0 changed, 0 destroyed", Power: Steady},
			{Config: acc(scratchChanged), Power: Steady},
		}},
		{Name: "a VM made by hand is imported", Steps: []Step{
			{Before: []Request{{Method: "POST", Path: "/nodes/<node>/qemu", Params: map[string]string{"vmid": "<vmid+0>", "name": "acc-by-hand",
				"memory": "256",
				"scsi0":  "<storage>:1", "ide2": "none,media=cdrom", "net0": "virtio,bridge=<bridge>", "onboot": "1"}}},
				Config: acc("name = \"acc-by-hand\"\n" + oneDisk), Act: Import, Address: accAddress, ID: "<vmid+0>"},
			{Looks: []Look{config("onboot", "1"), config("memory", "256"), config("ide2", "none,media=cdrom"), stopped()}},
		}},
		{Name: "what does not exist is not imported", Steps: []Step{
			{Config: acc(oneDisk), Act: Import, Address: accAddress, ID: "<vmid+0>", Fails: "<vmid+0>"},
		}},
		{Name: "the nodes are read", Steps: []Step{
			{Config: "data \"proxmox_node\" \"one\" {\n  name = \"<node>\"\n}\ndata \"proxmox_nodes\" \"all\" {}\noutput \"online\" {\n" +
				"  value = data.proxmox_node.one.online\n}\n"},
			{Config: "data \"proxmox_node\" \"none\" {\n  name = \"no-such-node\"\n}\n", Act: Plan, Fails: "no-such-node"},
			{Config: "output \"nothing\" {\n  value = \"nothing\"\n}\n"},
		}},
	}
}

// optionCases: the effects of changed options on a running guest.
func optionCases() []Case {
	cores := func(n, policy string) string {
		return acc("cpu = { cores = " + n + " }\nreboot_policy = \"" + policy + "\"\nshutdown_timeout = \"5s\"\n" + oneDisk)
	}
	return []Case{
		{Name: "options that PVE puts in force at once", Steps: []Step{
			{Config: acc(oneDisk)},
			{Config: acc("name = \"acc-other\"\ndescription = \"100 % \\\"Zürich\\\" <br/>&amp;\\n\\n# 北京 🙂\"\ntags = [\"b\", \"a\"]\n" +
				"onboot = true\nmemory = { shares = 500 }\n" +
				"migrate_downtime = 0.5\n" + oneDisk), Power: Steady,
				Looks: []Look{config("name", "acc-other"), config("tags", "a;b"), config("onboot", "1"), config("description", "(?s).*Zürich.*北京.*")}},
			{Config: acc(oneDisk), Power: Steady, Looks: []Look{config("name", ""), config("tags", ""), config("description", "")}},
		}},
		{Name: "a change that waits, with the policy never", Steps: []Step{
			{Config: cores("1", "never")},
			{Config: cores("2", "never"), Power: Steady, Says: "cores", State: map[string]string{accAddress + " pending_changes.0": "cores"}},
		}},
		{Name: "a change that waits, with the policy force", Steps: []Step{
			{Config: cores("1", "force")},
			{Config: cores("2", "force"), Power: Restarted, Looks: []Look{config("cores", "2"), running()},
				State: map[string]string{accAddress + " pending_changes.#": "0"}},
		}},
		{Name: "a change that waits, with the policy auto and a guest that obeys", Needs: []Need{Guest}, Steps: []Step{
			{Config: acc(cloned + "cpu = { cores = 1 }\nagent = { enabled = true }\nwait_for = { agent = true, timeout = \"5m\" }")},
			{Config: acc(cloned + "cpu = { cores = 2 }\nagent = { enabled = true }\nwait_for = { agent = true, timeout = \"5m\" }"),
				Power: Restarted,
				Looks: []Look{config("cores", "2"), running()}},
		}},
		{Name: "a change of a VM that is stopped", Steps: []Step{
			{Config: acc("power_state = \"stopped\"\n" + oneDisk), Looks: []Look{stopped()}},
			{Config: acc("power_state = \"stopped\"\ncpu = { type = \"x86-64-v2\", cores = 2, numa = true, limit = 1.5, units = 200, " +
				"flags = [\"+aes\"] }\nmemory = { size = 1024, balloon = 512 }\n" +
				"machine = \"q35\"\nostype = \"l26\"\nscsihw = \"virtio-scsi-pci\"\n" + oneDisk), Looks: []Look{config("cores", "2"),
				config("machine", "q35"), stopped()}},
			{Config: acc("power_state = \"running\"\n" + oneDisk), Looks: []Look{config("cores", ""), config("machine", ""), running()}},
		}},
		{Name: "devices of every kind", Steps: []Step{
			{Config: acc("serial = { serial0 = { device = \"socket\" } }\nvga = { type = \"serial0\" }\nrng = { source = \"/dev/urandom\" }\n" +
				"watchdog = { model = \"i6300esb\", action = \"reset\" }\naudio = { device = \"ich9-intel-hda\", driver = \"none\" }\n" +
				"tablet = false\nkeyboard = \"de\"\n" + oneDisk), Looks: []Look{running(),
				config("rng0", ".*/dev/urandom.*")}},
			{Config: acc("reboot_policy = \"force\"\nshutdown_timeout = \"5s\"\n" + oneDisk), Looks: []Look{running(), config("rng0", ""),
				config("serial0", "")}},
		}},
		{Name: "network devices of a running VM", Steps: []Step{
			{Config: acc(oneDisk + "\n" + oneNIC)},
			{Config: acc(oneDisk +
				"\nnetworks = { net0 = { model = \"virtio\", bridge = \"<bridge>\", firewall = true, rate = 10 }, net3 = { bridge = \"<bridge>\", " +
				"link_down = true } }"),
				Power: Steady, Looks: []Look{config("net0", ".*firewall=1.*"), config("net3", ".*link_down=1.*")}},
			{Config: acc(oneDisk + "\nnetworks = { net3 = { bridge = \"<bridge>\", macaddr = \"BC:24:11:00:AC:C0\" } }"), Power: Steady,
				Looks: []Look{config("net0", ""), config("net3", ".*BC:24:11:00:AC:C0.*")}},
		}},
		{Name: "cloud-init of a running VM", Steps: []Step{
			{Config: acc(oneDisk + "\n" + oneNIC + "\ncloud_init = { storage = \"<storage>\", user = \"one\" }")},
			{Config: acc(oneDisk + "\n" + oneNIC +
				"\ncloud_init = { storage = \"<storage>\", user = \"two\", addresses = { net0 = { ipv4 = \"dhcp\", ipv6 = \"auto\" } } }"),
				Power: Steady,
				Looks: []Look{config("ciuser", "two"), config("ipconfig0", ".*ip=dhcp.*")}},
		}},
		{Name: "a VM is protected", Steps: []Step{
			{Config: acc("protection = true\n" + oneDisk)},
			{Act: Destroy, Fails: "protect", Looks: []Look{running()}},
			{Config: acc("protection = false\n" + oneDisk)},
		}},
	}
}

// diskCases: disks come, go, grow and move.
func diskCases() []Case {
	disks := func(power, of string) string {
		return acc(power + "\nscsihw = \"virtio-scsi-single\"\ndisks = { " + of + " }")
	}
	const down, up = `power_state = "stopped"`, `power_state = "running"`
	move := func(name, power, from, to, want string, needs ...Need) Case {
		return Case{Name: name, Needs: needs, Steps: []Step{
			{Config: disks(power, from), State: map[string]string{accAddress + " disks.scsi0.size": "1G"}},
			{Config: disks(power, to), Power: map[string]Power{up: Steady}[power], Looks: []Look{config("scsi0", want)}},
		}}
	}
	return []Case{
		{Name: "disks come, grow and go while the VM runs", Steps: []Step{
			{Config: disks(up, `scsi0 = { storage = "<storage>", size = "1G" }`)},
			{Config: disks(up, `scsi0 = { storage = "<storage>", size = "2G" }, scsi1 = { storage = "<storage>", size = "1G", serial = "data" }`),
				Power: Steady,
				Looks: []Look{config("scsi0", ".*size=2G.*"), config("scsi1", ".*serial=data.*")}},
			{Config: disks(up, `scsi0 = { storage = "<storage>", size = "2G" }`), Power: Steady, Looks: []Look{config("scsi1", ""),
				config("unused0", ".*vm-<vmid+0>-.*")}},
			{Config: disks(up, `scsi0 = { storage = "<storage>", size = "2G" }, virtio2 = { storage = "<storage>", size = "1G" }`), Power: Steady},
			{Config: disks(up+"\nremoved_disks = \"destroy\"", `scsi0 = { storage = "<storage>", size = "2G" }`), Power: Steady, Says: "destroyed",
				Looks: []Look{config("virtio2", ""), config("unused0", ".*vm-<vmid+0>-.*"), config("unused1", "")}},
		}},
		{Name: "a disk that shrinks is refused in the plan", Steps: []Step{
			{Config: disks(up, `scsi0 = { storage = "<storage>", size = "2G" }`)},
			{Config: disks(up, `scsi0 = { storage = "<storage>", size = "1G" }`), Act: Plan, Fails: "scsi0"},
			{Config: disks(up, `scsi0 = { storage = "<storage>", size = "2G" }`), Power: Steady},
		}},
		move("a disk moves while the VM runs", up, `scsi0 = { storage = "<storage>", size = "1G" }`,
			`scsi0 = { storage = "<second>", size = "1G" }`,
			"<second>:.*", SecondStorage),
		move("a disk moves while the VM is stopped", down, `scsi0 = { storage = "<storage>", size = "1G" }`,
			`scsi0 = { storage = "<second>", size = "2G" }`,
			"<second>:.*size=2G.*", SecondStorage),
		move("a disk leaves a directory while the VM runs", up, `scsi0 = { storage = "<dir>", format = "qcow2", size = "1G" }`,
			`scsi0 = { storage = "<storage>", size = "1G" }`, "<storage>:.*", Directory),
		move("a disk leaves a directory while the VM is stopped", down, `scsi0 = { storage = "<dir>", format = "qcow2", size = "1G" }`,
			`scsi0 = { storage = "<storage>", size = "1G" }`, "<storage>:.*", Directory),
		move("a disk gets another format", down, `scsi0 = { storage = "<dir>", format = "raw", size = "1G" }`,
			`scsi0 = { storage = "<dir>", format = "qcow2", size = "1G" }`, `<dir>:.*\.qcow2.*`, Directory),
		move("a disk gets options", down, `scsi0 = { storage = "<storage>", size = "1G" }`,
			`scsi0 = { storage = "<storage>", size = "1G", discard = true, ssd = true, iothread = true, backup = false, `+
				`throttle = { mbps_rd = 100, iops_wr = 500 } }`,
			".*iothread=1.*"),
		{Name: "a detached disk is attached again", Steps: []Step{
			{Config: disks(down, `scsi0 = { storage = "<storage>", size = "1G" }, scsi1 = { storage = "<storage>", size = "2G" }`)},
			{Config: disks(down, `scsi0 = { storage = "<storage>", size = "1G" }`), Looks: []Look{config("unused0", ".+")},
				Keep: map[string]string{"detached": accAddress + " unused_volumes.unused0"}},
			{Config: "variable \"detached\" {\n  type = string\n}\n" + disks(down,
				`scsi0 = { storage = "<storage>", size = "1G" }, virtio3 = { imported_disk = { volume = var.detached } }`),
				Looks: []Look{config("unused0", ""), config("virtio3", ".*vm-<vmid+0>-.*size=2G.*")}},
		}},
		{Name: "EFI disk, TPM and cloud-init drive move", Needs: []Need{SecondStorage}, Steps: []Step{
			{Config: acc(down + "\nbios = \"ovmf\"\nmachine = \"q35\"\n" +
				"efi_disk = { storage = \"<storage>\", type = \"4m\", pre_enrolled_keys = true }\n" +
				"tpm_state = { storage = \"<storage>\", version = \"v2.0\" }\ncloud_init = { storage = \"<storage>\", user = \"ops\" }")},
			{Config: acc(down + "\nbios = \"ovmf\"\nmachine = \"q35\"\n" +
				"efi_disk = { storage = \"<second>\", type = \"4m\", pre_enrolled_keys = true }\n" +
				"tpm_state = { storage = \"<second>\", version = \"v2.0\" }\ncloud_init = { storage = \"<second>\", user = \"ops\" }"),
				Looks: []Look{config("efidisk0", "<second>:.*"), config("tpmstate0", "<second>:.*"), config("ide2", "<second>:.*")}},
		}},
		{Name: "the cloud-init drive moves while the VM runs", Needs: []Need{SecondStorage}, Steps: []Step{
			{Config: acc(oneDisk + "\ncloud_init = { storage = \"<storage>\", user = \"ops\" }")},
			{Config: acc(oneDisk +
				"\nreboot_policy = \"force\"\nshutdown_timeout = \"5s\"\ncloud_init = { storage = \"<second>\", user = \"ops\" }"),
				Looks: []Look{config("ide2", "<second>:.*"), running()}},
		}},
		{Name: "a disk is made of an image", Needs: []Need{ImportImage}, Steps: []Step{
			{Config: disks(up, `scsi0 = { storage = "<storage>", import_from = "<import>" }`), Looks: []Look{running(),
				config("scsi0", "<storage>:.*")}},
		}},
		{Name: "an ISO image is put in and taken out", Needs: []Need{ISO}, Steps: []Step{
			{Config: acc(oneDisk + "\ncdroms = { ide2 = { file = \"<iso>\" } }\nboot_order = [\"scsi0\", \"ide2\"]")},
			{Config: acc(oneDisk + "\ncdroms = { ide2 = { file = \"none\" } }\nboot_order = [\"scsi0\", \"ide2\"]"), Power: Steady,
				Looks: []Look{config("ide2", "none,media=cdrom")}},
		}},
	}
}
