package update

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Update changes a VM in place: exactly what differs between Prior and Planned is sent. On an error the guest, if it
// has a VMID, is the VM as it is now. A failed step is a *saga.StepError. What was reached is told by an
// *UnfinishedError; without one it is nothing.
func (c *Changer) Update(ctx context.Context, r Request) (guest.Guest, []guest.Warning, error) {
	at, err := c.guests.FindUnlocked(ctx, r.Ref)
	if err != nil {
		return guest.Guest{}, nil, err
	}
	if err := stillLeft(r, at.Config); err != nil {
		return guest.Guest{}, nil, err // not the VM: it is not of this state
	}
	if err := unastray(ctx, c.guests, r, at); err != nil {
		return guest.Guest{}, nil, err
	}
	if r.Protect {
		r.Prior.Protection = vm.Decode(at.Config.Merged()).Protection
	}
	if r.Planned, err = c.sources.Resolve(ctx, cmp.Or(r.Node, at.Node), r.Prior, r.Planned); err != nil {
		return guest.Guest{}, nil, err
	}
	if len(at.Config.Waiting()) > 0 {
		leaving, stay := vm.Decode(at.Config.Current()).Networks, vm.Decode(at.Config.Merged()).Networks
		maps.DeleteFunc(leaving, func(slot string, _ vm.NIC) bool { _, stays := stay[slot]; return stays })
		r.Planned = vm.KeepAddresses(leaving, r.Prior, r.Planned)
	}
	u := c.newUpdate(r, at)
	changed, err := carryOut(ctx, u)
	if err != nil {
		err = &UnfinishedError{u.reached, err}
	}
	return changed, u.warnings, err
}

// unastray refuses to start or change disks that may be others', by a refresh (guest.Astray): the guest would write to
// them, and they would grow or change their slots. A migration has its own look.
func unastray(ctx context.Context, g *guest.Guests, r Request, at guest.Location) error {
	if len(r.Ref.Astray.Volumes) == 0 || r.Node != "" && r.Node != at.Node || !r.usesDisks() {
		return nil
	}
	astray, err := guest.Strays(ctx, g, r.Ref, at.Node, at.Config.Current(), at.Config.Merged())
	if err != nil {
		return err
	}
	return astray.Refusal(ctx, g, at.Node, r.Ref.VMID, "The VM was not changed")
}

// usesDisks reports whether the update changes disks, makes a template of them, or may start the guest on them. One
// that ran when the plan was made is not started, unless HA does it (power.start).
func (r Request) usesDisks() bool {
	change := vm.Diff(r.Prior, r.Planned)
	changed := slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete)
	byHA := r.HA != nil && (r.PriorHA == nil || r.HA.Starts() && !r.PriorHA.Starts())
	starts := byHA || r.PowerState == guest.Running && r.Ref.Status != string(guest.Running)
	restarts := len(r.Due)+len(vm.NeedsRestart(r.Prior, r.Planned)) > 0
	return starts || restarts || len(change.Moves)+len(change.Grow) > 0 ||
		slices.ContainsFunc(changed, func(option string) bool { return vm.IsSlot(option) || option == "template" })
}

// carryOut does the update, and returns the VM as it is then.
func carryOut(ctx context.Context, u *update) (guest.Guest, error) {
	done := results{pool: u.r.PriorPool}
	err := u.run(ctx, &done)
	if err != nil || u.view.Powered {
		u.view.Forget()
	}
	grace, cancel := u.changer.jobs.Grace(ctx)
	defer cancel()
	changed, readErr := u.outcome(grace, err != nil)
	changed.Pool, changed.Renamed = done.pool, u.renamed
	if u.deaf != nil && readErr == nil && changed.Status == string(guest.Running) {
		u.deaf.err.Detail += ". " + u.deaf.runs
	}
	if readErr != nil {
		readErr = fmt.Errorf("read VM %d back: %w", u.vmid, readErr)
		var another *guest.IdentityError
		if !errors.As(readErr, &another) && !u.view.Gone { // else what a step said of it is not true any more
			readErr = errors.Join(err, readErr)
		}
		if left := u.leftFirewall(grace, readErr); left != "" {
			u.warnings = append(u.warnings, guest.Warning{Summary: fmt.Sprintf("Firewall of VM %d", u.vmid), Detail: left})
		}
		return guest.Guest{}, readErr
	}
	if err == nil {
		err = u.await(ctx, &changed, done.started || done.restarted)
	}
	return changed, err
}

// leftFirewall names the firewall file that this update left of a VM that was removed meanwhile. readErr is why the VM
// could not be read: what the cluster's listing says of a VM that is not there any more depends on its nodes' daemons.
func (u *update) leftFirewall(ctx context.Context, readErr error) string {
	if !u.reached.Firewall || !u.view.Gone && !pve.IsKind(readErr, pve.NotFound) {
		return ""
	}
	return guest.NameLeftFirewall(ctx, u.changer.guests, u.view.Node(), u.vmid)
}

// outcome is the VM as it is now, with its firewall and HA entry. It asks only for what the update has neither seen nor
// caused: the refresh has told whether the guest runs, unless a step may have changed that. The configuration is read
// after the firewall and the HA entry, since it tells whose they were.
func (u *update) outcome(ctx context.Context, failed bool) (guest.Guest, error) {
	beside, firewall, ha := guest.Guest{}, u.r.Ref.Firewall || u.r.Firewall != nil, u.r.Ref.HA || u.r.HA != nil
	var besideErr error
	if firewall || ha {
		beside = guest.Guest{VMID: u.vmid, Node: u.view.Node()}
		besideErr = u.changer.guests.ReadFirewallAndHA(ctx, &beside, firewall, ha)
		u.view.Forget()
	}
	config, err := u.view.Known(ctx)
	if pve.IsKind(err, pve.NotFound) && u.follow(ctx) == guest.Found {
		beside.Node = u.view.Node()
		if besideErr = u.changer.guests.ReadFirewallAndHA(ctx, &beside, firewall, ha); besideErr == nil {
			config, err = u.view.Fresh(ctx)
		}
	}
	if err != nil || besideErr != nil {
		return guest.Guest{}, cmp.Or(err, besideErr)
	}
	g := guest.FromConfig(config, u.view.Node(), u.vmid)
	g.Firewall, g.HA = beside.Firewall, beside.HA
	g.Status = cmp.Or(u.view.LastStatus, u.r.Ref.Status)
	if failed || u.view.Powered && !u.view.Settled || g.Status == "" {
		status, err := u.view.Status(ctx)
		if err != nil {
			return g, err
		}
		g.Status = status.Status
	}
	return g, nil
}

// await waits for the guest as far as the request wants that. Otherwise it asks the agent once, as a refresh does,
// unless the guest has just been started.
func (u *update) await(ctx context.Context, g *guest.Guest, started bool) error {
	if u.r.Wait == nil {
		if g.HasAgent() && !started {
			u.changer.guests.AskAgent(ctx, g, u.r.Ref.Agent)
		}
		return nil
	}
	warnings, err := u.changer.guests.Await(ctx, g, u.r.Wait, u.r.PowerState == guest.Running && !u.leftOff)
	u.warnings = append(u.warnings, warnings...)
	return err
}
