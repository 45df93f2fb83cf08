package pve

import "context"

// turn lets one caller at a time do something that the others will find done: log in, fetch a listing. Unlike a
// mutex it can be waited for with a context, and unlike a shared flight it dies with nobody else's context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
