package pve

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// noAnswerError is a connection that nothing answered on.
type noAnswerError struct{}

func (noAnswerError) Error() string   { return "no answer within 5s" }
func (noAnswerError) Timeout() bool   { return true }
func (noAnswerError) Temporary() bool { return true }

// way is what the network does with one endpoint.
type way int

const (
	wayOpen    way = iota
	wayRefused     // no server listens
	wayHole        // packets vanish
)

// ring is some servers, each an endpoint "https://nodeN.test:8006" of one client, and the network between.
type ring struct {
	servers []*server
	mu      sync.Mutex
	ways    []way
	dials   []int
	wrap    func(i int, conn net.Conn) net.Conn // nil: not
}

// nodesOf answers /nodes as a member of the cluster with that certificate.
func nodesOf(names, certificate string, rest answerFunc) answerFunc {
	return func(w http.ResponseWriter, s seen, n int) {
		if s.path != "/nodes" {
			rest(w, s, n)
			return
		}
		var rows []string
		for name := range strings.SplitSeq(names, " ") {
			rows = append(rows, fmt.Sprintf(`{"node":%q,"ssl_fingerprint":%q}`, name, certificate+" of "+name))
		}
		data(w, "["+strings.Join(rows, ",")+"]")
	}
}

func newRing(t *testing.T, answers ...answerFunc) *ring {
	r := &ring{ways: make([]way, len(answers)), dials: make([]int, len(answers))}
	for _, answer := range answers {
		r.servers = append(r.servers, newServer(t, answer))
	}
	return r
}

func (r *ring) set(i int, w way) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ways[i] = w
	if w != wayOpen {
		r.servers[i].CloseClientConnections()
	}
}

func (r *ring) dialled(i int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dials[i]
}

// dial goes to the server whose name it is, if the network lets it.
func (r *ring) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var i int
	if _, err := fmt.Sscanf(addr, "node%d.test:8006", &i); err != nil {
		return nil, err
	}
	r.mu.Lock()
	way := r.ways[i]
	r.dials[i]++
	r.mu.Unlock()
	switch way {
	case wayRefused:
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	case wayHole:
		return nil, &net.OpError{Op: "dial", Net: network, Err: noAnswerError{}}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, r.servers[i].Listener.Addr().String())
	if err == nil && r.wrap != nil {
		conn = r.wrap(i, conn)
	}
	return conn, err
}

func (r *ring) client(t *testing.T) *Client {
	t.Helper()
	var ca strings.Builder
	cfg := Config{APIToken: testToken, Clock: r.servers[0].clock, DialContext: r.dial}
	for i, s := range r.servers {
		cfg.Endpoints = append(cfg.Endpoints, fmt.Sprintf("https://node%d.test:8006", i))
		ca.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	}
	cfg.CACertificate, cfg.Insecure = ca.String(), true
	return newClient(t, cfg)
}

// asked is what a server has seen, without the question for the nodes.
func asked(s *server) []string {
	var all []string
	for _, r := range s.requests() {
		if r.path != "/nodes" {
			all = append(all, r.method+" "+r.path)
		}
	}
	return all
}

func version(text string) answerFunc { return constant(`{"version":"` + text + `"}`) }

func TestFailoverOfReads(t *testing.T) {
	for name, fail := range map[string]way{"refused": wayRefused, "black hole": wayHole} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, nodesOf("a b", "c1", version("8.4.1")), nodesOf("b a", "c1", version("8.4.2")), nodesOf("a b", "c1", version("8.4.3")))
			c := r.client(t)
			ask := func(want string) {
				t.Helper()
				if v, err := c.Node("a").Version(t.Context()); err != nil || v.Version != want {
					t.Fatalf("%v %v, want %s", v, err, want)
				}
			}
			ask("8.4.1")
			r.set(0, fail)
			ask("8.4.2")
			before := r.dialled(0)
			for range 5 {
				ask("8.4.2") // stays there
			}
			if r.dialled(0) != before {
				t.Errorf("%d more dials to what is down", r.dialled(0)-before)
			}
			r.set(0, wayOpen)
			ask("8.4.2")
			r.set(1, fail)
			ask("8.4.3")
			if c.Endpoint() != "https://node2.test:8006" {
				t.Errorf("endpoint %s", c.Endpoint())
			}
			r.set(2, fail)
			ask("8.4.1")
		})
	}
}

func TestFailoverAtTheFirstRequest(t *testing.T) {
	r := newRing(t, nodesOf("a b", "c1", version("8.4.1")), nodesOf("a b", "c1", version("8.4.2")))
	r.set(0, wayHole)
	c := r.client(t)
	if v, err := c.Node("a").Version(t.Context()); err != nil || v.Version != "8.4.2" {
		t.Fatalf("%v %v", v, err)
	}
	// One to find out, one since each endpoint is asked what cluster it is of.
	if n := r.dialled(0); n > 2 {
		t.Errorf("%d dials to what is down", n)
	}
	if c.Endpoint() != "https://node1.test:8006" {
		t.Errorf("endpoint %s", c.Endpoint())
	}
}

// A write that was not sent goes on; one that may have been seen is sent to no other endpoint.
func TestFailoverNeverRepeatsAWrite(t *testing.T) {
	lost := func(w http.ResponseWriter, s seen, _ int) {
		if s.method == http.MethodGet {
			data(w, `{"version":"8.4.1"}`)
			return
		}
		cut(w)
	}
	r := newRing(t, nodesOf("a b", "c1", lost), nodesOf("a b", "c1", constant("null")))
	c := r.client(t)
	write := func() error {
		return c.change(t.Context(), "write", http.MethodPut, "/nodes/a/qemu/100/config", Params{"name": "x"})
	}
	if err := write(); !IsKind(err, Ambiguous) {
		t.Fatalf("%v, want an ambiguous error", err)
	}
	if got := asked(r.servers[1]); len(got) != 0 {
		t.Fatalf("the second endpoint got %v", got)
	}
	// Reads and repeated requests go to the other one.
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if got := asked(r.servers[1]); len(got) != 1 {
		t.Fatalf("the second endpoint got %v", got)
	}
	r.set(1, wayRefused)
	if err := write(); !IsKind(err, Ambiguous) {
		t.Fatalf("%v: the write was refused by one and lost by the other", err)
	}
	if got := asked(r.servers[0]); len(got) != 2 {
		t.Fatalf("the first endpoint got %v", got)
	}
}

// noNode is an answer that node a cannot be reached.
func noNode(w http.ResponseWriter, s seen, _ int) {
	if strings.HasPrefix(s.path, "/nodes/a/") {
		reply(w, 595, "No route to host", "")
		return
	}
	data(w, `{"version":"8.4.1"}`)
}

// One endpoint that cannot reach a node is left, also for a write, which it has not passed on.
func TestFailoverAroundANode(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		t.Run(method, func(t *testing.T) {
			r := newRing(t, nodesOf("a b", "c1", noNode), nodesOf("a b", "c1", constant(`"done"`)))
			c := r.client(t)
			if err := c.change(t.Context(), "do", method, "/nodes/a/qemu/100/config", nil); err != nil {
				t.Fatal(err)
			}
			if err := c.change(t.Context(), "do", method, "/nodes/a/qemu/100/config", nil); err != nil {
				t.Fatal(err)
			}
			if one, two := asked(r.servers[0]), asked(r.servers[1]); len(one) != 1 || len(two) != 2 {
				t.Errorf("the endpoints got %v and %v", one, two)
			}
		})
	}
}

// A node that no two endpoints reach is itself not there: the endpoint is kept, and no other endpoint is asked.
func TestFailoverLeavesADeadNodeAlone(t *testing.T) {
	r := newRing(t, slices.Repeat([]answerFunc{nodesOf("a b", "c1", noNode)}, 3)...)
	c := r.client(t)
	write := func() {
		t.Helper()
		err := c.change(t.Context(), "write", http.MethodPut, "/nodes/a/qemu/100/config", nil)
		if !IsKind(err, Unavailable) {
			t.Fatalf("%v, want an unavailable node", err)
		}
	}
	write()
	write()
	if one, two, three := asked(r.servers[0]), asked(r.servers[1]), asked(r.servers[2]); len(one) != 2 || len(two) != 1 || len(three) != 0 {
		t.Errorf("the endpoints got %v, %v and %v", one, two, three)
	}
	r.servers[0].clock.advance(10 * time.Second)
	write()
	if two := asked(r.servers[1]); len(two) != 2 {
		t.Errorf("the second endpoint got %v: it may reach the node by now", two)
	}
	if c.Endpoint() != "https://node0.test:8006" {
		t.Errorf("endpoint %s", c.Endpoint())
	}
}

// Nothing is sent to either of two clusters, whatever they have in common.
func TestFailoverRefusesAnotherCluster(t *testing.T) {
	tests := map[string]struct{ first, second answerFunc }{
		"other names":             {nodesOf("a b", "c1", version("8")), nodesOf("x y", "c2", version("8"))},
		"same names, other certs": {nodesOf("a b", "c1", version("8")), nodesOf("a b", "c2", version("8"))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, tt.first, tt.second)
			c := r.client(t)
			for range 2 {
				err := c.change(t.Context(), "write", http.MethodPut, "/pools", nil)
				if !IsKind(err, Invalid) || !strings.Contains(err.Error(), "different clusters") {
					t.Fatalf("%v", err)
				}
			}
			if one, two := asked(r.servers[0]), asked(r.servers[1]); len(one)+len(two) > 0 {
				t.Errorf("the endpoints got %v and %v", one, two)
			}
		})
	}
	t.Run("seen when it is needed", func(t *testing.T) {
		r := newRing(t, nodesOf("a b", "c1", version("8")), nodesOf("a b", "c2", version("8")))
		r.set(1, wayRefused)
		c := r.client(t)
		if err := c.change(t.Context(), "write", http.MethodPut, "/pools", nil); err != nil {
			t.Fatal(err)
		}
		r.set(0, wayRefused)
		r.set(1, wayOpen)
		err := c.change(t.Context(), "write", http.MethodPut, "/pools", nil)
		if !IsKind(err, Invalid) || len(asked(r.servers[1])) > 0 {
			t.Fatalf("%v; the other cluster got %v", err, asked(r.servers[1]))
		}
	})
}

// One that takes other credentials is none that may be used, and no reason to stop.
func TestFailoverSkipsWhoRefusesTheCredentials(t *testing.T) {
	r := newRing(t, nodesOf("a b", "c1", version("8.4.1")), func(w http.ResponseWriter, _ seen, _ int) {
		reply(w, 401, "no such token", "")
	})
	c := r.client(t)
	if _, err := c.Cluster().Resources(t.Context()); err == nil {
		t.Fatal("a version is no listing")
	}
	if got := asked(r.servers[1]); len(got) != 0 {
		t.Errorf("the second endpoint got %v", got)
	}
	r.set(0, wayRefused)
	if err := c.change(t.Context(), "write", http.MethodPut, "/pools", nil); !IsKind(err, Denied) || len(asked(r.servers[1])) > 0 {
		t.Errorf("%v; it got %v", err, asked(r.servers[1]))
	}
}

func TestFailoverOfAProxyWithoutItsServer(t *testing.T) {
	for _, status := range []int{502, 503, 504} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			down := func(w http.ResponseWriter, _ seen, n int) {
				if n > 1 {
					reply(w, status, "down", "<html>down</html>")
					return
				}
				data(w, `[{"node":"a","ssl_fingerprint":"c1 of a"}]`)
			}
			r := newRing(t, down, nodesOf("a", "c1", version("8.4.2")))
			c := r.client(t)
			if v, err := c.Node("a").Version(t.Context()); err != nil || v.Version != "8.4.2" {
				t.Fatalf("%v %v", v, err)
			}
			r = newRing(t, down, nodesOf("a", "c1", version("8.4.2")))
			c = r.client(t)
			if err := c.change(t.Context(), "write", http.MethodPut, "/pools", nil); !IsKind(err, Ambiguous) || len(asked(r.servers[1])) > 0 {
				t.Errorf("%v; the second endpoint got %v", err, asked(r.servers[1]))
			}
		})
	}
}

func TestFailoverTellsEveryFailure(t *testing.T) {
	r := newRing(t, slices.Repeat([]answerFunc{nodesOf("a", "c1", version("8"))}, 2)...)
	c := r.client(t)
	if _, err := c.Node("a").Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.set(0, wayRefused)
	r.set(1, wayHole)
	start := r.servers[0].clock.Now()
	_, err := c.Node("a").Version(t.Context())
	if !IsKind(err, Unavailable) || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "no answer within") {
		t.Fatal(err)
	}
	if passed := r.servers[0].clock.Now().Sub(start); passed > 5*time.Second {
		t.Errorf("%s of pauses", passed)
	}
	// Nothing was sent: a write may be tried again later.
	err = c.change(t.Context(), "write", http.MethodPut, "/pools", nil)
	var e *Error
	if !errors.As(err, &e) || e.Kind != Unavailable || !e.Unsent {
		t.Fatalf("%v", err)
	}
	r.set(0, wayOpen)
	if _, err := c.Node("a").Version(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A ticket is good on every node of a cluster: no second login.
func TestFailoverKeepsTheTicket(t *testing.T) {
	logins := func(w http.ResponseWriter, s seen, n int) {
		switch {
		case s.path == "/access/ticket":
			data(w, `{"ticket":"PVE:root@pam:1","CSRFPreventionToken":"csrf"}`)
		case !strings.Contains(s.header.Get("Cookie"), "PVE%3Aroot%40pam%3A1"):
			reply(w, 401, "permission denied - invalid PVE ticket", "")
		default:
			data(w, `{"version":"8"}`)
		}
	}
	member := func(w http.ResponseWriter, s seen, n int) {
		if s.path == "/nodes" && s.header.Get("Cookie") != "" {
			data(w, `[{"node":"a","ssl_fingerprint":"c1"}]`)
			return
		}
		logins(w, s, n)
	}
	r := newRing(t, slices.Repeat([]answerFunc{member}, 2)...)
	cfg := Config{Username: "root@pam", Password: "hunter22", Clock: r.servers[0].clock, DialContext: r.dial, Insecure: true,
		Endpoints: []string{"https://node0.test:8006", "https://node1.test:8006"}}
	c := newClient(t, cfg)
	if _, err := c.Node("a").Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.set(0, wayRefused)
	if err := c.change(t.Context(), "write", http.MethodPut, "/pools", nil); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0} {
		got := 0
		for _, s := range asked(r.servers[i]) {
			got += strings.Count(s, "/access/ticket")
		}
		if got != want {
			t.Errorf("endpoint %d has seen %d logins, want %d", i, got, want)
		}
	}
	// The first login finds its way, too.
	c = newClient(t, cfg)
	if _, err := c.Node("a").Version(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An upload that did not arrive is begun again elsewhere, from its first byte.
func TestFailoverOfAnUpload(t *testing.T) {
	take := constant(`"UPID:a:00001234:00005678:6957D3A5:imgcopy::root@pam:"`)
	r := newRing(t, slices.Repeat([]answerFunc{nodesOf("a", "c1", take)}, 2)...)
	c := r.client(t)
	if _, err := c.Cluster().Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.set(0, wayRefused)
	opened := 0
	_, err := c.Storage("a", "local").Upload(t.Context(), Upload{Content: "iso", Filename: "x.iso", Size: 4,
		Open: func() (io.ReadCloser, error) {
			opened++
			return io.NopCloser(strings.NewReader("data")), nil
		}})
	if err != nil || opened == 0 {
		t.Fatalf("%v after %d openings", err, opened)
	}
	if got := asked(r.servers[1]); len(got) != 1 {
		t.Errorf("the second endpoint got %v", got)
	}
	_, err = c.Storage("a", "local").Upload(t.Context(), Upload{Content: "iso", Filename: "x.iso", Size: 4,
		Open: func() (io.ReadCloser, error) { return nil, errors.New("no such file") }})
	if err == nil || c.Endpoint() != "https://node1.test:8006" {
		t.Errorf("%v; a file that is missing here says nothing about endpoint %s", err, c.Endpoint())
	}
}

func TestFailoverConfiguration(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"both":      {Config{Endpoint: "https://a", Endpoints: []string{"https://b"}}, "not both"},
		"twice":     {Config{Endpoints: []string{"https://a:8006", "https://A:8006/api2/json"}}, "twice"},
		"clear":     {Config{Endpoints: []string{"https://a", "http://b"}}, "https://"},
		"with path": {Config{Endpoints: []string{"https://a/pve"}}, "path"},
		"empty one": {Config{Endpoints: []string{"https://a", ""}}, "not set"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.APIToken = testToken
			_, err := New(tt.cfg)
			var field *ConfigError
			if !errors.As(err, &field) || field.Field != "Endpoints" || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v", err)
			}
		})
	}
}

// An endpoint whose certificate is refused gets nothing, and the next one is used.
func TestFailoverPastARefusedCertificate(t *testing.T) {
	r := newRing(t, slices.Repeat([]answerFunc{nodesOf("a", "c1", version("8.4.1"))}, 2)...)
	cfg := r.servers[0].config() // trusts both; the certificate is that of example.com
	cfg.Endpoint, cfg.Endpoints = "", []string{"https://node0.test:8006", "https://example.com:8006"}
	cfg.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return r.dial(ctx, network, strings.Replace(addr, "example.com", "node1.test", 1))
	}
	c := newClient(t, cfg)
	if err := c.change(t.Context(), "write", http.MethodPut, "/pools", nil); err != nil {
		t.Fatal(err)
	}
	if one, two := r.servers[0].requests(), asked(r.servers[1]); len(one) != 0 || len(two) != 1 {
		t.Errorf("the endpoints got %v and %v", one, two)
	}
	r.set(1, wayRefused)
	err := c.change(t.Context(), "write", http.MethodPut, "/pools", nil)
	if !IsKind(err, Unavailable) || !strings.Contains(err.Error(), "certificate") || len(r.servers[0].requests()) != 0 {
		t.Errorf("%v", err)
	}
}
