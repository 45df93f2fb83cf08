package cost_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// sizes are the numbers of VMs of one run and of other guests in the cluster for which the laws are held.
func sizes() (counts, others []int) {
	if share.IsWhole() {
		return []int{1, 10, 50, 200}, []int{1000, 5000}
	}
	return []int{1, 10}, []int{200}
}

// firstOther is the VMID of the first of them.
const firstOther = 10_000

// company is a cluster of three nodes with other guests, each with two disks on the shared storage.
func company(t *testing.T, others int, o pvesim.Options) *rig.World {
	t.Helper()
	o.Nodes = []string{"pve1", "pve2", "pve3"}
	w := rig.NewWorld(t, o)
	w.Change(func(world *state.World) {
		for i := range others {
			vmid := firstOther + i
			config := map[string]string{"name": fmt.Sprintf("other-%d", i), "memory": "512", "scsihw": "virtio-scsi-single",
				"smbios1": fmt.Sprintf("uuid=22222222-2222-3333-4444-%012d", vmid), "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0"}
			for n := range 2 {
				name := fmt.Sprintf("%d/vm-%d-disk-%d.raw", vmid, vmid, n)
				world.Put(&state.Volume{Storage: "shared-nfs", Name: name, VMID: vmid, Content: "images", Format: "raw", Size: 1 << 30})
				config[fmt.Sprintf("scsi%d", n)] = "shared-nfs:" + name + ",size=1G"
			}
			world.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: o.Nodes[i%3], Config: config}
		}
	})
	w.Mark()
	return w
}

const manyRunning = `
resource "proxmox_vm" "many" {
  count = %d
  vmid  = 300 + count.index
  name  = "vm-${count.index}"
  node  = "pve${count.index %% 3 + 1}"
  disks = { scsi0 = { storage = "shared-nfs", size = "1G" } }
}
`

// requestsOf are the requests of an operation, refresh and polls included.
func requestsOf(t *testing.T, w *rig.World, do func() error) []pvesim.Op {
	t.Helper()
	w.Sim.ResetOps()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	return w.Sim.Ops()
}

// kinds counts requests, the most frequent first, for a message.
func kinds(ops []pvesim.Op) (list []string) {
	counts := map[string]int{}
	for _, op := range ops {
		counts[op.Method+" "+op.Path]++
	}
	for kind, n := range counts {
		list = append(list, fmt.Sprintf("%6d %s", n, kind))
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

// held compares the requests of n objects with a law, and prints them.
func held(t *testing.T, what string, ops []pvesim.Op, n, others, law int) {
	t.Helper()
	t.Logf("%s: %d among %d other guests: %d requests, the law allows %d", what, n, others, len(ops), law)
	if os.Getenv("KINDS") != "" {
		t.Logf("%s", strings.Join(kinds(ops), "\n"))
	}
	if len(ops) > law {
		t.Errorf("%s: %d among %d: %d requests, the law allows %d:\n%s", what, n, others, len(ops), law, kinds(ops))
	}
}

// TestCostDestroyOfRunningVMs: n running VMs on shared storage, which every guest of the cluster can reach, are destroyed with
// 12n + 3G requests at most.
func TestCostDestroyOfRunningVMs(t *testing.T) {
	t.Parallel()
	counts, others := sizes()
	for _, g := range others {
		for _, n := range counts {
			w := company(t, g, pvesim.Options{})
			s := running(t, w, n)
			ops := requestsOf(t, w, func() error { return s.Destroy(t.Context()) })
			held(t, "destroy of running VMs", ops, n, g, 12*n+3*g)
		}
	}
}

// TestCostDestroyRightAfterAnUpdate: VMs that another process has changed a moment before cost no more. The cluster's log has the
// change of each, and none gives a VM a volume.
func TestCostDestroyRightAfterAnUpdate(t *testing.T) {
	t.Parallel()
	counts, others := sizes()
	for _, n := range counts {
		w := company(t, others[0], pvesim.Options{})
		s := running(t, w, n)
		w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintf(strings.Replace(manyRunning, "node ", "onboot = true\n  node ", 1), n))
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		changed := 0
		for _, entry := range w.Sim.World().ClusterLog {
			if strings.Contains(entry.Message, ": -onboot 1") {
				changed++
			}
		}
		if changed < n {
			t.Fatalf("the log has %d changes of %d VMs", changed, n)
		}
		ops := requestsOf(t, w, func() error { return s.Destroy(t.Context()) })
		held(t, "destroy right after an update", ops, n, others[0], 12*n+3*others[0])
	}
}

// TestCostDestroyOfAThousandVMs prints the time and the requests of a large run on a real cluster's terms: a request takes 10 ms, and
// pvedaemon serves three at a time. Time passes only while all wait, so the machine's load counts for nothing.
func TestCostDestroyOfAThousandVMs(t *testing.T) {
	t.Parallel()
	n, g := 20, 100
	if share.IsWhole() {
		n, g = 1000, 5000
	}
	synctest.Test(t, func(t *testing.T) {
		w := company(t, g, pvesim.Options{Clock: rig.BubbleClock(), Latency: 10 * time.Millisecond, Workers: 3,
			TaskTime: 500 * time.Millisecond})
		s := running(t, w, n)
		w.Sim.World().Clock.Sleep(10 * time.Minute)
		began := time.Now()
		ops := requestsOf(t, w, func() error { return s.Destroy(t.Context()) })
		t.Logf("%d running VMs among %d: %d requests in %s; with a hard stop and no look at others 14 each, %d", n, g, len(ops),
			time.Since(began).Round(time.Second), 14*n)
		held(t, "destroy with latency", ops, n, g, 12*n+3*g)
	})
}

// running are n VMs that run, in state.
func running(t *testing.T, w *rig.World, n int) *terraformtest.Session {
	t.Helper()
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(manyRunning, n))
	s.Parallelism = 10
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.Advance(10 * time.Minute)
	w.ExpectPowerOffs(state.PowerShutdown)
	return s
}

// TestCostMemoryOfADestroy: what a destroy keeps of each guest is little more than the names of its volumes. With 8 KiB of each, the
// heap's growth of a garbage collector and 40 MiB for the rest, a provider among 5,000 guests needs less than 150 MiB.
func TestCostMemoryOfADestroy(t *testing.T) {
	g := 500
	if share.IsWhole() {
		g = 5000
	}
	w := company(t, g, pvesim.Options{})
	before, kept, measured := int64(0), int64(0), false // what goes meanwhile may be more than is kept
	var destroying atomic.Bool
	var once sync.Once
	w.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := w.Sim.DialContext(ctx, network, address)
		return noted{conn, func() {
			if destroying.Load() && w.Sim.LastOp() >= g && othersRead(w) >= g {
				once.Do(func() { w.Sim.ResetOps(); kept, measured = heap()-before, true })
			}
		}}, err
	}
	s := running(t, w, 1)
	w.Sim.ResetOps()
	before = heap()
	destroying.Store(true)
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	once.Do(func() {}) // the connection that measures may not be one that the destroy waits for
	t.Logf("a destroy among %d guests keeps %d KiB", g, kept>>10)
	if most := int64(g)*8<<10 + inFlight; kept > most || !measured {
		t.Errorf("%d KiB are kept of %d guests, %d are allowed", kept>>10, g, most>>10)
	}
}

// othersRead is how many configurations of other guests were read, and answered.
func othersRead(w *rig.World) (n int) {
	for _, op := range w.Sim.Ops() {
		if op.VMID >= firstOther && strings.HasSuffix(op.Path, "/pending") && !op.Left.IsZero() {
			n++
		}
	}
	return n
}

// noted is a connection whose writes are told.
type noted struct {
	net.Conn
	note func()
}

// Write tells of itself first.
func (n noted) Write(p []byte) (int, error) {
	n.note()
	return n.Conn.Write(p)
}

// inFlight is what requests and answers on their way, and earlier tests, may hold.
const inFlight = 8 << 20

func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
