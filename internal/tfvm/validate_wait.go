package tfvm

const waitNeedsAgent = "Only the guest agent can say it, and agent.enabled is not true. " +
	"Set agent = { enabled = true }, or leave wait_for out."

// waitedFor is the first thing that wait_for asks for, "" if there is none for sure.
func (c configuration) waitedFor() string {
	for _, what := range []string{"agent", "ipv4", "ipv6"} {
		if c.isTrue("wait_for." + what) {
			return "wait_for." + what
		}
	}
	return ""
}

// waitFor refuses to wait for what cannot come.
func (c *validation) waitFor() {
	what := c.waitedFor()
	if what == "" {
		return
	}
	switch {
	case c.isFalse("agent.enabled"):
		c.refuse(what, waitNeedsAgent)
	case c.isTrue("template"):
		c.refuse(what, "A template does not run, so there is nothing to wait for. Leave wait_for out.")
	case c.text("power_state") == "stopped":
		c.refuse(what, "power_state is stopped, so there is nothing to wait for. Leave wait_for out, or set power_state to running.")
	case c.text("ha.state") == "stopped", c.text("ha.state") == "disabled":
		c.refuse(what, "HA keeps the VM stopped (ha.state), so there is nothing to wait for. Leave wait_for out.")
	}
}
