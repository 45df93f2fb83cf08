package kill_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// killLife is a provider in this process that can be killed. From then on none of its requests arrives, and its clock stands still. Its
// reaction to that does not matter.
type killLife struct {
	w    *rig.World
	dead atomic.Bool

	mu    sync.Mutex
	shell []net.Conn
	died  time.Time
}

var errKilled = errors.New("killed")

func (l *killLife) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.died = l.w.Sim.World().Clock.Now()
	l.dead.Store(true)
	for _, conn := range l.shell {
		_ = conn.Close()
	}
}

// Now is the cluster's time, or when it died.
func (l *killLife) Now() time.Time {
	if l.dead.Load() {
		return l.died
	}
	return l.w.Sim.World().Clock.Now()
}

// Sleep lets the cluster's time pass.
func (l *killLife) Sleep(ctx context.Context, d time.Duration) error {
	if l.dead.Load() {
		return errKilled
	}
	l.w.Sim.Advance(d)
	if l.dead.Load() {
		return errKilled
	}
	return ctx.Err()
}

func (l *killLife) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if l.dead.Load() {
		return nil, errKilled
	}
	return d.DialContext(ctx, network, address)
}

func (l *killLife) sshDial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.w.Sim.SSHDial(ctx, network, address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.dead.Load() {
		_ = conn.Close()
		return nil, errKilled
	}
	l.shell = append(l.shell, conn)
	return conn, err
}

// killBench is a cluster with a session whose provider can be killed at its requests.
type killBench struct {
	w     *rig.World
	gate  *engine.Gate
	s     *terraformtest.Session
	clock *clock.Virtual
	id    rig.Identity

	mu   sync.Mutex
	last *killLife
}

func newKillBench(t *testing.T, id rig.Identity) *killBench {
	t.Helper()
	ticks := clock.NewManual(time.Now().Add(-time.Hour).Truncate(time.Second))
	w := rig.NewWorld(t, pvesim.Options{Clock: ticks, TaskTime: engine.KillTaskTime, Latency: -1})
	b := &killBench{w: w, gate: engine.NewGate(t, w), clock: ticks, id: id}
	b.gate.Patience = 30 * time.Millisecond
	b.s = terraformtest.NewSession(b.provider)
	return b
}

// provider starts one that can be killed.
func (b *killBench) provider() (tfprotov6.ProviderServer, error) {
	life := &killLife{w: b.w}
	b.mu.Lock()
	b.last = life
	b.mu.Unlock()
	return provider.NewServer(provider.NewWith("test", provider.Options{DialContext: life.dial, SSHDial: life.sshDial, Clock: life}))(), nil
}

func (b *killBench) configure(t *testing.T, hcl string) {
	t.Helper()
	if err := b.s.Configure(b.w.ProviderBlockAt(b.id, b.gate.URL(), b.gate.Authority()), hcl); err != nil {
		t.Fatal(err)
	}
}

// unkilled opens the gate for good.
func (b *killBench) unkilled() { b.gate.Begin(engine.Moment{}, nil, nil) }

// kill runs something whose provider is killed at a moment; false: the moment did not come. Afterwards the session has the state from
// before the run, as Terraform would.
func (b *killBench) kill(t *testing.T, at engine.Moment, run func() error) bool {
	t.Helper()
	saved := b.s.SaveState()
	b.gate.Begin(at, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.last.die()
	}, func(text string) string { return rig.Resign(b.w.Sim.Credentials(), text, rig.OfADeadProcess) })
	_ = run() // it tells of its death at best
	killed := b.gate.Killed()
	if killed {
		b.s.RestoreState(saved)
	}
	b.unkilled()
	return killed
}
