package create

import (
	"context"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// tries is how often a request is sent that bears the digest of what was read just before, while somebody else changes that.
const tries = 5

// commit is the last write: it puts the wanted description in the stamp's place, and sets protection. Before it the VM is
// ours to remove; after it, it is the user's. It bears the digest of what was read just before: so it is this very
// configuration, with the stamp in it, that PVE changes, and what is in state needs no further look. Somebody else may change the VM
// meanwhile, or a lock come and go: then it is read again.
func (c *creation) commit(ctx context.Context) error {
	for try := 1; ; try++ {
		if c.read == nil {
			if err := c.readMarked(ctx, c.node); err != nil {
				return err
			}
		}
		config := *c.read
		c.read = nil
		final := c.finalOptions()
		known, err := c.s.jobs.Apply(ctx, &c.tasks, c.node, c.vmid, final, c.bound(config.Digest))
		if pve.IsKind(err, pve.DigestMismatch) && try < tries && c.s.jobs.Pause(ctx, try-1) == nil {
			continue
		}
		if known && len(config.Waiting()) == 0 { // else options that wait may have been applied with ours
			committed := config.With(final.Set, final.Delete)
			c.committed = &committed
		}
		return err
	}
}

// readMarked looks whose the VM is that has the id, and reads it for the commit while the stamp proves that it is ours. It notes the
// identity: after a commit whose answer is lost nothing else does.
func (c *creation) readMarked(ctx context.Context, node string) error {
	config, err := c.s.api.PendingConfig(ctx, node, c.vmid)
	if err != nil {
		return err
	}
	current := config.Current()
	if !c.stamp.Proves(c.vmid, current) {
		return c.unmarked(current)
	}
	c.read, c.identity = &config, guest.IdentityOf(current)
	return nil
}

// readConfig is the configuration of the VM, while the stamp proves that it is ours.
func (c *creation) readConfig(ctx context.Context) (pve.GuestConfig, error) {
	config, err := c.s.api.CurrentConfig(ctx, c.node, c.vmid)
	if err == nil && !c.stamp.Proves(c.vmid, config.Values) {
		err = c.unmarked(config.Values)
	}
	if err == nil {
		c.identity = guest.IdentityOf(config.Values)
	}
	return config, err
}

// bound binds a change to the configuration that was read, and, where its answer was lost, to the one that there is then, while that is
// ours: by the stamp, or by the identity once a commit may have taken the stamp away.
func (c *creation) bound(digest string) job.Bound {
	return job.Bound{Digest: digest, Again: func(ctx context.Context) (string, error) {
		config, err := c.s.api.CurrentConfig(ctx, c.node, c.vmid)
		if err == nil && !c.stamp.Proves(c.vmid, config.Values) && !c.identity.Proves(config.Values) {
			err = c.unmarked(config.Values)
		}
		return config.Digest, err
	}}
}

// finalOptions are those that only the commit may set. PVE puts them in force at once, on a guest that runs too (qemu-server
// QemuServer.pm, fast_plug_option).
func (c *creation) finalOptions() vm.Change {
	final := vm.Change{Set: map[string]string{}}
	description := c.r.Spec.Description
	if description == nil && c.from != nil && c.from.description != "" {
		description = &c.from.description
	}
	if description == nil || *description == "" {
		final.Delete = []string{"description"}
	} else {
		final.Set["description"] = *description
	}
	if c.unprotected {
		final.Set["protection"] = "1"
	}
	if p := c.r.Spec.Protection; p != nil {
		final.Set["protection"] = "0"
		if *p {
			final.Set["protection"] = "1"
		}
	}
	return final
}

// readBack is the committed VM; it is read where that is not known, also after an interrupt. What proves that it is ours is known
// even when that fails.
func (c *creation) readBack(ctx context.Context) (guest.Guest, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var made guest.Guest
	var err error
	if c.committed == nil {
		made, err = c.s.guests.ReadBack(ctx, c.node, c.vmid)
	} else {
		made = guest.FromConfig(*c.committed, c.node, c.vmid)
		made.Status = c.status
		if c.r.HA != nil { // HA starts and stops guests by itself
			var status pve.GuestStatus
			status, err = c.s.api.GuestStatus(ctx, c.node, c.vmid)
			made.Status = status.Status
		}
	}
	if err == nil {
		err = c.s.guests.ReadFirewallAndHA(ctx, &made, c.r.Firewall != nil, c.r.HA != nil)
	}
	if made.Identity.IsZero() {
		made.Identity = c.identity
	}
	return made, err
}
