package pvesim

import (
	"context"
	"net"
	"sync"
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
func (m *memory) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

// Network is "memory".
func (memoryAddr) Network() string { return "memory" }

func (memoryAddr) String() string { return "pvesim" }

func dial(ctx context.Context, m *memory, network, address string) (net.Conn, error) {
	if m == nil {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return client, nil
	case <-m.closed:
		return nil, &net.OpError{Op: "dial", Net: network, Addr: memoryAddr{}, Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
