package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
)

const (
	theVM = 400
	their = "uuid=11111111-2222-4333-8444-555555555555"
)

var theRule = pve.HARule{ID: "apart", Type: "resource-affinity", Affinity: "negative",
	Resources: []string{"vm:8000", "vm:9000"}}

// laptop is a machine with a Service of a cluster. It is closed while a request finds no network, and sleeps for an hour.
type laptop struct {
	clock.Client
	*Service
	t           *testing.T
	sim         *pvesim.Sim
	began, then time.Time // of the process, with a monotonic reading, and the cluster's time then
	look        string    // the end of the path of the last look before the request
	gone        bool      // the network
	sent        func()    // is called when a write has been answered
	slept       time.Duration
	meanwhile   func(*state.World)
}

func (l *laptop) Now() time.Time {
	return clock.Asleep(l.began.Add(l.Client.Now().Sub(l.then)), l.slept)
}

func (l *laptop) Sleep(ctx context.Context, pause time.Duration) error {
	if l.gone && l.slept == 0 {
		l.slept = time.Hour
		l.change(l.meanwhile)
	}
	return l.Client.Sleep(ctx, pause)
}

func (l *laptop) change(f func(*state.World)) {
	all := l.sim.World()
	all.Lock()
	defer all.Unlock()
	f(all)
}

// newLaptop makes a cluster with a VM that runs, has a snapshot, and an HA rule.
func newLaptop(t *testing.T) *laptop {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Profile: "9.2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	l := &laptop{Client: clock.Client{Cluster: sim.World().Clock}, t: t, sim: sim, began: time.Now()}
	l.then = l.Client.Now()
	cred := sim.Credentials()
	api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), Clock: l,
		Username: cred.RootUsername, Password: cred.RootPassword,
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if l.gone && l.slept == 0 {
				return nil, syscall.ENETUNREACH
			}
			return sim.DialTLSContext(ctx, network, addr)
		},
		Trace: func(_ context.Context, _ string, fields map[string]string) {
			if l.look != "" && fields["method"] == http.MethodGet && strings.HasSuffix(fields["path"], l.look) {
				l.gone = true
			}
			if l.sent != nil && fields["method"] == http.MethodPost {
				l.sent()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	l.Service = New(api, nil, l)
	l.task(api.Node("pve1").CreateVM(t.Context(), pve.Params{"vmid": "400", "memory": "512", "scsi0": "local-zfs:1"}))
	l.task(api.QEMU("pve1", theVM).Start(t.Context(), pve.Params{}))
	l.task(api.QEMU("pve1", theVM).TakeSnapshot(t.Context(), pve.Params{"snapname": "old"}))
	l.change(func(all *state.World) {
		for _, sid := range theRule.Resources {
			all.HA[sid] = &state.HAResource{SID: sid, State: "stopped", Options: map[string]string{}}
		}
	})
	if err := l.HARules.Create(t.Context(), theRule); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *laptop) task(upid pve.UPID, err error) {
	l.t.Helper()
	if err == nil {
		_, err = l.API.Tasks().Wait(l.t.Context(), upid)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestLateRequestIsNotSent: the network is gone when a request is to be sent that PVE binds to nothing, and the machine
// sleeps before the next try. When the machine wakes up, it looks again: if a third party has another VM, or another
// rule, of that id by then, the request is not sent, and otherwise it is.
func TestLateRequestIsNotSent(t *testing.T) {
	config := "/qemu/400/config"
	acts := map[string]struct {
		look string
		do   func(context.Context, *laptop, snapshot.Ref) error
	}{
		"remove a rule": {"/rules/apart", func(ctx context.Context, l *laptop, _ snapshot.Ref) error {
			return l.HARules.Delete(ctx, theRule, func() error { return nil })
		}},
		"take a snapshot": {config, func(ctx context.Context, l *laptop, _ snapshot.Ref) error {
			_, err := l.Snapshots.Take(ctx, snapshot.Wanted{VMID: theVM, Name: "new"})
			return err
		}},
		"describe a snapshot": {"/qemu/400/snapshot", func(ctx context.Context, l *laptop, ref snapshot.Ref) error {
			_, err := l.Snapshots.Describe(ctx, ref, "", "described")
			return err
		}},
	}
	for _, action := range []power.Action{power.Shutdown, power.Stop, power.Reboot, power.Reset, power.Suspend} {
		acts[string(action)] = struct {
			look string
			do   func(context.Context, *laptop, snapshot.Ref) error
		}{config, func(ctx context.Context, l *laptop, _ snapshot.Ref) error {
			_, err := l.Power.Do(ctx, power.Request{Choice: guest.Choice{VMID: theVM}, Action: action,
				Timeout: 5 * time.Minute})
			return err
		}}
	}
	for name, act := range acts {
		for _, comes := range []bool{true, false} {
			l := newLaptop(t)
			seen, err := l.API.QEMU("pve1", theVM).Config(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ref := snapshot.Ref{Name: "old",
				VM: guest.Ref{VMID: theVM, Node: "pve1", Identity: guest.IdentityOf(seen.Values)}}
			l.meanwhile = func(all *state.World) {
				if comes {
					all.Guests[theVM].Config["smbios1"] = their
					all.HARules["apart"]["comment"] = "theirs"
				}
			}
			l.sim.ResetOps()
			l.look = act.look
			err = act.do(t.Context(), l, ref)
			sent := 0
			for _, op := range l.sim.Ops() {
				if op.Method != http.MethodGet {
					sent++
				}
			}
			isDone := err == nil && sent > 0 || errors.Is(err, guest.ErrLate) && sent == 0 // a hard one is not tried again
			if l.slept == 0 || comes && (err == nil || sent > 0) || !comes && !isDone {
				t.Errorf("%s, another comes %t: slept %s, sent %d requests, %v", name, comes, l.slept, sent, err)
			}
		}
	}
}

// TestSentPowerActionIsNotSaidToHaveTouchedNothing: another VM has the id when the guest is looked at after a request.
func TestSentPowerActionIsNotSaidToHaveTouchedNothing(t *testing.T) {
	l := newLaptop(t)
	l.sent = func() { l.change(func(all *state.World) { all.Guests[theVM].Config["smbios1"] = their }) }
	_, err := l.Power.Do(t.Context(), power.Request{Choice: guest.Choice{VMID: theVM}, Action: power.Shutdown,
		Timeout: 5 * time.Minute})
	var field *guest.FieldError
	if !errors.As(err, &field) || !strings.HasSuffix(field.Detail, "Look whether it reached the second") {
		t.Errorf("got %v", err)
	}
}
