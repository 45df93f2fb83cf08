package agent

import (
	"context"
	"sync"
	"time"
)

const (
	// agentPatience is how long a read waits for an agent; one that lives answers within some tens of milliseconds.
	agentPatience = 500 * time.Millisecond
	// agentQueue is how long a read waits for its turn to ask where no agent has answered yet, agentTurn where they do.
	agentQueue = 150 * time.Millisecond
	agentTurn  = time.Second
	// agentTimeout bounds one question. PVE gives up after 3 s of silence, or 5 s if the agent answers the ping only.
	agentTimeout = 12 * time.Second
	// agentPlaces is how many questions a node has from us at a time at most, while its agents answer.
	agentPlaces = 6
	// agentHanging is how many of them may be without an answer. A node's pvedaemon has three workers for everything, and a
	// silent agent holds one of them for 3 s.
	agentHanging = 2
)

// class is what may be expected of an agent.
type class int

const (
	expected class = iota // it has answered before, or was never asked
	doubtful              // it was silent the last time
	waited                // somebody waits for it, however long
	classes
)

// place is where a question waits for its answer.
type place int

const (
	none   place = iota // it is not asked
	common              // one of agentPlaces
	lone                // the scout's, for one doubtful question at a time
)

// desk decides which agents are asked when, so that the silent ones cost the others nothing:
//
//   - the first question to a node goes alone; each answer makes room for two more at a time, each silence takes some;
//   - while a silent agent holds a worker of a node and none has answered there, or two do, no read asks on it;
//   - no read queues where another has done so in vain;
//   - of those that were silent the last time one at a time is asked, beside the others, until such a one has answered;
//   - reads stop asking when silence prevails: with the second silent agent, or later when more than one in four was silent.
//
// The zero desk is ready.
type desk struct {
	mu       sync.Mutex
	nodes    map[string]*places
	denied   bool // the identity may not ask
	answers  [classes]int
	silences [classes]int
}

// places are a node's.
type places struct {
	taken, hanging    int  // common ones, and those of them without an answer in time
	scouting, lost    bool // the lone one is taken; its question has no answer in time
	answers, silences int
	stuck             [classes]bool // a read has queued in vain, and nobody has answered since
	changed           chan struct{} // closed and renewed when something changes
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

// room is how many common places the node has now.
func (p *places) room() int {
	if p.answers == 0 {
		return 1
	}
	return max(agentHanging, min(1+2*p.answers-8*p.silences, agentPlaces))
}

// blocked reports whether silent agents hold as many workers as they may.
func (p *places) blocked() bool {
	hanging := p.hanging
	if p.lost {
		hanging++
	}
	return hanging >= agentHanging || p.hanging > 0 && p.answers == 0
}

// admits reports whether a read may still ask.
func (d *desk) admits(c class) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open(c)
}

func (d *desk) open(c class) bool { return !d.denied && d.silences[c] <= 1+d.answers[c]/4 }

// enter waits for a place. There is none for a class that is not asked any more, when a read has waited long enough, and when
// ctx ends.
func (d *desk) enter(ctx context.Context, node string, c class) place {
	if c == waited {
		return d.queue(ctx, node, c)
	}
	if c == doubtful && d.scout(node) {
		return lone
	}
	short, cancel := context.WithTimeout(ctx, agentQueue)
	defer cancel()
	if c == expected && d.queue(short, node, c) == common {
		return common
	}
	if !d.answering(short, node, c) {
		return none
	}
	long, stop := context.WithTimeout(ctx, agentTurn)
	defer stop()
	return d.queue(long, node, c)
}

// scout takes the lone place.
func (d *desk) scout(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.at(node)
	if p.scouting || p.blocked() || !d.open(doubtful) {
		return false
	}
	p.scouting = true
	return true
}

// answering reports whether it makes sense to queue on: agents of the node answer, or those of its kind do. A doubtful one waits
// for that.
func (d *desk) answering(ctx context.Context, node string, c class) bool {
	for {
		d.mu.Lock()
		p := d.at(node)
		answers := p.answers > 0
		if c == doubtful {
			answers = d.answers[c] > 4*d.silences[c]
		}
		vain := p.blocked() || p.lost || p.stuck[c] || c != doubtful || ctx.Err() != nil
		if vain && !answers {
			p.stuck[c] = true
			p.notify()
		}
		changed := p.changed
		d.mu.Unlock()
		if answers || vain {
			return answers
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// queue waits for a common place until ctx ends.
func (d *desk) queue(ctx context.Context, node string, c class) place {
	for ctx.Err() == nil {
		d.mu.Lock()
		p := d.at(node)
		room := p.room()
		if c == waited {
			room = agentHanging
		}
		switch {
		case c != waited && (!d.open(c) || p.blocked()):
			d.mu.Unlock()
			return none
		case p.taken < room:
			p.taken++
			d.mu.Unlock()
			return common
		case p.stuck[c]:
			d.mu.Unlock()
			return none
		}
		changed := p.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return none
}

// hangs notes that a question has no answer although its time is over.
func (d *desk) hangs(node string, at place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.at(node)
	if at == lone {
		p.lost = p.scouting
	} else {
		p.hanging = min(p.hanging+1, p.taken)
	}
	p.notify()
}

// leave gives a place back.
func (d *desk) leave(node string, at place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.at(node)
	if at == lone {
		p.scouting, p.lost = false, false
	} else {
		p.taken--
		p.hanging = min(p.hanging, p.taken)
	}
	p.notify()
}

// score notes what came of a read's question.
func (d *desk) score(node string, c class, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.at(node)
	if answered {
		d.answers[c]++
		p.answers++
		p.stuck = [classes]bool{}
	} else {
		d.silences[c]++
		p.silences++
	}
	for _, p := range d.nodes { // who queues may come, or have to go
		p.notify()
	}
}

// refuse notes that the identity may not ask agents at all.
func (d *desk) refuse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denied = true
}
