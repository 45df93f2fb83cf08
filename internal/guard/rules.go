package guard

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// RemoveHARule removes an HA rule that isOurs judges to be the caller's: nil if it is, by the rule as the server has it
// right before each try, since a lock may be waited for. PVE's own request names the rule alone. A rule that is gone is
// a success, also after a lost answer.
func RemoveHARule(ctx context.Context, g *Guard, id string, isOurs func(pve.HARule) error) error {
	return g.jobs.Contend(ctx, "", 0, func(ctx context.Context) error {
		err := removeHARule(ctx, g, id, isOurs)
		if !pve.IsKind(err, pve.Ambiguous) {
			return err
		}
		late, cancel := g.jobs.LookAfter(ctx) // an interrupt may have cut the line: a second try settles what is true
		defer cancel()
		return g.jobs.Retry(late, request.LostAnswer(), func(ctx context.Context) error {
			return removeHARule(ctx, g, id, isOurs)
		})
	})
}

func removeHARule(ctx context.Context, g *Guard, id string, isOurs func(pve.HARule) error) error {
	gone := false
	look := func(ctx context.Context) error {
		now, _, err := g.api.HA().Rule(ctx, id)
		if gone = pve.IsKind(err, pve.NotFound); gone {
			return nil
		}
		if err == nil {
			err = isOurs(now)
		}
		return err
	}
	return guest.SoonAfter(g.clock, look, func(ctx context.Context) error {
		if gone {
			return nil
		}
		return g.api.HA().RemoveRule(ctx, id)
	})(ctx)
}
