package transport

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestUploadThroughABufferingProxy: nginx takes a whole file first (proxy_request_buffering), and only then passes it on.
func TestUploadThroughABufferingProxy(t *testing.T) {
	for name, row := range map[string]struct {
		length        int64 // that the server is told
		isSent        bool
		after         time.Duration
		wantCancelled bool
	}{
		"ten gigabytes are being passed on":          {10 << 30, true, 20 * time.Minute, false},
		"ten gigabytes without an answer":            {10 << 30, true, 24 * time.Minute, true},
		"a small file without an answer":             {1 << 20, true, 3 * time.Minute, true},
		"a file of which no byte leaves the machine": {10 << 30, false, 3 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &File{Length: row.length, Open: func(context.Context) (io.Reader, io.Closer, error) {
					return io.LimitReader(zeros{}, row.length), io.NopCloser(strings.NewReader("")), nil
				}}
				body, err := f.begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				defer body.watch(cancel)()
				if row.isSent {
					body.left.Store(0)
				}
				time.Sleep(row.after)
				synctest.Wait()
				if isCancelled := context.Cause(ctx) != nil; isCancelled != row.wantCancelled {
					t.Errorf("after %s: cancelled %t (%v)", row.after, isCancelled, context.Cause(ctx))
				}
			})
		})
	}
	if c := newTestConn(t); c.files.ResponseHeaderTimeout != 0 || !c.files.DisableKeepAlives || c.writes.ResponseHeaderTimeout == 0 {
		t.Errorf("files wait %s for the answer, writes %s", c.files.ResponseHeaderTimeout, c.writes.ResponseHeaderTimeout)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
