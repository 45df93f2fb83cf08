// Package request does one thing on the server at a time, and knows afterwards what became of it: a request whose
// answer was lost is looked up, one that a lock stood in the way of is sent again, a task is awaited, and ended
// safely when the operation is interrupted. It knows how a change is written, and not whose guest it is or why it
// changes.
package request

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Runner sends the requests of one process to one cluster.
type Runner struct {
	// API is the client. Code that only reads may use it directly; writes go through the Runner.
	API *pve.Client
	// Clock is the clock of all waits.
	Clock pve.Clock
	// Log, if set before the Runner is used, gets a line for people while something is waited for.
	Log func(ctx context.Context, message string, fields map[string]string)
	// Root, if set before the Runner is used, is root on the nodes.
	Root Root
	// Written, if set before the Runner is used, is told of each change of a VM's options that PVE has carried out, with
	// the text of its entry in the cluster's log.
	Written func(vmid int, entry string)

	chance func() float64 // in [0,1), spreads those who wait

	begins begins
	ahead  Recent[time.Duration] // how far the clock of a node is ahead of ours

	mu    sync.Mutex
	tasks map[pve.UPID]bool // that answered a request of ours
}

// New makes a Runner. clock may be nil: the real one.
func New(api *pve.Client, clock pve.Clock) *Runner {
	if clock == nil {
		clock = pve.RealClock()
	}
	return &Runner{API: api, Clock: clock, chance: rand.Float64, tasks: map[pve.UPID]bool{},
		ahead: Recent[time.Duration]{Life: time.Minute}}
}

// Tell writes a line for people, where a log is kept.
func (r *Runner) Tell(ctx context.Context, text string) {
	if r.Log != nil {
		r.Log(ctx, text, nil)
	}
}
