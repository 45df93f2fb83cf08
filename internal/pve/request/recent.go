package request

import (
	"context"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// recentLife is how long one answer serves those who ask at about the same time.
const recentLife = 5 * time.Second

// Recent keeps answers, each for all who want it at about the same time. The zero value is ready. Unlike that of a
// Shared, an answer may have been fetched before it was asked for: it serves what the server itself decides again
// when it is told to act.
type Recent[V any] struct {
	// Life is how long an answer is kept; zero is five seconds.
	Life time.Duration
	// Failed is how long a failure serves the others, too, such as that of a node that is off; zero is not at all.
	Failed time.Duration

	mu      sync.Mutex
	answers map[string]*answer[V]
}

// answer is one of a Recent's; the holder of the turn may read and write it.
type answer[V any] struct {
	turn  chan struct{}
	value V
	at    time.Time
	known bool
	err   error // of the last try, which ended at failed
	// failed is after the time that a node which hangs has taken.
	failed time.Time
}

// Get is the answer about key. Those who come while it is fetched wait for it; an error is the answer of its own
// caller only, but for Failed.
func (r *Recent[V]) Get(ctx context.Context, clock pve.Clock, key string, ask func(context.Context) (V, error)) (V,
	error) {
	a := r.answer(key)
	if err := take(ctx, a.turn); err != nil {
		var zero V
		return zero, err
	}
	defer func() { <-a.turn }()
	life := r.Life
	if life == 0 {
		life = recentLife
	}
	now := clock.Now()
	if age := pve.Elapsed(a.at, now); a.known && age >= 0 && age < life {
		return a.value, nil
	}
	if age := pve.Elapsed(a.failed, now); a.err != nil && age >= 0 && age < r.Failed {
		return a.value, a.err
	}
	value, err := ask(ctx)
	if err == nil {
		a.value, a.at, a.known, a.err = value, now, true, nil
	} else if ctx.Err() == nil {
		a.err, a.failed = err, clock.Now()
	}
	return value, err
}

// Forget has the next question about anything asked again. A fetch under way still serves the callers that wait for it.
func (r *Recent[V]) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = nil
}

func (r *Recent[V]) answer(key string) *answer[V] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil {
		r.answers = map[string]*answer[V]{}
	}
	if r.answers[key] == nil {
		r.answers[key] = &answer[V]{turn: make(chan struct{}, 1)}
	}
	return r.answers[key]
}
