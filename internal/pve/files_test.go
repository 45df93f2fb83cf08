package pve

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// uploader is a server that breaks off some uploads, before their last byte or after it, and keeps those that it
// received.
type uploader struct {
	requests atomic.Int32
	cut      int32 // so many requests are cut
	whole    bool  // after the last byte
	got      []byte
	order    string
}

func (u *uploader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.requests.Add(1) <= u.cut {
		if u.whole {
			_, _ = io.Copy(io.Discard, r.Body)
		} else {
			_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
		}
		panic(http.ErrAbortHandler)
	}
	parts, err := r.MultipartReader()
	for err == nil {
		p, partErr := parts.NextPart()
		if partErr != nil {
			break
		}
		u.order += p.FormName() + " "
		data, _ := io.ReadAll(p)
		if p.FileName() != "" {
			u.got = data
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"data":"UPID:pve1:00000001:00000002:6B02DEFB:imgcopy::root@pam!tf:"}`)
}

// TestUploadBrokenOff: an upload that breaks off before its last byte has done nothing and is sent again; after that
// byte the outcome is unknown, and it is not.
func TestUploadBrokenOff(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 3<<20) // 48 MiB: more than the buffers of two sockets hold, which count as sent
	for name, c := range map[string]struct {
		cut   int32
		whole bool
		kind  Kind
		sent  int32
	}{
		"whole":               {sent: 1},
		"cut twice":           {cut: 2, sent: 3},
		"cut again and again": {cut: 100, kind: Unavailable, sent: 5},
		"cut after the last":  {cut: 1, whole: true, kind: Ambiguous, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &uploader{cut: c.cut, whole: c.whole}
			server := httptest.NewTLSServer(u)
			defer server.Close()
			api, err := New(Config{Endpoint: server.URL, APIToken: "root@pam!tf=00000000-0000-0000-0000-000000000000", Insecure: true})
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			var last int64
			_, err = api.Storage("pve1", "local").Upload(t.Context(), Upload{Content: "import", Filename: "a.raw", Checksum: "abc", Algorithm: "sha256",
				Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
				Sent: func(_ context.Context, n int64) { last = n }})
			if (err != nil) != (c.kind != 0) || c.kind != 0 && !IsKind(err, c.kind) || u.requests.Load() != c.sent {
				t.Errorf("%d requests, %v", u.requests.Load(), err)
			}
			if err == nil && (!bytes.Equal(u.got, data) || last != int64(len(data)) || u.order != "content checksum-algorithm checksum filename ") {
				t.Errorf("%d of %d bytes came, %d were counted; in the order %s", len(u.got), len(data), last, u.order)
			}
		})
	}
	for _, name := range []string{`a".raw`, "a\n.raw"} {
		if _, _, _, err := (Upload{Filename: name}).frame(); err == nil || !strings.Contains(err.Error(), "quote") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
