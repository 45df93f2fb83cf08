package pve

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// severed is a connection that breaks at one of its writes. Part of that one may have gone out.
type severed struct {
	net.Conn
	writes, part int
}

func (s *severed) Write(p []byte) (int, error) {
	if s.writes--; s.writes >= 0 {
		return s.Conn.Write(p)
	}
	n := min(s.part, len(p)-1)
	if n > 0 {
		n, _ = s.Conn.Write(p[:n])
	}
	return n, &net.OpError{Op: "write", Net: "tcp", Err: errors.New("broken pipe")}
}

// TestWriteThatIsCutWhileItIsSent: a request that has not gone out whole reaches no handler of PVE. It goes on through the next endpoint, and is
// made once, wherever its connection breaks: in the handshake, in its header, or in its body.
func TestWriteThatIsCutWhileItIsSent(t *testing.T) {
	cut := 0
	for writes := range 8 {
		for _, size := range []int{1, 100_000} {
			for _, part := range []int{0, 60} {
				r := newRing(t, slices.Repeat([]answerFunc{nodesOf("a b", "c1", constant("null"))}, 2)...)
				c := r.client(t)
				if err := c.change(t.Context(), "write", http.MethodPut, "/pools", Params{"poolid": "ready"}); err != nil {
					t.Fatal(err)
				}
				whole := func(i int) (n int) {
					for _, one := range r.servers[i].requests() {
						if len(one.form.Get("comment")) == size {
							n++
						}
					}
					return n
				}
				r.wrap = func(i int, conn net.Conn) net.Conn {
					if i == 0 {
						return &severed{conn, writes, part}
					}
					return conn
				}
				err := c.change(t.Context(), "write", http.MethodPut, "/pools", Params{"comment": strings.Repeat("x", size)})
				first, second := whole(0), whole(1)
				if err != nil || first+second != 1 {
					t.Errorf("after %d writes, %d bytes: %v; the first endpoint got %d, the second %d", writes, size, err, first, second)
				}
				cut += second
			}
		}
	}
	t.Logf("%d of 32 were cut", cut)
	if cut == 0 || cut == 32 {
		t.Errorf("%d of 32 were cut", cut)
	}
}
