package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
)

// Limits of pve-http-server (APIServer/AnyEvent.pm).
const (
	IdleTimeout       = 5 * time.Second // without traffic while a request is awaited or read
	keepAliveRequests = 100
	MaxHeaderLines    = 64
	MaxHeaderBytes    = 8 << 10
	BodyLimit         = 512 << 10 // from http-server 5.2.1
	OldBodyLimit      = 64 << 10
	controlLimit      = 256 << 20 // of a posted state
)

// controlPrefix is where tests steer the simulator. Requests below it need no credentials, are not numbered, meet no
// fault and no latency.
const controlPrefix = "/_sim"

// Control answers a request below /_sim. A status other than 200 has the reason as its text, and no body.
type Control func(method, path string, body []byte) (status int, reason string, answer []byte)

// Proxy speaks HTTP for all nodes of a cluster, as pveproxy does.
type Proxy struct {
	e       *engine.Engine
	tls     *tls.Config
	control Control
	silence time.Duration // after which a connection ends; zero: never

	wg     sync.WaitGroup
	connMu sync.Mutex // guards conns only
	conns  map[net.Conn]struct{}
	gzips  sync.Pool
}

// New makes a proxy before e. It speaks TLS if secure is not nil.
//
// The idle timeout holds only on the machine's clock. On a virtual clock the silence of a client says how busy the
// machine is, and no request may fail for that.
func New(e *engine.Engine, secure *tls.Config, control Control) *Proxy {
	p := &Proxy{e: e, tls: secure, control: control, conns: map[net.Conn]struct{}{}}
	if _, real := e.World.Clock.(clock.Real); real {
		p.silence = IdleTimeout
	}
	return p
}

// Close cuts all connections and waits for the requests under way. The engine must have been stopped before, and the
// listeners closed.
func (p *Proxy) Close() {
	p.connMu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.connMu.Unlock()
	p.wg.Wait()
}

// Serve answers connections of l until l is closed.
func (p *Proxy) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if !p.track(c) {
			_ = c.Close()
			continue
		}
		go func() {
			defer p.wg.Done()
			p.Connection(c)
			p.connMu.Lock()
			delete(p.conns, c)
			p.connMu.Unlock()
			_ = c.Close()
		}()
	}
}

// track notes a connection for Close; false: the server is closed.
func (p *Proxy) track(c net.Conn) bool {
	p.connMu.Lock()
	defer p.connMu.Unlock()
	if p.e.Stopped() {
		return false
	}
	p.conns[c] = struct{}{}
	p.wg.Add(1)
	return true
}

// idleConn limits how long a read waits, if silence is not zero. It first hands out the bytes that were read ahead.
type idleConn struct {
	net.Conn
	ahead   *bufio.Reader
	silence time.Duration
}

// Read reads with a fresh deadline: it is silence that ends a connection, not the length of a request.
func (c idleConn) Read(p []byte) (int, error) {
	if c.silence > 0 {
		if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
			return 0, err
		}
	}
	if c.ahead != nil && c.ahead.Buffered() > 0 {
		return c.ahead.Read(p)
	}
	return c.Conn.Read(p)
}

// Connection serves one TCP connection: TLS, or a redirection to it for a client that speaks plain HTTP
// (ensure_tls_connection).
func (p *Proxy) Connection(raw net.Conn) {
	if c, ok := raw.(interface{ Unencrypted() bool }); p.tls == nil || ok && c.Unencrypted() {
		p.requests(idleConn{Conn: raw, silence: p.silence}, false)
		return
	}
	ahead := bufio.NewReaderSize(idleConn{Conn: raw, silence: p.silence}, 1)
	first, err := ahead.Peek(1)
	if err != nil {
		return
	}
	conn := idleConn{Conn: raw, ahead: ahead, silence: p.silence}
	if first[0] != 0x16 { // no TLS handshake record
		p.requests(conn, true)
		return
	}
	secure := tls.Server(conn, p.tls)
	if secure.HandshakeContext(context.Background()) != nil {
		return
	}
	if p.requests(secure, false) {
		return // cut: the peer is not told
	}
	_ = secure.Close()
}

// requests answers one request after the other; cut means that an answer was withheld.
func (p *Proxy) requests(conn net.Conn, plain bool) (cut bool) {
	in := bufio.NewReaderSize(conn, MaxHeaderBytes)
	for n := 1; n <= keepAliveRequests; n++ {
		q, err := readHead(in)
		if err != nil {
			return false
		}
		var a *answer
		switch {
		case plain:
			a = redirect(q)
		case q.refusal != nil:
			a = older(p.e.World, q.refusal)
		default:
			a = p.dispatch(q)
		}
		if a.cut || p.e.Stopped() { // a stopped engine has cut the request's waits short: its answer would be untrue
			return true
		}
		last := n == keepAliveRequests || a.status >= 400 || !q.keepAlive()
		if a.write(conn, p, q, last) != nil || last {
			return false
		}
	}
	return false
}

func (p *Proxy) dispatch(q *httpRequest) *answer {
	if under(q.path, controlPrefix) {
		q.readBody(controlLimit)
		status, reason, body := p.control(q.method, strings.TrimPrefix(q.path, controlPrefix), q.body)
		if status != 200 {
			return plainError(status, reason)
		}
		return &answer{status: status, reason: reason, contentType: typeJSON, body: body}
	}
	return p.api(q)
}

// redirect is the answer to plain HTTP on the TLS port.
func redirect(q *httpRequest) *answer {
	status, reason := 308, "Permanent Redirect"
	if q.method == "GET" {
		status, reason = 301, "Moved Permanently"
	}
	return &answer{status: status, reason: reason, location: "https://" + q.header["host"] + q.target}
}
