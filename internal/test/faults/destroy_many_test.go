package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

const firstOfVM = 500

// manyVMs is how many VMs are destroyed at once.
func manyVMs() int { return share.Count(24, 50) }

// destroyedVMs is the configuration of many VMs on two nodes, with volumes on four storages.
func destroyedVMs() string {
	return fmt.Sprintf(`
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
`, manyVMs(), firstOfVM)
}

// hazard is a fault during the destroy.
type hazard struct {
	name    string
	profile string
	frees   map[string]int // of a storage: so many of the next frees fail; negative: all
	away    time.Duration  // of pve2, which crashes in the middle; 0: until the test brings it back
}

// TestDestroyOfManyVMs: fifty VMs at once, 24 in `make test`, each guest's stop ends with a warning, storages keep volumes while PVE says that all
// is well, and a node crashes in between. Every leftover is in state and named, and
// everything else is gone. When the hazards are over the next destroy removes the rest. The whole tests every identity.
func TestDestroyOfManyVMs(t *testing.T) {
	t.Parallel()
	hazards := []hazard{
		{"OK that is none, node back soon", "8.4", map[string]int{"local-zfs": 6, "local": -1, "shared-nfs": 9}, 40 * time.Second},
		{"warnings, node away", "9.2", map[string]int{"local-zfs": -1, "local-lvm": 5, "shared-nfs": -1}, 0},
	}
	identities := []rig.Identity{rig.TokenNoSSH, rig.TokenSSH}
	if share.IsWhole() { // make test-full
		identities = append(identities, rig.TokenNoAllocate, rig.RootTicket)
	}
	for i, who := range identities {
		hard := hazards[i%2]
		t.Run(fmt.Sprint(who, ", ", hard.name), func(t *testing.T) {
			t.Parallel()
			destroyMany(t, who, hard)
		})
	}
}

func destroyMany(t *testing.T, who rig.Identity, hard hazard) {
	w := rig.NewWorld(t, pvesim.Options{Profile: hard.profile})
	w.Mark()
	// A volume that could not be looked at when the node crashed is removed from a shared storage by the next destroy
	// only if no other cluster uses it.
	block := strings.Replace(w.ProviderBlock(who), "{\n", "{\n  exclusive_storages = [\"shared-nfs\"]\n", 1)
	s := w.NewSession()
	rig.Must(t, s.Configure(block, destroyedVMs()))
	s.Parallelism = 10
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		for id, g := range world.Guests {
			if id >= firstOfVM && id < firstOfVM+manyVMs() {
				g.StopWarning = "failed to remove veth pair"
			}
		}
		for id, n := range hard.frees {
			world.Storages[id].BusyFrees = n
		}
	})
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "DELETE", Path: "/nodes/{node}/qemu/{vmid}", VMID: firstOfVM + (manyVMs()/2 | 1)}, Phase: fault.Offline, AwayMS: int(hard.away.Milliseconds())}})
	w.Sim.ResetOps()
	w.Sim.ResetPowerOffs()
	rig.Must(t, s.Configure(block, "")) // cheaper than a destroy, which plans the VMs as well
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
	rig.MustNotDropPower(t, w, state.PowerShutdown, state.PowerNode)

	w.Sim.SetFaults(nil)
	w.Sim.SetNode("pve2", true)
	w.Change(func(world *state.World) {
		for id := range hard.frees {
			world.Storages[id].BusyFrees = 0
		}
	})
	w.Sim.Advance(time.Minute)
	if err := s.Run(t.Context()); err != nil {
		t.Errorf("the hazards are over, and: %v", err)
	}
	if len(s.Addresses()) > 0 {
		t.Errorf("still in state: %v", s.Addresses())
	}
	w.MustBeClean(t)
	t.Logf("%d VMs: %s; %d requests, %s on the server's clock; then a second destroy removed the leftovers", manyVMs(), counted, requests, took.Round(time.Second))
}

// destroyTally counts the VMs after a destroy that met hazards.
type destroyTally struct {
	gone           int // and not in state
	whole          int // with their configuration, and in state
	leftovers      int // without configuration, in state for the sake of volumes
	named, unknown int // volumes left: named one by one; not to be known, since their node is away
	phantoms       int // gone, but in state, since their node is away
}

func (n destroyTally) String() string {
	return fmt.Sprintf("%d gone, %d kept whole, %d kept for %d named volumes, %d volumes on the lost node, %d gone with the lost node and kept",
		n.gone, n.whole, n.leftovers, n.named, n.unknown, n.phantoms)
}

// mustAccountFor checks that the state and the errors tell the truth about each VM.
func mustAccountFor(t *testing.T, w *rig.World, s *terraformtest.Session, err error) (n destroyTally) {
	t.Helper()
	said := err.Error()
	for i := range manyVMs() {
		vmid, address := firstOfVM+i, fmt.Sprintf("proxmox_vm.many[%d]", i)
		left, kept := rig.TracesOf(w, vmid), slices.Contains(s.Addresses(), address)
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
