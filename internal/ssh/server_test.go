package ssh

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reply is what the test server does with a command.
type reply struct {
	stdout, stderr string
	status         uint32
	cut            bool              // close the connection instead of answering
	block          bool              // run until a signal comes
	signalled      chan<- ssh.Signal // hears of the signal
	started        chan<- struct{}   // hears of the start
	deaf           bool              // with block: ignore the signal
}

// server is an sshd whose commands are a function.
type server struct {
	t       *testing.T
	host    ssh.Signer
	client  []byte // private key that may log in
	config  *ssh.ServerConfig
	command func(user, line string) reply

	mu       sync.Mutex
	conns    []net.Conn
	logins   int
	commands []string
	running  sync.WaitGroup
	forward  func(addr string) (net.Conn, error) // direct-tcpip, for bastions
	mute     bool                                // do not answer channel requests
	files    bool                                // serve SFTP
	banner   string                              // what the login shell prints
	strange  bool                                // the login shell knows no sh
	hostname string                              // "": that of any node
	asked    int                                 // how often it was asked for its name alone
	onFile   func() bool                         // before an answer of SFTP: true cuts the connections in its place
	// until it is closed, do not answer requests about the connection as a whole
	deaf chan struct{}
}

func newServer(t *testing.T, command func(user, line string) reply) *server {
	t.Helper()
	s := &server{t: t, command: command, host: newSigner(t)}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	s.client = pem.EncodeToMemory(block)
	allowed, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), allowed.Marshal()) {
			return nil, errors.New("not this key")
		}
		return &ssh.Permissions{}, nil
	}}
	s.config.AddHostKey(s.host)
	t.Cleanup(s.stop)
	return s
}

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// dial gives the client's end of a new connection. Its real loopback sockets buffer, which a net.Pipe does not.
func (s *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close() }()
	client, err := (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return nil, err
	}
	conn, err := listener.Accept() // before the listener is closed, which would reset the connection
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	s.running.Go(func() { s.serve(conn) })
	return client, nil
}

func (s *server) serve(raw net.Conn) {
	defer func() { _ = raw.Close() }()
	s.mu.Lock()
	s.conns = append(s.conns, raw)
	s.mu.Unlock()
	conn, channels, requests, err := ssh.NewServerConn(raw, s.config)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.logins++
	mute := s.mute
	s.mu.Unlock()
	s.running.Go(func() {
		if s.deaf != nil {
			<-s.deaf
		}
		ssh.DiscardRequests(requests)
	})
	for channel := range channels {
		switch {
		case mute:
		case channel.ChannelType() == "session":
			s.running.Go(func() { s.session(conn, raw, channel) })
		case channel.ChannelType() == "direct-tcpip" && s.forward != nil:
			s.running.Go(func() { s.tunnel(channel) })
		default:
			_ = channel.Reject(ssh.UnknownChannelType, "no")
		}
	}
}

func (s *server) session(conn *ssh.ServerConn, raw net.Conn, offered ssh.NewChannel) {
	channel, requests, err := offered.Accept()
	if err != nil {
		return
	}
	defer func() { _ = channel.Close() }()
	signals := make(chan ssh.Signal, 4)
	var exec *string
	for request := range requests {
		switch request.Type {
		case "exec":
			var payload struct{ Line string }
			if ssh.Unmarshal(request.Payload, &payload) != nil || exec != nil {
				return
			}
			exec = &payload.Line
			_ = request.Reply(true, nil)
			line, framed := strings.CutPrefix(payload.Line, frame)
			node := ""
			if framed {
				node, line, _ = strings.Cut(line, " ")
			}
			s.mu.Lock()
			host := cmp.Or(s.hostname, node)
			refuses := framed && host != node
			switch {
			case framed && line == "":
				s.asked++
			case !refuses:
				s.commands = append(s.commands, line)
			}
			s.mu.Unlock()
			_, _ = io.WriteString(channel, s.banner)
			if s.files && !framed {
				s.running.Go(func() { s.transferFiles(channel) })
				continue
			}
			if refuses && !s.strange {
				_, _ = io.WriteString(channel, "\n"+notRun+host+"\n")
				exit(channel, 1)
				continue
			}
			if framed && !s.strange {
				_, _ = io.WriteString(channel, "\n"+begun+"\n")
				_, _ = io.WriteString(channel.Stderr(), s.banner+"\n"+begun+"\n")
			}
			if framed && line == "" && !s.strange {
				exit(channel, 0)
				continue
			}
			s.running.Go(func() { s.answer(conn.User(), line, raw, channel, signals) })
		case "subsystem":
			_ = request.Reply(s.files, nil)
			_, _ = io.WriteString(channel, s.banner)
			s.running.Go(func() { s.transferFiles(channel) })
		case "signal":
			var payload struct{ Name string }
			_ = ssh.Unmarshal(request.Payload, &payload)
			signals <- ssh.Signal(payload.Name)
		}
	}
	close(signals)
}

func (s *server) answer(user, line string, raw net.Conn, channel ssh.Channel, signals <-chan ssh.Signal) {
	r := s.command(user, line)
	if r.started != nil {
		r.started <- struct{}{}
	}
	if r.cut {
		_ = raw.Close()
		return
	}
	if r.block {
		for signal := range signals {
			if r.signalled != nil {
				r.signalled <- signal
			}
			if !r.deaf {
				r.status = 143
				break
			}
		}
	}
	_, _ = io.WriteString(channel, r.stdout)
	_, _ = io.WriteString(channel.Stderr(), r.stderr)
	exit(channel, r.status)
}

func exit(channel ssh.Channel, status uint32) {
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
	_ = channel.Close()
}

func (s *server) tunnel(offered ssh.NewChannel) {
	var payload struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}
	if ssh.Unmarshal(offered.ExtraData(), &payload) != nil {
		return
	}
	behind, err := s.forward(payload.Host)
	if err != nil {
		_ = offered.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	channel, requests, err := offered.Accept()
	if err != nil {
		_ = behind.Close()
		return
	}
	s.running.Go(func() { ssh.DiscardRequests(requests) })
	s.running.Go(func() { _, _ = io.Copy(behind, channel); _ = behind.Close() })
	_, _ = io.Copy(channel, behind)
	_ = channel.Close()
}

// kill closes all connections from the server's side.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

func (s *server) stop() {
	s.kill()
	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		s.t.Error("the test server does not stop")
	}
}

func (s *server) seen() (logins int, commands []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins, append([]string(nil), s.commands...)
}

// knownAs is a known_hosts line for the server.
func (s *server) knownAs(names ...string) []byte {
	return []byte(knownhosts.Line(names, s.host.PublicKey()) + "\n")
}

// shell makes a Shell for the server; change adjusts its configuration.
func (s *server) shell(change func(*Config)) *Shell {
	s.t.Helper()
	cfg := Config{PrivateKeyPEM: s.client, KnownHosts: s.knownAs("pve1"), Dial: s.dial, Timeout: 5 * time.Second}
	if change != nil {
		change(&cfg)
	}
	shell, err := New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := shell.Close(); err != nil {
			s.t.Errorf("close: %v", err)
		}
	})
	return shell
}

func always(r reply) func(string, string) reply { return func(string, string) reply { return r } }
