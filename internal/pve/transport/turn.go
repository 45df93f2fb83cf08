package transport

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// Turn lets one caller at a time do something that the others will find done: log in, fetch a listing. Unlike a
// mutex it can be waited for with a context, and unlike a shared flight it does not die with another caller's context.
type Turn chan struct{}

// NewTurn makes a Turn that is free.
func NewTurn() Turn { return make(Turn, 1) }

// Take waits until no other caller has the turn, or until the context ends.
func (t Turn) Take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return take(ctx, t, oplog.Shared, "what the server is being asked for all already")
}

// take takes a place, and waits for it where none is free.
func take(ctx context.Context, places chan struct{}, kind oplog.Kind, what string) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	ctx, over := oplog.Wait(ctx, kind, what)
	defer over()
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Give passes the turn on.
func (t Turn) Give() { <-t }
