package server

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// script is a connection whose client has sent all that it will ever send, and does not look at the answers. It spares
// a fuzzer all waiting.
type script struct {
	net.Conn
	io.Reader
}

func (s *script) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func (s *script) Write(p []byte) (int, error) { return len(p), nil }

func (s *script) SetReadDeadline(time.Time) error { return nil }

func (s *script) SetWriteDeadline(time.Time) error { return nil }

func (s *script) Close() error { return nil }

// FuzzConnection sends arbitrary bytes as a request with root's rights: the server may refuse, but not fall over, and
// the world stays sound.
func FuzzConnection(f *testing.F) {
	for _, seed := range []string{
		"GET /api2/json/version HTTP/1.1\r\n\r\n",
		"GET /api2/json/cluster/resources?type=vm;x=y HTTP/1.0\r\nConnection: close\r\n\r\n",
		"POST /api2/json/pools HTTP/1.1\r\nContent-Length: 8\r\n\r\npoolid=x",
		"POST /api2/json/nodes/pve1/qemu HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: " +
			"37\r\n\r\n{\"vmid\":100,\"scsi0\":\"local-zfs:1\"}   ",
		"PUT /api2/json/nodes/pve1/qemu/9000/config HTTP/1.1\r\nContent-Length: 21\r\n\r\nnet0=virtio&delete=ab",
		"DELETE /api2/json/nodes/pve1/storage/local-zfs/content/base-9000-disk-0 HTTP/1.1\r\n\r\n",
		"GET /api2/json/nodes/pve1/tasks/UPID:pve1:00000001:00000001:6B000000:qmstart:100:root@pam:/log HTTP/1.1\r\n\r\n",
		"POST /_sim/state HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
		"PUT /_sim/faults HTTP/1.1\r\nContent-Length: 20\r\n\r\n[{\"phase\":\"before\"}]",
		"GET /api2/json/%zz%2e%00 HTTP/1.1\r\n A\r\n\r\n", "\r\n\r\nGET", "GET  HTTP/1.1\r\n\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g := newRig(t, nil)
		g.login()
		// The credentials go in as the first header lines.
		line, rest, ok := strings.Cut(text, "\r\n")
		if ok {
			text = line + "\r\nCookie: PVEAuthCookie=" + g.ticket + "\r\nCSRFPreventionToken: " + g.csrf + "\r\n" + rest
		}
		g.s.proxy.Connection(&script{Reader: strings.NewReader(text)})
		g.check()
	})
}
