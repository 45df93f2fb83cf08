package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// severed is the network before a cluster whose endpoint on pve1 dies when an operation has begun: before it is sent, or before its
// answer is there.
type severed struct {
	w      *rig.World
	at     int64 // number of the operation, 0 for never
	answer bool  // it is the answer that is lost
	down   atomic.Bool
	cuts   atomic.Int64 // connections that broke, and dials that failed
}

func (n *severed) isDown(done bool) bool {
	last := int64(n.w.Sim.LastOp())
	if n.at > 0 && (done && n.answer && last >= n.at || !done && !n.answer && last >= n.at-1) {
		n.down.Store(true)
	}
	return n.down.Load()
}

func (n *severed) fail(op string) error {
	n.cuts.Add(1)
	return &net.OpError{Op: op, Net: "tcp", Err: errors.New("connection refused")}
}

func (n *severed) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(address, "pve1.") {
		return n.w.Sim.DialContext(ctx, network, address)
	}
	if n.isDown(false) {
		return nil, n.fail("dial")
	}
	conn, err := n.w.Sim.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return severedConn{conn, n}, nil
}

type severedConn struct {
	net.Conn
	n *severed
}

// Write breaks when the endpoint is down.
func (c severedConn) Write(p []byte) (int, error) {
	if c.n.isDown(false) {
		return 0, c.n.fail("write")
	}
	return c.Conn.Write(p)
}

// Read breaks when the endpoint is down, also if there was something to read.
func (c severedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.n.isDown(true) {
		_ = c.Close()
		c.n.cuts.Add(1)
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// throughBoth makes a session that knows both nodes of a world.
func throughBoth(t *testing.T, w *rig.World, id rig.Identity, hcl string) *terraformtest.Session {
	t.Helper()
	s := w.NewSession()
	reconfigureBoth(t, w, s, id, hcl)
	return s
}

const failoverClone = `resource "proxmox_vm" "it" {
  name = "it"
  vmid = 500
  node = "pve1"
  clone = { vmid = 9000 }
  protection = false
  cpu = { cores = 3 }
  power_state = "running"
}
`

const failoverScratch = `resource "proxmox_vm" "it" {
  name = "it"
  node = "pve2"
  disks = { scsi0 = { storage = "local-zfs", size = "2G" } }
  networks = { net0 = { bridge = "vmbr0" } }
  power_state = "running"
}
`

// TestFailoverInTheMiddle kills the endpoint that serves at each request of a create, an update and a destroy, before it is sent and before
// its answer comes. Everything goes on through the other one, and nothing is done twice. `make test` draws one in 31.
func TestFailoverInTheMiddle(t *testing.T) {
	t.Parallel()
	cases := 0
	for i, hcl := range []string{failoverClone, failoverScratch} {
		for j, id := range []rig.Identity{rig.RootTicket, rig.TokenNoSSH} {
			t.Run([]string{"clone", "from scratch"}[i]+", "+string(id), func(t *testing.T) {
				cases += failInTheMiddle(t, hcl, id, 5*(2*i+j))
			})
		}
	}
	t.Logf("%d cases", cases)
	if cases < 12 {
		t.Errorf("only %d cases", cases)
	}
}

// drawn is the share of the cases that the normal run has.
const drawn = 31

func failInTheMiddle(t *testing.T, hcl string, id rig.Identity, nth int) (cases int) {
	w := rig.NewWorld(t)
	start := w.Sim.Snapshot()
	changed := strings.Replace(hcl, `name = "it"`, `name = "it"`+"\n  description = \"new\"\n  tags = [\"new\"]", 1)
	// run is a life of a VM on a network; total is how many operations it took.
	run := func(n *severed, what string) (total int) {
		t.Helper()
		if err := w.Sim.Load(start); err != nil {
			t.Fatal(err)
		}
		w.ResetCalls()
		n.w, w.Dial = w, n.dial
		s := throughBoth(t, w, id, hcl)
		for step, next := range []string{hcl, changed, ""} {
			var err error
			if next == "" {
				err = s.Destroy(t.Context())
			} else {
				if step > 0 {
					reconfigureBoth(t, w, s, id, next)
				}
				err = s.Converge(t.Context())
			}
			if err != nil {
				t.Errorf("%s, step %d: %v", what, step, err)
				return w.Sim.LastOp()
			}
		}
		w.MustBeClean(t)
		oneOfEach(t, w.Sim.Ops(), what)
		return w.Sim.LastOp()
	}
	total := run(&severed{}, "undisturbed")
	for at := 1; at <= total; at++ {
		for side, answer := range []bool{false, true} {
			if (2*at+side+nth)%drawn != 0 && !share.IsWhole() {
				continue
			}
			n := &severed{at: int64(at), answer: answer}
			run(n, fmt.Sprintf("the endpoint dies at operation %d of %d, answer lost: %v", at, total, answer))
			switch {
			case n.cuts.Load() > 0:
				cases++
			case w.Sim.LastOp() > at || answer && w.Sim.LastOp() == at:
				// else it took fewer polls than the first time and was over, or the last request was sent beside the one before it
				t.Errorf("operation %d: nothing was cut", at)
			}
		}
	}
	return cases
}

func reconfigureBoth(t *testing.T, w *rig.World, s *terraformtest.Session, id rig.Identity, hcl string) {
	t.Helper()
	block := strings.Replace(w.ProviderBlock(id), fmt.Sprintf("endpoint = %q", w.Sim.Endpoint()),
		`endpoints = ["https://pve1.pvesim.test:8006", "https://pve2.pvesim.test:8006"]`, 1)
	if !strings.Contains(block, "endpoints") {
		t.Fatal(block)
	}
	if err := s.Configure(block, hcl); err != nil {
		t.Fatal(err)
	}
}

// oneOfEach wants no guest to be made or removed twice.
func oneOfEach(t *testing.T, ops []pvesim.Op, what string) {
	t.Helper()
	made := 0
	for _, op := range ops {
		if op.Method == http.MethodPost && (op.Path == "/nodes/{node}/qemu" || op.Path == "/nodes/{node}/qemu/{vmid}/clone") {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%s: %d creates", what, made)
	}
}
