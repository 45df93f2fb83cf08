package validation

// WaitNeedsAgent is the error about a wait that needs the guest agent, which is off.
const WaitNeedsAgent = "Only the guest agent can say it, and agent.enabled is not true. Set agent = { enabled = true " +
	"}, or leave wait_for out."

// WaitFor refuses to wait for what cannot come.
func (c *Validation) WaitFor() {
	what := c.WaitedFor()
	if what == "" {
		return
	}
	switch {
	case c.IsFalse("agent.enabled"):
		c.Refuse(what, WaitNeedsAgent)
	case c.IsTrue("template"):
		c.Refuse(what, "A template does not run, so there is nothing to wait for. Leave wait_for out.")
	case c.Text("power_state") == "stopped":
		c.Refuse(what, "power_state is stopped, so there is nothing to wait for. Leave wait_for out, or set power_state "+
			"to running.")
	case c.Text("ha.state") == "stopped", c.Text("ha.state") == "disabled":
		c.Refuse(what, "HA keeps the VM stopped (ha.state), so there is nothing to wait for. Leave wait_for out.")
	}
}
