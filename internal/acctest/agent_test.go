package acctest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	frameworkprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"google.golang.org/grpc/test/bufconn"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const (
	workers     = 3                     // of pveproxy, and of each node's pvedaemon
	requestTime = 25 * time.Millisecond // that a request occupies a worker
	handOver    = 5 * time.Millisecond  // of a request that pveproxy passes on
)

// protected are the requests that pveproxy passes on to the pvedaemon of the node; facts of PVE's API (protected => 1).
var protected = regexp.MustCompile(`^/api2/json/nodes/([^/]+)/qemu/[0-9]+/(agent/|status/)`)

// daemons stands before a simulated cluster and has as many workers as PVE. A worker does one thing at a time, and goes on
// with it when the client has hung up.
type daemons struct {
	w       *World
	server  *httptest.Server
	cluster *http.Transport
	proxy   chan struct{}

	mu     sync.Mutex
	daemon map[string]chan struct{} // of a node
	busy   int                      // workers of daemons
	asking int                      // of them with agents
	figure figure
	going  sync.WaitGroup
}

func newDaemons(t *testing.T, w *World) (*daemons, *bufconn.Listener) {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	d := &daemons{w: w, proxy: make(chan struct{}, workers), daemon: map[string]chan struct{}{},
		cluster: &http.Transport{DialContext: w.Sim.DialContext, TLSClientConfig: w.tlsConfig(), MaxIdleConnsPerHost: 20, IdleConnTimeout: 4 * time.Second}}
	d.server = httptest.NewUnstartedServer(d)
	_ = d.server.Listener.Close()
	d.server.Listener = listener
	d.server.StartTLS()
	t.Cleanup(func() {
		d.going.Wait()
		time.Sleep(10 * time.Second) // of the bubble: idle connections end
		d.server.Close()
	})
	return d, listener
}

func (d *daemons) of(node string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.daemon[node] == nil {
		d.daemon[node] = make(chan struct{}, workers)
	}
	return d.daemon[node]
}

// figure is what was seen since the last refresh began.
type figure struct {
	asked           int // questions to agents
	most, mostAsked int // workers of the daemons that were busy, and of them with agents
}

// figures waits until all workers have done their work.
func (d *daemons) figures() figure {
	d.going.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.figure
}

// count notes that a worker of a daemon begins (1) or ends (-1) a request.
func (d *daemons) count(one int, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy += one
	d.figure.most = max(d.figure.most, d.busy)
	if strings.Contains(path, "/agent/") {
		d.asking += one
		d.figure.mostAsked = max(d.figure.mostAsked, d.asking)
		d.figure.asked += max(one, 0)
	}
}

// ServeHTTP is one request.
func (d *daemons) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	node := protected.FindStringSubmatch(r.URL.Path)
	done := make(chan *http.Response, 1)
	d.proxy <- struct{}{}
	if node == nil {
		time.Sleep(requestTime)
		done <- d.forward(r, body) //nolint:bodyclose // below
		<-d.proxy
	} else {
		time.Sleep(handOver)
		<-d.proxy
		d.going.Add(1)
		go func() {
			defer d.going.Done()
			worker := d.of(node[1])
			worker <- struct{}{}
			d.count(1, r.URL.Path)
			time.Sleep(requestTime)
			done <- d.forward(r, body) //nolint:bodyclose // below
			d.count(-1, r.URL.Path)
			<-worker
		}()
	}
	select {
	case answer := <-done:
		defer func() { _ = answer.Body.Close() }()
		for name, values := range answer.Header {
			out.Header()[name] = values
		}
		out.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(out, answer.Body)
	case <-r.Context().Done():
		panic(http.ErrAbortHandler) // there is nobody to answer
	}
}

// forward sends the request to the cluster, whatever becomes of the client.
func (d *daemons) forward(r *http.Request, body []byte) *http.Response {
	again, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, d.w.Sim.Endpoint()+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	again.Header = r.Header.Clone()
	answer, err := d.cluster.RoundTrip(again)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(all))
	return answer
}

// fleet is a configuration of n running VMs.
func fleet(n int) string {
	var hcl strings.Builder
	for i := range n {
		fmt.Fprintf(&hcl, "resource \"proxmox_vm\" \"n%03d\" {\n  node = \"pve1\"\n  vmid = %d\n  agent = { enabled = true }\n  networks = { net0 = { model = \"virtio\", bridge = \"vmbr0\" } }\n}\n",
			i, 1000+i)
	}
	return hcl.String()
}

// newFleet makes the VMs in a cluster on the bubble's clock, and a session whose requests go through PVE's workers.
func newFleet(t *testing.T, n int) (*World, *drive.Session, *daemons) {
	t.Helper()
	w := NewWorld(t, pvesim.Options{Clock: clock.Real{}, Latency: -1})
	s := w.Session(t, TokenNoSSH, fleet(n))
	s.Parallelism = 10
	must(t, s.Run(t.Context()))
	d, through := w.behindWorkers(t, s, fleet(n))
	return w, through, d
}

// behindWorkers makes a session with the state of another, whose requests go through PVE's workers.
func (w *World) behindWorkers(t *testing.T, s *drive.Session, hcl string) (*daemons, *drive.Session) {
	t.Helper()
	d, listener := newDaemons(t, w)
	through := drive.NewSession(drive.ServerOf(func() frameworkprovider.Provider {
		return provider.NewWith("test", provider.Options{Clock: clock.Client{Cluster: w.Sim.World().Clock},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }})()
	}))
	through.Parallelism = 10
	block := fmt.Sprintf("provider \"proxmox\" {\n  endpoint = \"https://pve1.example:8006\"\n  api_token = %q\n  insecure = true\n}\n", w.Sim.Credentials().Token)
	must(t, through.Configure(block, hcl))
	through.RestoreState(s.SaveState())
	return d, through
}

// silence makes the agents of all guests silent, or lets them answer.
func (w *World) silence(silent bool) {
	w.Change(func(world *state.World) {
		for id, g := range world.Guests {
			if id >= 1000 {
				g.Agent = &state.Agent{Silent: silent}
			}
		}
	})
}

// refreshTime is how long a refresh takes on the bubble's clock, with the questions to agents and the workers at once.
func refreshTime(t *testing.T, s *drive.Session, d *daemons, what string) time.Duration {
	t.Helper()
	d.figures()
	d.mu.Lock()
	d.figure = figure{}
	d.mu.Unlock()
	before := time.Now()
	must(t, s.Refresh(t.Context()))
	took := time.Since(before)
	f := d.figures()
	t.Logf("%-52s %6d ms, %3d questions to agents, %d of %d workers busy at most", what, took.Milliseconds(), f.asked, f.most, workers)
	return took
}

// TestSilentAgentsCostARefreshNothing refreshes 100 VMs, ten at a time, from a node with three workers, of which each
// question to a silent agent holds one for 3 s. The time is that of a clock which moves when everybody waits.
func TestSilentAgentsCostARefreshNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s, d := newFleet(t, 100)
		fresh := s.SaveState()
		time.Sleep(20 * time.Second) // until the listing knows the VMs
		w.agents("0")
		refreshTime(t, s, d, "agent taken away")
		without := refreshTime(t, s, d, "without agent")
		check := func(what string) {
			t.Helper()
			took := refreshTime(t, s, d, what)
			if took > without*11/10 {
				t.Errorf("%s: %s, more than a tenth above %s without agent", what, took, without)
			}
			if d.figures().most >= workers {
				t.Errorf("%s: all %d workers of the node were busy with agents", what, workers)
			}
		}
		w.agents("1")
		w.silence(true)
		s.RestoreState(fresh)
		check("silent agents, first refresh")
		flagSilent(t, s)
		check("agents known to be silent")
		w.silence(false)
		mustGetAddresses(t, s, d, "agents known to be silent, which answer")
		s.RestoreState(fresh)
		mustGetAddresses(t, s, d, "agents that answer")
		known := s.Attr("proxmox_vm.n042", "ipv4_address")
		w.silence(true)
		check("agents that have fallen silent")
		if now := s.Attr("proxmox_vm.n042", "ipv4_address"); !now.RawEquals(known) {
			t.Errorf("the address was %#v and is %#v since the agent is silent", known, now)
		}
	})
}

func mustHaveAddresses(t *testing.T, s *drive.Session) {
	t.Helper()
	if without := withoutAddress(s); len(without) > 0 {
		t.Errorf("the address of %s does not come", strings.Join(without, ", "))
	}
}

func withoutAddress(s *drive.Session) []string {
	return slices.DeleteFunc(s.Addresses(), func(address string) bool { return !s.Attr(address, "ipv4_address").IsNull() })
}

// mustGetAddresses refreshes once, and every VM has its address. That holds as long as a node answers the first question within 150 ms,
// with the reads of ten VMs before it; from a slower one some of the addresses come with the next refresh.
func mustGetAddresses(t *testing.T, s *drive.Session, d *daemons, what string) {
	t.Helper()
	refreshTime(t, s, d, what)
	mustHaveAddresses(t, s)
}

// flagSilent makes the state one in which every agent was silent the last time. The keys of private state are the
// framework's JSON of texts in base64.
func flagSilent(t *testing.T, s *drive.Session) {
	t.Helper()
	for _, address := range s.Addresses() {
		i, err := s.Instance(address)
		must(t, err)
		keys := map[string][]byte{}
		must(t, json.Unmarshal(i.Private, &keys))
		keys["silent"] = []byte("true")
		private, err := json.Marshal(keys)
		must(t, err)
		s.SetPrivate(address, private)
	}
}

// agents sets the option of all guests behind everybody's back.
func (w *World) agents(value string) {
	w.Change(func(world *state.World) {
		for id, g := range world.Guests {
			if id >= 1000 {
				g.Config["agent"] = value
			}
		}
	})
}

// tlsConfig trusts the cluster.
func (w *World) tlsConfig() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(w.Sim.CAPEM()))
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
