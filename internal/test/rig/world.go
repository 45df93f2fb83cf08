package rig

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	frameworkprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-log/tflogtest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Identity is as whom, and with which ways to the nodes, a provider works.
type Identity string

// The identities that everything is tried with.
const (
	RootTicket      Identity = "root ticket"                      // root@pam by password; no SSH needed
	TokenSSH        Identity = "token with SSH"                   // least-privilege token, and root's SSH key
	TokenNoSSH      Identity = "token without SSH"                // least-privilege token alone
	TokenNoAllocate Identity = "token without Datastore.Allocate" // the same less that privilege
)

// Identities lists them all.
func Identities() []Identity { return []Identity{RootTicket, TokenSSH, TokenNoSSH, TokenNoAllocate} }

// World is a simulated cluster with providers for each identity.
type World struct {
	Sim *pvesim.Sim
	// Serve makes what speaks the protocol for a provider; nil: what the product has.
	Serve func(newProvider func() frameworkprovider.Provider) tfprotov6.ProviderServer
	// Dial opens the connections to the API; nil: what goes straight to the cluster.
	Dial provider.Dialer
	// DialSSH opens those to the nodes; likewise.
	DialSSH provider.Dialer
	// TLS: the connections to the API are encrypted, as they are outside of tests.
	TLS bool
	// Adapt changes the options of the providers of a session that is made next; nil: none.
	Adapt func(*provider.Options)

	mu    sync.Mutex
	base  []byte
	calls []Call
	log   io.Writer
	power powerWatch

	writers, writesBegun int      // RPCs that may write: at work, and begun
	written              []string // by RPCs that may not
}

// Call is one RPC and the requests that it made. With a Parallelism above one the requests of calls that overlap are
// counted for each of them.
type Call struct {
	RPC, Address string
	Ops          []pvesim.Op
}

// NewWorld starts a cluster in memory for a test and stops it at the test's end. Options are for one argument at most.
func NewWorld(t testing.TB, options ...pvesim.Options) *World {
	t.Helper()
	var o pvesim.Options
	if len(options) > 0 {
		o = options[0]
	}
	w, err := OpenWorld(o)
	if err != nil {
		t.Fatalf("start the simulated cluster: %v", err)
	}
	if o.RealNetwork { // for a CLI, whose plans are not seen here
		w.ExpectPowerOffs(state.PowerShutdown, state.PowerReboot)
	}
	t.Cleanup(func() {
		w.accountForPower(t)
		for _, line := range w.written {
			t.Errorf("only create, update, delete and actions write: %s", line)
		}
		w.Close()
	})
	return w
}

// BubbleClock is the clock of a cluster in a bubble of testing/synctest, where time passes only while all wait.
func BubbleClock() state.Clock { return clock.Real{} }

// NewFastClock returns a clock that begins now and runs fifty times as fast as the machine's.
func NewFastClock() *clock.Fast { return clock.NewFast() }

// OpenWorld starts a cluster outside of a test.
func OpenWorld(o pvesim.Options) (*World, error) {
	sim, err := pvesim.New(o)
	if err != nil {
		return nil, err
	}
	w := &World{Sim: sim}
	w.Change(state.AddMappings)
	return &World{Sim: sim, base: sim.Snapshot(),
		power: powerWatch{asked: map[pvesim.PowerOff]bool{}, unasked: map[pvesim.PowerOff]bool{}}}, nil
}

// Close ends the cluster.
func (w *World) Close() { w.Sim.Close() }

// Change alters the cluster without a request to it.
func (w *World) Change(f func(*state.World)) {
	world := w.Sim.World()
	world.Lock()
	defer world.Unlock()
	f(world)
}

// Mark makes the present state the one that Leaks compares with.
func (w *World) Mark() { w.base = w.Sim.Snapshot() }

// Leaks lists how the cluster differs from the last Mark; nothing means nothing was left and nothing was taken.
func (w *World) Leaks() []string { return SnapshotDiff(w.base, w.Sim.Snapshot()) }

// MustBeClean fails a test if the cluster differs from the last Mark.
func (w *World) MustBeClean(t testing.TB) {
	t.Helper()
	for _, line := range w.Leaks() {
		t.Errorf("left or changed on the server: %s", line)
	}
}

// LogTo captures what providers log at TRACE, as JSON lines. It must be set before the session is made.
func (w *World) LogTo(out io.Writer) { w.log = out }

// Session makes a session of an identity with a configuration, to which the provider block is added.
func (w *World) Session(t testing.TB, id Identity, hcl string) *terraformtest.Session {
	t.Helper()
	s := w.NewSession()
	if err := s.Configure(w.ProviderBlock(id), hcl); err != nil {
		t.Fatalf("configuration: %v", err)
	}
	return s
}

// Resources are the constructors of all resources.
func Resources(ctx context.Context) []func() resource.Resource {
	return provider.New("test")().Resources(ctx)
}

// Provider is the provider without a configuration.
func Provider() frameworkprovider.Provider { return provider.New("test")() }

// DataSources are the constructors of all data sources.
func DataSources(ctx context.Context) []func() datasource.DataSource {
	return provider.New("test")().DataSources(ctx)
}

// Actions are the constructors of all actions.
func Actions(ctx context.Context) []func() action.Action {
	if p, ok := provider.New("test")().(frameworkprovider.ProviderWithActions); ok {
		return p.Actions(ctx)
	}
	return nil
}

// HolderDescription is the description of a VM that holds a disk for others.
func HolderDescription() string { return vm.HolderDescription("") }

// schemas are the provider's, nil if it cannot describe itself.
var schemas = sync.OnceValue(func() *terraformtest.Schemas {
	newServer := provider.NewServer(provider.New("test"))
	known, err := terraformtest.FetchSchemas(context.Background(), func() (tfprotov6.ProviderServer, error) { return newServer(), nil })
	if err != nil {
		return nil
	}
	return known
})

// NewSession makes a session without a configuration, whose calls are recorded.
func (w *World) NewSession() *terraformtest.Session {
	s := terraformtest.NewSession(w.Factory())
	if w.Serve == nil {
		s.Schemas = schemas()
	}
	s.Around, s.Applying = w.record, w.watchPower
	if w.log != nil {
		s.LogContext = func(ctx context.Context) context.Context { return tflogtest.RootLogger(ctx, w.log) }
	}
	return s
}

// Factory starts providers whose network ends in this cluster.
func (w *World) Factory() terraformtest.Factory {
	o := provider.Options{SSHDial: w.Sim.SSHDial, Clock: clock.Client{Cluster: w.Sim.World().Clock}, Ended: w.noteRefused}
	if w.DialSSH != nil {
		o.SSHDial = w.DialSSH
	}
	switch {
	case w.Dial != nil:
		o.DialContext = w.Dial
	case w.TLS || !w.Sim.InMemory():
		o.DialContext = w.Sim.DialContext
	default:
		o.DialTLSContext = w.Sim.DialTLSContext
	}
	if w.Adapt != nil {
		w.Adapt(&o)
	}
	newProvider := provider.NewWith("test", o)
	newServer := provider.NewServer(newProvider)
	return func() (tfprotov6.ProviderServer, error) {
		if w.Serve != nil {
			return w.Serve(newProvider), nil
		}
		return newServer(), nil
	}
}

// Reconfigure replaces the configuration of a session, provider block aside.
func (w *World) Reconfigure(t testing.TB, s *terraformtest.Session, id Identity, hcl string) {
	t.Helper()
	if err := s.Configure(w.ProviderBlock(id), hcl); err != nil {
		t.Fatalf("configuration: %v", err)
	}
}

// ProviderBlock is the provider's configuration for an identity.
func (w *World) ProviderBlock(id Identity) string {
	return w.ProviderBlockAt(id, w.Sim.Endpoint(), w.Sim.CAPEM())
}

// ProviderBlockAt is the same for who reaches the cluster through something else.
func (w *World) ProviderBlockAt(id Identity, endpoint, authority string) string {
	c := w.Sim.Credentials()
	var auth string
	switch id {
	case RootTicket:
		auth = fmt.Sprintf("username = %q\n  password = %q", c.RootUsername, c.RootPassword)
	case TokenNoAllocate:
		auth = fmt.Sprintf("api_token = %q", c.TokenNoAllocate)
	default:
		auth = fmt.Sprintf("api_token = %q", c.Token)
	}
	ssh := ""
	if id == TokenSSH {
		ssh = w.sshArgument()
	}
	return fmt.Sprintf("provider \"proxmox\" {\n  endpoint = %q\n  %s\n  ca_certificate = <<EOT\n%sEOT\n%s}\n",
		endpoint, auth, authority, ssh)
}

// SSHLogin are the arguments of ssh that let a provider log in, without an address of a node. Any host may have the key
// of the cluster.
func (w *World) SSHLogin() string {
	_, key, _ := strings.Cut(strings.TrimSpace(string(w.Sim.SSHKnownHosts())), " ")
	return fmt.Sprintf("    private_key = <<EOT\n%sEOT\n    known_hosts = <<EOT\n* %s\nEOT\n", w.Sim.SSHPrivateKeyPEM(), key)
}

func (w *World) sshArgument() string {
	nodes := ""
	w.Change(func(world *state.World) {
		for name := range world.Nodes {
			host, port, _ := net.SplitHostPort(w.Sim.SSHAddressOf(name))
			nodes += fmt.Sprintf("      %s = { address = %q, port = %s }\n", name, host, port)
		}
	})
	return fmt.Sprintf("  ssh = {\n    username = \"root\"\n    private_key = <<EOT\n%sEOT\n    known_hosts = <<EOT\n%sEOT\n"+
		"    nodes = {\n%s    }\n  }\n",
		w.Sim.SSHPrivateKeyPEM(), w.Sim.SSHKnownHosts(), nodes)
}

// record notes the requests of one RPC, and those of one that only reads and yet has changed something. While another RPC
// writes, the requests cannot be told apart.
func (w *World) record(rpc, address string) func() {
	before := w.Sim.LastOp()
	writes := rpc == "ApplyResourceChange" || rpc == "InvokeAction"
	w.mu.Lock()
	if writes {
		w.writers++
		w.writesBegun++
	}
	alone, begun := w.writers == 0, w.writesBegun
	w.mu.Unlock()
	return func() {
		ops := w.Sim.OpsAfter(before)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls = append(w.calls, Call{RPC: rpc, Address: address, Ops: ops})
		if writes {
			w.writers--
		}
		for _, op := range ops {
			if alone && begun == w.writesBegun && !isRead(op) {
				w.written = append(w.written, fmt.Sprintf("%s of %s has sent %s %s", rpc, address, op.Method, op.Path))
			}
		}
	}
}

// noteRefused notes the write that the provider refused itself in an operation that only reads. Nothing of it is seen on
// the cluster.
func (w *World) noteRefused(sum oplog.Summary) {
	if sum.Refused == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = append(w.written, fmt.Sprintf("%s of %s would have sent %s", sum.Name, cmp.Or(sum.Thing, sum.Type), sum.Refused))
}

// isRead tells whether a request changes nothing on the cluster. A login makes a ticket only.
func isRead(op pvesim.Op) bool {
	return op.Method == http.MethodGet || op.Path == "/access/ticket" ||
		op.Method == "SSH" && slices.Contains([]string{"pvesm path", "sftp stat", "sftp read"}, op.Path)
}

// Calls gives the RPCs since the last ResetCalls, with their requests.
func (w *World) Calls() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Call(nil), w.calls...)
}

// ResetCalls forgets the RPCs and the requests.
func (w *World) ResetCalls() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = nil
	w.Sim.ResetOps()
}
