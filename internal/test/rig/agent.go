package rig

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	frameworkprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"google.golang.org/grpc/test/bufconn"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// The workers of PVE, and their times.
const (
	Workers     = 3                     // of pveproxy, and of each node's pvedaemon
	requestTime = 25 * time.Millisecond // that a request occupies a worker
	handOver    = 5 * time.Millisecond  // of a request that pveproxy passes on
)

// protected are the requests that pveproxy passes on to the pvedaemon of the node; facts of PVE's API (protected => 1).
var protected = regexp.MustCompile(`^/api2/json/nodes/([^/]+)/qemu/[0-9]+/(agent/|status/)`)

// WorkerPool stands before a simulated cluster and has as many workers as PVE. A worker does one thing at a time, and goes on
// with it when the client has hung up.
type WorkerPool struct {
	w       *World
	server  *httptest.Server
	cluster *http.Transport
	proxy   chan struct{}

	Mu     sync.Mutex
	daemon map[string]chan struct{} // of a node
	busy   int                      // workers of daemons
	asking int                      // of them with agents
	Figure Figures
	going  sync.WaitGroup
}

func newWorkerPool(t *testing.T, w *World) (*WorkerPool, *bufconn.Listener) {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	d := &WorkerPool{w: w, proxy: make(chan struct{}, Workers), daemon: map[string]chan struct{}{},
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

func (d *WorkerPool) of(node string) chan struct{} {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.daemon[node] == nil {
		d.daemon[node] = make(chan struct{}, Workers)
	}
	return d.daemon[node]
}

// Figures is what was seen since the last refresh began.
type Figures struct {
	Asked           int // questions to agents
	Most, MostAsked int // workers of the daemons that were busy, and of them with agents
}

// Figures waits until all workers have done their work.
func (d *WorkerPool) Figures() Figures {
	d.going.Wait()
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.Figure
}

// count notes that a worker of a daemon begins (1) or ends (-1) a request.
func (d *WorkerPool) count(one int, path string) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.busy += one
	d.Figure.Most = max(d.Figure.Most, d.busy)
	if strings.Contains(path, "/agent/") {
		d.asking += one
		d.Figure.MostAsked = max(d.Figure.MostAsked, d.asking)
		d.Figure.Asked += max(one, 0)
	}
}

// ServeHTTP is one request.
func (d *WorkerPool) ServeHTTP(out http.ResponseWriter, r *http.Request) {
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
		panic(http.ErrAbortHandler) // no client is left to answer
	}
}

// forward sends the request to the cluster, whatever becomes of the client.
func (d *WorkerPool) forward(r *http.Request, body []byte) *http.Response {
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

// BehindWorkers makes a session with the state of another, whose requests go through PVE's workers.
func (w *World) BehindWorkers(t *testing.T, s *terraformtest.Session, hcl string) (*WorkerPool, *terraformtest.Session) {
	t.Helper()
	d, listener := newWorkerPool(t, w)
	through := terraformtest.NewSession(terraformtest.ServerOf(func() frameworkprovider.Provider {
		return provider.NewWith("test", provider.Options{Clock: clock.Client{Cluster: w.Sim.World().Clock},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }})()
	}))
	through.Parallelism = 10
	block := fmt.Sprintf("provider \"proxmox\" {\n  endpoint = \"https://pve1.example:8006\"\n  api_token = %q\n  insecure = true\n}\n", w.Sim.Credentials().Token)
	Must(t, through.Configure(block, hcl))
	through.RestoreState(s.SaveState())
	return d, through
}

// Silence makes the agents of all guests silent, or lets them answer.
func (w *World) Silence(silent bool) {
	w.Change(func(world *state.World) {
		for id, g := range world.Guests {
			if id >= 1000 {
				g.Agent = &state.Agent{Silent: silent}
			}
		}
	})
}

// Agents sets the option of all guests without a request.
func (w *World) Agents(value string) {
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

const agentPath = "/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces"

// SilenceAgent lets the agent of a VM that is yet to be made be silent for so many questions, at 3 s each.
func SilenceAgent(w *World, questions int) {
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: agentPath}, Phase: fault.Before, Times: questions,
		Status: 500, Reason: "QEMU guest agent is not running", DelayMS: 3000}})
}

// Questions returns the number of questions to guest agents since the last ResetCalls.
func (w *World) Questions() int {
	n := 0
	for _, op := range w.Sim.Ops() {
		if op.Path == agentPath {
			n++
		}
	}
	return n
}
