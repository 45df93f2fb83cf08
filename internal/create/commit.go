package create

import (
	"context"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// commit is the last write: it puts the wanted description in the stamp's place, and sets protection. Before it the VM is
// ours to remove; after it, it is the user's. It bears the digest of what was read just before: so it is this very
// configuration, with the stamp in it, that PVE changes, and what is in state needs no further look.
func (c *creation) commit(ctx context.Context) error {
	const tries = 3 // somebody else changes the VM, or a lock comes and goes; the last one takes what it finds
	for try := 1; ; try++ {
		if c.read == nil {
			if err := c.readMarked(ctx); err != nil {
				return err
			}
		}
		config := *c.read
		c.read = nil
		params := c.finalOptions()
		committed := withOptions(config, params)
		if try < tries {
			params["digest"] = config.Digest
		}
		known, err := c.s.jobs.SetRead(ctx, c.node, c.vmid, params)
		if pve.IsKind(err, pve.DigestMismatch) && try < tries {
			continue
		}
		if known && len(config.Waiting()) == 0 { // options that wait may be applied with ours
			c.committed = &committed
		}
		return err
	}
}

// readMarked reads the VM for the commit while the stamp proves that it is ours, and notes its identity: after a commit whose
// answer is lost nothing else does.
func (c *creation) readMarked(ctx context.Context) error {
	config, err := c.s.api.PendingConfig(ctx, c.node, c.vmid)
	if err != nil {
		return err
	}
	current := config.Current()
	if !c.stamp.Proves(c.vmid, current) {
		return c.unmarked()
	}
	c.read, c.identity = &config, guest.IdentityOf(current)
	return nil
}

// finalOptions are those that only the commit may set.
func (c *creation) finalOptions() pve.Params {
	params := pve.Params{}
	description := c.r.Spec.Description
	if description == nil && c.from != nil && c.from.description != "" {
		description = &c.from.description
	}
	if description == nil || *description == "" {
		params["delete"] = "description"
	} else {
		params["description"] = *description
	}
	if c.unprotected {
		params["protection"] = "1"
	}
	if p := c.r.Spec.Protection; p != nil {
		params["protection"] = "0"
		if *p {
			params["protection"] = "1"
		}
	}
	return params
}

// withOptions is a configuration in which options are set that PVE puts in force at once, on a guest that runs too
// (qemu-server QemuServer.pm, fast_plug_option), or, as the description, deleted.
func withOptions(config pve.PendingConfig, params pve.Params) pve.PendingConfig {
	config.Entries = slices.DeleteFunc(slices.Clone(config.Entries), func(v pve.PendingValue) bool {
		_, set := params[v.Key]
		return set || v.Key == params["delete"]
	})
	for option, value := range params {
		if option != "delete" {
			config.Entries = append(config.Entries, pve.PendingValue{Key: option, Value: value, HasValue: true})
		}
	}
	return config
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
