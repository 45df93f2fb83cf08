package oplog

import (
	"context"
	"slices"
	"time"
)

// Wait records a wait, described in words, until the returned function is called. The returned context is for requests
// during the wait.
func Wait(ctx context.Context, kind Kind, what string, about ...Attribute) (context.Context, func()) {
	o := From(ctx)
	if o == nil {
		return ctx, func() {}
	}
	w, before := o.begin(kind, what), o.asked()
	ctx, span := o.span(ctx, "wait for "+kind.String(), about...)
	return ctx, func() {
		if took := o.end(w); took < time.Millisecond && o.asked() == before {
			return // no real wait; a span that never ends is never reported
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
