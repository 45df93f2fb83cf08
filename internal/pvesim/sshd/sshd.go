// Package sshd is the SSH server of a simulated cluster's nodes: root logs in with a key or a password and runs the
// command line tools that PVE brings along, on the same state as the API.
//
// It knows "exec" and "sftp" only: no terminal, no forwarding. A shell reads each command line: it has variables,
// functions, pipes, redirections to files of the node, conditions and loops, and no command but the node's.
package sshd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Server answers SSH connections for all nodes of a cluster. Each connection is to one node, on which everything runs.
type Server struct {
	cluster *engine.Engine
	config  *ssh.ServerConfig
	host    ssh.Signer
	client  []byte // PEM

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
	wg     sync.WaitGroup
}

// New makes a server with a host key and a client key of its own.
func New(cluster *engine.Engine) (*Server, error) {
	s := &Server{cluster: cluster, conns: map[net.Conn]struct{}{}}
	_, hostKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make host key: %w", err)
	}
	if s.host, err = ssh.NewSignerFromKey(hostKey); err != nil {
		return nil, fmt.Errorf("make host key: %w", err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make client key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "pvesim")
	if err != nil {
		return nil, fmt.Errorf("make client key: %w", err)
	}
	s.client = pem.EncodeToMemory(block)
	accepted, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("make client key: %w", err)
	}
	s.config = &ssh.ServerConfig{
		PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return permit(c.User() == "root" && bytes.Equal(key.Marshal(), accepted.Marshal()))
		},
		PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return permit(c.User() == "root" && s.knows(password))
		},
	}
	s.config.AddHostKey(s.host)
	return s, nil
}

func permit(yes bool) (*ssh.Permissions, error) {
	if !yes {
		return nil, errors.New("permission denied")
	}
	return nil, nil
}

// knows compares a password with root's, which the realm pam shares with sshd: Debian's sshd asks PAM, and PVE's
// installer lets root log in (proxmox-installer sets PermitRootLogin).
func (s *Server) knows(password []byte) bool {
	var root string
	s.cluster.Do(func(w *state.World) {
		if u := w.Users[auth.RootUser]; u != nil {
			root = u.Password
		}
	})
	return root != "" && hmac.Equal([]byte(root), password)
}

// PrivateKeyPEM is the private key that root's account accepts, in OpenSSH's format.
func (s *Server) PrivateKeyPEM() []byte { return s.client }

// KnownHosts is a known_hosts file with the host key for the addresses and for all nodes by name and address.
func (s *Server) KnownHosts(addresses ...string) []byte {
	var names []string
	for _, address := range addresses {
		names = append(names, knownhosts.Normalize(address))
	}
	s.cluster.Do(func(w *state.World) {
		for _, n := range nodes(w) {
			names = append(names, n.Name, n.Address)
		}
	})
	return []byte(knownhosts.Line(names, s.host.PublicKey()) + "\n")
}

func nodes(w *state.World) []*state.Node {
	var list []*state.Node
	for _, n := range w.Nodes {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *state.Node) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Serve answers connections to a node until the listener or the server is closed. node "" is that whose name or address
// the local end of a connection has, as connections in memory can tell; one to no node is closed.
func (s *Server) Serve(l net.Listener, node string) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			return net.ErrClosed
		}
		s.conns[c] = struct{}{}
		s.wg.Add(1)
		s.mu.Unlock()
		go func() {
			defer s.wg.Done()
			s.connection(c, cmp.Or(node, s.nodeAt(c.LocalAddr().String())))
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		}()
	}
}

// Close cuts all connections and waits until every goroutine is gone. The listeners are the caller's to close first.
// Commands under way end when the cluster's server is closed.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) connection(c net.Conn, node string) {
	defer func() { _ = c.Close() }()
	if node == "" {
		return
	}
	conn, channels, requests, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return
	}
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer func() { _ = conn.Close() }()
	sessions.Add(1)
	go func() { defer sessions.Done(); ssh.DiscardRequests(requests) }()
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "only sessions are served")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		sessions.Add(1)
		go func() {
			defer sessions.Done()
			s.session(conn, node, channel, requests)
		}()
	}
}

// session runs the one command of a session, or its file transfer.
func (s *Server) session(conn *ssh.ServerConn, node string, channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for r := range requests {
		if r.Type == "subsystem" {
			var subsystem struct{ Name string }
			ok := ssh.Unmarshal(r.Payload, &subsystem) == nil && subsystem.Name == "sftp"
			_ = r.Reply(ok, nil)
			if ok {
				var rest sync.WaitGroup
				rest.Go(func() { ssh.DiscardRequests(requests) }) // until the channel is closed
				s.transfer(conn, node, channel)
				_ = channel.Close()
				rest.Wait()
				return
			}
			continue
		}
		if r.Type != "exec" {
			ok := r.Type == "env" || r.Type == "signal"
			if r.WantReply {
				_ = r.Reply(ok, nil)
			}
			continue
		}
		var exec struct{ Command string }
		if err := ssh.Unmarshal(r.Payload, &exec); err != nil {
			_ = r.Reply(false, nil)
			return
		}
		_ = r.Reply(true, nil)
		ctx, stop := context.WithCancel(s.cluster.Ctx)
		var rest sync.WaitGroup // until the channel is closed
		rest.Go(func() { ssh.DiscardRequests(requests); stop() })
		if status, cut := s.run(ctx, node, exec.Command, channel, &rest); cut {
			_ = conn.Close()
		} else {
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
		}
		_ = channel.Close()
		rest.Wait()
		stop()
		return
	}
}
