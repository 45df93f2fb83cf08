package acctest_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const (
	manyVMs   = 50
	firstOfVM = 500
)

// herd is many VMs on two nodes, with volumes on four storages.
var herd = fmt.Sprintf(`
resource "proxmox_vm" "many" {
  count = %d
  vmid  = %d + count.index
  node  = count.index %% 2 == 0 ? "pve1" : "pve2"
  name  = "many-${count.index}"
  disks = {
    scsi0 = { storage = count.index %% 3 == 0 ? "local-zfs" : (count.index %% 3 == 1 ? "local" : "local-lvm"), size = "1G" }
    scsi1 = { storage = "shared-nfs", size = "1G" }
  }
}
`, manyVMs, firstOfVM)

// hardship is what goes wrong while the herd is destroyed.
type hardship struct {
	name    string
	profile string
	frees   map[string]int // of a storage: so many of the next frees fail; negative: all
	away    time.Duration  // of the node whose 13th destroy makes it crash; 0: until somebody brings it back
}

// TestDestroyOfManyVMs: fifty VMs at once, each guest's stop ends with a warning, storages keep volumes while PVE says that all
// is well, and a node crashes in between. What is there afterwards is in state and named; what is not in state is gone; and
// when the hardships are over the next destroy removes the rest. With DESTROY_ALL set every identity is put through it.
func TestDestroyOfManyVMs(t *testing.T) {
	t.Parallel()
	hardships := []hardship{
		{"OK that is none, node back soon", "8.4", map[string]int{"local-zfs": 6, "local": -1, "shared-nfs": 9}, 40 * time.Second},
		{"warnings, node away", "9.2", map[string]int{"local-zfs": -1, "local-lvm": 5, "shared-nfs": -1}, 0},
	}
	identities := []acctest.Identity{acctest.TokenNoSSH, acctest.TokenSSH}
	if os.Getenv("DESTROY_ALL") != "" { // make test-full
		identities = append(identities, acctest.TokenNoAllocate, acctest.RootTicket)
	}
	for i, who := range identities {
		hard := hardships[i%2]
		t.Run(fmt.Sprint(who, ", ", hard.name), func(t *testing.T) {
			t.Parallel()
			destroyHerd(t, who, hard)
		})
	}
}

func destroyHerd(t *testing.T, who acctest.Identity, hard hardship) {
	w := acctest.NewWorld(t, pvesim.Options{Profile: hard.profile})
	w.Mark()
	s := w.Session(t, who, herd)
	s.Parallelism = 10
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		for id, g := range world.Guests {
			if id >= firstOfVM && id < firstOfVM+manyVMs {
				g.StopWarning = "failed to remove veth pair"
			}
		}
		for id, n := range hard.frees {
			world.Storages[id].BusyFrees = n
		}
	})
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "DELETE", Path: "/nodes/{node}/qemu/{vmid}", VMID: firstOfVM + 25}, Phase: fault.Offline, AwayMS: int(hard.away.Milliseconds())}})
	w.Sim.ResetOps()
	w.Sim.ResetPowerOffs()
	w.Reconfigure(t, s, who, "") // cheaper than a destroy, which plans the VMs as well
	began := w.Sim.World().Clock.Now()
	err := s.Run(t.Context())
	if err == nil {
		t.Fatal("no error, although a storage keeps every volume")
	}
	took, requests := w.Sim.World().Clock.Now().Sub(began), w.Sim.LastOp()
	if w.Sim.FaultsFired() != 1 {
		t.Errorf("%d nodes crashed, want one", w.Sim.FaultsFired())
	}
	counted := mustAccountFor(t, w, s, err)
	mustNotDropPower(t, w, state.PowerShutdown, state.PowerNode)

	w.Sim.SetFaults(nil)
	w.Sim.SetNode("pve2", true)
	w.Change(func(world *state.World) {
		for id := range hard.frees {
			world.Storages[id].BusyFrees = 0
		}
	})
	w.Sim.Advance(time.Minute)
	if err := s.Run(t.Context()); err != nil {
		t.Errorf("the hardships are over, and: %v", err)
	}
	if len(s.Addresses()) > 0 {
		t.Errorf("still in state: %v", s.Addresses())
	}
	w.MustBeClean(t)
	t.Logf("%d VMs: %s; %d requests, %s on the server's clock; then a second destroy removed all that was left", manyVMs, counted, requests, took.Round(time.Second))
}

// herdTally counts the VMs after a destroy that met hardships.
type herdTally struct {
	gone           int // and not in state
	whole          int // with their configuration, and in state
	leftovers      int // without configuration, in state for the sake of volumes
	named, unknown int // volumes left: named one by one; not to be known, since their node is away
	phantoms       int // gone, but in state, since their node is away
}

func (n herdTally) String() string {
	return fmt.Sprintf("%d gone, %d kept whole, %d kept for %d named volumes, %d volumes on the lost node, %d gone with the lost node and kept",
		n.gone, n.whole, n.leftovers, n.named, n.unknown, n.phantoms)
}

// mustAccountFor checks that the state and the errors tell the truth about each VM.
func mustAccountFor(t *testing.T, w *acctest.World, s *drive.Session, err error) (n herdTally) {
	t.Helper()
	said := err.Error()
	for i := range manyVMs {
		vmid, address := firstOfVM+i, fmt.Sprintf("proxmox_vm.many[%d]", i)
		left, kept := traces(w, vmid), slices.Contains(s.Addresses(), address)
		if kept && !strings.Contains(said, fmt.Sprint("VM ", vmid)) {
			t.Errorf("VM %d is kept in state, and no error says why", vmid)
		}
		switch {
		case !kept && len(left) > 0:
			t.Errorf("VM %d was dropped from state, and left %v", vmid, left)
		case !kept:
			n.gone++
		case len(left) == 0:
			n.phantoms++
			if i%2 == 0 {
				t.Errorf("VM %d is gone from a node that was there all the time, and is in state", vmid)
			}
		case slices.Contains(left, "configuration"):
			n.whole++
		default:
			n.leftovers++
		}
		if slices.Contains(left, "configuration") {
			continue
		}
		for _, volume := range left {
			volid, _, _ := strings.Cut(volume, " on ")
			switch {
			case strings.Contains(said, volid):
				n.named++
			case i%2 == 1:
				n.unknown++
			default:
				t.Errorf("VM %d: %s is left, and not named", vmid, volume)
			}
		}
	}
	return n
}
