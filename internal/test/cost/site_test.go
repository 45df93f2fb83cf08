package cost_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// The laws of this package hold for n objects of one run in a site of g other guests. `go test` tries the first size of
// each law; COST=1 all of them, COST_N and COST_G one of one's own.

// size is a number of objects, and of guests that others have.
type size struct{ n, g int }

// sizes are those to try: the first, unless the environment asks for more.
func sizes(all ...size) []size {
	n, _ := strconv.Atoi(os.Getenv("COST_N"))
	g, _ := strconv.Atoi(os.Getenv("COST_G"))
	switch {
	case n > 0:
		return []size{{n, g}}
	case os.Getenv("COST") != "":
		return all
	}
	return all[:1]
}

// site is a cluster of three nodes of which a request takes 10 ms and a task two seconds.
func site(t *testing.T, more ...func(*pvesim.Options)) *rig.World {
	o := pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}, Latency: 10 * time.Millisecond, TaskTime: 500 * time.Millisecond}
	for _, change := range more {
		change(&o)
	}
	return rig.NewWorld(t, o)
}

// crowd adds guests of others: seven virtual machines to a container, each with two disks on the shared storage.
func crowd(w *rig.World, g int) {
	w.Change(func(world *state.World) {
		nodes := []string{"pve1", "pve2", "pve3"}
		for i := range g {
			vmid := 10000 + i
			disk := func(k int) string {
				name := fmt.Sprintf("%d/vm-%d-disk-%d.raw", vmid, vmid, k)
				world.Put(&state.Volume{Storage: "shared-nfs", Name: name, Content: "images", VMID: vmid, Format: "raw", Size: 1 << 20})
				return "shared-nfs:" + name
			}
			world.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: nodes[i%3], Config: map[string]string{
				"name": fmt.Sprintf("guest-%d", vmid), "cores": "2", "memory": "2048", "ostype": "l26", "boot": "order=scsi0",
				"scsi0": disk(0) + ",size=1M", "scsi1": disk(1) + ",size=1M", "net0": "virtio=" + world.MAC() + ",bridge=vmbr0",
				"tags": "a;b", "smbios1": "uuid=" + world.UUID(), "vmgenid": world.UUID(),
				"description": "guest of a large cluster, " + strings.Repeat("with notes of its owner, ", 20)}}
		}
	})
}

// ours is a configuration of n running VMs with a disk on the shared storage.
func ours(n int, more string) string {
	return fmt.Sprintf(`
resource "proxmox_vm" "many" {
  count       = %d
  name        = "vm-${count.index}"
  node        = "pve${count.index %% 3 + 1}"
  vmid        = 300 + count.index
  power_state = "running"
  disks       = { scsi0 = { storage = "shared-nfs", size = "1G" } }
  %s
}
`, n, more)
}

// tally counts requests by kind, the most frequent first.
func tally(ops []pvesim.Op) string {
	counts := map[string]int{}
	for _, op := range ops {
		counts[op.Method+" "+op.Path]++
	}
	var all []string
	for kind, n := range counts {
		all = append(all, fmt.Sprintf("%7d %s", n, kind))
	}
	slices.Sort(all)
	slices.Reverse(all)
	return strings.Join(all, "\n")
}

// within checks a law, and prints what was counted. All requests count, polls of tasks and listings, too.
func within(t *testing.T, w *rig.World, what string, s size, most int) {
	t.Helper()
	ops := w.Sim.Ops()
	t.Logf("%s: %d of us among %d others: %d requests, at most %d", what, s.n, s.g, len(ops), most)
	if len(ops) > most {
		t.Errorf("%s takes %d requests, want at most %d:\n%s", what, len(ops), most, tally(ops))
	}
	if os.Getenv("COST_TALLY") != "" {
		t.Logf("\n%s", tally(ops))
	}
}

// applied makes a configuration what the site has, before others come.
func applied(t *testing.T, w *rig.World, hcl string, g int) *terraformtest.Session {
	t.Helper()
	s := w.Session(t, rig.TokenNoSSH, hcl)
	s.Parallelism = 10
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	crowd(w, g)
	w.Sim.Advance(20 * time.Second) // pvestatd has seen them all
	w.Sim.ResetOps()
	return s
}
