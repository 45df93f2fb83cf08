package cost_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const manyDisks = `
resource "proxmox_disk" "many" {
  count   = %d
  vmid    = 600 + count.index
  node    = "pve1"
  storage = %q
  size    = "1G"
}
`

// TestCostRefreshOfDisks: a refresh of n disks takes n + 3 requests, on a storage whose volumes are listed with one command.
func TestCostRefreshOfDisks(t *testing.T) {
	t.Parallel()
	counts, _ := sizes()
	for _, n := range counts {
		w := company(t, 20, pvesim.Options{})
		s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(manyDisks, n, "local-zfs"))
		s.Parallelism = 10
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Sim.Advance(10 * time.Minute)
		ops := requestsOf(t, w, func() error { return s.Refresh(t.Context()) })
		held(t, "refresh of disks", ops, n, 20, n+3)
	}
}

// TestCostPlanOfADestroyOfDisks: the plans of n destroys ask for the jobs once for all of them, and each for the snapshots of its VM.
func TestCostPlanOfADestroyOfDisks(t *testing.T) {
	t.Parallel()
	counts, _ := sizes()
	for _, n := range counts {
		w := company(t, 20, pvesim.Options{})
		s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(manyDisks, n, "local-zfs"))
		s.Parallelism = 10
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Sim.Advance(10 * time.Minute)
		w.Reconfigure(t, s, rig.TokenNoSSH, "")
		ops := requestsOf(t, w, func() error { _, err := s.Plan(t.Context()); return err })
		held(t, "plan of a destroy of disks", ops, n, 20, 2*n+shared+2) // two for whether all guests are seen
		for _, path := range []string{"/cluster/backup", "/cluster/replication"} {
			if asked := slices.DeleteFunc(slices.Clone(ops), func(op pvesim.Op) bool { return op.Path != path }); len(asked) != 1 {
				t.Errorf("%s is asked for %d times for %d disks", path, len(asked), n)
			}
		}
	}
}

const theirVMs = `
resource "proxmox_vm" "many" {
  count = %d
  vmid  = 300 + count.index
  name  = "vm-${count.index}"
  node  = "pve1"
  disks = { scsi0 = { storage = "shared-nfs", size = "1G" }%s }
}
`

// TestCostAttachOfDisks: n disks on shared storage are attached to n VMs with 6n + 2G requests at most, refresh, plan and apply together.
// Each other guest is read once, by the apply.
func TestCostAttachOfDisks(t *testing.T) {
	t.Parallel()
	counts, others := sizes()
	for _, g := range others {
		for _, n := range counts {
			w := company(t, g, pvesim.Options{})
			body := fmt.Sprintf(manyDisks, n, "shared-nfs") + theirVMs
			s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(body, n, ""))
			s.Parallelism = 10
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Sim.Advance(10 * time.Minute)
			w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintf(body, n,
				`, scsi1 = { imported_disk = { volume = proxmox_disk.many[count.index].volume } }`))
			ops := requestsOf(t, w, func() error { return s.Run(t.Context()) })
			held(t, "attach of disks", ops, n, g, 6*n+2*g)
			ops = slices.DeleteFunc(ops, func(op pvesim.Op) bool { return op.VMID < firstOther })
			held(t, "looks at others in an attach of disks", ops, n, g, g)
		}
	}
}
