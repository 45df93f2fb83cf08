package preflight

import (
	"context"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// lookupLife is how long one answer serves the plans of many VMs.
const lookupLife = 5 * time.Second

// lookup asks for something once for all plans that want it at about the same time. The zero lookup is ready. It is no
// basis for anything that changes the server.
type lookup[V any] struct {
	mu      sync.Mutex
	answers map[string]*answer[V]
}

// answer is one thing that is looked up; whoever holds the turn may read and write it.
type answer[V any] struct {
	turn  chan struct{}
	value V
	at    time.Time
	known bool
}

func (l *lookup[V]) get(ctx context.Context, clock pve.Clock, key string, ask func(context.Context) (V, error)) (V, error) {
	a := l.answer(key)
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		var zero V
		return zero, ctx.Err()
	}
	defer func() { <-a.turn }()
	now := clock.Now()
	if age := now.Sub(a.at); a.known && age >= 0 && age < lookupLife {
		return a.value, nil
	}
	value, err := ask(ctx)
	if err == nil {
		a.value, a.at, a.known = value, now, true
	}
	return value, err
}

func (l *lookup[V]) answer(key string) *answer[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers == nil {
		l.answers = map[string]*answer[V]{}
	}
	if l.answers[key] == nil {
		l.answers[key] = &answer[V]{turn: make(chan struct{}, 1)}
	}
	return l.answers[key]
}
