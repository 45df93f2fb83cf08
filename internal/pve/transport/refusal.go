package transport

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

const (
	// refusalsToBelieve is the number of 401s in a row, with no other answer between them, after which requests are no
	// longer sent. A single one may be that of a node whose clock is wrong or whose /etc/pve is not readable just then.
	refusalsToBelieve = 2
	// refusalLife is how long requests are not sent after that. An administrator may extend or enable a token at any
	// time, and PVE looks at both for each request (access-control AccessControl.pm verify_token).
	refusalLife = 10 * time.Second
	// loginRefusalLife is how long no login is tried after a refused one. It is longer: a directory behind a realm locks
	// the account after a few wrong passwords, and PVE the second factor after a few wrong codes.
	loginRefusalLife = 10 * time.Minute
)

// refusals remember that PVE refuses the credentials. It holds each 401 back for 3 s (pve-http-server AnyEvent.pm,
// "always delay unauthorized calls"), which a run of 400 VMs would otherwise wait for at each of them.
type refusals struct {
	mu    sync.Mutex
	inRow int
	last  *fault.Error
	until time.Time
}

// withRefusals answers in PVE's place while the refusal of the credentials is fresh: the request gets the words of that
// refusal, and is not sent.
func withRefusals(c *Conn, next handler) handler {
	known := &c.refusals
	return func(ctx context.Context, r *Request) (*response, error) {
		if e := known.of(r, c.clock.Now()); e != nil {
			return nil, e
		}
		resp, err := next(ctx, r)
		if err == nil && !resp.isForeign() {
			known.note(c.judge(r, resp, nil), c.clock.Now())
		}
		return resp, err
	}
}

// of is the refusal of a request that need not be sent, or nil.
func (k *refusals) of(r *Request, now time.Time) *fault.Error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inRow < refusalsToBelieve || !now.Before(k.until) {
		return nil
	}
	e := *k.last
	e.Op, e.Method, e.Path, e.Unsent = r.Op, r.Method, r.Path, true
	return &e
}

// note notes an answer of PVE; e is nil for a success.
func (k *refusals) note(e *fault.Error, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e == nil || e.Status != http.StatusUnauthorized {
		k.inRow, k.last = 0, nil
		return
	}
	k.inRow, k.last, k.until = k.inRow+1, e, now.Add(refusalLife)
}
