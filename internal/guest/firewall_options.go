package guest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// firewallOf changes the firewall of one VM.
type firewallOf struct {
	s    *Guests
	node string
	vmid int
	// guard is an error where the VM is somebody else's by now.
	guard func(context.Context) error
}

// guardError says that a request was not sent, since the VM is somebody else's, or whose it is was not seen.
type guardError struct{ err error }

func (e *guardError) Error() string { return e.err.Error() }

func (e *guardError) Unwrap() error { return e.err }

// send sends a request as soon as nobody holds the lock of the firewall. Right before each try it looks whose VM it is.
func (w firewallOf) send(ctx context.Context, try func(context.Context) error) error {
	return w.s.jobs.Contend(ctx, w.node, w.vmid, func(ctx context.Context) error {
		if err := w.guard(ctx); err != nil {
			return &guardError{err}
		}
		return try(ctx)
	})
}

// readFirewall reads a VM's firewall.
func (s *Guests) readFirewall(ctx context.Context, node string, vmid int) (*Firewall, error) {
	options, err := s.api.FirewallOptions(ctx, node, vmid)
	if err != nil {
		return nil, err
	}
	rules, err := s.api.FirewallRules(ctx, node, vmid)
	if err != nil {
		return nil, err
	}
	return firewallFrom(options.Values, rules.Rules), nil
}

func (w firewallOf) setOptions(ctx context.Context, prior, want *Firewall, clean bool) error {
	if err := w.set(ctx, prior.options(), want.options(), clean); err != nil {
		return &FieldError{Path: "firewall", Summary: fmt.Sprintf("Cannot set the firewall options of VM %d", w.vmid),
			Detail: "Its options are as they were before", Err: err}
	}
	return nil
}

// set changes the options that differ. A lost answer is looked at before anything is sent again.
func (w firewallOf) set(ctx context.Context, prior, want map[string]string, clean bool) error {
	if maps.Equal(prior, want) && !clean {
		return nil
	}
	for attempt := 0; ; attempt++ {
		has, err := w.s.api.FirewallOptions(ctx, w.node, w.vmid)
		if err != nil {
			return err
		}
		params, gone := pve.Params{}, []string{}
		for name, value := range want {
			if prior[name] != value && has.Values[name] != value {
				params[name] = value
			}
		}
		for name := range has.Values {
			_, wanted := want[name]
			if _, known := prior[name]; !wanted && (known || clean) {
				gone = append(gone, name)
			}
		}
		if len(params)+len(gone) == 0 {
			return nil
		}
		if len(gone) > 0 {
			slices.Sort(gone)
			params["delete"] = strings.Join(gone, ",")
		}
		params["digest"] = has.Digest
		err = w.send(ctx, func(ctx context.Context) error {
			return w.s.api.SetFirewallOptions(ctx, w.node, w.vmid, params)
		})
		if err == nil {
			return nil
		}
		if attempt == 2 || !pve.IsKind(err, pve.Ambiguous) || w.s.jobs.Pause(ctx, attempt+1) != nil {
			return err
		}
	}
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
