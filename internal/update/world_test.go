package update

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// theVM is the id of the VM that the tests change.
const theVM = 400

// world is a simulated cluster with VM 400 on node pve1.
type world struct {
	t       *testing.T
	sim     *pvesim.Sim
	clock   *simClock
	api     *pve.Client
	changer *Changer
	// answered, if set, is called with each answer.
	answered func()
}

// simClock is the cluster's clock, as the client wants it.
type simClock struct {
	clock.Client
	each func() // done before each sleep
	// ahead is how far this machine's clock is ahead of the cluster's.
	ahead atomic.Int64
}

// Now is the time of this machine.
func (s *simClock) Now() time.Time { return s.Client.Now().Add(time.Duration(s.ahead.Load())) }

// Sleep waits on the cluster's clock.
func (s *simClock) Sleep(ctx context.Context, d time.Duration) error {
	if s.each != nil && ctx.Err() == nil {
		s.each()
	}
	return s.Client.Sleep(ctx, d)
}

// newWorld makes a cluster and the VM.
func newWorld(t *testing.T, options pve.Params) *world {
	t.Helper()
	return newWorldOf(t, pvesim.Options{}, options)
}

// newWorldOf is newWorld with options of the cluster.
func newWorldOf(t *testing.T, o pvesim.Options, options pve.Params) *world {
	t.Helper()
	sim, err := pvesim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	here, cred := &simClock{Client: clock.Client{Cluster: sim.World().Clock}}, sim.Credentials()
	w := &world{t: t, sim: sim, clock: here}
	w.api, err = pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(),
		DialTLSContext: sim.DialTLSContext, Clock: here,
		APIToken: cred.Token, Trace: func(_ context.Context, message string, _ map[string]string) {
			if message == "PVE request" && w.answered != nil {
				w.answered()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.api.Close)
	jobs := request.New(w.api, here)
	guests := guest.New(jobs)
	w.changer = New(jobs, guests, destroy.New(jobs, guests, nil), diskimport.New(w.api.Reader(), nil))
	params := pve.Params{"vmid": "400", "name": "ours", "memory": "512"}
	for option, value := range options {
		params[option] = value
	}
	w.task(w.api.Node("pve1").CreateVM(t.Context(), params))
	sim.ResetOps()
	return w
}

// task awaits one.
func (w *world) task(upid pve.UPID, err error) {
	w.t.Helper()
	if err == nil {
		_, err = w.api.Tasks().Wait(w.t.Context(), upid)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// start starts the VM.
func (w *world) start() {
	w.t.Helper()
	w.task(w.api.QEMU("pve1", theVM).Start(w.t.Context(), pve.Params{}))
	w.sim.ResetOps()
}

// alter changes the VM directly in the simulated cluster.
func (w *world) alter(f func(*state.Guest)) {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	f(all.Guests[theVM])
}

// config is the VM's configuration.
func (w *world) config() map[string]string {
	w.t.Helper()
	c, err := w.api.QEMU("pve1", theVM).Config(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Values
}

// request is one that changes nothing yet: state and plan are what the server has.
func (w *world) request() Request {
	w.t.Helper()
	values := w.config()
	status, err := w.api.QEMU("pve1", theVM).Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.sim.ResetOps()
	ref := guest.Ref{VMID: theVM, Node: "pve1", Identity: guest.IdentityOf(values), Status: status.Status}
	return Request{Ref: ref, Prior: vm.Decode(values), Planned: vm.Decode(values)}
}

// update carries a request out.
func (w *world) update(r Request) (guest.Guest, []guest.Warning, error) {
	return w.changer.Update(w.t.Context(), r)
}

// writes are the requests that were sent, reads aside: "POST /nodes/{node}/qemu/{vmid}/status/start".
func (w *world) writes() []string {
	var all []string
	for _, op := range w.sim.Ops() {
		if op.Method != http.MethodGet {
			all = append(all, op.Method+" "+op.Path)
		}
	}
	return all
}

// sent counts the writes to a path that ends so.
func (w *world) sent(suffix string) int {
	return len(slices.DeleteFunc(w.writes(), func(each string) bool { return !strings.HasSuffix(each, suffix) }))
}

// when does something as soon as the cluster's clock has come so far, besides what is to be done at other times.
func (w *world) when(after time.Duration, do func()) {
	at, done, others := w.sim.World().Clock.Now().Add(after), false, w.clock.each
	w.clock.each = func() {
		if others != nil {
			others()
		}
		if !done && !w.sim.World().Clock.Now().Before(at) {
			done = true
			do()
		}
	}
}
