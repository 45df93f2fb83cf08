package change

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Update changes a VM in place: exactly what differs between Prior and Planned is sent. On an error the guest, if it has a
// VMID, is what is true now.
func (s *Changer) Update(ctx context.Context, r Request) (guest.Guest, []guest.Warning, error) {
	node, config, err := s.guests.Unlocked(ctx, r.Ref)
	if err != nil {
		return guest.Guest{}, nil, err
	}
	u := &update{s: s, r: r, node: node, vmid: r.Ref.VMID, config: config, waited: config.Waiting(), pool: r.PriorPool}
	err = u.run(ctx)
	changed, readErr := u.outcome(context.WithoutCancel(ctx))
	if readErr != nil {
		return guest.Guest{}, u.warnings, errors.Join(err, fmt.Errorf("read VM %d back: %w", u.vmid, readErr))
	}
	if err == nil {
		err = u.await(ctx, &changed)
	}
	return changed, u.warnings, err
}

// update is one change of a VM: what is wanted, and what is known of the server so far.
type update struct {
	s    *Changer
	r    Request
	vmid int
	node string // where the VM is by now

	config pve.PendingConfig // as it was read last
	stale  bool              // a step has changed it since
	waited []string          // options that waited for a restart before
	ledger job.Ledger

	prior    vm.Spec // what is there, as far as it matters
	change   vm.Change
	touched  []string    // options that were sent
	booted   bool        // the guest was started anew since
	convert  bool        // to a template, by a request of its own
	late     []vm.Growth // disks that grow once the guest has them
	appended bool        // PVE has put CD-ROM drives into the boot order
	pool     string      // that it is in by now
	warnings []guest.Warning

	unseated map[string]string // drives that were unplugged to go to other slots
	redrawn  bool              // the cloud-init drive has moved: the new one is empty
	seated   map[string]string // volumes that were attached, by slot
	doomed   map[string]doom   // volumes that are to go with the slots they were in
}

// steps is the order of an update. There is no undo: what was done stays, and the state says so. A step that has nothing to do
// makes no request. A guest that is to be off is shut down first, since a stopped one takes every change; one
// that is to run is started last. It moves before its options change, because storages and bridges are those of the node
// that it is going to.
func (u *update) steps() []func(context.Context) error {
	return []func(context.Context) error{
		u.condemn,
		u.leaveHA,
		u.powerOff,
		u.migrate,
		u.retake,
		u.reshape,
		u.vacate,
		u.options,
		u.reorder,
		u.place,
		u.regroup,
		u.protect,
		u.powerOn,
		u.restart,
		u.discard,
		u.stretch,
		u.renew,
		u.enterHA,
		u.freeze,
	}
}

func (u *update) run(ctx context.Context) error {
	if err := u.compare(); err != nil {
		return err
	}
	if err := u.awake(); err != nil {
		return err
	}
	for _, step := range u.steps() {
		if err := step(ctx); err != nil {
			u.wreckage(ctx, err)
			return u.abandon(ctx, err)
		}
	}
	return nil
}

// compare works out what is to be sent, from what the server has now.
func (u *update) compare() error {
	server := vm.Decode(u.config.Merged())
	if err := u.entitled(server); err != nil {
		return err
	}
	prior, planned := onto(server, u.r.Prior, u.r.Planned)
	u.prior, u.change = prior, vm.Diff(vm.WithRest(prior, server), planned)
	if len(u.change.Problems) > 0 {
		return job.Problems("change", u.vmid, u.change)
	}
	_, u.convert = u.change.Set["template"]
	delete(u.change.Set, "template")
	return nil
}

// look reads the configuration again where a step has changed it.
func (u *update) look(ctx context.Context) error {
	if !u.stale {
		return nil
	}
	config, err := u.s.api.PendingConfig(ctx, u.node, u.vmid)
	if err != nil {
		return fmt.Errorf("read VM %d on node %s: %w", u.vmid, u.node, err)
	}
	u.config, u.stale = config, false
	return nil
}

// options sends what differs, in one request.
func (u *update) options(ctx context.Context) error {
	keepDrive(&u.change, u.config.Current())
	if err := errors.Join(u.oneDrive(), u.tooLate()); err != nil {
		return err
	}
	if len(u.change.Set)+len(u.change.Delete) == 0 {
		return nil
	}
	u.appended = job.AppendsToBootOrder(u.change, vm.Decode(u.config.Current()).BootOrder)
	for option := range u.change.Set {
		u.touched = append(u.touched, option)
	}
	u.touched = append(u.touched, u.change.Delete...)
	u.stale, u.seated = true, u.attached()
	u.doom()
	if err := u.bound(ctx, u.change); err != nil {
		return u.reseat(ctx, u.s.takeBack(ctx, u.node, u.vmid, u.change, u.config, err))
	}
	return nil
}

func (u *update) protect(ctx context.Context) error {
	return u.s.guests.SetFirewall(ctx, u.node, u.vmid, u.r.PriorFirewall, u.r.Firewall, false)
}

// leaveHA removes the entry first: HA would start a guest again that is shut down.
func (u *update) leaveHA(ctx context.Context) error {
	if u.r.HA != nil {
		return nil
	}
	return u.s.guests.ChangeHA(ctx, u.vmid, u.r.PriorHA, nil)
}

func (u *update) enterHA(ctx context.Context) error {
	if u.r.HA == nil {
		return nil
	}
	return u.s.guests.ChangeHA(ctx, u.vmid, u.r.PriorHA, u.r.HA)
}

func (u *update) freeze(ctx context.Context) error {
	if !u.convert {
		return nil
	}
	u.stale = true
	return u.s.jobs.Convert(ctx, &u.ledger, u.node, u.vmid)
}

// renew writes the cloud-init drive of a running guest anew: PVE takes changed options at once, but the drive keeps the old
// data until the next start (qemu-server QemuServer/Cloudinit.pm). A guest that was just started has it already.
func (u *update) renew(ctx context.Context) error {
	if u.booted || !u.redrawn && !slices.ContainsFunc(u.touched, vm.IsCloudInit) {
		return nil
	}
	status, err := u.s.api.GuestStatus(ctx, u.node, u.vmid)
	if err != nil || status.Status != "running" {
		return err
	}
	if err := u.look(ctx); err != nil || vm.Decode(u.config.Current()).CloudInit.Volume == "" {
		return err
	}
	err = u.s.jobs.Contend(ctx, u.node, u.vmid, func(ctx context.Context) error { return u.s.api.RegenerateCloudInit(ctx, u.node, u.vmid) })
	if err != nil {
		u.warn(fmt.Sprintf("The cloud-init drive of VM %d has old data", u.vmid),
			"PVE did not write it anew: "+err.Error()+"\n\nThe guest gets the new data at its next stop and start.")
	}
	return nil
}

func (u *update) warn(summary, detail string) {
	u.warnings = append(u.warnings, guest.Warning{Summary: summary, Detail: detail})
}

// outcome reads the VM back, with what stands beside its configuration.
func (u *update) outcome(ctx context.Context) (guest.Guest, error) {
	guest, err := u.s.guests.ReadBack(ctx, u.node, u.vmid)
	if err == nil {
		err = u.s.guests.Attend(ctx, &guest, u.r.Ref.Firewall || u.r.Firewall != nil, u.r.Ref.HA || u.r.HA != nil)
	}
	guest.Pool = u.pool
	return guest, err
}

// await waits for the guest as far as the request wants that. Without it the agent is asked once, as in a refresh, unless the
// guest has just been started.
func (u *update) await(ctx context.Context, g *guest.Guest) error {
	if u.r.Wait == nil {
		if g.HasAgent() && !u.booted {
			u.s.guests.AskAgent(ctx, g, u.r.Ref.Agent)
		}
		return nil
	}
	warnings, err := u.s.guests.Await(ctx, g, u.r.Wait, u.r.PowerState == guest.Running)
	u.warnings = append(u.warnings, warnings...)
	return err
}
