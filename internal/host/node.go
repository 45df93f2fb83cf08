package host

import (
	"context"
	"sync"
)

// maxSessions is how many commands run at once over one connection; sshd allows 10 (sshd_config, MaxSessions).
const maxSessions = 8

// node is a node and the connection to it, if there is one.
type node struct {
	shell    *Shell
	name     string
	sessions chan struct{} // one token per command under way
	dialing  chan struct{} // one token: who holds it may connect

	mu     sync.Mutex
	conn   *connection
	closed bool
}

func newNode(s *Shell, name string) *node {
	return &node{shell: s, name: name, sessions: make(chan struct{}, maxSessions), dialing: make(chan struct{}, 1)}
}

// seat is one of the sessions that a node lets be open at once, until it is released.
func (s *Shell) seat(ctx context.Context, name string) (n *node, release func(), err error) {
	if n, err = s.node(name); err != nil {
		return nil, nil, err
	}
	select {
	case n.sessions <- struct{}{}:
		return n, func() { <-n.sessions }, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// connection gives the connection to the node and makes one if there is none.
func (n *node) connection(ctx context.Context) (*connection, error) {
	select {
	case n.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-n.dialing }()
	if c, err := n.current(); c != nil || err != nil {
		return c, err
	}
	c, err := n.shell.connect(ctx, n.name)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = c.close()
		return nil, ErrClosed
	}
	n.conn = c
	return c, nil
}

func (n *node) current() (*connection, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	return n.conn, nil
}

// drop forgets a dead connection, unless another caller has replaced it already.
func (n *node) drop(dead *connection) {
	n.mu.Lock()
	if n.conn == dead {
		n.conn = nil
	}
	n.mu.Unlock()
	_ = dead.close() // it is dead
}

func (n *node) close() error {
	n.mu.Lock()
	n.closed = true
	c := n.conn
	n.conn = nil
	n.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.close()
}
