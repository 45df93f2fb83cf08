package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server on a default world, spoken to over pipes and without TLS.
type rig struct {
	t      *testing.T
	s      *Server
	w      *state.World
	clock  *clock.Virtual
	conns  chan net.Conn
	closed chan struct{}
	client *http.Client
	ticket string
	csrf   string
}

type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

var loadSchema = sync.OnceValue(schema.Load)

func newRig(t *testing.T, change func(c *engine.Config)) *rig {
	t.Helper()
	w := state.Default([]string{"pve1", "pve2"})
	v := clock.NewVirtual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	w.Clock = v
	w.Tokens["root@pam!sep"] = &state.Token{ID: "root@pam!sep", Secret: "secret", Separated: true}
	w.Users["disabled@pve"] = &state.User{ID: "disabled@pve", Password: "pw", Disabled: true}
	c := engine.Config{World: w, Schema: loadSchema(), Violated: func(err error) { t.Error(err) }}
	if change != nil {
		change(&c)
	}
	if m, ok := w.Clock.(*clock.Virtual); ok {
		v = m
	}
	s := New(c, nil)
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Add(1)
	go func() { defer serving.Done(); _ = s.Serve(l) }()
	g := &rig{t: t, s: s, w: w, clock: v, conns: l.conns, closed: l.closed}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return g.dial(),
			nil
	}}
	g.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = l.Close()
		s.Close()
		serving.Wait()
	})
	return g
}

func (g *rig) dial() net.Conn {
	client, server := net.Pipe()
	select {
	case g.conns <- server:
	case <-g.closed:
		_ = server.Close()
	}
	return client
}

// reply is an answer as a client sees it.
type reply struct {
	status int
	reason string
	text   string
	header http.Header
	closes bool
	body   struct {
		Data    any               `json:"data"`
		Message string            `json:"message"`
		Errors  map[string]string `json:"errors"`
		Total   int               `json:"total"`
	}
}

func (r reply) object(t *testing.T) map[string]any {
	t.Helper()
	m, ok := r.body.Data.(map[string]any)
	if !ok {
		t.Fatalf("data is %T, want an object: %s", r.body.Data, r.text)
	}
	return m
}

func (r reply) list() []map[string]any {
	var out []map[string]any
	items, _ := r.body.Data.([]any)
	for _, item := range items {
		m, _ := item.(map[string]any)
		out = append(out, m)
	}
	return out
}

// as names an identity: "none", "root" (ticket), or the id of a token.
func (g *rig) request(as, method, path string, params url.Values) *http.Request {
	g.t.Helper()
	var body io.Reader
	target := "http://sim/api2/json" + path
	if method == "GET" || method == "DELETE" {
		if len(params) > 0 {
			target += "?" + params.Encode()
		}
	} else {
		body = strings.NewReader(params.Encode())
	}
	q, err := http.NewRequestWithContext(g.t.Context(), method, target, body)
	if err != nil {
		g.t.Fatal(err)
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	switch as {
	case "none":
	case "root":
		if g.ticket == "" {
			g.login()
		}
		q.Header.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(g.ticket))
		q.Header.Set("CSRFPreventionToken", g.csrf)
	default:
		q.Header.Set("Authorization", "PVEAPIToken="+as+"="+g.w.Tokens[as].Secret)
	}
	return q
}

func (g *rig) login() {
	g.t.Helper()
	r := g.do("none", "POST", "/access/ticket", "username=root@pam&password="+g.w.Users["root@pam"].Password)
	data := r.object(g.t)
	g.ticket, _ = data["ticket"].(string)
	g.csrf, _ = data["CSRFPreventionToken"].(string)
}

func (g *rig) do(as, method, path, params string) reply {
	g.t.Helper()
	values, err := url.ParseQuery(params)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.send(g.request(as, method, path, values))
}

func (g *rig) send(q *http.Request) reply {
	g.t.Helper()
	r, err := g.try(q)
	if err != nil {
		g.t.Fatalf("%s %s: %v", q.Method, q.URL, err)
	}
	return r
}

func (g *rig) try(q *http.Request) (reply, error) {
	resp, err := g.client.Do(q)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	r := reply{status: resp.StatusCode, text: string(text), header: resp.Header, closes: resp.Close}
	_, r.reason, _ = strings.Cut(resp.Status, " ")
	if strings.HasPrefix(r.text, "{") {
		if err := json.Unmarshal(text, &r.body); err != nil {
			return r, err
		}
	}
	return r, nil
}

// raw sends bytes on a connection of their own and returns the status line, or "" if the connection ends without one.
func (g *rig) raw(text string) string {
	g.t.Helper()
	c := g.dial()
	defer func() { _ = c.Close() }()
	go func() { _, _ = io.WriteString(c, text) }()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(line)
}

func (g *rig) faults(rules ...fault.Rule) {
	g.t.Helper()
	if err := g.s.Faults().Put(rules); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) check() {
	g.t.Helper()
	g.s.Do(func(w *state.World) {
		if err := w.Check(); err != nil {
			g.t.Errorf("world: %v", err)
		}
	})
}

// orphan puts a volume that no guest names.
func orphan(w *state.World, storage, name string, vmid int, size int64) {
	format := "raw"
	if strings.HasSuffix(name, ".qcow2") {
		format = "qcow2"
	}
	w.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, Content: "images", VMID: vmid, Format: format,
		Size: size})
}
