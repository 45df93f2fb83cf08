package provision

import (
	"context"
	"sync"
	"time"
)

const (
	// agentPlaces is how many questions to agents a node has from us at a time. Its pvedaemon has three workers for
	// everything, and each silent agent holds one of them for 3 s.
	agentPlaces = 2
	// agentPatience is how long a read waits for an agent; one that lives answers within some tens of milliseconds.
	agentPatience = 500 * time.Millisecond
	// agentQueue is how long a read waits for its turn to ask.
	agentQueue = 150 * time.Millisecond
	// agentTimeout bounds one question. PVE gives up after 3 s of silence, or 5 s if the agent answers the ping only.
	agentTimeout = 12 * time.Second
)

// class is what may be expected of an agent.
type class int

const (
	expected class = iota // it has answered before, or was never asked
	doubtful              // it was silent the last time
	waited                // somebody waits for it, however long
)

// desk decides which agents are asked when, so that the silent ones cost the others nothing:
//
//   - at most agentPlaces questions at a time go to a node, and none joins the queue while silent agents hold all of its
//     places;
//   - of those that were silent the last time one at a time is asked, and only where there is a place at once;
//   - reads stop asking when silence prevails: with the second silent agent, or later when more than one in four was silent.
//
// The zero desk is ready.
type desk struct {
	mu       sync.Mutex
	nodes    map[string]*places
	scouting bool // a doubtful one is being asked
	denied   bool // the identity may not ask
	answers  [2]int
	silences [2]int
}

// places are a node's.
type places struct {
	taken, hanging int
	changed        chan struct{} // closed and renewed when taken or hanging changes
}

func (d *desk) at(node string) *places {
	if d.nodes == nil {
		d.nodes = map[string]*places{}
	}
	if d.nodes[node] == nil {
		d.nodes[node] = &places{changed: make(chan struct{})}
	}
	return d.nodes[node]
}

func (p *places) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// admits reports whether a read may still ask.
func (d *desk) admits(c class) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open(c)
}

func (d *desk) open(c class) bool {
	return c == waited || !d.denied && d.silences[c] <= 1+d.answers[c]/4
}

// enter waits for a place. It is false when there is none for this class, or ctx ends.
func (d *desk) enter(ctx context.Context, node string, c class) bool {
	for {
		d.mu.Lock()
		p := d.at(node)
		switch {
		case !d.open(c) || c == doubtful && (d.scouting || p.taken >= agentPlaces) || c != waited && p.hanging >= agentPlaces:
			d.mu.Unlock()
			return false
		case p.taken < agentPlaces:
			p.taken++
			d.scouting = d.scouting || c == doubtful
			d.mu.Unlock()
			return true
		}
		changed := p.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// hangs notes that a question has no answer although its time is over.
func (d *desk) hangs(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.at(node)
	p.hanging = min(p.hanging+1, p.taken)
	p.notify()
}

// leave gives a place back.
func (d *desk) leave(node string, c class) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.at(node)
	p.taken--
	p.hanging = min(p.hanging, p.taken)
	if c == doubtful {
		d.scouting = false
	}
	p.notify()
}

// score notes what came of a read's question.
func (d *desk) score(c class, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if answered {
		d.answers[c]++
		return
	}
	d.silences[c]++
	for _, p := range d.nodes { // who queues may have to go
		p.notify()
	}
}

// refuse notes that the identity may not ask agents at all.
func (d *desk) refuse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denied = true
}
