// Package pvesim is a Proxmox VE cluster in memory, behind the real HTTPS API and a real SSH server.
//
// It holds as much of the server's semantics as a client that manages virtual machines can notice, including what
// hurts: tasks that fail or are killed, locks, leftovers, lagging lists. Faults can be ordered for any operation. It
// shares no code with the provider it judges. Package state is the cluster as a value, schema its parameter rules,
// handle its behaviour, fault what goes wrong when, sshd the way over SSH.
package pvesim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/server"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/sshd"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Options configure a simulated cluster. The zero value is a two-node 8.4 whose tasks take no time.
type Options struct {
	// Nodes are the names of the cluster's members; none means pve1 and pve2. World, if given, has its own.
	Nodes []string
	// Profile is the version that it acts as, one of Profiles. Empty means the world's, "8.4" if it has none.
	Profile string
	// Clock is the cluster's clock; nil is one that moves by itself whenever all goroutines in the cluster wait.
	Clock state.Clock
	// TaskTime is how long a worker takes; zero finishes it before the answer with its UPID is sent.
	TaskTime time.Duration
	// Latency is added to every API request. Zero means DefaultLatency on the clock that moves by itself, so that time
	// passes for a client that polls, and none on others; a negative one means none.
	Latency time.Duration
	// Workers is how many requests are in service at a time, for Latency each, while the others queue. pvedaemon has three
	// (pve-manager PVE/Service/pvedaemon.pm). Zero serves all at once.
	Workers int
	// Internet lets the nodes download from other machines. Without it they reach this one's loopback interface only,
	// whatever address they are given, and ask no name server.
	Internet bool
	// Web is what the nodes download from in place of any network.
	Web http.RoundTripper
	// Faults are what is to go wrong from the start. A reset forgets them.
	Faults []fault.Rule
	// World is the cluster to start with; nil is state.Default.
	World *state.World
	// RealNetwork listens on Listen and SSHListen (empty: free ports of the loopback interface) instead of in memory. Each
	// node has a port of its own for SSH: the first node SSHListen's, the others the next ones, or free ones for port 0.
	RealNetwork       bool
	Listen, SSHListen string
	// Violated is told when the world's invariants do not hold after an operation or a task: a bug of the simulator. nil
	// panics if the cluster listens in memory, as it does in tests, and writes to standard error on a real network. It
	// must not call the Sim.
	Violated func(error)
}

// DefaultLatency is what a request takes on the self-advancing clock; it costs nothing but simulated time.
const DefaultLatency = 100 * time.Millisecond

// Profiles are the versions that a cluster can act as, oldest first.
func Profiles() []string { return schema.Versions() }

// Op is one request or SSH command.
type Op = engine.Op

// Credentials are the identities of the default world.
type Credentials struct {
	RootUsername, RootPassword string
	RootToken                  string // root@pam!tf, not separated
	Token                      string // terraform@pve!prov, the least-privilege role
	TokenNoAllocate            string // the same role without Datastore.Allocate
	ReadOnlyToken              string
}

// Sim is a running cluster.
type Sim struct {
	world  *state.World
	server *server.Server
	ssh    *sshd.Server
	ca     []byte

	api              net.Listener
	shells           map[string]net.Listener // by node; in memory "" is that of all nodes
	apiMem, shellMem *memory                 // nil on a real network
	serving          sync.WaitGroup
}

// New starts a cluster. It is ready when New returns; Close ends it.
func New(o Options) (*Sim, error) {
	w := o.world()
	if !slices.Contains(Profiles(), w.Profile) {
		return nil, fmt.Errorf("profile %q is not one of %s", w.Profile, strings.Join(Profiles(), ", "))
	}
	cert, ca, err := certificate(w)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	s := &Sim{world: w, ca: ca}
	if o.Clock == nil && o.Latency == 0 {
		o.Latency = DefaultLatency
	}
	s.server = server.New(engine.Config{
		World: w, Schema: schema.LoadVersion(w.Profile), TaskTime: o.TaskTime, Latency: o.Latency, Workers: o.Workers,
		Internet: o.Internet,
		Web:      o.Web, Violated: o.violated(),
	}, &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
		// The OpenSSL of PVE 8 agrees on these, too. The hybrid with ML-KEM, which Go prefers, takes four times as long.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
	})
	if err := s.server.Faults().Put(o.Faults); err != nil {
		s.server.Close()
		return nil, err
	}
	if s.ssh, err = sshd.New(s.server.Engine); err != nil {
		s.server.Close()
		return nil, fmt.Errorf("make SSH server: %w", err)
	}
	if err := s.listen(o); err != nil {
		s.server.Close()
		return nil, err
	}
	s.serving.Go(func() { _ = s.server.Serve(s.api) }) // ends with the listener
	for node, l := range s.shells {
		s.serving.Go(func() { _ = s.ssh.Serve(l, node) })
	}
	return s, nil
}

func (o Options) nodes() []string {
	if len(o.Nodes) == 0 {
		return []string{"pve1", "pve2"}
	}
	return o.Nodes
}

func (o Options) world() *state.World {
	w := o.World
	if w == nil {
		w = state.Default(o.nodes())
	}
	if o.Profile != "" {
		w.Profile = o.Profile
	}
	if w.Profile == "" {
		w.Profile = "8.4"
	}
	w.Adapt()
	switch {
	case o.Clock != nil:
		w.Clock = o.Clock
	case w.Clock == nil:
		w.Clock = clock.NewVirtual(time.Now().Truncate(time.Second))
	}
	return w
}

func (o Options) violated() func(error) {
	switch {
	case o.Violated != nil:
		return o.Violated
	case o.RealNetwork:
		return func(err error) { fmt.Fprintln(os.Stderr, err) }
	}
	return func(err error) { panic(err) }
}

func (s *Sim) listen(o Options) (err error) {
	if !o.RealNetwork {
		s.apiMem, s.shellMem = newMemory(), newMemory()
		s.api, s.shells = s.apiMem, map[string]net.Listener{"": s.shellMem}
		return nil
	}
	if s.api, err = listen(o.Listen); err != nil {
		return fmt.Errorf("listen for the API: %w", err)
	}
	if s.shells, err = listenSSH(slices.Sorted(maps.Keys(s.world.Nodes)), o.SSHListen); err != nil {
		return errors.Join(fmt.Errorf("listen for SSH: %w", err), s.api.Close())
	}
	return nil
}

func listen(address string) (net.Listener, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	var lc net.ListenConfig
	return lc.Listen(context.Background(), "tcp", address)
}

// Close cuts all connections, lets running workers die and returns when no goroutine is left.
func (s *Sim) Close() {
	_ = s.api.Close()
	closeAll(s.shells)
	s.ssh.Close()
	s.server.Close()
	s.serving.Wait()
}

// Endpoint is the API's base URL, without /api2.
func (s *Sim) Endpoint() string {
	if s.apiMem != nil {
		return "https://" + firstNode(s.world) + ".pvesim.test:8006"
	}
	return "https://" + s.api.Addr().String()
}

// CAPEM is the certificate of the authority that signed the API's certificate.
func (s *Sim) CAPEM() string { return string(s.ca) }

// DialContext connects to the API, whatever the address, if the cluster listens in memory; else it dials the address.
func (s *Sim) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return dial(ctx, s.apiMem, network, address, false)
}

// InMemory reports whether the cluster listens in memory.
func (s *Sim) InMemory() bool { return s.apiMem != nil }

// DialTLSContext connects to the API of a cluster in memory without encryption, for tests whose subject is not TLS: a
// handshake costs more than most requests.
func (s *Sim) DialTLSContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !s.InMemory() {
		return nil, errors.New("only a cluster in memory serves connections without TLS")
	}
	return dial(ctx, s.apiMem, network, address, true)
}

// Credentials are the identities of the default world; an identity that the world lacks is empty.
func (s *Sim) Credentials() Credentials {
	s.world.Lock()
	defer s.world.Unlock()
	token := func(id string) string {
		if t := s.world.Tokens[id]; t != nil {
			return id + "=" + t.Secret
		}
		return ""
	}
	c := Credentials{
		RootUsername: "root@pam", RootToken: token("root@pam!tf"), Token: token("terraform@pve!prov"),
		TokenNoAllocate: token("lite@pve!prov"), ReadOnlyToken: token("auditor@pve!ro"),
	}
	if u := s.world.Users["root@pam"]; u != nil {
		c.RootPassword = u.Password
	}
	return c
}

// World is the cluster itself. To touch it while clients are connected, hold its mutex.
func (s *Sim) World() *state.World { return s.world }

// Advance moves the cluster's clock by d if it is one of package clock's virtual clocks, and does nothing otherwise.
// All events that are due in this time have happened when it returns.
func (s *Sim) Advance(d time.Duration) {
	v, ok := s.world.Clock.(*clock.Virtual)
	if !ok {
		return
	}
	for end := v.Now().Add(d); ; {
		left := s.server.Pass(end.Sub(v.Now()))
		v.Advance(max(left, 0)) // also waits for those who work
		if left <= 0 {
			return
		}
	}
}

// SetTaskTime changes how long the workers take that are started from now on; see Options.TaskTime.
func (s *Sim) SetTaskTime(d time.Duration) { s.server.SetTaskTime(d) }

// Snapshot is everything that can leak, as stable, comparable JSON.
func (s *Sim) Snapshot() []byte { return s.server.Snapshot() }

// Load puts a snapshot in the place of the present state. Running tasks die first.
func (s *Sim) Load(snapshot []byte) error { return s.server.Load(snapshot) }

// Ops are the operations since the last reset, in order.
func (s *Sim) Ops() []Op { return s.server.Ops() }

// OpsAfter are the operations with a greater number, in order.
func (s *Sim) OpsAfter(seq int) []Op { return s.server.OpsAfter(seq) }

// LastOp is the number of the last operation; 0 before the first.
func (s *Sim) LastOp() int { return s.server.LastOp() }

// ResetOps starts the numbering of operations again.
func (s *Sim) ResetOps() { s.server.ResetOps() }

// SetFaults puts rules in the place of those in force. It panics on a rule that could never fire: that is a broken
// test.
func (s *Sim) SetFaults(rules []fault.Rule) {
	if err := s.server.Faults().Put(rules); err != nil {
		panic(fmt.Sprintf("pvesim: %v", err))
	}
}

// FaultsFired tells how many faults have changed the outcome of an operation since SetFaults.
func (s *Sim) FaultsFired() int { return s.server.Faults().Effective() }
