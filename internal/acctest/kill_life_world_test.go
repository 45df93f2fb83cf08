package acctest_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

// killLife is a provider in this process that can be killed: from then on nothing that it sends arrives, and time stands still for it. What
// it makes of that is nobody's business.
type killLife struct {
	w    *acctest.World
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
	w     *acctest.World
	gate  *acctest.Gate
	s     *drive.Session
	clock *clock.Virtual
	id    acctest.Identity

	mu   sync.Mutex
	last *killLife
}

func newKillBench(t *testing.T, id acctest.Identity) *killBench {
	t.Helper()
	ticks := clock.NewManual(time.Now().Add(-time.Hour).Truncate(time.Second))
	w := acctest.NewWorld(t, pvesim.Options{Clock: ticks, TaskTime: acctest.KillTaskTime, Latency: -1})
	b := &killBench{w: w, gate: acctest.NewGate(t, w), clock: ticks, id: id}
	b.gate.Patience = 30 * time.Millisecond
	b.s = drive.NewSession(b.provider)
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
func (b *killBench) unkilled() { b.gate.Begin(acctest.Moment{}, nil, nil) }

// kill runs something whose provider is killed at a moment; false: the moment did not come. What the session knows then is what Terraform
// knows: what it knew before.
func (b *killBench) kill(t *testing.T, at acctest.Moment, run func() error) bool {
	t.Helper()
	saved := b.s.SaveState()
	b.gate.Begin(at, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.last.die()
	}, ofADeadProcess)
	_ = run() // it tells of its death at best
	killed := b.gate.Killed()
	if killed {
		b.s.RestoreState(saved)
	}
	b.unkilled()
	return killed
}

// ofADeadProcess is a stamp (guest.Stamp) as another process of this machine writes it that is dead.
func ofADeadProcess(text string) string { return acctest.ProcessStart.ReplaceAllString(text, "${1}1") }
