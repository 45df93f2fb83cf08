package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// Gate stands between a provider that is a process of its own and a cluster in memory. It counts the requests, kills processes at
// one of them, and lets time pass on the cluster's clock while the client waits: who sends a request again has waited for it.
type Gate struct {
	server  *httptest.Server
	forward *http.Transport
	advance func(time.Duration)
	origin  *url.URL

	mu       sync.Mutex
	log      []Moment            // the requests since Begin, in the order of their arrival
	seen     map[string]int      // how many of each kind
	answered time.Time           // when the last one was
	at       Moment              // when to kill; none if its request is empty
	kill     func()              // ends the processes, and returns when they are gone
	dead     bool                // it has
	rewrite  func(string) string // of what the client sends of itself; nil: nothing
	flying   map[int]time.Time   // when those came that are being served
	// Patience is after which time a request that is still being served counts as one that waits.
	Patience time.Duration
}

// Moment is the n-th request of a kind, and whether it is served.
type Moment struct {
	Request string // "POST /nodes/pve1/qemu"; a task goes by its type
	Nth     int
	Served  bool // the cluster has done it, and the answer is lost
}

// String returns the request, its number among its likes, and whether it is served.
func (m Moment) String() string {
	if m.Served {
		return fmt.Sprintf("after %s #%d", m.Request, m.Nth)
	}
	return fmt.Sprintf("before %s #%d", m.Request, m.Nth)
}

// IsWrite reports whether the request changes something.
func (m Moment) IsWrite() bool { return !strings.HasPrefix(m.Request, http.MethodGet) }

// How much faster the cluster's time passes for a client that waits than the machine's; at most killStep at a time, since a busy machine
// is no reason for it to pass. A client that asks nothing for killNap sleeps by its own clock, which the cluster's then follows.
const (
	killSpeed = 5
	killStep  = 4 * time.Second
	killLong  = 6 // a client that has asked so often waits for something
	killNap   = 5 * time.Second
)

// NewGate starts a gate before the cluster and stops it at the test's end.
func NewGate(t *testing.T, w *rig.World) *Gate {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.Sim.CAPEM()))
	origin, err := url.Parse(w.Sim.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	g := &Gate{advance: w.Sim.Advance, origin: origin, seen: map[string]int{}, flying: map[int]time.Time{}, Patience: 300 * time.Millisecond,
		forward: &http.Transport{DialContext: w.Sim.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	g.server = httptest.NewUnstartedServer(g)
	g.server.Config.ErrorLog = nil
	g.server.StartTLS()
	ctx, stop := context.WithCancel(context.Background())
	ticking := make(chan struct{})
	go func() {
		defer close(ticking)
		g.tick(ctx)
	}()
	t.Cleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
		g.forward.CloseIdleConnections()
		stop()
		<-ticking
	})
	return g
}

// Authority is the certificate authority that signed the gate's certificate.
func (g *Gate) Authority() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw}))
}

// Begin forgets the last client and opens for the next.
func (g *Gate) Begin(at Moment, kill func(), rewrite func(string) string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log, g.answered, g.at, g.kill, g.dead, g.rewrite = nil, time.Time{}, at, kill, false, rewrite
	clear(g.seen)
}

// arrived are the requests since Begin.
func (g *Gate) arrived() []Moment {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Moment(nil), g.log...)
}

// Killed reports whether the moment came.
func (g *Gate) Killed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dead
}

// tick lets time pass for requests that are served for long: they wait for a lock.
func (g *Gate) tick(ctx context.Context) {
	const step = 10 * time.Millisecond
	for {
		clock.Real{}.SleepContext(ctx, step)
		if ctx.Err() != nil {
			return
		}
		g.mu.Lock()
		waits := false
		for _, since := range g.flying {
			waits = waits || time.Since(since) > g.Patience
		}
		g.mu.Unlock()
		if waits {
			g.advance(killSpeed * step)
		}
	}
}

var upidIn = regexp.MustCompile(`UPID:[^:/]*:[^:/]*:[^:/]*:[^:/]*:([^:/]*):[^/]*`)

// arrive notes a request and tells whether it is the one at which to kill.
func (g *Gate) arrive(r *http.Request) (id int, struck, dead bool) {
	g.mu.Lock()
	request := r.Method + " " + upidIn.ReplaceAllString(strings.TrimPrefix(r.URL.Path, "/api2/json"), "($1)")
	g.seen[request]++
	m := Moment{Request: request, Nth: g.seen[request]}
	g.log = append(g.log, m)
	passed := 100*time.Millisecond + g.waited(m)
	if !g.answered.IsZero() {
		g.answered = time.Now() // of several that come at once one has waited
	}
	id, dead = len(g.log), g.dead
	struck = !dead && g.at.Request == m.Request && g.at.Nth == m.Nth
	g.dead = g.dead || struck
	if !g.dead {
		g.flying[id] = time.Now()
	}
	g.mu.Unlock()
	if !dead {
		g.advance(passed)
	}
	return id, struck, dead
}

// waited is the cluster's time for which the client has waited before a request.
func (g *Gate) waited(m Moment) time.Duration {
	since := time.Since(g.answered)
	switch {
	case g.answered.IsZero():
		return 0
	case since > killNap:
		return since
	case m.Nth == 1 || m.IsWrite():
		return 0
	case m.Nth < killLong:
		return min(killSpeed*since, killStep)
	}
	return killSpeed * since
}

func (g *Gate) leave(id int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.flying, id)
	g.answered = time.Now()
}

// ServeHTTP passes a request on, and kills the client before or after that if its moment has come.
func (g *Gate) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	id, struck, dead := g.arrive(r)
	defer g.leave(id)
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil || dead:
		panic(http.ErrAbortHandler)
	case struck && !g.at.Served:
		g.kill()
		panic(http.ErrAbortHandler)
	}
	answer, err := g.pass(r, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	if struck {
		g.kill()
		panic(http.ErrAbortHandler)
	}
	g.reply(out, answer)
}

// pass sends a request to the cluster, to the end even if the client dies.
func (g *Gate) pass(r *http.Request, body []byte) (*http.Response, error) {
	if g.rewrite != nil && len(body) > 0 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, err
		}
		for name := range values {
			values.Set(name, g.rewrite(values.Get(name)))
		}
		body = []byte(values.Encode())
	}
	target := *r.URL
	target.Scheme, target.Host = g.origin.Scheme, g.origin.Host
	onward, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	onward.Header = r.Header.Clone()
	return g.forward.RoundTrip(onward)
}

// reply sends an answer as it is, with PVE's words in the status line, which net/http's server would put its own in the place of.
func (g *Gate) reply(out http.ResponseWriter, answer *http.Response) {
	conn, buffer, err := http.NewResponseController(out).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	answer.Close = true
	if answer.Write(buffer) == nil {
		_ = buffer.Flush() // the client may be gone
	}
}

// isPoll tells requests that ask how tasks are doing.
func (m Moment) isPoll() bool { return !m.IsWrite() && strings.Contains(m.Request, "/tasks") }

// URL is the address.
func (g *Gate) URL() string { return g.server.URL }

// Moments are the requests of a run at which it can be killed, before they are served and, if they change something, after.
func (g *Gate) Moments() (all []Moment) {
	for _, m := range g.arrived() {
		if m.Nth > 1 && m.isPoll() {
			continue // polls come in any number
		}
		all = append(all, m)
		if m.IsWrite() {
			m.Served = true
			all = append(all, m)
		}
	}
	return all
}
