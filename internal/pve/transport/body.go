package transport

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

// File is a body that is too large to be kept.
type File struct {
	ContentType string
	Length      int64
	Open        func(context.Context) (io.Reader, io.Closer, error)
}

// sending is one try to send a fileBody: how far it came, and when it last went on.
type sending struct {
	io.Reader
	io.Closer
	left  atomic.Int64
	moved atomic.Int64 // in nanoseconds of this machine's clock
}

func (f *File) begin(ctx context.Context) (*sending, error) {
	reader, closer, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	s := &sending{Reader: reader, Closer: closer}
	s.left.Store(f.Length)
	s.moved.Store(time.Now().UnixNano())
	return s, nil
}

// Read reads on.
func (s *sending) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.left.Add(-int64(n))
	s.moved.Store(time.Now().UnixNano())
	return n, err
}

// stallTime is how long an upload may stand still.
const stallTime = 2 * time.Minute

// watch cancels an upload that stands still, until the function that it returns is called. An upload that is sent
// whole is the server's affair, and the time for the answer is bounded elsewhere.
func (s *sending) watch(cancel context.CancelCauseFunc) (stop func()) {
	var timer *time.Timer
	timer = time.AfterFunc(stallTime, func() {
		still := time.Since(time.Unix(0, s.moved.Load()))
		switch {
		case s.left.Load() == 0:
		case still >= stallTime:
			cancel(noAnswerError{after: stallTime})
		default:
			timer.Reset(stallTime - still)
		}
	})
	return func() { timer.Stop() }
}
