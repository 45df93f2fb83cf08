package engine

import (
	"time"
)

// InService gives the request that has just come to the worker that is free first, and says when that one will have
// served it: its turn in the queue and the latency. Only the latency keeps a worker busy, not what the request waits
// for afterwards.
func (e *Engine) InService() time.Duration {
	if len(e.busy) == 0 {
		return e.Config.Latency
	}
	now, first := e.World.Clock.Now(), 0
	for i, until := range e.busy {
		if until.Before(e.busy[first]) {
			first = i
		}
	}
	if e.busy[first].Before(now) {
		e.busy[first] = now
	}
	e.busy[first] = e.busy[first].Add(e.Config.Latency)
	return e.busy[first].Sub(now)
}
