package guest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// laptop is the clock of a machine that is closed in a pause, and sleeps for an hour.
type laptop struct {
	pve.Clock
	began, then time.Time // of the process, with a monotonic reading, and the cluster's time then
	open        bool      // it may be closed
	slept       time.Duration
	meanwhile   func()
}

func (l *laptop) Now() time.Time {
	return clock.Asleep(l.began.Add(l.Clock.Now().Sub(l.then)), l.slept)
}

func (l *laptop) Sleep(ctx context.Context, pause time.Duration) error {
	if l.open {
		l.open, l.slept = false, time.Hour
		l.meanwhile()
	}
	return l.Clock.Sleep(ctx, pause)
}

// TestLateRequestIsNotSent: the network is gone when a request is to be sent that no digest binds, and the machine
// sleeps before the next try. When the machine wakes up, it looks again: if another VM has got the id, the request is
// not sent, and otherwise it is, once.
func TestLateRequestIsNotSent(t *testing.T) {
	start := func(g *Guests) request.Request {
		return request.Request{Type: "qmstart", Send: func(ctx context.Context) (pve.UPID, error) {
			return g.api.QEMU("pve1", theVM).Start(ctx, pve.Params{})
		}}
	}
	for name, do := range map[string]func(context.Context, *Guests, *View) error{
		"a task": func(ctx context.Context, g *Guests, v *View) error {
			_, err := v.Perform(ctx, start(g), v.IsThere)
			return err
		},
		"a start": func(ctx context.Context, g *Guests, v *View) error {
			_, err := v.Power(nil)(ctx, start(g))
			return err
		},
		"a change": func(ctx context.Context, g *Guests, v *View) error {
			return v.Contend(ctx, "pve1", v.IsThere, func(ctx context.Context) error {
				return g.api.QEMU("pve1", theVM).UpdateConfig(ctx, pve.Params{"description": "sent"})
			})
		},
		"HA": func(ctx context.Context, g *Guests, v *View) error {
			return g.EnterHA(ctx, theVM, pve.Params{}, v.Guard)
		},
		"the firewall": func(ctx context.Context, g *Guests, v *View) error {
			on := true
			return g.SetFirewall(ctx, "pve1", theVM, nil, &firewall.Settings{Enabled: &on}, false, v.Guard)
		},
	} {
		for _, comes := range []bool{true, false} {
			lateRequest(t, name, comes, do)
		}
	}
}

func lateRequest(t *testing.T, name string, comes bool, do func(context.Context, *Guests, *View) error) {
	t.Helper()
	w := newWorld(t, nil)
	here := &laptop{Clock: clock.Client{Cluster: w.sim.World().Clock}, began: time.Now()}
	here.then = here.Clock.Now()
	here.meanwhile = func() {
		if comes {
			w.becomeAnother()
		}
	}
	gone := false
	api, err := pve.New(pve.Config{Endpoint: w.sim.Endpoint(), CACertificate: w.sim.CAPEM(), Clock: here,
		APIToken: token(w.sim.Credentials()),
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone && here.slept == 0 {
				return nil, syscall.ENETUNREACH
			}
			return w.sim.DialTLSContext(ctx, network, addr)
		},
		Trace: func(_ context.Context, _ string, fields map[string]string) { // the last look has been answered
			if strings.HasSuffix(fields["path"], "/pending") {
				gone, here.open = true, true
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	g := New(request.New(api, here))
	at, _, err := g.Find(t.Context(), w.ref(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := g.View(&StateClaim{Ref: w.ref()}, at)
	gone, here.open = false, false
	v.Forget()
	w.sim.ResetOps()
	err = do(t.Context(), g, v)
	if here.slept == 0 {
		t.Fatalf("%s: the machine did not sleep: %v", name, err)
	}
	sent := 0
	for _, op := range w.sim.Ops() {
		if op.Method != http.MethodGet {
			sent++
		}
	}
	var another *IdentityError // this token may not change HA, so PVE refuses that
	if comes && (sent > 0 || !errors.As(err, &another)) || !comes && (sent != 1 || err != nil && !pve.IsKind(err, pve.Denied)) {
		t.Errorf("%s, another VM comes %t: sent %d requests, %v", name, comes, sent, err)
	}
}
