package plan_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// front stands between a provider and a cluster. While it has a failure it lets nothing through that the failure hits.
type front struct {
	failure    atomic.Pointer[failure]
	writesOnly atomic.Bool
	hits       atomic.Int64

	server  *http.Server
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
	dialer  func(ctx context.Context, network, address string) (net.Conn, error)
}

// authority signs the certificates of a front.
type authority struct {
	pem  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rig.Must(t, err)
	now := time.Now()
	self := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front"}, NotBefore: now.Add(-48 * time.Hour),
		NotAfter: now.Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, self, self, &key.PublicKey, key)
	rig.Must(t, err)
	cert, err := x509.ParseCertificate(der)
	rig.Must(t, err)
	return &authority{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), cert, key}
}

// config is that of a server with a certificate for a host.
func (a *authority) config(t *testing.T, host string, until time.Time) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rig.Must(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, NotBefore: until.Add(-24 * time.Hour), NotAfter: until}
	if ip := net.ParseIP(host); ip != nil {
		leaf.IPAddresses = []net.IP{ip}
	} else {
		leaf.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &key.PublicKey, a.key)
	rig.Must(t, err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

// newFront puts a front before a cluster.
func newFront(t *testing.T, w *rig.World, proven *tls.Config) *front {
	t.Helper()
	f := &front{conns: make(chan net.Conn), closed: make(chan struct{}), dialer: w.Sim.DialContext}
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: strings.TrimPrefix(w.Sim.Endpoint(), "https://")})
		},
		Transport: &http.Transport{DialTLSContext: w.Sim.DialTLSContext, DisableKeepAlives: true},
	}
	f.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		isWrite := r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/access/ticket")
		if fail := f.failure.Load(); fail != nil && (isWrite || !f.writesOnly.Load()) {
			f.hits.Add(1)
			fail.reply(rw, r)
			return
		}
		through.ServeHTTP(rw, r)
	})}
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	rig.Must(t, err)
	go f.accept(listener, proven)
	go func() { _ = f.server.Serve(f) }()
	t.Cleanup(func() { _ = listener.Close(); _ = f.server.Close() })
	f.address, w.Dial = listener.Addr().String(), f.dial
	return f
}

// accept hands on the connections whose handshake succeeds.
func (f *front) accept(listener net.Listener, proven *tls.Config) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			fail, config := f.failure.Load(), proven
			if fail.raw != "" { // it reads the handshake, and answers something else
				_, _ = conn.Write([]byte(fail.raw))
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
				return
			}
			if fail.tls != nil {
				config = fail.tls
			}
			secured := tls.Server(conn, config)
			if secured.Handshake() != nil {
				_ = conn.Close()
				return
			}
			select {
			case f.conns <- secured:
			case <-f.closed:
				_ = conn.Close()
			}
		}()
	}
}

// Accept, Close and Addr make the front a listener.
func (f *front) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

func (f *front) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

func (f *front) Addr() net.Addr { return &net.IPAddr{} }

// dial is the provider's way to the network.
func (f *front) dial(ctx context.Context, network, address string) (net.Conn, error) {
	fail := f.failure.Load()
	if fail == nil {
		return f.dialer(ctx, network, address)
	}
	if !fail.isAnswer() {
		f.hits.Add(1)
	}
	if fail.noConnection != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fail.noConnection}
	}
	var d net.Dialer
	return d.DialContext(ctx, network, f.address)
}

// reply is the failure of one request.
func (f *failure) reply(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if f.status == 0 {
		return // the answer is lost
	}
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", f.status, f.reason, f.header, len(f.body), f.body)
}
