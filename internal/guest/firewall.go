package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// Firewall is a VM's firewall: its options and its rules. A nil option is one that nothing is said about. The tags
// are the names of Terraform's attributes.
type Firewall struct {
	Enabled     *bool   `tfsdk:"enabled"`
	DHCP        *bool   `tfsdk:"dhcp"`
	NDP         *bool   `tfsdk:"ndp"`
	RADV        *bool   `tfsdk:"radv"`
	IPFilter    *bool   `tfsdk:"ipfilter"`
	MACFilter   *bool   `tfsdk:"macfilter"`
	LogLevelIn  *string `tfsdk:"log_level_in"`
	LogLevelOut *string `tfsdk:"log_level_out"`
	PolicyIn    *string `tfsdk:"policy_in"`
	PolicyOut   *string `tfsdk:"policy_out"`
	// Rules are all rules, the first decides. Nil: nothing is said about them; empty: there is none.
	Rules []FirewallRule `tfsdk:"rules"`
}

// FirewallRule is one rule. Nil properties are not set; Enabled nil means true.
type FirewallRule struct {
	Type     *string `tfsdk:"type"`   // in, out or group
	Action   *string `tfsdk:"action"` // ACCEPT, DROP, REJECT, or the name of a security group
	Enabled  *bool   `tfsdk:"enabled"`
	Comment  *string `tfsdk:"comment"`
	Source   *string `tfsdk:"source"`
	Dest     *string `tfsdk:"dest"`
	SPort    *string `tfsdk:"sport"`
	DPort    *string `tfsdk:"dport"`
	Proto    *string `tfsdk:"proto"`
	IFace    *string `tfsdk:"iface"` // a network device of the VM, net0
	Log      *string `tfsdk:"log"`
	Macro    *string `tfsdk:"macro"`
	ICMPType *string `tfsdk:"icmp_type"`
}

// options are the firewall's options in PVE's names (pve-firewall Firewall.pm, $vm_option_properties).
func (f *Firewall) options() map[string]string {
	all := map[string]string{}
	if f == nil {
		return all
	}
	for name, value := range map[string]*bool{"enable": f.Enabled, "dhcp": f.DHCP, "ndp": f.NDP, "radv": f.RADV,
		"ipfilter": f.IPFilter, "macfilter": f.MACFilter} {
		if value != nil {
			all[name] = flag(*value)
		}
	}
	for name, value := range map[string]*string{"log_level_in": f.LogLevelIn, "log_level_out": f.LogLevelOut,
		"policy_in": f.PolicyIn, "policy_out": f.PolicyOut} {
		if value != nil {
			all[name] = *value
		}
	}
	return all
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// firewallFrom is options and rules as PVE lists them.
func firewallFrom(options map[string]string, rules []map[string]string) *Firewall {
	f := &Firewall{
		Enabled: truth(options, "enable"), DHCP: truth(options, "dhcp"), NDP: truth(options, "ndp"), RADV: truth(options,
			"radv"),
		IPFilter: truth(options, "ipfilter"), MACFilter: truth(options, "macfilter"),
		LogLevelIn: text(options, "log_level_in"), LogLevelOut: text(options, "log_level_out"),
		PolicyIn: text(options, "policy_in"), PolicyOut: text(options, "policy_out"),
	}
	for _, r := range rules {
		enabled := r["enable"] == "1"
		f.Rules = append(f.Rules, FirewallRule{
			Type: text(r, "type"), Action: text(r, "action"), Enabled: &enabled, Comment: text(r, "comment"),
			Source: text(r, "source"), Dest: text(r, "dest"), SPort: text(r, "sport"), DPort: text(r, "dport"), Proto: text(r,
				"proto"),
			IFace: text(r, "iface"), Log: text(r, "log"), Macro: text(r, "macro"), ICMPType: text(r, "icmp-type"),
		})
	}
	return f
}

func text(values map[string]string, name string) *string {
	if v := values[name]; v != "" {
		return &v
	}
	return nil
}

func truth(values map[string]string, name string) *bool {
	v, ok := values[name]
	if !ok {
		return nil
	}
	is := v == "1"
	return &is
}

// values is a rule in PVE's names.
func (f FirewallRule) values() map[string]string {
	all := map[string]string{"enable": flag(f.Enabled == nil || *f.Enabled)}
	for name, value := range map[string]*string{"type": f.Type, "action": f.Action, "comment": f.Comment,
		"source": f.Source,
		"dest":   f.Dest, "sport": f.SPort, "dport": f.DPort, "proto": f.Proto, "iface": f.IFace, "log": f.Log,
		"macro":     f.Macro,
		"icmp-type": f.ICMPType} {
		if value != nil && *value != "" {
			all[name] = *value
		}
	}
	return all
}

// sameRule compares two rules as PVE keeps them: it trims comments and writes macros in their own case (pve-firewall
// Firewall.pm, parse_fw_rule).
func sameRule(a, b map[string]string) bool { return maps.Equal(normalRule(a), normalRule(b)) }

func normalRule(values map[string]string) map[string]string {
	normal := maps.Clone(values)
	normal["macro"], normal["comment"] = strings.ToLower(values["macro"]), strings.TrimSpace(values["comment"])
	if normal["enable"] == "" {
		normal["enable"] = "0"
	}
	maps.DeleteFunc(normal, func(_, value string) bool { return value == "" })
	return normal
}

// firewallOf changes the firewall of one VM.
type firewallOf struct {
	s    *Guests
	node string
	vmid int
	// guard is an error if another VM has the VMID by now.
	guard func(context.Context) error
	// unknown: the state does not know the firewall.
	unknown bool
}

// guardError says that a request was not sent, since another VM has the VMID, or since that could not be looked at.
type guardError struct{ err error }

func (g *guardError) Error() string { return g.err.Error() }

func (g *guardError) Unwrap() error { return g.err }

// send sends a request as soon as no other request holds the lock of the firewall. Right before each try it looks whose
// VM it is.
func (f firewallOf) send(ctx context.Context, try func(context.Context) error) error {
	look := func(ctx context.Context) error {
		if err := f.guard(ctx); err != nil {
			return &guardError{err}
		}
		return nil
	}
	return f.s.jobs.Contend(ctx, f.node, f.vmid, SoonAfter(f.s.clock, look, try))
}

// NameLeftFirewall returns a sentence about the firewall file that our requests left of a VM that a third party has
// removed, or "" if there is none, or if a guest has the id. PVE writes the file whether there is a VM or not
// (pve-firewall API2/Firewall/VM.pm set_options and Firewall.pm save_vmfw_conf), and a later VM with the id would get
// it. Whether an id is free PVE tells by the cluster's file system (pve-manager API2/Cluster.pm nextid), whatever the
// nodes' daemons report of their guests.
func NameLeftFirewall(ctx context.Context, g *Guests, node string, vmid int) string {
	if free, err := g.api.Cluster().IsFreeID(ctx, vmid); err == nil && !free {
		return ""
	}
	left, err := g.ReadFirewall(ctx, node, vmid)
	if err == nil && len(left.options())+len(left.Rules) == 0 {
		return ""
	}
	file, state := fmt.Sprintf("/etc/pve/firewall/%d.fw", vmid), "is left"
	if err != nil {
		state = fmt.Sprintf("may be left: it could not be looked at (%v)", err)
	}
	return fmt.Sprintf("The firewall file %s of the VM %s. A later VM with the id would get its rules. `%s` as root on "+
		"node %s removes it if no guest has the id", file, state,
		shell.VM("grep -w -- {vmid} /etc/pve/.vmlist; [ $? = 1 ] && rm -f -- /etc/pve/firewall/{vmid}.fw", vmid), node)
}

// FirewallFor names the firewall that this identity sees under a VMID. PVE removes it as it does permissions.
func FirewallFor(ctx context.Context, g *Guests, node string, vmid int) []string {
	if f, err := g.ReadFirewall(ctx, node, vmid); err != nil || len(f.options())+len(f.Rules) == 0 {
		return nil
	}
	return []string{"firewall options or rules"}
}

// FirewallRefsFor names the IP sets and aliases in that firewall, which takes one more request.
func FirewallRefsFor(ctx context.Context, g *Guests, node string, vmid int) []string {
	names, err := g.api.Firewall(node, vmid).Refs(ctx)
	if err != nil || len(names) == 0 {
		return nil
	}
	return []string{"firewall aliases and IP sets: " + strings.Join(names, ", ")}
}

// ReadFirewall reads a VM's firewall.
func (g *Guests) ReadFirewall(ctx context.Context, node string, vmid int) (*Firewall, error) {
	options, err := g.api.Firewall(node, vmid).Options(ctx)
	if err != nil {
		return nil, err
	}
	rules, err := g.api.Firewall(node, vmid).Rules(ctx)
	if err != nil {
		return nil, err
	}
	return firewallFrom(options.Values, rules.Rules), nil
}

func (f firewallOf) setOptions(ctx context.Context, prior, want *Firewall, clean bool, read *optionsRead) error {
	err := f.set(ctx, prior, want, clean, read)
	if refusal := (*FieldError)(nil); err == nil || errors.As(err, &refusal) {
		return err
	}
	return f.notSet(err)
}

func (f firewallOf) notSet(err error) error {
	return &FieldError{Path: "firewall", Summary: fmt.Sprintf("Cannot set the firewall options of VM %d", f.vmid),
		Detail: "Its options are as they were before", Err: err}
}

// optionsRead are options that were read already; late: other requests were sent since.
type optionsRead struct {
	pve.FirewallOptions
	late bool
}

// set changes the options that differ, by those that were read, if any. A lost answer is looked at before anything is
// sent again. clean is about what the first look shows: a third party may set more since.
func (f firewallOf) set(ctx context.Context, prior, want *Firewall, clean bool, read *optionsRead) error {
	before, after := prior.options(), want.options()
	if maps.Equal(before, after) && !clean {
		return nil
	}
	var left map[string]string
	for attempt := 0; ; attempt++ {
		var has pve.FirewallOptions
		var err error
		late := false
		if read != nil {
			has, late, read = read.FirewallOptions, read.late, nil
		} else if has, err = f.s.api.Firewall(f.node, f.vmid).Options(ctx); err != nil {
			return err
		}
		if err := f.checkOptions(has.Values, prior, want); err != nil {
			return err
		}
		if clean {
			left, clean = has.Values, false
		}
		params := changedOptions(has.Values, before, after, left)
		if len(params) == 0 {
			return nil
		}
		params["digest"] = has.Digest
		err = f.send(ctx, func(ctx context.Context) error {
			return f.s.api.Firewall(f.node, f.vmid).SetOptions(ctx, params)
		})
		if err == nil {
			return nil
		}
		if late && pve.IsKind(err, pve.DigestMismatch) {
			continue
		}
		if attempt == 2 || !pve.IsKind(err, pve.Ambiguous) || f.s.jobs.Pause(ctx, attempt+1) != nil {
			return err
		}
	}
}

// checkOptions refuses to change options that have neither the value in state nor the planned one. The digest tells of
// no change before the last read (pve-firewall API2/Firewall/VM.pm set_options). Of a firewall that the state does not
// know, those may have been set since the plan that are not PVE's defaults.
func (f firewallOf) checkOptions(has map[string]string, prior, want *Firewall) error {
	if prior == nil {
		return nil
	}
	if f.unknown {
		if changed := ChangedOptions(OptionsSet(firewallFrom(has, nil)), want); len(changed) > 0 {
			return &FieldError{Path: "firewall", Summary: fmt.Sprintf("VM %d has firewall options that the state does not know",
				f.vmid), Detail: WhyOptionsStay(changed)}
		}
		return nil
	}
	before, after := prior.options(), want.options()
	changed := changedSince(sent(changedOptions(has, before, after, nil)), has, before, after)
	if len(changed) == 0 {
		return nil
	}
	return &FieldError{Path: "firewall", Summary: fmt.Sprintf("The firewall options of VM %d were changed outside "+
		"Terraform since the plan", f.vmid), Detail: fmt.Sprintf("The plan changes these, in PVE's names, and has not seen "+
		"their values:\n  %s\nThey were left as they are. Make a new plan, which shows them", strings.Join(changed, "\n  "))}
}

// changedOptions are the parameters that change options from prior to want, where the server has others. Those that are
// left of another VM go too.
func changedOptions(has, prior, want, left map[string]string) pve.Params {
	params, gone := pve.Params{}, []string{}
	for name, value := range want {
		if prior[name] != value && has[name] != value {
			params[name] = value
		}
	}
	for name, value := range has {
		_, wanted := want[name]
		_, known := prior[name]
		if old, isLeft := left[name]; !wanted && (known || isLeft && old == value) {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		params["delete"] = strings.Join(gone, ",")
	}
	return params
}

// tightens tells whether options stop something that the ones before let pass (defaults of pve-firewall Firewall.pm).
func tightens(before, after map[string]string) bool {
	accepts := func(options map[string]string, policy, otherwise string) bool {
		return options["enable"] != "1" || cmp.Or(options[policy], otherwise) == "ACCEPT"
	}
	for policy, otherwise := range map[string]string{"policy_in": "DROP", "policy_out": "ACCEPT"} {
		if accepts(before, policy, otherwise) && !accepts(after, policy, otherwise) {
			return true
		}
	}
	return before["enable"] != "1" && after["enable"] == "1"
}
