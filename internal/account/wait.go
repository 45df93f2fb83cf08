package account

import (
	"context"
	"slices"
	"time"
)

// Kind is what can be waited for.
type Kind int

// What can be waited for.
const (
	Answer  Kind = iota // the server's to a request
	Task                // the end of a task, with the requests that ask for it
	Lock                // one that somebody else holds on a guest
	Agent               // a guest's agent, or the turn to ask it
	Guest               // a guest that is to go off
	Limit               // the turn to send a request: there are only so many at once
	Retry               // the pause before a request is sent again
	Pause               // the pause before something is looked at again
	Shared              // something that another operation is fetching for all
	Command             // a command on a node, over SSH
	kinds
)

// Kinds lists them.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String names it as the log does.
func (k Kind) String() string {
	return [kinds]string{"answer", "task", "lock", "agent", "guest", "limit", "retry", "pause", "shared", "command"}[k]
}

// wait is one of an operation's.
type wait struct {
	kind  Kind
	what  string
	since time.Time
}

// Wait notes that something is waited for, in words, until the function that it returns is called. The context is for what is asked
// meanwhile.
func Wait(ctx context.Context, kind Kind, what string, about ...Attribute) (context.Context, func()) {
	o := From(ctx)
	if o == nil {
		return ctx, func() {}
	}
	w, before := o.begin(kind, what), o.asked()
	ctx, span := o.span(ctx, "wait for "+kind.String(), about...)
	return ctx, func() {
		if took := o.end(w); took < time.Millisecond && o.asked() == before {
			return // there was nothing to wait for, and a span that never ends is never told
		}
		finish(span, "")
	}
}

func (o *Operation) begin(kind Kind, what string) *wait {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := &wait{kind: kind, what: what, since: o.config.Now()}
	o.active = append(o.active, w)
	if o.running[kind]++; o.running[kind] == 1 {
		o.since[kind] = w.since
	}
	return w
}

func (o *Operation) end(w *wait) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.active = slices.DeleteFunc(o.active, func(other *wait) bool { return other == w })
	now := o.config.Now()
	if o.running[w.kind]--; o.running[w.kind] == 0 {
		o.sum.Waited[w.kind] += now.Sub(o.since[w.kind])
	}
	return now.Sub(w.since)
}
