// Package job does one thing on the server at a time, and knows afterwards what became of it: a request whose answer was
// lost is looked up, one that a lock stood in the way of is sent again, a task is awaited, and ended safely when the
// operation is interrupted. It knows how a change is written, and not whose guest it is or why it changes.
package job

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Runner sends the requests of one process to one cluster.
type Runner struct {
	// API is the client. What only reads may use it directly; what writes goes through the Runner.
	API *pve.Client
	// Clock is what everything that waits waits on.
	Clock pve.Clock
	// Log, if set before the Runner is used, gets a line for people while something is waited for.
	Log func(ctx context.Context, message string, fields map[string]string)
	// Root, if set before the Runner is used, is root on the nodes.
	Root   Root
	chance func() float64 // in [0,1), spreads those who wait

	begins begins

	mu    sync.Mutex
	tasks map[pve.UPID]bool // that answered a request of ours
}

// New makes a Runner. clock may be nil: the real one.
func New(api *pve.Client, clock pve.Clock) *Runner {
	if clock == nil {
		clock = pve.RealClock()
	}
	return &Runner{API: api, Clock: clock, chance: rand.Float64, tasks: map[pve.UPID]bool{}}
}

// Tell writes a line for people, where a log is kept.
func (s *Runner) Tell(ctx context.Context, text string) {
	if s.Log != nil {
		s.Log(ctx, text, nil)
	}
}

// Pause waits longer before each further attempt, and not at all before the first.
func (s *Runner) Pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	ctx, over := account.Wait(ctx, account.Pause, "the moment to look again")
	defer over()
	return s.Clock.Sleep(ctx, pve.ForEffect.Pause(attempt, s.chance()))
}
