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

// find looks where the VM is to be, and what it is cloned from. The listing that the plan was checked with does, unless afresh
// says that it did not, or what it shows would make the create fail or concern a configured id: whatever else came since, PVE
// tells.
func (s *Creator) find(ctx context.Context, r Request, afresh bool) (findings, error) {
	if !afresh && (r.Clone == nil || r.Clone.VMID != 0) {
		resources, at, err := s.api.RecentResources(ctx)
		if err != nil {
			return findings{}, fmt.Errorf("list the cluster's guests: %w", err)
		}
		if _, taken := resources.Guest(r.VMID); !taken {
			found, err := s.findIn(ctx, r, resources, false)
			found.at = at
			if err == nil || ctx.Err() != nil || pve.IsKind(err, pve.Locked) { // waited for in vain
				return found, err
			}
		}
	}
	at := s.jobs.Clock.Now()
	resources, err := s.listing.Get(ctx, s.api.Resources)
	if err != nil {
		return findings{}, fmt.Errorf("list the cluster's guests: %w", err)
	}
	found, err := s.findIn(ctx, r, resources, true)
	found.at = at
	return found, err
}

// findIn is find in a listing.
func (s *Creator) findIn(ctx context.Context, r Request, resources pve.Resources, afresh bool) (found findings, err error) {
	if found.from, found.resources, err = s.resolve(ctx, resources, r.Clone, afresh); err != nil {
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
		found.from, err = s.archive(ctx, found.resources, found.node, r)
	}
	if r.Clone == nil || err != nil {
		return found, err
	}
	found.from.migrates, err = r.Clone.Migrates(found.resources, found.from.listed, found.from.config, found.node)
	return found, err
}
