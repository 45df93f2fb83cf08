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

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
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

// Run looks at a cluster. It fails if it may not even see which nodes there are; what else it may not see is noted in the file.
func Run(ctx context.Context, c Config) (*state.File, error) {
	mask, err := newMask(c.Mask)
	if err != nil {
		return nil, err
	}
	k, err := newClient(ctx, c)
	if err != nil {
		return nil, err
	}
	defer k.http.CloseIdleConnections()
	l := &look{client: k, notSeen: map[string]bool{}}
	for _, step := range []func(context.Context) error{
		l.version, l.nodes, l.options, l.storages, l.volumes, l.guests, l.pools, l.ha, l.jobs, l.mappings, l.identities,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	l.fit()
	for note := range l.notSeen {
		l.file.Captured.NotSeen = append(l.file.Captured.NotSeen, note)
	}
	slices.Sort(l.file.Captured.NotSeen)
	l.secrets()
	mask.apply(&l.file)
	l.sort()
	l.tokenSecrets()
	return &l.file, nil
}

// note writes down what could not be seen, or has no place in a world.
func (l *look) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notSeen[fmt.Sprintf(format, args...)] = true
}

// ask asks for what may be missing: ok is false if the server refuses, which is noted. Another error ends the look: a world of which
// half is missing because the network broke is none.
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

// version finds the release to act as: its own, or the one below it that the simulator knows.
func (l *look) version(ctx context.Context) error {
	data, err := l.client.get(ctx, "/version")
	if err != nil {
		return fmt.Errorf("GET /version: %w", err)
	}
	r, _ := data.(map[string]any)
	is := row(r).text("release")
	l.file.Captured = &state.FileCapture{Format: state.FileFormat, Release: row(r).text("version")}
	for _, known := range release.Versions() {
		if known == is || older(known, is) {
			l.file.Profile = known
		}
	}
	if l.file.Profile == "" {
		return fmt.Errorf("the server is %q, which is older than all that the simulator can act as", row(r).text("version"))
	}
	if l.file.Profile != is {
		l.note("the release %s: the world acts as %s", is, l.file.Profile)
	}
	return nil
}

// older compares releases, "8.4" and the like.
func older(a, b string) bool {
	var x, y [2]int
	_, _ = fmt.Sscanf(a, "%d.%d", &x[0], &x[1])
	_, _ = fmt.Sscanf(b, "%d.%d", &y[0], &y[1])
	return slices.Compare(x[:], y[:]) < 0
}

func (l *look) nodes(ctx context.Context) error {
	data, err := l.client.get(ctx, "/nodes")
	if err != nil {
		return fmt.Errorf("GET /nodes: %w", err)
	}
	status, err := l.list(ctx, "/cluster/status")
	if err != nil {
		return err
	}
	addresses := map[string]string{}
	for _, r := range status {
		if r.text("type") == "node" {
			addresses[r.text("name")] = r.text("ip")
		}
	}
	for _, r := range by("node", rows(data)) {
		l.file.Nodes = append(l.file.Nodes, state.FileNode{Name: r.text("node"), Address: addresses[r.text("node")],
			Offline: r.text("status") != "online", CPUs: int(r.number("maxcpu")), Memory: state.FileSize(r.number("maxmem"))})
	}
	if len(l.file.Nodes) == 0 {
		return errors.New("GET /nodes: the cluster shows no node to this identity")
	}
	for i := range l.file.Nodes {
		n := &l.file.Nodes[i]
		if n.Offline {
			continue
		}
		list, err := l.list(ctx, "/nodes/"+n.Name+"/network?type=any_bridge")
		if err != nil {
			return err
		}
		for _, r := range by("iface", list) {
			n.Bridges = append(n.Bridges, r.text("iface"))
			if r.flag("bridge_vlan_aware") {
				n.VLANAware = append(n.VLANAware, r.text("iface"))
			}
		}
	}
	return nil
}

// options are those of the datacenter that matter to guests.
func (l *look) options(ctx context.Context) error {
	r, _, err := l.object(ctx, "/cluster/options")
	if err != nil {
		return err
	}
	next, tags := property(r["next-id"]), property(r["tag-style"])
	l.file.NextID = state.FileRange{Lower: int(next.number("lower")), Upper: int(next.number("upper"))}
	l.file.CaseSensitiveTags = tags.flag("case-sensitive")
	return nil
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
