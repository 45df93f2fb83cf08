package capture

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// atOnce is how many requests are under way: what three workers of pvedaemon serve beside their other work.
const atOnce = 3

// look is one look at a cluster.
type look struct {
	client *client
	file   state.File

	mu      sync.Mutex // guards notSeen
	notSeen map[string]bool
}

// note writes down what could not be seen, or has no place in a world.
func (l *look) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notSeen[fmt.Sprintf(format, args...)] = true
}

// ask asks for what may be missing: ok is false if the server refuses, which is noted. Another error ends the look: a
// world of which half is missing because the network broke is none.
func (l *look) ask(ctx context.Context, path string) (data any, ok bool, err error) {
	data, err = l.client.get(ctx, path)
	var r *refused
	if errors.As(err, &r) && r.status != http.StatusUnauthorized {
		if r.status != http.StatusNotImplemented { // a route that the release has not
			l.note("%s: %s", path, r)
		}
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("GET %s: %w", path, err)
	}
	return data, true, nil
}

// list is ask for a list of objects.
func (l *look) list(ctx context.Context, path string) ([]row, error) {
	data, _, err := l.ask(ctx, path)
	return rows(data), err
}

// object is ask for one object.
func (l *look) object(ctx context.Context, path string) (row, bool, error) {
	data, ok, err := l.ask(ctx, path)
	r, _ := data.(map[string]any)
	return r, ok, err
}

// each does something for every item, some at a time.
func each[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	work := make(chan T)
	for range atOnce {
		wg.Go(func() {
			for item := range work {
				if ctx.Err() == nil {
					if err := do(ctx, item); err != nil {
						cancel(err)
					}
				}
			}
		})
	}
	for _, item := range items {
		work <- item
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// property reads a property string, which some releases answer taken apart and others not.
func property(v any) row {
	if r, ok := v.(map[string]any); ok {
		return r
	}
	out := row{}
	for _, part := range strings.Split(text(v), ",") {
		if key, value, ok := strings.Cut(part, "="); ok {
			out[key] = value
		}
	}
	return out
}

func escaped(part string) string { return url.PathEscape(part) }

func (l *look) hasNode(name string) bool {
	return slices.ContainsFunc(l.file.Nodes, func(n state.FileNode) bool { return n.Name == name })
}

func (l *look) storage(id string) *state.FileStorage {
	for i := range l.file.Storages {
		if l.file.Storages[i].ID == id {
			return &l.file.Storages[i]
		}
	}
	return nil
}

func (l *look) isOffline(node string) bool {
	return slices.ContainsFunc(l.file.Nodes, func(n state.FileNode) bool { return n.Name == node && n.Offline })
}

func (l *look) hasGuest(vmid int) bool {
	return slices.ContainsFunc(l.file.Guests, func(g state.FileGuest) bool { return g.VMID == vmid })
}
