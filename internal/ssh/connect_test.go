package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestNewRefuses(t *testing.T) {
	srv := newServer(t, always(reply{}))
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	for name, test := range map[string]struct {
		cfg  Config
		want string
	}{
		"no key":        {Config{}, "neither a private key nor an agent"},
		"no agent":      {Config{UseAgent: true}, "SSH_AUTH_SOCK is not set"},
		"encrypted key": {Config{PrivateKeyPEM: pem.EncodeToMemory(block)}, "private key is encrypted"},
		"no key at all": {Config{PrivateKeyPEM: []byte("hunter2")}, "no private key in PEM or OpenSSH format"},
		"port":          {Config{PrivateKeyPEM: srv.client, Port: 70000}, "port 70000 is not between"},
		"port of a node": {Config{PrivateKeyPEM: srv.client, Nodes: map[string]Address{"pve1": {Port: -1}}},
			"port of node pve1 -1"},
		"bastion":      {Config{PrivateKeyPEM: srv.client, Bastion: &Bastion{}}, "bastion: the host is missing"},
		"bastion port": {Config{PrivateKeyPEM: srv.client, Bastion: &Bastion{Host: "b", Port: 1 << 20}}, "bastion port"},
		"bastion key": {Config{PrivateKeyPEM: srv.client, Bastion: &Bastion{Host: "b", PrivateKeyPEM: []byte("hunter2")}},
			"bastion private key is no"},
		"fingerprint": {Config{PrivateKeyPEM: srv.client, HostKeyFingerprint: "MD5:aa:bb"}, "is not of the form SHA256:"},
		"known_hosts": {Config{PrivateKeyPEM: srv.client, KnownHosts: []byte("# ok\npve1 ssh-ed25519 garbage\n")},
			"read known_hosts: line 2"},
	} {
		shell, err := New(test.cfg)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if shell != nil || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a Shell was made, or the error quotes the secret: %v", name, err)
		}
	}
}

func TestHostKeys(t *testing.T) {
	other := newSigner(t).PublicKey()
	for name, test := range map[string]struct {
		change func(*server, *Config)
		want   string // part of the error, "" = accepted; {FP} stands for the server's fingerprint
	}{
		"known by name":    {func(*server, *Config) {}, ""},
		"known by address": {func(s *server, c *Config) { c.KnownHosts = s.knownAs("10.0.0.1") }, ""},
		"known by port":    {func(s *server, c *Config) { c.Port = 2222; c.KnownHosts = s.knownAs("[10.0.0.1]:2222") }, ""},
		"name, odd port":   {func(_ *server, c *Config) { c.Port = 2222 }, ""},
		"hashed": {func(s *server, c *Config) {
			c.KnownHosts = []byte(knownhosts.Line([]string{knownhosts.HashHostname("10.0.0.1")}, s.host.PublicKey()))
		}, ""},
		"fingerprint": {func(s *server, c *Config) {
			c.KnownHosts, c.HostKeyFingerprint = nil, ssh.FingerprintSHA256(other)+", "+ssh.FingerprintSHA256(s.host.PublicKey())
		}, ""},
		"nothing known": {func(_ *server, c *Config) { c.KnownHosts = nil },
			"the host key of node pve1 (10.0.0.1:22) is not known: it is ssh-ed25519 {FP};"},
		"not listed": {func(s *server, c *Config) { c.KnownHosts = s.knownAs("pve2") }, "is not known: it is ssh-ed25519 " +
			"{FP};"},
		"wrong fingerprint": {func(_ *server, c *Config) {
			c.KnownHosts, c.HostKeyFingerprint = nil, ssh.FingerprintSHA256(other)
		}, "is not known: it is ssh-ed25519 {FP};"},
		"another key": {func(_ *server, c *Config) { c.KnownHosts = []byte(knownhosts.Line([]string{"pve1"}, other)) },
			"is ssh-ed25519 {FP}, but known_hosts has ssh-ed25519 " + ssh.FingerprintSHA256(other)},
		"another key by address, though the name is right": {func(s *server, c *Config) {
			c.KnownHosts = append(s.knownAs("pve1"), knownhosts.Line([]string{"10.0.0.1"}, other)...)
		}, "but known_hosts has"},
		"revoked, though its fingerprint is configured": {func(s *server, c *Config) {
			c.HostKeyFingerprint = ssh.FingerprintSHA256(s.host.PublicKey())
			c.KnownHosts = append([]byte("@revoked * "), ssh.MarshalAuthorizedKey(s.host.PublicKey())...)
		}, "is marked as revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, always(reply{}))
			shell := srv.shell(func(c *Config) {
				c.Nodes = map[string]Address{"pve1": {Host: "10.0.0.1"}}
				test.change(srv, c)
			})
			err := shell.Unlock(t.Context(), "pve1", 100)
			want := strings.ReplaceAll(test.want, "{FP}", ssh.FingerprintSHA256(srv.host.PublicKey()))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("got %v, want %q", err, want)
			}
			if _, commands := srv.seen(); want != "" && len(commands) > 0 {
				t.Error("an unverified host was given a command")
			}
		})
	}
}

// TestHostKeyAlgorithm: a server with several keys shows the one that known_hosts lists.
func TestHostKeyAlgorithm(t *testing.T) {
	srv := newServer(t, always(reply{}))
	rsa := rsaSigner(t)
	srv.config.AddHostKey(rsa)
	shell := srv.shell(func(c *Config) { c.KnownHosts = []byte(knownhosts.Line([]string{"pve1"}, rsa.PublicKey())) })
	if err := shell.Unlock(t.Context(), "pve1", 100); err != nil {
		t.Error(err)
	}
}

func TestHostCertificate(t *testing.T) {
	srv := newServer(t, always(reply{}))
	authority := newSigner(t)
	certificate := &ssh.Certificate{Key: srv.host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"pve1"},
		ValidBefore: ssh.CertTimeInfinity}
	if err := certificate.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(certificate, srv.host)
	if err != nil {
		t.Fatal(err)
	}
	srv.config.AddHostKey(signer)
	shell := srv.shell(func(c *Config) {
		c.KnownHosts = []byte("@cert-authority pve* " + string(ssh.MarshalAuthorizedKey(authority.PublicKey())))
		c.Nodes = map[string]Address{"pve1": {Host: "10.0.0.1"}}
	})
	if err := shell.Unlock(t.Context(), "pve1", 100); err != nil {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		addr   string
		fails  string
	}{
		"name": {func(*Config) {}, "pve1:22", ""},
		"port": {func(c *Config) { c.Port = 2022 }, "pve1:2022", ""},
		"address": {func(c *Config) { c.Nodes = map[string]Address{"pve1": {Host: "fd00::1", Port: 23}} }, "[fd00::1]:23",
			""},
		"only port": {func(c *Config) { c.Nodes = map[string]Address{"pve1": {Port: 23}} }, "pve1:23", ""},
		"resolved": {func(c *Config) {
			c.Resolve = func(context.Context, string) (string, error) {
				return "10.0.0.9",
					nil
			}
		}, "10.0.0.9:22", ""},
		"unresolved": {func(c *Config) {
			c.Resolve = func(context.Context, string) (string, error) { return "", errors.New("no such node") }
		}, "", "find the address of node pve1: no such node"},
		"bastion first": {func(c *Config) { c.Bastion = &Bastion{Host: "gate"} }, "gate:22", ""},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, always(reply{}))
			dialled := ""
			shell := srv.shell(func(c *Config) {
				test.change(c)
				c.Dial = func(_ context.Context, _, addr string) (net.Conn, error) {
					dialled = addr
					return nil, errors.New("no route")
				}
			})
			want := test.fails
			if want == "" {
				want = "(" + test.addr + ") over SSH: no route"
			}
			if err := shell.Unlock(t.Context(), "pve1", 100); err == nil || !strings.Contains(err.Error(), want) ||
				dialled != test.addr {
				t.Errorf("dialled %q, want %q: %v", dialled, test.addr, err)
			}
		})
	}
}

func TestBastion(t *testing.T) {
	inner := newServer(t, always(reply{stdout: "inside"}))
	gate := newServer(t, always(reply{}))
	gate.forward = func(host string) (net.Conn, error) {
		if host != "10.1.0.1" {
			return nil, errors.New("wrong host " + host)
		}
		return inner.dial(t.Context(), "", "")
	}
	trusted := append(gate.knownAs("gate"), inner.knownAs("pve1")...)
	configure := func(c *Config) {
		c.PrivateKeyPEM, c.Dial, c.KnownHosts = inner.client, gate.dial, trusted
		c.Nodes = map[string]Address{"pve1": {Host: "10.1.0.1"}}
		c.Bastion = &Bastion{Host: "gate", Username: "jump", PrivateKeyPEM: gate.client}
	}
	out, err := gate.shell(configure).Run(t.Context(), "pve1", "hostname")
	if err != nil || out != "inside" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = gate.shell(func(c *Config) { configure(c); c.KnownHosts = inner.knownAs("pve1") }).Run(t.Context(), "pve1",
		"hostname")
	if err == nil || !strings.Contains(err.Error(), "the host key of bastion gate (gate:22) is not known") {
		t.Errorf("an unknown bastion: %v", err)
	}
	_, err = gate.shell(func(c *Config) { configure(c); c.KnownHosts = gate.knownAs("gate") }).Run(t.Context(), "pve1",
		"hostname")
	if err == nil || !strings.Contains(err.Error(), "the host key of node pve1 (10.1.0.1:22) is not known") {
		t.Errorf("an unknown node behind a bastion: %v", err)
	}
}

// serveAgent runs an SSH agent, and returns its socket.
func serveAgent(t *testing.T, ring agent.Agent) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { _ = agent.ServeAgent(ring, conn); _ = conn.Close() })
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	return socket
}

// silent is an agent that waits for its user, at once or when it is to sign.
type silent struct {
	agent.Agent
	atOnce bool
	over   chan struct{}
}

func (s silent) List() ([]*agent.Key, error) {
	if s.atOnce {
		<-s.over
	}
	return s.Agent.List()
}

func (s silent) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	<-s.over
	return s.Agent.Sign(key, data)
}

// TestSilentAgent: an agent that waits for a touch, or whose forwarding has died, holds nothing up for longer than the
// timeout, or than an interrupt.
func TestSilentAgent(t *testing.T) {
	srv := newServer(t, always(reply{}))
	private, err := ssh.ParseRawPrivateKey(srv.client)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	for _, atOnce := range []bool{true, false} {
		over := make(chan struct{})
		socket := serveAgent(t, silent{ring, atOnce, over})
		t.Cleanup(func() { close(over) })
		for says, timeout := range map[string]time.Duration{"no SSH connection within": 50 * time.Millisecond,
			"interrupted": time.Hour} {
			shell := srv.shell(func(c *Config) {
				c.PrivateKeyPEM, c.UseAgent, c.AgentSocket, c.Timeout = nil, true, socket, timeout
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			if timeout == time.Hour {
				time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("interrupted")) })
			}
			ended := make(chan error, 1)
			go func() { ended <- shell.Unlock(ctx, "pve1", 100) }()
			select {
			case err := <-ended:
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%t: %v, want %q", atOnce, err, says)
				}
			case <-time.After(5 * time.Second):
				t.Errorf("at once %t: it still waits for the agent, want %q", atOnce, says)
			}
			cancel(nil)
		}
	}
}

func TestAgent(t *testing.T) {
	srv := newServer(t, always(reply{}))
	private, err := ssh.ParseRawPrivateKey(srv.client)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	socket := serveAgent(t, ring)
	shell := srv.shell(func(c *Config) { c.PrivateKeyPEM, c.UseAgent, c.AgentSocket = nil, true, socket })
	if err = shell.Unlock(t.Context(), "pve1", 100); err == nil || !strings.Contains(err.Error(),
		"the SSH agent holds no key") {
		t.Errorf("an empty agent: %v", err)
	}
	if err = ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	if err = shell.Unlock(t.Context(), "pve1", 100); err != nil {
		t.Error(err)
	}
}

func TestRefusedLogin(t *testing.T) {
	srv, other := newServer(t, always(reply{})), newServer(t, always(reply{}))
	err := srv.shell(func(c *Config) { c.PrivateKeyPEM = other.client }).Unlock(t.Context(), "pve1", 100)
	if err == nil || !strings.Contains(err.Error(), "unlock VM 100 on node pve1: log in to node pve1 (pve1:22) as root "+
		"over SSH: ssh: ") {
		t.Error(err)
	}
}

// TestSilentPeer: a peer that accepts the connection and never speaks costs no more than the timeout.
func TestSilentPeer(t *testing.T) {
	srv := newServer(t, always(reply{}))
	synctest.Test(t, func(t *testing.T) {
		client, peer := net.Pipe()
		defer func() { _ = peer.Close() }()
		shell, err := New(Config{PrivateKeyPEM: srv.client, HostKeyFingerprint: ssh.FingerprintSHA256(srv.host.PublicKey()),
			Timeout: time.Hour, Dial: func(context.Context, string, string) (net.Conn, error) { return client, nil }})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err = shell.Unlock(t.Context(), "pve1", 100)
		if err == nil || !strings.Contains(err.Error(), "no SSH connection within 1h0m0s") || time.Since(begin) != time.Hour {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}
