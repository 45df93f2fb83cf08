package clock

import (
	"context"
	"time"
)

// Client is a cluster's clock as its clients want it, so that their waits cost as little as the cluster's. On a clock
// that moves by itself who waits counts as one more member of the cluster.
type Client struct {
	Cluster interface {
		Now() time.Time
		Sleep(d time.Duration)
	}
}

// Now is the cluster's time.
func (c Client) Now() time.Time { return c.Cluster.Now() }

// Sleep waits for d on the cluster's clock and returns nil, or ctx.Err() as soon as ctx is done.
func (c Client) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if v, ok := c.Cluster.(interface {
		Enter()
		Leave()
	}); ok {
		v.Enter()
		defer v.Leave()
	}
	if s, ok := c.Cluster.(interface {
		SleepContext(ctx context.Context, d time.Duration)
	}); ok {
		s.SleepContext(ctx, d)
	} else {
		c.Cluster.Sleep(d)
	}
	return ctx.Err()
}
