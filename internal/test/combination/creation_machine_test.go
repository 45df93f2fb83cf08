package combination_test

import "slices"

// drawFirmware draws an EFI disk, a TPM state, a cloud-init drive and an optical drive.
func (c *creation) drawFirmware() {
	if c.from == 9100 { // it has them all
		if c.oneIn(3) {
			c.set("efi_disk = { storage = %q }", c.place())
		}
		if c.oneIn(3) {
			c.set("tpm_state = { storage = %q }", c.pick("local-zfs", "local-lvm", "local2", "shared-nfs"))
		}
	} else if c.oneIn(3) {
		c.set(`bios = "ovmf"`)
		c.set(`machine = "q35"`)
		c.set("efi_disk = { storage = %q, type = \"4m\" }", c.place())
		if c.oneIn(2) {
			c.set("tpm_state = { storage = %q, version = \"v2.0\" }", c.pick("local-zfs", "local-lvm", "local2", "shared-nfs"))
		}
	}
	hasDrive := c.from == 9000 || c.from == 9100 || c.from == 0
	custom := ""
	if c.oneIn(3) {
		custom = `, custom = { user = "local:snippets/user.yaml" }`
	}
	switch c.r.IntN(4) {
	case 0:
		slot := ""
		if free := c.optical(); c.oneIn(3) && free != "" {
			slot = `, slot = "` + free + `"`
		}
		c.set("cloud_init = { storage = %q, user = \"ops\"%s%s }", c.pick("local-zfs", "local-lvm", "local", "shared-nfs"), slot, custom)
	case 1:
		if hasDrive {
			c.set("cloud_init = { user = \"ops\", searchdomain = \"example.org\"%s }", custom)
		}
	}
	if c.oneIn(3) && c.from != 8400 {
		if slot := c.optical(); slot != "" {
			c.set("cdroms = { %s = { file = %q } }", slot, c.pick("local:iso/debian.iso", "none"))
		}
	}
}

// optical takes a free slot of IDE.
func (c *creation) optical() string {
	for _, slot := range []string{"ide3", "ide1", "ide0"} {
		if i := slices.Index(c.slots, slot); i >= 0 || slot == "ide0" && c.from != 8400 {
			c.slots = slices.DeleteFunc(c.slots, func(s string) bool { return s == slot })
			return slot
		}
	}
	return ""
}

// drawMachine draws options, network devices, the firewall and the pool.
func (c *creation) drawMachine() {
	if c.oneIn(2) {
		c.set("memory = { size = %d }", 512+512*c.r.IntN(3))
	}
	if c.oneIn(3) {
		c.set("cpu = { cores = %d }", 1+c.r.IntN(3))
	}
	if c.oneIn(3) {
		c.set(`description = "a drawn VM"`)
	}
	if c.oneIn(3) {
		c.set(`tags = ["drawn", "web"]`)
	}
	if c.oneIn(3) {
		c.set(`pool = "web"`)
	}
	if c.oneIn(4) {
		c.set("onboot = true")
	}
	if c.oneIn(3) {
		c.set("removed_disks = %q", c.pick("destroy", "detach"))
	}
	if c.oneIn(2) {
		c.set(`networks = { net0 = { bridge = "vmbr0", firewall = true }, net3 = { bridge = "vmbr1", tag = 7 } }`)
	}
	if c.oneIn(3) {
		rules := ""
		if c.oneIn(2) {
			rules = `, rules = [{ type = "in", action = "ACCEPT", macro = "SSH" }, { type = "in", action = "DROP" }]`
		}
		c.set("firewall = { enabled = true, policy_in = %q%s }", c.pick("DROP", "REJECT"), rules)
	}
}

// drawEnd draws how it ends: a template, or a guest that runs or not, under HA or not.
func (c *creation) drawEnd() {
	if c.oneIn(3) {
		c.set("protection = %s", c.pick("true", "false", "false"))
	}
	if c.oneIn(5) {
		c.set("template = true")
		return
	}
	switch c.r.IntN(4) {
	case 0:
		c.set(`power_state = "stopped"`)
		if c.oneIn(4) {
			c.set(`ha = { state = "stopped" }`)
		}
		return
	case 1:
		c.set(`power_state = "running"`)
	}
	if c.oneIn(4) {
		c.set(`ha = { state = "started", max_restart = 2 }`)
	}
	if c.oneIn(4) && c.from >= 0 && c.from != 8300 { // with a network device
		c.set("agent = { enabled = true }")
		c.set("wait_for = { %s = true, timeout = \"30s\", on_timeout = %q }", c.pick("agent", "agent", "ipv4"), c.pick("warn", "fail"))
	}
}
