package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

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
	if err == nil && len(left.Options())+len(left.Rules) == 0 {
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

// FirewallFor names the firewall that this identity sees under a VMID, also one that a look fails to show. PVE removes
// it as it does permissions.
func FirewallFor(ctx context.Context, g *Guests, node string, vmid int) []string {
	f, err := g.ReadFirewall(ctx, node, vmid)
	switch {
	case pve.IsKind(err, pve.Denied), err == nil && len(f.Options())+len(f.Rules) == 0:
		return nil
	case err != nil:
		return []string{fmt.Sprintf("firewall options or rules, which could not be looked at (%v)", err)}
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
func (g *Guests) ReadFirewall(ctx context.Context, node string, vmid int) (*firewall.Settings, error) {
	options, err := g.api.Firewall(node, vmid).Options(ctx)
	if err != nil {
		return nil, err
	}
	rules, err := g.api.Firewall(node, vmid).Rules(ctx)
	if err != nil {
		return nil, err
	}
	settings := firewall.From(options.Values, rules.Rules)
	settings.Problems = rules.Problems
	return settings, nil
}

func (f firewallOf) setOptions(ctx context.Context, prior, want *firewall.Settings, clean bool,
	read *optionsRead) error {
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
func (f firewallOf) set(ctx context.Context, prior, want *firewall.Settings, clean bool, read *optionsRead) error {
	before, after := prior.Options(), want.Options()
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
		params := firewall.ChangedParams(has.Values, before, after, left)
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
func (f firewallOf) checkOptions(has map[string]string, prior, want *firewall.Settings) error {
	if prior == nil {
		return nil
	}
	if f.unknown {
		if changed := firewall.ChangedOptions(firewall.OptionsSet(firewall.From(has, nil)), want); len(changed) > 0 {
			return &FieldError{Path: "firewall", Detail: firewall.WhyOptionsStay(changed),
				Summary: fmt.Sprintf("VM %d has firewall options that the state does not know", f.vmid)}
		}
		return nil
	}
	before, after := prior.Options(), want.Options()
	changed := changedSince(sent(firewall.ChangedParams(has, before, after, nil)), has, before, after)
	if len(changed) == 0 {
		return nil
	}
	return &FieldError{Path: "firewall",
		Summary: fmt.Sprintf("The firewall options of VM %d were changed outside Terraform since the plan", f.vmid),
		Detail: fmt.Sprintf("The plan changes these, in PVE's names, and has not seen their values:\n  %s\nThey were "+
			"left as they are. Make a new plan, which shows them", strings.Join(changed, "\n  "))}
}
