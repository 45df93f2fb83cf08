package main

import (
	"slices"
	"time"
)

// The limit is what the slow server needs at least: one listing for all, then for each VM the requests that change something, one after
// the other with their tasks in between, and nothing else. A client at the limit polls no task, since it knows when the task ends, reads
// nothing back and proves nothing. The limit cannot be reached; every client is measured by it, the bare one too.

// change is a request that changes something, and how long its task lasts.
type change struct{ task time.Duration }

// changes are those of an operation for each VM.
var changes = map[string][]change{
	opSlowCreate:  {{slowTask}, {slowTask}},                 // POST qemu, start
	opSlowClone:   {{slowTask}, {}, {slowTask}, {slowTask}}, // clone, options, growth, start
	opSlowUpdate:  {{}},                                     // options
	opSlowDestroy: {{slowTask}, {slowTask}},                 // shutdown, DELETE
}

// limit is how long an operation on n VMs takes at least, and how many requests.
func limit(op string, n int) measured {
	steps := changes[op]
	workers := make([]time.Duration, slowWorkers) // until when each is busy
	serve := func(came time.Duration) time.Duration {
		first := slices.Index(workers, slices.Min(workers))
		workers[first] = max(workers[first], came) + slowRequest
		return workers[first]
	}
	begin := serve(0) // the listing
	turns := make([]turnOf, min(n, bareTasksAtATime))
	for i := range turns {
		turns[i] = turnOf{ready: begin}
	}
	left, end := n-len(turns), begin
	for len(turns) > 0 { // the first one that is ready is served first
		next := 0
		for i, t := range turns {
			if t.ready < turns[next].ready {
				next = i
			}
		}
		t := &turns[next]
		t.ready = serve(t.ready) + steps[t.step].task
		end = max(end, t.ready)
		if t.step++; t.step < len(steps) {
			continue
		}
		if left == 0 {
			turns = slices.Delete(turns, next, next+1)
			continue
		}
		left--
		t.step = 0
	}
	return measured{cost: cost{Wall: end}, Server: end, Requests: 1 + n*len(steps)}
}

// turnOf is one of the VMs that are worked on at a time.
type turnOf struct {
	ready time.Duration // when its next request can be sent
	step  int
}
