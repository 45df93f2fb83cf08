package create

import (
	"context"
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// findings are what a create knows of the cluster before it chooses an id.
type findings struct {
	resources pve.Resources
	at        time.Time // when resources were asked for
	node      string    // where the VM is to be
	from      *source
}

// find determines the node and the source of the new VM. It uses the listing that the plan was checked with, unless
// afresh is set, the create would fail by it, or it shows a guest with the configured VMID. PVE reports all later
// changes.
func (c *Creator) find(ctx context.Context, r Request, afresh bool) (findings, error) {
	if !afresh && (r.Clone == nil || r.Clone.VMID != 0) {
		resources, at, err := c.api.Listing().Recent(ctx)
		if err != nil {
			return findings{}, fmt.Errorf("list the cluster's guests: %w", err)
		}
		if _, taken := resources.Guest(r.VMID); !taken {
			found, err := c.findIn(ctx, r, resources, false)
			found.at = at
			if err == nil || ctx.Err() != nil || pve.IsKind(err, pve.Locked) { // waited for in vain
				return found, err
			}
		}
	}
	at := c.jobs.Clock.Now()
	resources, err := c.listing.Get(ctx, c.api.Cluster().Resources)
	if err != nil {
		return findings{}, fmt.Errorf("list the cluster's guests: %w", err)
	}
	found, err := c.findIn(ctx, r, resources, true)
	found.at = at
	return found, err
}

// findIn is find in a listing.
func (c *Creator) findIn(ctx context.Context, r Request, resources pve.Resources, afresh bool) (found findings,
	err error) {
	if found.from, found.resources, err = c.resolve(ctx, resources, r.Clone, afresh); err != nil {
		return found, err
	}
	if r.Node == "" && len(r.Nodes) > 0 {
		if r.Node, err = guest.FirstOnline(found.resources, r.Nodes); err != nil {
			return found, err
		}
	}
	source := ""
	if found.from != nil {
		source = found.from.node
	}
	if found.node, err = guest.Target(found.resources, r.Node, source); err != nil {
		return found, err
	}
	if r.Restore != nil {
		found.from, err = c.archive(ctx, found.resources, found.node, r)
	}
	if err == nil {
		err = found.from.hasDrive(r)
	}
	if r.Clone == nil || err != nil {
		return found, err
	}
	if err := found.from.isAsPlanned(r); err != nil {
		return found, err
	}
	found.from.migrates, err = r.Clone.Migrates(found.resources, found.from.listed, found.from.config, found.node)
	return found, err
}
