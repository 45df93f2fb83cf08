package transport

import (
	"context"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

// nodeWrites is how many writes may be under way at a node. Its pvedaemon has three workers (pve-manager
// PVE/Service/pvedaemon.pm, max_workers), and a write may hold one for the 10 s that it waits for a lock. Of six the
// last is answered after 20 s, before pveproxy gives up at 30 s (pve-http-server AnyEvent.pm proxy_request) and the
// outcome is lost.
const nodeWrites = 6

// places are those of the writes of each node; "" is the one that answers for the cluster.
type places struct {
	mu sync.Mutex
	of map[string]chan struct{}
}

func (p *places) at(node string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[node] == nil {
		p.of[node] = make(chan struct{}, nodeWrites)
	}
	return p.of[node]
}

// withLimit bounds the requests under way at once, and the writes of each node. A file that is uploaded takes its
// time, and no worker until it is there.
func withLimit(n int, next handler) handler {
	slots, writes := make(chan struct{}, n), places{of: map[string]chan struct{}{}}
	return func(ctx context.Context, r *Request) (*response, error) {
		if r.File != nil {
			return next(ctx, r)
		}
		if r.IsWrite() { // first, so that it takes no place from reads while it waits for those before it
			place := writes.at(r.node())
			if err := take(ctx, place, oplog.Limit, "the turn to send a write to a node"); err != nil {
				return nil, notSent(r, err)
			}
			defer func() { <-place }()
		}
		if err := take(ctx, slots, oplog.Limit, "the turn to send a request"); err != nil {
			return nil, notSent(r, err)
		}
		defer func() { <-slots }()
		return next(ctx, r)
	}
}

// notSent is the error of a request that was interrupted while it waited for its turn.
func notSent(r *Request, err error) *fault.Error {
	return &fault.Error{Op: r.Op, Method: r.Method, Path: r.Path, Message: "not sent: " + err.Error(), Err: err}
}
