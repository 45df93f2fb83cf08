package cost_test

import (
	"fmt"
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
