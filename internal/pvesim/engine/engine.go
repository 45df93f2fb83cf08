package engine

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/statistics"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// Config is what a Server is made of.
type Config struct {
	World  *state.World
	Schema *schema.Set
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
	// Routes are all that the simulator gives a meaning to.
	Routes Routes
	// Hooks are the rooms above the engine.
	Hooks Hooks
	// Violated is told when the world's invariants (state.World.Check) do not hold after a request, an SSH command or the
	// end of a task: a bug of the simulator. It is called with the mutex held. nil looks for none.
	Violated func(error)
}

// Hooks are the rooms above the engine, which it calls.
type Hooks struct {
	// Act carries out a third party's order before an operation.
	Act func(e *Engine, order thirdparty.Order, op fault.Operation, params map[string]string) thirdparty.Report
	// Boot starts a node that crashed.
	Boot func(e *Engine, node string)
	// Manage is a round of the HA manager over one resource.
	Manage func(e *Engine, sid string)
	// Motion says which HA resources go where one goes, and which keep it from nodes.
	Motion func(e *Engine, sid string) (dependent []string, blockers map[string][]string)
}

// Blockers are HA resources that keep another one from a node, as the API gives them.
func Blockers(sids []string) (rows []map[string]any) {
	for _, sid := range sids {
		rows = append(rows, map[string]any{"sid": sid, "cause": "resource-affinity"})
	}
	return rows
}

// Engine runs requests, commands and tasks on a World, as pvedaemon does on all nodes.
// Everything in it is guarded by the world's mutex unless it says otherwise.
type Engine struct {
	Config   Config
	World    *state.World
	taskTime time.Duration
	busy     []time.Time // until when each of the limited workers is, see InService
	faults   fault.Set
	// thirdParties are who comes between two operations.
	thirdParties thirdparty.Set
	initial      []byte // snapshot to go back to on reset, packed
	restore      func() // puts back what the snapshot does not hold
	Key          []byte // signs tickets and CSRF tokens

	ops     []*Op
	Locks   map[string]*fileLock
	Workers map[string]*Worker // running ones, by UPID
	agenda  []appointment      // earliest first
	Forks   int                // processes started, the source of pids
	Stats   statistics.Statistics

	Ctx   context.Context // ends with the server
	stop  context.CancelFunc
	epoch context.Context // ends with the server or with the state that a load replaces
	over  context.CancelFunc
	wg    sync.WaitGroup
}

// New makes a server on c.World, whose present state is what a reset returns to.
func New(c Config) *Engine {
	e := &Engine{
		Config: c, World: c.World, taskTime: c.TaskTime, busy: make([]time.Time, c.Workers),
		Locks: map[string]*fileLock{}, Workers: map[string]*Worker{}, Forks: 0x1000, Key: make([]byte, 32),
	}
	e.Ctx, e.stop = context.WithCancel(context.Background())
	e.epoch, e.over = context.WithCancel(e.Ctx)
	_, _ = rand.Read(e.Key) // crypto/rand.Read never fails
	e.World.Lock()
	defer e.World.Unlock()
	e.initial, e.restore = packed(e.World.Snapshot()), e.World.Remember()
	e.Stats.Sample(e.World)
	return e
}

// Stop ends all workers where they stand and all waiting.
func (e *Engine) Stop() { e.stop() }

// Stopped reports whether the engine was stopped.
func (e *Engine) Stopped() bool { return e.Ctx.Err() != nil }

// Close stops the engine and waits until every goroutine of it is gone.
func (e *Engine) Close() {
	e.stop()
	e.wg.Wait()
}

// Handler is the code of a route, nil if it has no semantics here.
func (e *Engine) Handler(method, template string) Func { return e.Config.Routes[method+" "+template] }

// SetTaskTime changes how long workers take that start from now on.
func (e *Engine) SetTaskTime(d time.Duration) {
	e.World.Lock()
	defer e.World.Unlock()
	e.taskTime = d
}

// Do runs f on the world as a piece of work of the cluster, with the mutex held.
func (e *Engine) Do(f func(w *state.World)) {
	e.Enter()
	defer e.Leave()
	e.World.Lock()
	defer e.World.Unlock()
	e.Tick()
	f(e.World)
	e.Keep()
}

// Enter and leave tell a clock that counts its users that one more or one less goroutine works on the cluster.
func (e *Engine) Enter() {
	if c, ok := e.World.Clock.(interface{ Enter() }); ok {
		c.Enter()
	}
}

// Leave tells a clock that counts its users that one goroutine less works on the cluster.
func (e *Engine) Leave() {
	if c, ok := e.World.Clock.(interface{ Leave() }); ok {
		c.Leave()
	}
}

// PollStep is how often a wait looks for its event, on the world's clock.
const PollStep = 50 * time.Millisecond

// Wait lets d pass on the world's clock with the mutex released, or less if done (which may be nil) says so earlier.
// The caller holds the mutex and holds it again afterwards. No goroutine may sleep on the clock while it holds the
// mutex.
func (e *Engine) Wait(d time.Duration, done func() bool) {
	ctx, end := e.epoch, e.World.Clock.Now().Add(d)
	for ctx.Err() == nil && (done == nil || !done()) {
		step := end.Sub(e.World.Clock.Now())
		if step <= 0 {
			return
		}
		if e.expecting() {
			step = min(step, agendaStep)
		}
		if done != nil {
			step = min(step, PollStep)
		}
		e.pause(ctx, step)
	}
}

func (e *Engine) pause(ctx context.Context, d time.Duration) {
	e.World.Unlock()
	if c, ok := e.World.Clock.(interface {
		SleepContext(ctx context.Context, d time.Duration)
	}); ok {
		c.SleepContext(ctx, d)
	} else {
		e.World.Clock.Sleep(d)
	}
	e.World.Lock()
	e.Tick()
}
