package validation

import (
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// Firewall refuses rules that PVE refuses (pve-firewall Firewall.pm, verify_rule).
func (c *Validation) Firewall() {
	if !c.IsSet("firewall.rules") {
		return
	}
	for i, rule := range model.RuleTexts(c.At("firewall.rules")) {
		number := strconv.Itoa(i + 1)
		if !c.IsElementKnown("firewall.rules", i) {
			continue
		}
		decides := slices.Contains([]string{"ACCEPT", "DROP", "REJECT"}, rule["action"])
		if rule["type"] != "group" && !decides {
			c.refuseRule(i, "action", "Rule %s: the action of a rule of type %s is ACCEPT, DROP or REJECT, not %s.", number,
				rule["type"], rule["action"])
		}
		for _, ports := range []string{"sport", "dport"} {
			if _, named := rule["proto"]; rule[ports] != "" && !named {
				c.refuseRule(i, ports, "Rule %s: %s needs a protocol. Set proto, to tcp for instance.", number, ports)
			}
		}
	}
}

// refuseRule adds an error at an attribute of a rule.
func (c *Validation) refuseRule(i int, name, format string, args ...string) {
	c.Diags.AddAttributeError(path.Root("firewall").AtName("rules").AtListIndex(i).AtName(name), Invalid,
		Fill(format, args))
}

// Ha refuses a power state that HA would not let stand.
func (c *Validation) Ha() {
	if !c.IsSet("ha") || !c.At("ha.state").IsKnown() {
		return
	}
	state := c.Text("ha.state")
	off := state == "stopped" || state == "disabled"
	switch power := c.Text("power_state"); {
	case power == "running" && off:
		c.Refuse("power_state", "HA is to keep the VM off (ha.state = %s), so it cannot run. Leave power_state out.", state)
	case power == "stopped" && (state == "" || state == "started"):
		c.Refuse("power_state", "HA is to keep the VM running, so it cannot be stopped. Set ha.state = stopped, or leave "+
			"power_state out.")
	}
}
