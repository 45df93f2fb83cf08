package story_test

import (
	"context"
	"net/http"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// patience is how long a command may take on the cluster's clock. The configurations' own limits are told by
// the machine's clock, on which hardly any time passes.
const patience = 20 * time.Minute

// guide counts the writes that the cluster has served since a command began, and has something happen after one
// of them. All of it is used with the world's mutex held.
type guide struct {
	story   *story
	writes  int
	seq     int // of the request before which something that happens now counts as done
	until   time.Time
	cancel  context.CancelFunc
	stopped chan struct{}
	pressed bool                         // an interrupt has reached the provider
	on      map[int][]func(*state.World) // by the number of the write
}

func newGuide(s *story) *guide {
	g := &guide{story: s}
	s.w.Change(func(w *state.World) {
		w.Served = func(seq int, method, path string) {
			if g.cancel != nil && w.Clock.Now().After(g.until) {
				g.interrupt()
			}
			if method == http.MethodGet || path == "/access/ticket" {
				return
			}
			g.writes++
			g.seq = seq + 1
			if method == http.MethodDelete { // its worker has yet to read the configuration
				g.seq = seq
			}
			for _, do := range g.on[g.writes] {
				do(w)
			}
		}
	})
	return g
}

// begin starts the count for a command of a session.
func (g *guide) begin(session *terraformtest.Session) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(g.story.Context())
	g.story.w.Change(func(w *state.World) {
		g.writes, g.seq, g.until, g.cancel, g.on = 0, 0, w.Clock.Now().Add(patience), cancel, map[int][]func(*state.World){}
		g.stopped, g.pressed = make(chan struct{}), false
		stopped, done := g.stopped, false
		session.Stopped = func() {
			if !done { // one call to stop is enough, and sessions make one call at a time
				done = true
				close(stopped)
			}
		}
	})
	return ctx, func() {
		cancel()
		g.story.w.Change(func(*state.World) { g.cancel, g.on = nil, nil })
	}
}

// interrupt presses Ctrl-C, and returns when the provider knows of it: no answer comes before.
func (g *guide) interrupt() {
	if g.cancel == nil {
		return
	}
	g.cancel()
	g.cancel = nil
	<-g.stopped
	g.pressed = true
}

// after has something happen once the n-th write was served and before its answer.
func (g *guide) after(n int, do func(*state.World)) {
	g.story.w.Change(func(*state.World) { g.on[n] = append(g.on[n], do) })
}

// deaf lets no further request of the client through.
func deaf() []fault.Rule {
	return []fault.Rule{{Phase: fault.Before, Status: 599, Times: -1}}
}
