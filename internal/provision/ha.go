package provision

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// HA is a VM's entry in the HA configuration. Nil options are the entry's defaults.
type HA struct {
	State       *string // started, stopped, disabled, ignored
	Group       *string // until PVE 8
	MaxRestart  *int64
	MaxRelocate *int64
	Comment     *string
	Failback    *bool // from PVE 9 on
}

// options are the entry's options in PVE's names (pve-ha-manager HA/Resources.pm). A state cannot be reset.
func (h *HA) options() map[string]string {
	all := map[string]string{}
	if h == nil {
		return all
	}
	for name, value := range map[string]*string{"state": h.State, "group": h.Group, "comment": h.Comment} {
		if value != nil && *value != "" {
			all[name] = *value
		}
	}
	for name, value := range map[string]*int64{"max_restart": h.MaxRestart, "max_relocate": h.MaxRelocate} {
		if value != nil {
			all[name] = strconv.FormatInt(*value, 10)
		}
	}
	if h.Failback != nil {
		all["failback"] = flag(*h.Failback)
	}
	return all
}

// stops reports whether HA is to keep the guest off.
func (h *HA) stops() bool {
	return h != nil && h.State != nil && (*h.State == "stopped" || *h.State == "disabled")
}

func haFrom(options map[string]string) *HA {
	return &HA{State: text(options, "state"), Group: text(options, "group"), Comment: text(options, "comment"),
		MaxRestart: count(options, "max_restart"), MaxRelocate: count(options, "max_relocate"), Failback: truth(options, "failback")}
}

func count(values map[string]string, name string) *int64 {
	n, err := strconv.ParseInt(values[name], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// readHA reads a VM's entry; nil if it has none.
func (s *Service) readHA(ctx context.Context, vmid int) (*HA, error) {
	entry, err := s.api.HAResource(ctx, vmid)
	if pve.IsKind(err, pve.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return haFrom(entry.Options), nil
}

// attend reads what stands beside a guest's configuration.
func (s *Service) attend(ctx context.Context, guest *Guest, firewall, ha bool) error {
	var err error
	if firewall {
		if guest.Firewall, err = s.readFirewall(ctx, guest.Node, guest.VMID); err != nil {
			return err
		}
	}
	if ha {
		guest.HA, err = s.readHA(ctx, guest.VMID)
	}
	return err
}

// manage puts a new VM under HA. It notes before the request that there may be an entry, which the undo then removes; but an
// entry that was there before is not ours.
func (c *creation) manage(ctx context.Context) error {
	for lost := 0; ; lost++ {
		c.managed = true
		err := c.s.enterHA(ctx, c.vmid, c.r.HA.options())
		switch {
		case err == nil, lost > 0 && pve.IsKind(err, pve.Exists):
			return nil
		case pve.IsKind(err, pve.Exists):
			c.managed = false
			return &FieldError{Path: "ha", Summary: fmt.Sprintf("HA has an entry for VM %d already", c.vmid),
				Detail: fmt.Sprintf("An earlier VM of this id, or somebody else, left it. Look at `ha-manager status`, and remove it with `ha-manager remove vm:%d`", c.vmid), Err: err}
		case pve.IsKind(err, pve.Denied):
			c.managed = lost > 0
			return refusedHA(c.vmid, err)
		case !pve.IsKind(err, pve.Ambiguous) || lost == 2 || c.s.pause(ctx, lost+1) != nil:
			return err
		}
		if there, err := c.s.readHA(ctx, c.vmid); err != nil || there != nil {
			return err
		}
	}
}

// enterHA makes an entry.
func (s *Service) enterHA(ctx context.Context, vmid int, options pve.Params) error {
	return s.contend(ctx, "", vmid, func(ctx context.Context) error { return s.api.CreateHAResource(ctx, vmid, options) })
}

// refusedHA explains a refusal: HA belongs to the cluster, so a role on VMs is not enough.
func refusedHA(vmid int, err error) error {
	if !pve.IsKind(err, pve.Denied) {
		return err
	}
	return &FieldError{Path: "ha", Summary: fmt.Sprintf("No permission to change the HA entry of VM %d", vmid),
		Detail: "It takes the privileges Sys.Console and Sys.Audit on /. Grant them, or leave ha out and manage HA elsewhere", Err: err}
}

// changeHA brings the entry from what state knows to what is planned; only what differs is sent.
func (s *Service) changeHA(ctx context.Context, vmid int, prior, want *HA) error {
	before, after := prior.options(), want.options()
	var err error
	switch {
	case prior == nil && want == nil || prior != nil && want != nil && maps.Equal(before, after):
		return nil
	case want == nil:
		err = s.dropHA(ctx, vmid)
	default:
		err = s.setHA(ctx, vmid, before, after)
	}
	return refusedHA(vmid, err)
}

// dropHA removes the entry. Removing it twice is as good as once.
func (s *Service) dropHA(ctx context.Context, vmid int) error {
	for attempt := 0; ; attempt++ {
		err := s.contend(ctx, "", vmid, func(ctx context.Context) error { return s.api.DeleteHAResource(ctx, vmid) })
		if err == nil || pve.IsKind(err, pve.NotFound) {
			return nil
		}
		if attempt == 2 || !pve.IsKind(err, pve.Ambiguous) || s.pause(ctx, attempt+1) != nil {
			return err
		}
	}
}

// setHA changes the options that differ, or makes the entry if there is none. The digest is that of all entries, so a refusal
// for its sake is only a conflict if this entry has changed.
func (s *Service) setHA(ctx context.Context, vmid int, before, after map[string]string) error {
	var seen map[string]string
	var last error
	for attempt := 0; ; attempt++ {
		entry, err := s.api.HAResource(ctx, vmid)
		switch {
		case pve.IsKind(err, pve.NotFound):
			err = s.enterHA(ctx, vmid, after)
		case err != nil:
			return err
		case pve.IsKind(last, pve.DigestMismatch) && !maps.Equal(seen, entry.Options):
			return last
		default:
			params := differing(before, after, entry.Options)
			if len(params) == 0 {
				return nil
			}
			seen, params["digest"] = entry.Options, entry.Digest
			err = s.contend(ctx, "", vmid, func(ctx context.Context) error { return s.api.UpdateHAResource(ctx, vmid, params) })
		}
		again := pve.IsKind(err, pve.Ambiguous) || pve.IsKind(err, pve.Exists) || pve.IsKind(err, pve.DigestMismatch)
		if err == nil || !again || attempt >= 3 || s.pause(ctx, attempt+1) != nil {
			return err
		}
		last = err
	}
}

// differing is what is to be sent: what the plan changes, as far as the server does not have it.
func differing(before, after, has map[string]string) pve.Params {
	params, gone := pve.Params{}, []string{}
	for name, value := range after {
		if before[name] != value && has[name] != value {
			params[name] = value
		}
	}
	for name := range before {
		_, wanted := after[name]
		if _, there := has[name]; !wanted && there && name != "state" {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		params["delete"] = strings.Join(gone, ",")
	}
	return params
}

// leaveHA removes the HA entry of a create of ours that failed: HA would start the guest again that we stop. Where it cannot
// be removed by itself it goes with the VM, whose removal purges it.
func (r *removal) leaveHA(ctx context.Context) error {
	if !r.managed {
		return nil
	}
	err := r.s.dropHA(ctx, r.vmid)
	if r.refusals++; err == nil || pve.IsKind(err, pve.Denied) || r.refusals > 1 {
		r.managed = false
		return nil
	}
	return fmt.Errorf("take VM %d out of HA: %w", r.vmid, err)
}
