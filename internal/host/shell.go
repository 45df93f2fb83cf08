package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"
)

// Shell runs commands on the nodes of one cluster. It may be used by many goroutines at once.
type Shell struct {
	cfg     Config
	keys    *hostKeys
	signers []ssh.Signer // from PrivateKeyPEM
	bastion []ssh.Signer // from Bastion.PrivateKeyPEM

	mu     sync.Mutex
	nodes  map[string]*node
	closed bool
}

// New checks cfg and makes a Shell. It connects nowhere; the first command to a node does.
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
	s := &Shell{cfg: cfg, nodes: map[string]*node{}}
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

func parseKey(what string, pem []byte) ([]ssh.Signer, error) {
	if len(pem) == 0 {
		return nil, nil
	}
	signer, err := ssh.ParsePrivateKey(pem)
	var encrypted *ssh.PassphraseMissingError
	if errors.As(err, &encrypted) {
		return nil, fmt.Errorf("SSH: the %s is encrypted: add it to an SSH agent and use the agent, or give an unencrypted key", what)
	}
	if err != nil {
		// The parser's own words may quote the input, which is a secret.
		return nil, fmt.Errorf("SSH: the %s is no private key in PEM or OpenSSH format", what)
	}
	return []ssh.Signer{signer}, nil
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

// node gives the entry of a node, which outlives its connections.
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

// target finds where a node is.
func (s *Shell) target(ctx context.Context, name string) (target, error) {
	address := s.cfg.Nodes[name]
	host, port := address.Host, firstPort(address.Port, s.cfg.Port, DefaultPort)
	if host == "" && s.cfg.Resolve != nil {
		var err error
		if host, err = s.cfg.Resolve(ctx, name); err != nil {
			return target{}, fmt.Errorf("find the address of node %s: %w", name, err)
		}
	}
	if host == "" {
		host = name
	}
	return target{what: "node " + name, alias: name, addr: net.JoinHostPort(host, strconv.Itoa(port))}, nil
}

func firstPort(ports ...int) int {
	for _, port := range ports {
		if port != 0 {
			return port
		}
	}
	return 0
}

func (s *Shell) trace(ctx context.Context, msg string, fields map[string]string) {
	if s.cfg.Trace != nil {
		s.cfg.Trace(ctx, msg, fields)
	}
}
