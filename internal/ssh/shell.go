package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/crypto/ssh"
)

// Shell runs commands on the nodes of one cluster. It may be used by many goroutines at once.
type Shell struct {
	dialer

	mu     sync.Mutex
	nodes  map[string]*node
	closed bool
}

// New checks cfg and makes a Shell. It does not connect; the first command to a node does.
func New(cfg Config) (*Shell, error) {
	if cfg.Username == "" {
		cfg.Username = "root"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.KeepAlive <= 0 {
		cfg.KeepAlive = DefaultKeepAlive
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	if cfg.UseAgent && cfg.AgentSocket == "" {
		cfg.AgentSocket = os.Getenv("SSH_AUTH_SOCK")
	}
	if err := checkPorts(cfg); err != nil {
		return nil, err
	}
	s := &Shell{dialer: dialer{cfg: cfg}, nodes: map[string]*node{}}
	var err error
	if s.keys, err = newHostKeys(cfg.KnownHosts, cfg.HostKeyFingerprint); err != nil {
		return nil, fmt.Errorf("SSH: %w", err)
	}
	if s.signers, err = parseKey("private key", cfg.PrivateKeyPEM); err != nil {
		return nil, err
	}
	if b := cfg.Bastion; b != nil {
		if b.Host == "" {
			return nil, errors.New("SSH bastion: the host is missing")
		}
		if s.bastion, err = parseKey("bastion private key", b.PrivateKeyPEM); err != nil {
			return nil, err
		}
	}
	if len(s.signers) == 0 && !cfg.UseAgent {
		return nil, errors.New("SSH: neither a private key nor an agent is configured")
	}
	if cfg.UseAgent && cfg.AgentSocket == "" {
		return nil, errors.New("SSH: an agent is to be used, but SSH_AUTH_SOCK is not set and no socket is configured")
	}
	return s, nil
}

func checkPorts(cfg Config) error {
	ports := map[string]int{"port": cfg.Port}
	if cfg.Bastion != nil {
		ports["bastion port"] = cfg.Bastion.Port
	}
	for name, address := range cfg.Nodes {
		ports["port of node "+name] = address.Port
	}
	for what, port := range ports {
		if port < 0 || port > 65535 {
			return fmt.Errorf("SSH: %s %d is not between 1 and 65535", what, port)
		}
	}
	return nil
}

// Close ends all connections, and with them the commands under way. Later calls fail with ErrClosed.
func (s *Shell) Close() error {
	s.mu.Lock()
	s.closed = true
	nodes := s.nodes
	s.nodes = nil
	s.mu.Unlock()
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}

// Reach logs in on a node, asks whether the host is that node, and keeps the connection for what follows.
func (s *Shell) Reach(ctx context.Context, name string) error {
	n, err := s.node(name)
	if err == nil {
		_, err = n.confirmed(ctx)
	}
	return err
}

// node returns the entry of a node, which outlives its connections.
func (s *Shell) node(name string) (*node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	n, ok := s.nodes[name]
	if !ok {
		n = newNode(s, name)
		s.nodes[name] = n
	}
	return n, nil
}

func parseKey(what string, pem []byte) ([]ssh.Signer, error) {
	if len(pem) == 0 {
		return nil, nil
	}
	signer, err := ssh.ParsePrivateKey(pem)
	var encrypted *ssh.PassphraseMissingError
	if errors.As(err, &encrypted) {
		return nil, fmt.Errorf("SSH: the %s is encrypted: add it to an SSH agent and use the agent, or give an unencrypted "+
			"key", what)
	}
	if err != nil {
		// The parser's message may quote the input, which is a secret.
		return nil, fmt.Errorf("SSH: the %s is no private key in PEM or OpenSSH format", what)
	}
	return []ssh.Signer{signer}, nil
}

// maxSessions is the number of commands that may run at once over one connection; sshd allows 10 (sshd_config,
// MaxSessions).
const maxSessions = 8

// node is a node and the connection to it, if there is one.
type node struct {
	shell    *Shell
	name     string
	sessions chan struct{} // one token per command under way
	dialing  chan struct{} // one token, whose holder may connect

	mu     sync.Mutex
	conn   *connection
	closed bool
}

func newNode(s *Shell, name string) *node {
	return &node{shell: s, name: name, sessions: make(chan struct{}, maxSessions), dialing: make(chan struct{}, 1)}
}

// held is the key of the context of Hold.
type held struct{}

// Hold takes one of the concurrent sessions of a node, logs in, asks whether the host is that node, and calls do. The
// commands in do on that node have the session and do not wait. All sessions may be importing disks for hours, so a
// look from before the wait is out of date: callers look within do.
func (s *Shell) Hold(ctx context.Context, name string, do func(context.Context) error) error {
	n, release, err := s.seat(ctx, name)
	if err == nil {
		defer release()
		_, err = n.confirmed(ctx)
	}
	if err != nil {
		return &Error{Op: "log in", Node: name, ExitStatus: -1, Err: err}
	}
	return do(context.WithValue(ctx, held{}, n))
}

// seat is one of the concurrent sessions of a node, until it is released.
func (s *Shell) seat(ctx context.Context, name string) (n *node, release func(), err error) {
	if n, ok := ctx.Value(held{}).(*node); ok && n.shell == s && n.name == name {
		return n, func() {}, nil
	}
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

// connection returns the connection to the node, and makes one if there is none.
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
