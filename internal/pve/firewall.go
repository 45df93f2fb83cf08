package pve

import (
	"context"
	"net/http"
	"strconv"
)

// FirewallOptions are the options of a VM's firewall, as far as its file has them; numbers and booleans in their text form.
type FirewallOptions struct {
	// Values is option -> value. The digest is not among them.
	Values map[string]string
	// Digest of the file, which the rules share.
	Digest string
}

// FirewallRules are the rules of a VM's firewall, from the first to the last.
type FirewallRules struct {
	// Rules are property -> value: type, action, enable, comment, source, dest, sport, dport, proto, iface, log, macro,
	// icmp-type.
	Rules []map[string]string
	// Digest of the file, which the options share; "" when there is no rule, since only the rules carry it.
	Digest string
}

func firewallOp(verb, what, node string, vmid int) string {
	return verb + " " + what + " of " + guestName(node, vmid)
}

// FirewallOptions reads the options of a VM's firewall. It needs VM.Audit (pve-firewall API2/Firewall/VM.pm).
func (c *Client) FirewallOptions(ctx context.Context, node string, vmid int) (FirewallOptions, error) {
	w, err := fetch[map[string]flexString](ctx, c, firewallOp("read", "the firewall options", node, vmid),
		guestPath(node, vmid, "/firewall/options"), nil)
	values, digest := firewallValues(w)
	return FirewallOptions{Values: values, Digest: digest}, err
}

// SetFirewallOptions changes options of a VM's firewall; p["delete"] resets some. It needs VM.Config.Network.
func (c *Client) SetFirewallOptions(ctx context.Context, node string, vmid int, p Params) error {
	return c.change(ctx, firewallOp("set", "the firewall options", node, vmid), http.MethodPut, guestPath(node, vmid, "/firewall/options"), p)
}

// FirewallRules reads the rules of a VM's firewall. It needs VM.Audit (pve-firewall API2/Firewall/Rules.pm).
func (c *Client) FirewallRules(ctx context.Context, node string, vmid int) (FirewallRules, error) {
	list, err := fetch[[]map[string]flexString](ctx, c, firewallOp("read", "the firewall rules", node, vmid),
		guestPath(node, vmid, "/firewall/rules"), nil)
	if err != nil {
		return FirewallRules{}, err
	}
	all := FirewallRules{Rules: make([]map[string]string, len(list))}
	for i, w := range list {
		all.Rules[i], all.Digest = firewallValues(w)
		delete(all.Rules[i], "pos")
		delete(all.Rules[i], "ipversion") // what PVE makes of protocol and addresses
	}
	return all, nil
}

// AddFirewallRule puts a rule on top of all others, whatever position is asked for (pve-firewall API2/Firewall/Rules.pm
// create_rule).
func (c *Client) AddFirewallRule(ctx context.Context, node string, vmid int, p Params) error {
	return c.change(ctx, firewallOp("add", "a firewall rule", node, vmid), http.MethodPost, guestPath(node, vmid, "/firewall/rules"), p)
}

// UpdateFirewallRule changes the rule at a position, counted from 0; p["delete"] takes properties away.
func (c *Client) UpdateFirewallRule(ctx context.Context, node string, vmid, position int, p Params) error {
	return c.change(ctx, firewallOp("change", "firewall rule "+strconv.Itoa(position), node, vmid), http.MethodPut,
		rulePath(node, vmid, position), p)
}

// DeleteFirewallRule takes the rule at a position away; those below it move up.
func (c *Client) DeleteFirewallRule(ctx context.Context, node string, vmid, position int, digest string) error {
	p := Params{}
	if digest != "" {
		p["digest"] = digest
	}
	return c.change(ctx, firewallOp("delete", "firewall rule "+strconv.Itoa(position), node, vmid), http.MethodDelete,
		rulePath(node, vmid, position), p)
}

func rulePath(node string, vmid, position int) string {
	return guestPath(node, vmid, "/firewall/rules/"+strconv.Itoa(position))
}

func firewallValues(w map[string]flexString) (values map[string]string, digest string) {
	values = make(map[string]string, len(w))
	for name, value := range w {
		values[name] = string(value)
	}
	digest = values["digest"]
	delete(values, "digest")
	return values, digest
}
