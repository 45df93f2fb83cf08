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
	length int64
	left   atomic.Int64
	moved  atomic.Int64 // in nanoseconds of this machine's clock
}

func (f *File) begin(ctx context.Context) (*sending, error) {
	reader, closer, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	s := &sending{Reader: reader, Closer: closer, length: f.Length}
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

const (
	// stallTime is how long an upload may stand still.
	stallTime = 2 * time.Minute
	// passRate is the slowest pace, in bytes per second, at which a proxy that takes the whole file first (nginx with
	// proxy_request_buffering, its default) is given time to pass it on.
	passRate = 8 << 20
)

// patience is the time for the next byte, and after the last one for the answer.
func (s *sending) patience() time.Duration {
	if s.left.Load() > 0 {
		return stallTime
	}
	return stallTime + time.Duration(s.length/passRate)*time.Second
}

// watch cancels an upload that stands still, until the function that it returns is called.
func (s *sending) watch(cancel context.CancelCauseFunc) (stop func()) {
	var timer *time.Timer
	timer = time.AfterFunc(stallTime, func() {
		still, patience := time.Since(time.Unix(0, s.moved.Load())), s.patience()
		if still < patience {
			timer.Reset(patience - still)
			return
		}
		cancel(noAnswerError{after: patience})
	})
	return func() { timer.Stop() }
}
