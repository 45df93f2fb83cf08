package pve

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
)

// turn lets one caller at a time do something that the others will find done: log in, fetch a listing. Unlike a
// mutex it can be waited for with a context, and unlike a shared flight it dies with nobody else's context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return take(ctx, t, account.Shared, "what the server is being asked for all already")
}

// take takes a place, and waits for it where none is free.
func take(ctx context.Context, places chan struct{}, kind account.Kind, what string) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	ctx, over := account.Wait(ctx, kind, what)
	defer over()
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
