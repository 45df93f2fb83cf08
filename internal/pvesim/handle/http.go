package handle

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// Limits of pve-http-server (APIServer/AnyEvent.pm).
const (
	idleTimeout       = 5 * time.Second // without traffic while a request is awaited or read
	keepAliveRequests = 100
	maxHeaderLines    = 64
	maxHeaderBytes    = 8 << 10
	bodyLimit         = 512 << 10 // from http-server 5.2.1
	oldBodyLimit      = 64 << 10
	controlLimit      = 256 << 20 // of a posted state
)

// Serve answers connections of l until l is closed.
func (s *Server) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if !s.track(c) {
			_ = c.Close()
			continue
		}
		go func() {
			defer s.wg.Done()
			s.connection(c)
			s.connMu.Lock()
			delete(s.conns, c)
			s.connMu.Unlock()
			_ = c.Close()
		}()
	}
}

// track notes a connection for Close; false: the server is closed.
func (s *Server) track(c net.Conn) bool {
	s.connMu.Lock()
	defer s.connMu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	return true
}

// idleConn gives every read the idle timeout. It first hands out what was read ahead.
type idleConn struct {
	net.Conn
	ahead *bufio.Reader
}

// Read reads with a fresh deadline: it is silence that ends a connection, not the length of a request.
func (c idleConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	if c.ahead != nil && c.ahead.Buffered() > 0 {
		return c.ahead.Read(p)
	}
	return c.Conn.Read(p)
}

// connection serves one TCP connection: TLS, or a redirection to it for who speaks plain HTTP (ensure_tls_connection).
func (s *Server) connection(raw net.Conn) {
	if s.tls == nil {
		s.requests(idleConn{Conn: raw}, false)
		return
	}
	ahead := bufio.NewReaderSize(idleConn{Conn: raw}, 1)
	first, err := ahead.Peek(1)
	if err != nil {
		return
	}
	conn := idleConn{Conn: raw, ahead: ahead}
	if first[0] != 0x16 { // no TLS handshake record
		s.requests(conn, true)
		return
	}
	secure := tls.Server(conn, s.tls)
	if secure.HandshakeContext(context.Background()) != nil {
		return
	}
	if s.requests(secure, false) {
		return // cut: the peer is not told
	}
	_ = secure.Close()
}

// requests answers one request after the other; cut means that an answer was withheld.
func (s *Server) requests(conn net.Conn, plain bool) (cut bool) {
	in := bufio.NewReaderSize(conn, maxHeaderBytes)
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
			a = s.older(q.refusal)
		default:
			a = s.dispatch(q)
		}
		if a.cut {
			return true
		}
		last := n == keepAliveRequests || a.status >= 400 || !q.keepAlive()
		if a.write(conn, s, q, last) != nil || last {
			return false
		}
	}
	return false
}

func (s *Server) dispatch(q *httpRequest) *answer {
	if under(q.path, controlPrefix) {
		q.readBody(controlLimit)
		return s.control(q)
	}
	return s.api(q)
}

// redirect is the answer to plain HTTP on the TLS port.
func redirect(q *httpRequest) *answer {
	status, reason := 308, "Permanent Redirect"
	if q.method == "GET" {
		status, reason = 301, "Moved Permanently"
	}
	return &answer{status: status, reason: reason, location: "https://" + q.header["host"] + q.target}
}
