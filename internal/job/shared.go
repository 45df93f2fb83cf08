package job

import (
	"context"
	"sync/atomic"
)

// Shared gets one answer for everybody who waits for the same question. An answer serves those only who asked before it was
// fetched, so it says of each of them what was true after he asked; its age counts for nothing.
type Shared[T any] struct {
	turn  chan struct{} // whoever holds it fetches; it guards everything below
	order atomic.Uint64 // counts questions and fetches, in the order in which they come
	began uint64        // when the answer was fetched, in that order
	value T
	err   error
}

// NewShared makes a Shared without an answer.
func NewShared[T any]() *Shared[T] { return &Shared[T]{turn: make(chan struct{}, 1)} }

// Get is the answer to a question that is asked now. One caller fetches, and the others wait for him; a fetch that failed since
// its own caller was interrupted is no answer for anybody else.
func (s *Shared[T]) Get(ctx context.Context, fetch func(context.Context) (T, error)) (T, error) {
	asked := s.order.Add(1)
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.began > asked {
		return s.value, s.err
	}
	began := s.order.Add(1)
	value, err := fetch(ctx)
	if err == nil || ctx.Err() == nil {
		s.began, s.value, s.err = began, value, err
	}
	return value, err
}
