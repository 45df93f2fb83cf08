package create

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// sleeper is a run whose machine sleeps after the answer to its request n, while others go on.
type sleeper struct {
	n      int64
	seen   atomic.Int64
	asleep func()
}

func (s *sleeper) answered(context.Context, string, map[string]string) {
	if s.seen.Add(1) == s.n {
		time.Sleep(guest.Lease + time.Minute)
		s.asleep()
	}
}

// TestKillTakenBackAsleep: the machine of a run sleeps after any of its requests, others take back the objects that
// it made, and a third party has a VM under the id. The run fails when it is awake again, says what has happened, and
// touches nothing of the third party's.
func TestKillTakenBackAsleep(t *testing.T) {
	step, slept := 5, 0
	if os.Getenv("CANCEL_ALL") != "" {
		step = 1
	}
	for name, request := range map[string]func() Request{"create": onZFS, "clone": ofTemplate, "restore": aRestore} {
		for n, more := 1, true; more; n += step {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.backedUp(nil)
				b.sim.MarkThirdParties()
				r := request()
				r.VMID, r.Start, r.Firewall = 150, true, &guest.Firewall{Enabled: to(true)}
				var his []byte
				took := false
				s := &sleeper{n: int64(n), asleep: func() {
					next := creatorOf(t, b.sim, token)
					_ = next.Sweep(t.Context(), Attended{Name: "old"})()
					if took = len(b.vms()) == 0; took {
						if d := b.sim.ThirdParty(thirdparty.Order{Act: thirdparty.TakeID, VMID: 150}); !d.Done {
							t.Fatalf("%s #%d: the third party did nothing: %s", name, n, d.Why)
						}
						his = b.sim.ThirdParties()
					}
				}}
				config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
					Clock: b.jobs.Clock,
					Trace: s.answered}
				token(&config, b.sim.Credentials())
				created, err := creatorWith(t, config).Create(t.Context(), r)
				more = s.seen.Load() >= s.n
				if !took {
					return
				}
				slept++
				if err == nil || created.Guest.VMID != 0 || len(created.Left) > 0 || !bytes.Equal(his, b.sim.ThirdParties()) {
					t.Errorf("%s, asleep after request %d: %v; left %v; the third party's was\n%s\nand is\n%s", name, n, err,
						created.Left, his,
						b.sim.ThirdParties())
				}
			})
		}
	}
	t.Logf("%d times asleep while the VM was taken back", slept)
	if slept == 0 {
		t.Error("no run slept")
	}
}

// TestKillKept: what a create was told to keep is in the way of its own id only, and is named.
func TestKillKept(t *testing.T) {
	b := newBench(t, token)
	r := named(onZFS(), "web")
	r.OnFailure, r.Start = Keep, true
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost,
		Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task}})
	kept, err := b.Create(t.Context(), r)
	if err == nil || kept.Guest.VMID != 100 {
		t.Fatalf("%+v, %v", kept.Guest, err)
	}
	b.sim.SetFaults(nil)
	b.sim.Advance(24 * time.Hour)
	next := creatorOf(t, b.sim, token)
	end := next.Sweep(t.Context(), Attended{Name: "web"})
	created, err := next.Create(t.Context(), named(onZFS(), "web"))
	if swept := end(); err != nil || created.Guest.VMID != 101 || len(swept) > 0 {
		t.Errorf("%+v, %v; swept: %v", created.Guest, err, swept)
	}
	if len(created.Warnings) != 1 || created.Warnings[0].Summary != "VM 100 has the name web, too" {
		t.Errorf("said: %v", created.Warnings)
	}
	r = onZFS()
	r.VMID = 100
	if _, err := next.Create(t.Context(), r); err == nil ||
		!strings.Contains(err.Error(), "VM 100 is kept as a create left it") {
		t.Errorf("its id: %v", err)
	}
	if len(b.vms()) != 2 {
		t.Errorf("the cluster has %v", b.vms())
	}
}

// TestProtectedLeftovers: the commands that remove what a run left of a protected template's clone take its
// protection away first.
func TestProtectedLeftovers(t *testing.T) {
	b := newBench(t, token)
	const destroy = "qm stop 102; qm destroy 102 --purge"
	for protection, want := range map[string]string{"1": "qm set 102 --protection 0; " + destroy, "": destroy} {
		u := unfinished{listed: pve.Resource{VMID: 102, Node: "pve1"}, mark: guest.Mark{Saga: "abc"},
			config: map[string]string{"protection": protection}}
		for where, c := range map[string]struct {
			err           error
			before, after string
		}{
			"complete": {offer(u, "name"), "`", "`"},
			"kept":     {b.heldBy(u, guest.Verdict{Kept: true}, nil), "(qm unlock 102; ", ")`"},
		} {
			if !strings.Contains(c.err.Error(), c.before+want+c.after) {
				t.Errorf("%s, protection %q: %v", where, protection, c.err)
			}
		}
	}
}
