// Package backoff has the one table of pauses between tries, one row for each reason to wait.
package backoff

import "time"

// Reason is why a caller waits before it tries again; it decides how long. Every wait for something that may
// not come takes its pauses from here; how a task is polled is another matter (package pve, wait.go).
type Reason int

const (
	// ForEffect is for a look whether something has come about that was asked for.
	ForEffect Reason = iota
	// AfterFailure is for a request that failed, and may work the next time.
	AfterFailure
	// ForLock is for a lock that a third party holds. Where PVE waits for a lock it has waited already, 1 s for the
	// source of a clone and 10 s for most others.
	ForLock
	// ForLockInTask is for a lock that a task has waited for in vain: each try costs the task and its roll-back.
	ForLockInTask
	// ForLockToDestroy is for a lock in the way of a destroy: each try takes some twenty requests, for fresh evidence.
	ForLockToDestroy
	// ForLockToRead is for a lock that a destroy reads in a guest's configuration: each look takes some five requests.
	ForLockToRead
	// ForAgent is for a guest's agent, which costs PVE 3 s each time that it does not answer (qemu-server Agent.pm).
	ForAgent
	// ForGuest is for a guest that was asked to shut down and did not.
	ForGuest
)

// pauses are the first pause, which doubles until it is the last one. The waiting callers are spread over a share of
// it, so that they do not come back together.
type pauses struct {
	first, last time.Duration
	spread      float64
}

func (b Reason) pauses() pauses {
	return [...]pauses{
		AfterFailure:     {200 * time.Millisecond, 2 * time.Second, 1},
		ForEffect:        {200 * time.Millisecond, 6 * time.Second, 0},
		ForLock:          {500 * time.Millisecond, 10 * time.Second, 1},
		ForLockInTask:    {5 * time.Second, 30 * time.Second, 1},
		ForLockToDestroy: {20 * time.Second, 30 * time.Second, 0.5},
		ForLockToRead:    {time.Second, 10 * time.Second, 0.5},
		ForAgent:         {500 * time.Millisecond, 3 * time.Second, 0},
		ForGuest:         {10 * time.Second, 10 * time.Second, 0},
	}[b]
}

// Pause is the pause before a further try; the first further try is number 1. chance, in [0,1), is the caller's place
// among those that wait.
func (b Reason) Pause(try int, chance float64) time.Duration {
	p := b.pauses()
	pause := p.last
	if doubled := p.first << min(max(try-1, 0), 20); doubled < p.last {
		pause = doubled
	}
	return pause + time.Duration(p.spread*(chance-0.5)*float64(pause))
}
