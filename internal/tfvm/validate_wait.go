package tfvm

import (
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

const waitNeedsAgent = "Only the guest agent can say it, and agent.enabled is not true. Set agent = { enabled = true }, or leave wait_for out."

// is reports whether a value is surely configured as true.
func (c *checker) is(dotted string) bool {
	on := false
	return c.set(dotted) && c.at(dotted).As(&on) == nil && on
}

// awaited is the first thing that wait_for asks for, "" if there is none for sure.
func (c *checker) awaited() string {
	for _, what := range []string{"agent", "ipv4", "ipv6"} {
		if c.is("wait_for." + what) {
			return "wait_for." + what
		}
	}
	return ""
}

// waiting refuses to wait for what cannot come.
func (c *checker) waiting() {
	what := c.awaited()
	if what == "" {
		return
	}
	switch off := true; {
	case c.set("agent.enabled") && c.at("agent.enabled").As(&off) == nil && !off:
		c.refuse(what, waitNeedsAgent)
	case c.is("template"):
		c.refuse(what, "A template does not run, so there is nothing to wait for. Leave wait_for out.")
	case c.says("power_state") == "stopped":
		c.refuse(what, "power_state is stopped, so there is nothing to wait for. Leave wait_for out, or set power_state to running.")
	case c.says("ha.state") == "stopped", c.says("ha.state") == "disabled":
		c.refuse(what, "HA keeps the VM stopped (ha.state), so there is nothing to wait for. Leave wait_for out.")
	}
}

// agentToWaitFor refuses to wait for a new VM, which is no clone, without what is needed for it.
func (c *checker) agentToWaitFor() {
	what := c.awaited()
	if what == "" {
		return
	}
	if c.missing("agent.enabled") {
		c.refuse(what, waitNeedsAgent)
	}
	nics, known := c.keys("networks")
	for _, family := range []string{"wait_for.ipv4", "wait_for.ipv6"} {
		if c.is(family) && known && len(nics) == 0 {
			c.refuse(family, "The VM has no network device: networks is empty.")
		}
	}
}

// unwaitable refuses to wait for the agent of a VM that exists and has none.
func unwaitable(config tftypes.Value, plan model) diag.Diagnostics {
	c := &checker{config: config}
	if what := c.awaited(); what != "" && c.at("agent.enabled").IsKnown() && (plan.Agent == nil || !value(plan.Agent.Enabled)) {
		c.refuse(what, waitNeedsAgent)
	}
	return c.diags
}
