package handle

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/stranger"
)

// Config is what a Server is made of.
type Config struct {
	World  *state.World
	Schema *schema.Set
	// TLS is used for every connection; nil speaks plain HTTP.
	TLS *tls.Config
	// TaskTime is how long a worker takes; zero finishes it before the answer that carries its UPID is written.
	TaskTime time.Duration
	// Latency is added to every request.
	Latency time.Duration
	// Workers is how many requests are in service at a time, for Latency each; the others queue. Zero serves all at once.
	Workers int
	// Internet lets downloads leave the machine.
	Internet bool
	// Web is what the nodes download from in place of any network; nil: from the network.
	Web http.RoundTripper
	// Violated is told when the world's invariants (state.World.Check) do not hold after a request, an SSH command or the
	// end of a task: a bug of the simulator. It is called with the mutex held. nil looks for none.
	Violated func(error)
}

// Server answers the HTTP API of a World. It stands for pveproxy and pvedaemon of all nodes.
// Everything in it is guarded by the world's mutex unless it says otherwise.
type Server struct {
	world    *state.World
	schema   *schema.Set
	tls      *tls.Config
	taskTime time.Duration
	latency  time.Duration
	busy     []time.Time // until when each of the limited workers is, see inService
	internet bool
	web      http.RoundTripper
	violated func(error)
	routes   Routes
	faults   fault.Set
	// strangers are who comes between two operations.
	strangers stranger.Set
	initial   []byte // snapshot to go back to on reset, packed
	restore   func() // puts back what the snapshot does not hold
	key       []byte // signs tickets and CSRF tokens

	ops     []*Op
	locks   map[string]*fileLock
	workers map[string]*Worker // running ones, by UPID
	agenda  []appointment      // earliest first
	forks   int                // processes started, the source of pids
	stats   statistics

	ctx   context.Context // ends with the server
	stop  context.CancelFunc
	epoch context.Context // ends with the server or with the state that a load replaces
	over  context.CancelFunc
	wg    sync.WaitGroup

	connMu sync.Mutex // guards conns only
	conns  map[net.Conn]struct{}
	gzips  sync.Pool
}

// New makes a server on c.World, whose present state is what a reset returns to.
func New(c Config) *Server {
	s := &Server{
		world: c.World, schema: c.Schema, tls: c.TLS, taskTime: c.TaskTime, latency: c.Latency, busy: make([]time.Time, c.Workers),
		internet: c.Internet, web: c.Web, violated: c.Violated,
		routes: routes(), locks: map[string]*fileLock{}, workers: map[string]*Worker{}, forks: 0x1000,
		key: make([]byte, 32), conns: map[net.Conn]struct{}{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.epoch, s.over = context.WithCancel(s.ctx)
	_, _ = rand.Read(s.key) // crypto/rand.Read never fails
	s.world.Lock()
	defer s.world.Unlock()
	s.initial, s.restore = packed(s.world.Snapshot()), s.world.Remember()
	s.stats.sample(s.world)
	return s
}

// Close cuts all connections, ends all workers where they stand and waits until every goroutine is gone.
// The listeners given to Serve are the caller's to close first.
func (s *Server) Close() {
	s.stop()
	s.connMu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.connMu.Unlock()
	s.wg.Wait()
}

// SetTaskTime changes how long workers take that start from now on.
func (s *Server) SetTaskTime(d time.Duration) {
	s.world.Lock()
	defer s.world.Unlock()
	s.taskTime = d
}

// Do runs f on the world as a piece of work of the cluster, with the mutex held.
func (s *Server) Do(f func(w *state.World)) {
	s.enter()
	defer s.leave()
	s.world.Lock()
	defer s.world.Unlock()
	s.tick()
	f(s.world)
	s.keep()
}

// enter and leave tell a clock that counts its users that one more or one less goroutine works on the cluster.
func (s *Server) enter() {
	if c, ok := s.world.Clock.(interface{ Enter() }); ok {
		c.Enter()
	}
}

func (s *Server) leave() {
	if c, ok := s.world.Clock.(interface{ Leave() }); ok {
		c.Leave()
	}
}

// pollStep is how often somebody who waits looks whether the thing has come, on the world's clock.
const pollStep = 50 * time.Millisecond

// Wait lets d pass on the world's clock with the mutex released, or less if done (which may be nil) says so earlier.
// The caller holds the mutex and holds it again afterwards. Nobody may sleep on the clock while holding the mutex.
func (s *Server) Wait(d time.Duration, done func() bool) {
	ctx, end := s.epoch, s.world.Clock.Now().Add(d)
	for ctx.Err() == nil && (done == nil || !done()) {
		step := end.Sub(s.world.Clock.Now())
		if step <= 0 {
			return
		}
		if s.expecting() {
			step = min(step, agendaStep)
		}
		if done != nil {
			step = min(step, pollStep)
		}
		s.pause(ctx, step)
	}
}

func (s *Server) pause(ctx context.Context, d time.Duration) {
	s.world.Unlock()
	if c, ok := s.world.Clock.(interface {
		SleepContext(ctx context.Context, d time.Duration)
	}); ok {
		c.SleepContext(ctx, d)
	} else {
		s.world.Clock.Sleep(d)
	}
	s.world.Lock()
	s.tick()
}
