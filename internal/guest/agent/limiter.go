package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// A question is bounded by its context's time: a clock that moves by itself would outrun the request.
const (
	// patience is how long a read waits for an agent; one that lives answers within some tens of milliseconds.
	patience = 500 * time.Millisecond
	// firstPatience is how long others wait for the first answer, which says whether it is worth asking.
	firstPatience = 150 * time.Millisecond
	// turn is how long a read waits until it may ask.
	turn = time.Second
	// timeout bounds one question. PVE gives up after 3 s of silence, or 5 s if the agent answers the ping only.
	timeout = 12 * time.Second
	// maxAsked is how many questions a node has from us at a time at most, while its agents answer.
	maxAsked = 6
	// maxSilent is how many of them may be without an answer. A node's pvedaemon has three workers for everything, and a
	// silent agent holds one of them for 3 s.
	maxSilent = 2
	// maxDenied is how many denials there may be before an agent was reached, and for each that was. PVE asks for the
	// privilege of one VM (qemu-server API2/Qemu/Agent.pm), before it pings: a denial costs a request, and no worker.
	maxDenied = 8
)

// class is what may be expected of an agent.
type class int

const (
	expected class = iota // it has answered before, or was never asked
	doubtful              // it was silent the last time
	waited                // a caller waits for it, however long
	classes
)

// limiter decides which agents are asked when, so that the silent ones cost the others nothing. The zero limiter is
// ready.
type limiter struct {
	mu      sync.Mutex
	nodes   map[string]*node
	denials int            // answers that the identity may not ask
	scores  [classes]score // of all nodes
	changed chan struct{}  // closed and renewed when a waiting caller may have to ask, or to go
}

// score is how often agents answered, and how often they did not.
type score struct{ answers, silences int }

// node is what a node is asked at the moment, and how its agents answered.
type node struct {
	queue []*place // that wait, in the order in which they came
	taken []*place
	score score
}

// place is that of a question under way, or of one that waits for its turn.
type place struct {
	node         *node
	class        class
	late, silent bool // without an answer for firstPatience, for patience
}

func (p *place) is(other *place) bool { return p == other }

func (n *node) count(of func(*place) bool) int {
	all := 0
	for _, p := range n.taken {
		if of(p) {
			all++
		}
	}
	return all
}

// verdict says whether a question may be put.
type verdict int

const (
	never verdict = iota
	later
	now
)

// judge is the rule:
//
//   - until agents of a kind answer, one of that kind is asked at a time, and no caller waits for one that is late;
//   - then each answer makes room for two more at a time on its node, and each silence takes some;
//   - while two agents of a node are silent, no read asks there;
//   - reads stop asking when silence prevails: at the second silent agent, or later when more than one in four was
//     silent. So they do when denials prevail, as where the identity may ask none of a thousand.
func (l *limiter) judge(n *node, c class) verdict {
	score := l.scores[c]
	isAnswering := n.score.answers > 0
	if c == doubtful {
		isAnswering = score.answers > 4*score.silences
	}
	taken, room := len(n.taken), maxSilent
	switch {
	case c == waited:
	case l.isDenied(), score.silences > 1+score.answers/4, n.count(func(p *place) bool { return p.silent }) >= maxSilent:
		return never
	case isAnswering:
		room = max(maxSilent, min(1+2*n.score.answers-8*n.score.silences, maxAsked))
	case n.count(func(p *place) bool { return p.class == c && p.late }) > 0:
		return never
	default:
		taken, room = n.count(func(p *place) bool { return p.class == c }), 1
	}
	if taken < room {
		return now
	}
	return later
}

// take waits until a question may be put, and leave gives its place back. The place is nil where the question is not
// to be put: a read does not wait for long, nor where there is nothing to wait for.
func (l *limiter) take(ctx context.Context, at string, c class) *place {
	if c != waited {
		short, cancel := context.WithTimeout(ctx, turn)
		defer cancel()
		ctx = short
	}
	p := l.queue(at, c)
	defer l.dequeue(p)
	ctx, over := oplog.Wait(ctx, oplog.Agent, "the turn to ask a guest agent on node "+at)
	defer over()
	for ctx.Err() == nil {
		verdict, changed := l.try(p)
		switch verdict {
		case now:
			return p
		case never:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// queue joins those who wait for their turn on a node.
func (l *limiter) queue(at string, c class) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes == nil {
		l.nodes, l.changed = map[string]*node{}, make(chan struct{})
	}
	if l.nodes[at] == nil {
		l.nodes[at] = &node{}
	}
	p := &place{node: l.nodes[at], class: c}
	p.node.queue = append(p.node.queue, p)
	return p
}

func (l *limiter) dequeue(p *place) {
	l.note(func() { p.node.queue = slices.DeleteFunc(p.node.queue, p.is) })
}

// try is take without waiting. The first to come asks first: among as many as Terraform reads at once, one would
// else wait for a second and go without. changed tells when it is worth another try.
func (l *limiter) try(p *place) (v verdict, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := slices.IndexFunc(p.node.queue, func(other *place) bool { return other.class == p.class })
	if v = l.judge(p.node, p.class); v == now && p.node.queue[first] != p {
		v = later
	}
	if v == now {
		p.node.taken = append(p.node.taken, p)
	}
	return v, l.changed
}

func (l *limiter) leave(p *place) {
	l.note(func() { p.node.taken = slices.DeleteFunc(p.node.taken, p.is) })
}

// late notes that a question has no answer yet although others wait for it.
func (l *limiter) late(p *place) { l.note(func() { p.late = true }) }

// silent notes that an agent did not answer in time.
func (l *limiter) silent(p *place) {
	l.note(func() {
		p.silent = true
		p.node.score.silences++
		l.scores[p.class].silences++
	})
}

// answered notes an answer.
func (l *limiter) answered(p *place) {
	l.note(func() {
		p.node.score.answers++
		l.scores[p.class].answers++
	})
}

// deny notes that the identity may not ask the agent of a VM.
func (l *limiter) deny() { l.note(func() { l.denials++ }) }

// isDenied reports whether the identity may ask so few agents that the others are not asked either.
func (l *limiter) isDenied() bool {
	reached := 0
	for _, score := range l.scores {
		reached += score.answers + score.silences
	}
	return l.denials >= maxDenied*(1+reached)
}

// note changes something, and has those who wait look again.
func (l *limiter) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}
