package request

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// Order counts questions and fetches, in the order in which they come.
type Order struct{ n atomic.Uint64 }

// Next is the place of something that happens now.
func (o *Order) Next() uint64 { return o.n.Add(1) }

// Shared gets one answer for all callers that wait for the same question. An answer serves only callers that
// asked before it was fetched, so it says what was true after each of them asked; its age counts for nothing.
type Shared[T any] struct {
	order *Order
	turn  chan struct{} // its holder fetches; it guards everything below
	began uint64        // when the answer was fetched, in that order
	value T
	err   error
}

// NewShared makes a Shared without an answer.
func NewShared[T any]() *Shared[T] { return NewSharedIn[T](&Order{}) }

// NewSharedIn makes one in whose order other things happen, too.
func NewSharedIn[T any](order *Order) *Shared[T] {
	return &Shared[T]{order: order, turn: make(chan struct{}, 1)}
}

// Get is the answer to a question that is asked now. One caller fetches, and the others wait for it; a fetch that
// failed since its own caller was interrupted is no answer for the others.
func (s *Shared[T]) Get(ctx context.Context, fetch func(context.Context) (T, error)) (T, error) {
	return s.Since(ctx, s.order.Next(), fetch)
}

// Since is the answer to a question that was asked at a place of the order.
func (s *Shared[T]) Since(ctx context.Context, asked uint64, fetch func(context.Context) (T, error)) (T, error) {
	if err := take(ctx, s.turn); err != nil {
		var none T
		return none, err
	}
	defer func() { <-s.turn }()
	if s.began > asked {
		return s.value, s.err
	}
	began := s.order.Next()
	value, err := fetch(ctx)
	if err == nil || ctx.Err() == nil {
		s.began, s.value, s.err = began, value, err
	}
	return value, err
}

// take takes the one place there is, or waits for it.
func take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	default:
	}
	ctx, over := oplog.Wait(ctx, oplog.Shared, "what the server is being asked for all already")
	defer over()
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SharedBy is a Shared for each of several questions, which have one order.
type SharedBy[K comparable, T any] struct {
	order *Order
	mu    sync.Mutex
	all   map[K]*Shared[T]
}

// NewSharedBy makes one without answers.
func NewSharedBy[K comparable, T any](order *Order) *SharedBy[K, T] {
	return &SharedBy[K, T]{order: order, all: map[K]*Shared[T]{}}
}

// Since is the answer to a question that was asked at a place of the order.
func (s *SharedBy[K, T]) Since(ctx context.Context, key K, asked uint64, fetch func(context.Context) (T, error)) (T,
	error) {
	s.mu.Lock()
	one := s.all[key]
	if one == nil {
		one = NewSharedIn[T](s.order)
		s.all[key] = one
	}
	s.mu.Unlock()
	return one.Since(ctx, asked, fetch)
}
