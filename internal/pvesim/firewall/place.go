package firewall

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// place is where firewall rules stand.
type place struct {
	env  string // PVE's rule_env: vm, ct, host, cluster or group
	vmid int    // of a guest
	name string // in World.Firewalls, of others
}

// placeOf tells it by the route.
func placeOf(r *engine.Request) place {
	switch {
	case strings.HasPrefix(r.Template, "/nodes/{node}/qemu/"):
		return place{env: "vm", vmid: r.VMID()}
	case strings.HasPrefix(r.Template, "/nodes/{node}/lxc/"):
		return place{env: "ct", vmid: r.VMID()}
	case strings.HasPrefix(r.Template, "/nodes/"):
		return place{env: "host", name: "node " + r.Node()}
	case strings.HasPrefix(r.Template, "/cluster/firewall/groups/{group}"):
		return place{env: "group", name: groupPrefix + r.Params["group"]}
	}
	return place{env: "cluster", name: clusterName}
}

const (
	clusterName = "cluster"
	groupPrefix = "group "
)

// firewallFile reads a configuration. That of a guest may outlive it, and a guest may have none.
func firewallFile(r *engine.Request) *state.FirewallFile {
	at := placeOf(r)
	f := r.W.Firewalls[at.name]
	if at.vmid != 0 {
		f = r.W.Firewall[at.vmid]
	}
	if f == nil {
		return &state.FirewallFile{}
	}
	return f
}

// clusterFirewall is the configuration of the cluster, whose aliases and sets are known everywhere.
func clusterFirewall(w *state.World) *state.FirewallFile {
	if f := w.Firewalls[clusterName]; f != nil {
		return f
	}
	return &state.FirewallFile{}
}

// hasAlias reports whether a rule of that file may use an alias.
func hasAlias(w *state.World, f *state.FirewallFile, name string) bool {
	name = strings.ToLower(name)
	return f.Aliases[name] != nil || clusterFirewall(w).Aliases[name] != nil
}

// optionNames are the options by place (API2/Firewall/VM.pm, Host.pm and Cluster.pm, $option_properties).
var optionNames = map[string][]string{"vm": guestOptions, "ct": guestOptions, "host": {
	"enable", "log_level_in", "log_level_out", "log_level_forward", "tcp_flags_log_level", "smurf_log_level", "nosmurfs",
	"tcpflags", "ndp", "log_nf_conntrack", "nf_conntrack_allow_invalid", "nf_conntrack_helpers", "nf_conntrack_max",
	"nf_conntrack_tcp_timeout_established", "nf_conntrack_tcp_timeout_syn_recv", "protection_synflood",
	"protection_synflood_rate", "protection_synflood_burst", "nftables",
}, "cluster": {"enable", "ebtables", "policy_in", "policy_out", "policy_forward", "log_ratelimit"}}

var guestOptions = []string{
	"enable", "macfilter", "dhcp", "ndp", "radv", "ipfilter", "policy_in", "policy_out", "log_level_in", "log_level_out",
}

// ruleTypes are the types of rules by place (Firewall.pm, $rule_env_direction_lookup).
var ruleTypes = map[string][]string{
	"vm": {"in", "out", "group"}, "ct": {"in", "out", "group"}, "group": {"in", "out", "forward"},
	"cluster": {"in", "out", "forward", "group"}, "host": {"in", "out", "forward", "group"},
}

// verifyPlace refuses what the place of a rule forbids: its type, its action and its interface.
func verifyPlace(at place, rule map[string]string) error {
	typ, action, iface := rule["type"], rule["action"], rule["iface"]
	switch {
	case !slices.Contains(ruleTypes[at.env], typ):
		return perl.Invalid("type", "invalid rule type '"+typ+"' for rule_env '"+at.env+"'")
	case typ == "forward" && action == "REJECT":
		return perl.Invalid("action", "cannot define REJECT rules on forward chain")
	case typ != "group" && !slices.Contains([]string{"ACCEPT", "DROP", "REJECT"}, action):
		return perl.Invalid("action", "unknown action '"+action+"'")
	case iface != "" && at.env == "group":
		return perl.Invalid("type", "parameter -i not allowed for this rule type")
	case iface != "" && at.vmid != 0 && !guestInterface.MatchString(iface):
		return perl.Invalid("iface", `value does not match the regex pattern 'net\d+'`)
	}
	return nil
}
