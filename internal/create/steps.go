package create

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// act has PVE do something to the VM, right after a look at whose it is: PVE takes no digest for most of it, and who waits for a
// lock looks again. A change that bore the digest of such a look, a moment ago, is as good as one. It is a guest.Performer.
func (c *creation) act(ctx context.Context, r job.Request) (pve.TaskResult, error) {
	var result pve.TaskResult
	err := c.s.jobs.Contend(ctx, r.Node, r.ID, func(ctx context.Context) error {
		if !c.hasJustSeen() {
			if err := c.look(ctx, r.Node); err != nil {
				return err
			}
		}
		c.seen = time.Time{}
		var err error
		result, err = c.s.jobs.Once(ctx, &c.tasks, r)
		return err
	})
	return result, err
}

// alter is act for what changes the configuration.
func (c *creation) alter(ctx context.Context, r job.Request) (pve.TaskResult, error) {
	result, err := c.act(ctx, r)
	c.read = nil
	return result, err
}

// look looks whose the VM is right before a request about it, and renews its lease. It looks again where that took so long that the machine
// must have slept.
func (c *creation) look(ctx context.Context, node string) error {
	for range tries {
		c.seen = c.s.jobs.Clock.Now()
		err := c.readMarked(ctx, node)
		if err == nil {
			err = c.renew(ctx, node)
		}
		if err != nil || c.hasJustSeen() {
			return err
		}
	}
	return nil
}

// migrate takes a clone that was made beside its source to its own node, with its disks.
func (c *creation) migrate(ctx context.Context) error {
	params := pve.Params{"target": c.node, "with-local-disks": "1"}
	result, err := c.alter(ctx, job.Request{Node: c.from.node, Type: "qmigrate", ID: c.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return c.s.api.Migrate(ctx, c.from.node, c.vmid, params) },
		Done: func(ctx context.Context) (bool, error) {
			there, err := c.s.api.CurrentConfig(ctx, c.node, c.vmid)
			return err == nil && c.stamp.Proves(c.vmid, there.Values), err
		}})
	c.warn(fmt.Sprintf("Migration of VM %d ended with warnings", c.vmid), result)
	return err
}

// configure enforces on a clone what the configuration says, and leaves the rest as the template has it. It changes what it has
// read, and looks again when that was changed meanwhile.
func (c *creation) configure(ctx context.Context) error {
	for try := 1; ; try++ {
		err := c.configureRead(ctx)
		if try == tries || !pve.IsKind(err, pve.DigestMismatch) || c.s.jobs.Pause(ctx, try) != nil {
			return err
		}
	}
}

func (c *creation) configureRead(ctx context.Context) error {
	config, err := c.readConfig(ctx)
	if err != nil {
		return err
	}
	has := vm.Decode(config.Values)
	want := vm.Merge(has, c.spec)
	want.Description, want.Protection, want.Template = has.Description, has.Protection, has.Template
	vm.Complete(&want)
	c.cloudInit = want.CloudInit.Slot != ""
	c.change = vm.Diff(has, want)
	c.change.ImportStorage = c.r.ImportStorage
	if len(c.change.Problems) > 0 {
		return job.Problems("configure", c.vmid, c.change)
	}
	if _, renewed := c.change.Set["smbios1"]; renewed {
		c.identity = guest.Identity{} // the commit looks again
	}
	c.moving = targets(c.change.Moves, has)
	if len(c.change.DeleteFirst) > 0 && has.Protection != nil && *has.Protection { // inherited; the commit sets it again
		if err := c.s.jobs.Set(ctx, c.node, c.vmid, pve.Params{"protection": "0"}, c.bound(config.Digest)); err != nil {
			return err
		}
		c.unprotected = true
		if config, err = c.readConfig(ctx); err != nil {
			return err
		}
	}
	if config, err = c.growFirst(ctx, config); err != nil {
		return err
	}
	change := c.change
	if c.s.guests.IsToRenew(c.stamp) { // the copy took its time
		c.stamp, change.Set = c.s.guests.Renewed(c.stamp), map[string]string{}
		maps.Copy(change.Set, c.change.Set)
		change.Set["description"] = c.stamp.String()
	}
	if err := c.note(c.s.jobs.Apply(ctx, &c.tasks, c.node, c.vmid, change, c.bound(config.Digest))); err != nil {
		return err
	}
	if order := c.r.Spec.BootOrder; order != nil && job.AppendsToBootOrder(c.change, has.BootOrder) {
		if config, err = c.readConfig(ctx); err == nil {
			err = c.note(c.s.jobs.SetBootOrder(ctx, c.node, c.vmid, order, c.bound(config.Digest)))
		}
	}
	return err
}

// shape moves and grows disks.
func (c *creation) shape(ctx context.Context) error {
	if len(c.change.Moves) > 0 {
		c.seen = time.Time{}
		c.made.Want(c.moving)
	}
	if err := c.s.remover.MoveUncommitted(ctx, &c.tasks, c.node, c.stamp, c.change.Moves); err != nil {
		return err
	}
	for _, g := range c.change.Grow {
		if err := c.grow(ctx, g, ""); err != nil {
			return err
		}
	}
	return nil
}

// growFirst grows disks before the options are set, and gives the configuration that the VM has then. The digest of that can be told
// beforehand, and binds the setting of the options: so whose the VM is shows right before the start, without a look after the growing.
// Where it cannot be told, or setting the options shows nothing, the disks are grown afterwards.
func (c *creation) growFirst(ctx context.Context, config pve.GuestConfig) (pve.GuestConfig, error) {
	if len(c.change.Moves)+len(c.change.DeleteFirst) > 0 || len(c.change.Set) == 0 || c.change.Allocates() {
		return config, nil
	}
	var after []pve.GuestConfig
	last := config
	for _, g := range c.change.Grow {
		if _, set := c.change.Set[g.Slot]; set {
			return config, nil
		}
		if last = last.Foretell(g.Slot, vm.Resized(last.Values[g.Slot], g.Size)); last.Digest == "" {
			return config, nil
		}
		after = append(after, last)
	}
	for i, g := range c.change.Grow {
		_ = c.note(true, nil)
		if err := c.grow(ctx, g, config.Digest); err != nil {
			return config, err
		}
		config = after[i]
	}
	c.change.Grow = nil
	return config, nil
}

// grow grows a disk of the configuration with this digest, or, where there was a look since, of the one that it has shown.
func (c *creation) grow(ctx context.Context, g vm.Growth, digest string) error {
	size := vm.FormatSize(g.Size)
	for try := 1; ; try++ {
		_, err := c.alter(ctx, job.Request{Node: c.node, Type: "resize", ID: c.vmid, Send: func(ctx context.Context) (pve.UPID, error) {
			if c.read != nil {
				digest = c.read.Digest
			}
			return c.s.api.Resize(ctx, c.node, c.vmid, g.Slot, size, digest)
		}})
		if err == nil {
			return nil
		}
		if try == tries || !pve.IsKind(err, pve.DigestMismatch) || c.s.jobs.Pause(ctx, try) != nil {
			return fmt.Errorf("grow %s to %s: %w", g.Slot, size, err)
		}
	}
}

// convert makes the VM a template.
func (c *creation) convert(ctx context.Context) error {
	_, err := c.alter(ctx, job.Request{Node: c.node, Type: "qmtemplate", ID: c.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return c.s.api.ConvertToTemplate(ctx, c.node, c.vmid) }})
	return err
}

// start starts the VM. The look before it is that of the commit, too; without one the VM is read while it starts. A start with a
// cloud-init drive changes the configuration (qemu-server Cloudinit.pm, apply_cloudinit_config), so there the commit reads it.
func (c *creation) start(ctx context.Context) error {
	var reading sync.WaitGroup
	result, err := c.s.guests.StartBy(ctx, func(ctx context.Context, r job.Request) (pve.TaskResult, error) {
		send := r.Send
		r.Send = func(ctx context.Context) (pve.UPID, error) {
			upid, err := send(ctx)
			if err == nil && !c.cloudInit && c.read == nil {
				reading.Go(func() { _ = c.readMarked(ctx, c.node) }) // else the commit reads, and says what is wrong
			}
			return upid, err
		}
		return c.act(ctx, r)
	}, c.node, c.vmid)
	reading.Wait()
	if c.cloudInit {
		c.read = nil
	}
	c.warn(fmt.Sprintf("Start of VM %d ended with warnings", c.vmid), result)
	if err == nil {
		c.status = string(guest.Running)
	}
	return err
}

// setFirewall enforces on a new VM the firewall that is configured. A clone keeps what its template has beside it; a VM made from
// scratch may find a file that an earlier VM of its id left, and keeps nothing of that (PVE does not remove it).
func (c *creation) setFirewall(ctx context.Context) error {
	want := *c.r.Firewall
	if c.from == nil && want.Rules == nil {
		want.Rules = []guest.FirewallRule{}
	}
	defer func() { c.seen = time.Time{} }()
	return c.s.guests.SetFirewall(ctx, c.node, c.vmid, nil, &want, c.from == nil, func(ctx context.Context) error {
		return c.look(ctx, c.node)
	})
}

// addToHA puts a new VM under HA. It notes before the request that there may be an entry, which the undo then removes; but an
// entry that was there before is not ours.
func (c *creation) addToHA(ctx context.Context) error {
	for lost := 0; ; lost++ {
		err := c.look(ctx, c.node)
		if err != nil {
			return err
		}
		c.seen, c.managed = time.Time{}, true
		err = c.s.guests.EnterHA(ctx, c.vmid, c.r.HA.Options())
		switch {
		case err == nil, lost > 0 && pve.IsKind(err, pve.Exists):
			return nil
		case pve.IsKind(err, pve.Exists):
			c.managed = false
			return c.hasHA(err)
		case pve.IsKind(err, pve.Denied):
			c.managed = lost > 0
			return guest.RefusedHA(c.vmid, err)
		case !pve.IsKind(err, pve.Ambiguous) || lost == 2 || c.s.jobs.Pause(ctx, lost+1) != nil:
			return err
		}
		if there, err := c.s.guests.ReadHA(ctx, c.vmid); err != nil || there != nil {
			return err
		}
	}
}
