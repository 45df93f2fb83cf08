package lab

import "slices"

// Cases are all cases except the documentation's examples, in order of their subjects. Each has the range of VMIDs for itself.
func Cases() []Case {
	return slices.Concat(lifeCases(), optionCases(), diskCases(), neighbourCases(), failureCases())
}

// neighbourCases: the objects beside the VM, and the acts of others on them.
func neighbourCases() []Case {
	firewall := func(rules string) string {
		return acc(oneDisk + "\nnetworks = { net0 = { bridge = \"<bridge>\", firewall = true } }\nfirewall = {\n    enabled = true\n" +
			"    policy_in = \"DROP\"\n    rules = [" + rules + "]\n  }")
	}
	const ssh = `{ type = "in", action = "ACCEPT", macro = "SSH", source = "10.0.0.0/8", comment = "admins" }`
	const web = `{ type = "in", action = "ACCEPT", proto = "tcp", dport = "443" }`
	const ping = `{ type = "out", action = "REJECT", proto = "icmp", icmp_type = "echo-request", log = "info" }`
	return []Case{
		{Name: "the firewall's rules", Steps: []Step{
			{Config: firewall(ssh + ", " + ping), Looks: []Look{{"<vmid+0>/firewall/options", "policy_in", "DROP"}, {"<vmid+0>/firewall/rules", "",
				".*SSH.*icmp.*|.*icmp.*SSH.*"}}},
			{Config: firewall(web + ", " + ssh), Power: Steady, Looks: []Look{{"<vmid+0>/firewall/rules", "", ".*443.*"}}},
			{Config: acc(oneDisk + "\n" + oneNIC), Power: Steady, Looks: []Look{{"<vmid+0>/firewall/options", "enable", "|0"}}},
		}},
		{Name: "a VM joins a pool and leaves it", Steps: []Step{
			{Config: acc("pool = \"<pool>\"\n" + oneDisk), Looks: []Look{{"/pools/<pool>", "", ".*\"vmid\":<vmid+0>.*"}}},
			{Config: acc(oneDisk), Power: Steady, Looks: []Look{{"/pools/<pool>", "", ".*\"members\":\\[\\].*"}}},
			{Config: acc("pool = \"<pool>\"\n" + oneDisk), Power: Steady},
		}},
		{Name: "a VM that does not exist any more is made again", Steps: []Step{
			{Config: acc("power_state = \"stopped\"\n" + oneDisk)},
			{Before: []Request{{Method: "DELETE", Path: "<vmid+0>", Params: map[string]string{"purge": "1"}}}, Looks: []Look{stopped()}},
		}},
		{Name: "changes by third parties are taken back", Steps: []Step{
			{Config: acc("description = \"ours\"\nmemory = { size = 512 }\npower_state = \"stopped\"\n" + oneDisk)},
			{Before: []Request{set(map[string]string{"description": "theirs", "memory": "1024"})}, Act: Plan},
			{Config: acc("description = \"ours\"\nmemory = { size = 512 }\npower_state = \"stopped\"\n" + oneDisk),
				Looks: []Look{config("description", "ours"), config("memory", "512")}},
		}},
		{Name: "options without a configuration are left to others", Steps: []Step{
			{Config: acc(oneDisk)},
			{Before: []Request{set(map[string]string{"tags": "theirs", "onboot": "1", "net5": "virtio,bridge=<bridge>"})}, Power: Steady},
			{Config: acc("name = \"acc-other\"\n" + oneDisk), Power: Steady, Looks: []Look{config("tags", "theirs"), config("onboot", "1"),
				config("net5", ".+")}},
		}},
		{Name: "high availability", Needs: []Need{HA}, Steps: []Step{
			{Config: acc("ha = { state = \"started\", max_restart = 2, comment = \"acc\" }\n" + oneDisk),
				Looks: []Look{{"/cluster/ha/resources/vm:<vmid+0>", "max_restart", "2"}}},
			{Config: acc("ha = { state = \"started\", max_restart = 3 }\n" + oneDisk), Power: Steady,
				Looks: []Look{{"/cluster/ha/resources/vm:<vmid+0>", "max_restart", "3"}}},
			{Config: acc(oneDisk), Power: Steady, Looks: []Look{{"/cluster/ha/resources/vm:<vmid+0>", "sid", ""}, running()}},
		}},
		{Name: "an agent that does not answer is no failure", Steps: []Step{
			{Config: acc("agent = { enabled = true }\nwait_for = { agent = true, timeout = \"5s\", on_timeout = \"warn\" }\n" + oneDisk),
				Looks: []Look{running()}},
		}},
	}
}

// failureCases: requests that a sound server refuses. Nothing is left, and the objects of others are unchanged.
func failureCases() []Case {
	theirs := Request{Method: "POST", Path: "/nodes/<node>/qemu", Params: map[string]string{"vmid": "<vmid+0>", "name": "acc-theirs",
		"memory": "128"}}
	volume := Request{Method: "POST", Path: "/nodes/<node>/storage/<storage>/content", Params: map[string]string{
		"vmid": "<vmid+0>", "filename": "vm-<vmid+0>-disk-0", "size": "1G", "format": "raw"}}
	destroyed := Request{Method: "DELETE", Path: "<vmid+0>"}
	const good = oneDisk + "\n" + oneNIC
	const huge = `disks = { scsi0 = { storage = "<storage>", size = "1G" }, scsi1 = { storage = "<lvm>", size = "<more than half>" } }`
	taken := Request{Method: "POST", Path: "/nodes/<node>/storage/<lvm>/content", Params: map[string]string{
		"vmid": "<vmid+3>", "filename": "vm-<vmid+3>-disk-0", "size": "<more than half>", "format": "raw"}}
	freed := Request{Method: "DELETE", Path: "/nodes/<node>/storage/<lvm>/content/vm-<vmid+3>-disk-0"}
	return []Case{
		{Name: "a start that fails takes everything back", Steps: []Step{
			{Config: acc(oneDisk + "\nnetworks = { net0 = { bridge = \"vmbr4093\" } }"), Fails: "vmbr4093", Looks: []Look{gone()}},
			{Config: acc(good), Looks: []Look{running()}},
		}},
		{Name: "a clone whose start fails takes everything back", Steps: []Step{
			{Config: acc(cloned + "networks = { net0 = { bridge = \"vmbr4093\" } }"), Fails: "vmbr4093", Looks: []Look{gone()}},
			{Config: acc(cloned), Looks: []Look{running()}},
		}},
		{Name: "a change that is refused leaves the VM as it was", Steps: []Step{
			{Config: acc(good)},
			{Config: acc(oneDisk + "\nnetworks = { net0 = { bridge = \"<bridge>\" }, net1 = { bridge = \"vmbr4093\" } }"), Fails: "vmbr4093",
				Power: Steady,
				Looks: []Look{{"<vmid+0>/status/current", "status", "running"}}},
			{Config: acc(good), Power: Steady, Looks: []Look{config("net1", "")}},
		}},
		{Name: "a create without space takes everything back", Needs: []Need{ThickLVM}, Steps: []Step{
			{Before: []Request{taken}, Config: acc(huge), Fails: "(?i)space|extents", Looks: []Look{gone()}},
			{Before: []Request{freed}, Config: acc(good), Looks: []Look{running()}},
		}},
		{Name: "a new disk without space leaves the VM as it was", Needs: []Need{ThickLVM}, Steps: []Step{
			{Before: []Request{taken}, Config: acc(oneDisk)},
			{Config: acc(huge), Fails: "(?i)space|extents", Power: Steady, Looks: []Look{config("scsi1", ""), running()}},
			{Before: []Request{freed}, Config: acc(oneDisk), Power: Steady},
		}},
		{Name: "a locked template is waited for", Needs: []Need{RootPassword}, Steps: []Step{
			{Config: golden},
			{Before: []Request{{Method: "PUT", Path: "<vmid+1>/config", Params: map[string]string{"lock": "backup"}, AsRoot: true}},
				Config: golden + acc("clone = { vmid = proxmox_vm.template.vmid, full = true }\ntimeouts = { create = \"20s\" }"),
				Fails:  "(?i)lock", Looks: []Look{gone(), {"<vmid+1>/config", "lock", "backup"}}},
			{Before: []Request{{Method: "PUT", Path: "<vmid+1>/config", Params: map[string]string{"delete": "lock", "skiplock": "1"}, AsRoot: true}},
				Config: golden + acc("clone = { vmid = proxmox_vm.template.vmid, full = true }"), Looks: []Look{running()}},
		}},
		{Name: "an interrupt takes everything back", Needs: []Need{Program, ImportImage}, Steps: []Step{
			{Config: acc("disks = { scsi0 = { storage = \"<storage>\", import_from = \"<import>\" } }"), Act: Stop, Address: accAddress,
				Fails: "(?i)interrupt|cancel"},
		}},
		{Name: "an interrupted clone takes everything back", Needs: []Need{Program}, Steps: []Step{
			{Config: acc(cloned), Act: Stop, Address: accAddress, Fails: "(?i)interrupt|cancel"},
		}},
		{Name: "an id of another guest is not taken", Steps: []Step{
			{Before: []Request{theirs}, Config: acc("name = \"acc\"\n" + oneDisk), Fails: "<vmid+0>", Looks: []Look{config("name", "acc-theirs"),
				config("memory", "128")}},
			{Before: []Request{destroyed}},
		}},
		{Name: "a volume without an owner is not taken", Steps: []Step{
			{Before: []Request{volume}, Config: acc(oneDisk), Fails: "vm-<vmid+0>-disk-0", Looks: []Look{gone()}},
			{Config: acc("on_orphaned_volumes = \"destroy\"\n" + oneDisk), Looks: []Look{running()}},
		}},
		{Name: "what is not there is refused in the plan", Steps: []Step{
			{Config: acc("disks = { scsi0 = { storage = \"no-such-storage\", size = \"1G\" } }"), Act: Plan, Fails: "no-such-storage"},
			{Config: acc("pool = \"no-such-pool\"\n" + oneDisk), Act: Plan, Fails: "no-such-pool"},
			{Config: acc("cpu = { cores = 4096 }\n" + oneDisk), Act: Plan, Fails: "CPUs|cores"},
			{Config: acc("clone = { name = \"no-such-template\" }"), Act: Plan, Fails: "no-such-template"},
			{Config: acc("machine = \"pc-q35-99.0\"\n" + oneDisk), Act: Plan, Fails: "pc-q35-99.0"},
			{Config: "output \"nothing\" {\n  value = \"nothing\"\n}\n"},
		}},
	}
}
