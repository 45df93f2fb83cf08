package pvesim

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// memory is a listener without a network.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemory() *memory {
	return &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for a client.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses further clients.
func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr is a name for messages.
func (m *memory) Addr() net.Addr { return memoryAddr("pvesim") }

// memoryAddr is an address as it was dialled.
type memoryAddr string

// Network is "memory".
func (memoryAddr) Network() string { return "memory" }

// String is the address as it was dialled.
func (a memoryAddr) String() string { return string(a) }

// dialled is the server's end of a connection. It knows the address that the client meant, which tells the SSH server
// which node it is.
type dialled struct {
	net.Conn
	local       memoryAddr
	unencrypted bool
}

// Unencrypted reports whether the client speaks HTTP where others speak TLS.
func (d dialled) Unencrypted() bool { return d.unencrypted }

// LocalAddr is the dialled address.
func (d dialled) LocalAddr() net.Addr { return d.local }

// Close also stops the timer of a deadline, which would keep the buffers until it fires: with many clients, gigabytes.
func (d dialled) Close() error {
	_ = d.SetReadDeadline(time.Time{})
	return d.Conn.Close()
}

// memoryBuffer is how much either side may write ahead. A pipe without a buffer would not do: in SSH both sides begin
// by writing, and would wait for each other.
const memoryBuffer = 64 << 10

func dial(ctx context.Context, m *memory, network, address string, unencrypted bool) (net.Conn, error) {
	if m == nil {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	client, server, err := bufferedPipe(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case m.conns <- dialled{server, memoryAddr(address), unencrypted}:
		return client, nil
	case <-m.closed:
		err = &net.OpError{Op: "dial", Net: network, Addr: memoryAddr(address), Err: net.ErrClosed}
	case <-ctx.Done():
		err = ctx.Err()
	}
	_, _ = client.Close(), server.Close()
	return nil, err
}

func bufferedPipe(ctx context.Context) (client, server net.Conn, err error) {
	l := bufconn.Listen(memoryBuffer)
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			accepted <- conn
		}
		close(accepted)
	}()
	client, err = l.DialContext(ctx)
	if err != nil {
		_ = l.Close()
		<-accepted
		return nil, nil, err
	}
	return client, <-accepted, nil
}
