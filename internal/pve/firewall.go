package pve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// FirewallOptions are the options of a VM's firewall, as far as its file has them; numbers and booleans in their text
// form.
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
	// Problems are the reasons why PVE does not follow a rule as it is written, as the web interface shows them.
	Problems []string
	// Digest of the file, which the options share; "" when there is no rule, since only the rules carry it.
	Digest string
}

// op is what is done to a part of the firewall, for errors.
func (f FirewallReader) op(verb, what string) string {
	return verb + " " + what + " of " + guestName(f.node, f.vmid)
}

// path is the API path of a part of the firewall.
func (f FirewallReader) path(rest string) string { return guestPath(f.node, f.vmid, rest) }

// Options reads the options of a VM's firewall. It needs VM.Audit (pve-firewall API2/Firewall/VM.pm).
func (f FirewallReader) Options(ctx context.Context) (FirewallOptions, error) {
	w, err := fetch[map[string]wire.String](ctx, f.client, f.op("read", "the firewall options"),
		f.path("/firewall/options"), nil)
	values, digest := firewallValues(w)
	return FirewallOptions{Values: values, Digest: digest}, err
}

// SetOptions changes options of a VM's firewall; p["delete"] resets some. It needs VM.Config.Network.
func (f FirewallClient) SetOptions(ctx context.Context, p Params) error {
	return f.client.change(ctx, f.op("set", "the firewall options"), http.MethodPut, f.path("/firewall/options"), p)
}

// ruleWire is a rule as a listing shows it. One that names an alias or IP set that is gone, or that is wrong otherwise,
// has the reasons by property beside its values (pve-firewall Firewall.pm verify_rule, copy_list_with_digest).
type ruleWire struct{ values, errors map[string]wire.String }

// UnmarshalJSON tells the values from the reasons.
func (w *ruleWire) UnmarshalJSON(data []byte) error {
	var errors struct {
		Errors map[string]wire.String `json:"errors"`
	}
	var values map[string]json.RawMessage
	if err := cmp.Or(json.Unmarshal(data, &errors), json.Unmarshal(data, &values)); err != nil {
		return err
	}
	w.errors, w.values = errors.Errors, make(map[string]wire.String, len(values))
	delete(values, "errors")
	for name, raw := range values {
		var value wire.String
		if err := json.Unmarshal(raw, &value); err != nil {
			return err
		}
		w.values[name] = value
	}
	return nil
}

// Rules reads the rules of a VM's firewall. It needs VM.Audit (pve-firewall API2/Firewall/Rules.pm).
func (f FirewallReader) Rules(ctx context.Context) (FirewallRules, error) {
	list, err := fetch[[]ruleWire](ctx, f.client, f.op("read", "the firewall rules"),
		f.path("/firewall/rules"), nil)
	if err != nil {
		return FirewallRules{}, err
	}
	all := FirewallRules{Rules: make([]map[string]string, len(list))}
	for i, w := range list {
		all.Rules[i], all.Digest = firewallValues(w.values)
		for _, property := range slices.Sorted(maps.Keys(w.errors)) {
			all.Problems = append(all.Problems, fmt.Sprintf("rule %d, %s: %s", i, property, w.errors[property]))
		}
		delete(all.Rules[i], "pos")
		delete(all.Rules[i], "ipversion") // what PVE makes of protocol and addresses
	}
	return all, nil
}

// Refs are the VM's own aliases and, with a "+" before them, its own IP sets. It needs VM.Audit (pve-firewall
// API2/Firewall/VM.pm refs).
func (f FirewallReader) Refs(ctx context.Context) ([]string, error) {
	all, err := f.client.names(ctx, f.op("list", "the aliases and IP sets"), f.path("/firewall/refs"),
		func(w namedWire) string {
			if w.Scope != "guest" {
				return ""
			}
			return w.firewallRef()
		})
	return slices.DeleteFunc(all, func(name string) bool { return name == "" }), err
}

// AddRule puts a rule on top of all others, whatever position is asked for (pve-firewall API2/Firewall/Rules.pm
// create_rule).
func (f FirewallClient) AddRule(ctx context.Context, p Params) error {
	return f.client.change(ctx, f.op("add", "a firewall rule"), http.MethodPost, f.path("/firewall/rules"), p)
}

// UpdateRule changes the rule at a position, counted from 0; p["delete"] takes properties away.
func (f FirewallClient) UpdateRule(ctx context.Context, position int, p Params) error {
	return f.client.change(ctx, f.op("change", "firewall rule "+strconv.Itoa(position)), http.MethodPut,
		f.rulePath(position), p)
}

// DeleteRule takes the rule at a position away; those below it move up.
func (f FirewallClient) DeleteRule(ctx context.Context, position int, digest string) error {
	p := Params{}
	if digest != "" {
		p["digest"] = digest
	}
	return f.client.change(ctx, f.op("delete", "firewall rule "+strconv.Itoa(position)), http.MethodDelete,
		f.rulePath(position), p)
}

func (f FirewallReader) rulePath(position int) string {
	return f.path("/firewall/rules/" + strconv.Itoa(position))
}

func firewallValues(w map[string]wire.String) (values map[string]string, digest string) {
	values = make(map[string]string, len(w))
	for name, value := range w {
		values[name] = string(value)
	}
	digest = values["digest"]
	delete(values, "digest")
	return values, digest
}

// FirewallRefs are the aliases and, with a "+" before them, the IP sets of the datacenter. It needs Sys.Audit on /
// (pve-firewall API2/Firewall/Cluster.pm).
func (c ClusterReader) FirewallRefs(ctx context.Context) ([]string, error) {
	return c.client.names(ctx, "list the aliases and IP sets of the datacenter", "/cluster/firewall/refs",
		namedWire.firewallRef)
}

// firewallRef is the name as a rule has it.
func (w namedWire) firewallRef() string {
	if w.Type == "ipset" {
		return "+" + string(w.Name)
	}
	return string(w.Name)
}

// FirewallMacros are those of the datacenter's nodes, which any identity may list (pve-firewall
// API2/Firewall/Cluster.pm get_macros).
func (c ClusterReader) FirewallMacros(ctx context.Context) ([]string, error) {
	return c.client.names(ctx, "list the firewall macros", "/cluster/firewall/macros",
		func(w namedWire) string { return string(w.Macro) })
}

// SecurityGroups are those of the datacenter's firewall, which any identity may list (pve-firewall
// API2/Firewall/Groups.pm).
func (c ClusterReader) SecurityGroups(ctx context.Context) ([]string, error) {
	return c.client.names(ctx, "list the security groups", "/cluster/firewall/groups",
		func(w namedWire) string { return string(w.Group) })
}
