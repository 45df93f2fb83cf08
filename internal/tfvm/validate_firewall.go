package tfvm

import (
	"slices"
	"strconv"
)

// firewall refuses rules that PVE refuses (pve-firewall Firewall.pm, verify_rule).
func (c *validation) firewall() {
	if !c.isSet("firewall.rules") {
		return
	}
	for i, rule := range ruleTexts(c.at("firewall.rules")) {
		number := strconv.Itoa(i + 1)
		if !c.isElementKnown("firewall.rules", i) {
			continue
		}
		decides := slices.Contains([]string{"ACCEPT", "DROP", "REJECT"}, rule["action"])
		if rule["type"] != "group" && !decides {
			c.refuse("firewall.rules", "Rule %s: the action of a rule of type %s is ACCEPT, DROP or REJECT, not %s.", number, rule["type"],
				rule["action"])
		}
		for _, ports := range []string{"sport", "dport"} {
			if rule[ports] != "" && rule["proto"] == "" {
				c.refuse("firewall.rules", "Rule %s: %s needs a protocol. Set proto, to tcp for instance.", number, ports)
			}
		}
	}
}

// ha refuses a power state that HA would not let stand.
func (c *validation) ha() {
	if !c.isSet("ha") || !c.at("ha.state").IsKnown() {
		return
	}
	state := c.text("ha.state")
	off := state == "stopped" || state == "disabled"
	switch power := c.text("power_state"); {
	case power == "running" && off:
		c.refuse("power_state", "HA is to keep the VM off (ha.state = %s), so it cannot run. Leave power_state out.", state)
	case power == "stopped" && (state == "" || state == "started"):
		c.refuse("power_state", "HA is to keep the VM running, so it cannot be stopped. Set ha.state = stopped, or leave power_state out.")
	}
}
