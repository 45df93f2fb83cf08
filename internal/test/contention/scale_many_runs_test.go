package contention_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// manyVMsOf are VMs without ids, many in a run, several runs at once.
const manyVMsOf = `
variable "run" {}
variable "size" {}
resource "proxmox_vm" "one" {
  count = var.size
  name  = "vm-${var.run}-${count.index}"
  node  = var.run %% 2 == 0 ? "pve1" : "pve2"
  %s
}
`

const (
	fromNothing  = `disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`
	fromTemplate = `
  clone      = { vmid = 9000, full = true }
  protection = false`
)

// crowd are concurrent runs on one cluster, each with a provider of its own that does not see the others.
type crowd struct {
	w        *rig.World
	sessions []*terraformtest.Session
}

// newCrowd makes runs of so many VMs each; lower and upper are the provider's vmid_range, 0 for none.
func newCrowd(t *testing.T, w *rig.World, runs, each, lower, upper int, vm string) crowd {
	t.Helper()
	c := crowd{w: w}
	identities := []rig.Identity{rig.RootTicket, rig.TokenSSH, rig.TokenNoSSH, rig.TokenNoAllocate}
	for n := range runs {
		provider := w.ProviderBlock(identities[n%len(identities)])
		if upper != 0 {
			provider = strings.Replace(provider, "{", fmt.Sprintf("{\n  vmid_range = { min = %d, max = %d }", lower, upper), 1)
		}
		s := w.NewSession()
		rig.Must(t, s.Configure(provider, fmt.Sprintf(manyVMsOf, vm)))
		s.SetVariable("run", cty.NumberIntVal(int64(n)))
		s.SetVariable("size", cty.NumberIntVal(int64(each)))
		s.Parallelism, s.TrustPlans = 10, true
		c.sessions = append(c.sessions, s)
	}
	return c
}

// atOnce does something with all runs and gives the errors.
func (c crowd) atOnce(ctx context.Context, do func(*terraformtest.Session, context.Context) error) []error {
	errs := make([]error, len(c.sessions))
	var wg sync.WaitGroup
	for n, s := range c.sessions {
		wg.Go(func() { errs[n] = do(s, ctx) })
	}
	wg.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// ids are those of all VMs in the states, sorted.
func (c crowd) ids() []int {
	var all []int
	for _, s := range c.sessions {
		for _, address := range s.Addresses() {
			var id int
			if _, err := fmt.Sscan(terraformtest.ShowValue(s.Attr(address, "vmid")), &id); err == nil {
				all = append(all, id)
			}
		}
	}
	slices.Sort(all)
	return all
}

// mustHave wants so many VMs in the states, each with an id of its own, and no other VM on the cluster than before.
func (c crowd) mustHave(t *testing.T, n, others int) {
	t.Helper()
	ids := c.ids()
	if len(ids) != n || len(slices.Compact(slices.Clone(ids))) != n {
		t.Errorf("%d VMs in the states, want %d, each with an id of its own: %v", len(ids), n, ids)
	}
	c.w.Change(func(world *state.World) {
		if len(world.Guests) != n+others {
			t.Errorf("%d guests on the cluster, want %d", len(world.Guests), n+others)
		}
		for id, g := range world.Guests {
			if g.Config["lock"] != "" || strings.Contains(g.Config["description"], "Terraform is") {
				t.Errorf("VM %d is half made: %v", id, g.Config)
			}
		}
	})
}

// creates counts the requests that were to make a VM, and those of them that PVE refused since the id was taken.
func creates(ops []pvesim.Op) (asked, lost int) {
	for _, op := range ops {
		if op.Method != http.MethodPost || op.Path != "/nodes/{node}/qemu" && !strings.HasSuffix(op.Path, "/clone") {
			continue
		}
		if asked++; op.Status >= 300 {
			lost++
		}
	}
	return asked, lost
}

// figures gives the cost of a crowd.
func (c crowd) figures(t *testing.T, what string, began time.Time) {
	t.Helper()
	ops, ids, highest := c.w.Sim.Ops(), c.ids(), 0
	if len(ids) > 0 {
		highest = ids[len(ids)-1]
	}
	asked, lost := creates(ops)
	t.Logf("%s: %d runs, %d VMs up to id %d: %d requests, %d of them creates, of which %d met a taken id; %s on the machine",
		what, len(c.sessions), len(ids), highest, len(ops), asked, lost, time.Since(began).Round(10*time.Millisecond))
}

// sizeOfCrowd is how many runs there are, and how many VMs in each: the whole.
func sizeOfCrowd() (runs, each int) {
	if share.IsWhole() {
		return 20, 10
	}
	return 6, 3
}

// TestScaleManyRuns: many runs at once create VMs without ids. Each VM gets an id of its own, no run fails, nothing is left; then some runs
// destroy theirs while others create.
func TestScaleManyRuns(t *testing.T) {
	t.Parallel()
	runs, each := sizeOfCrowd()
	total := runs * each
	for name, c := range map[string]struct {
		vm           string
		lower, upper int
	}{
		"from nothing":              {vm: fromNothing},
		"clones":                    {vm: fromTemplate},
		"in a range that just fits": {vm: fromNothing, lower: 3000, upper: 3000 + total - 1},
		"clones that just fit":      {vm: fromTemplate, lower: 3000, upper: 3000 + total - 1},
		"in a range with some more": {vm: fromNothing, lower: 3000, upper: 3000 + total + 4},
	} {
		if runs < 20 && !strings.Contains(name, "clones that") && name != "from nothing" {
			continue // make test-full
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{TaskTime: 2 * time.Second})
			others, began := rig.GuestCount(w), time.Now()
			all := newCrowd(t, w, runs, each, c.lower, c.upper, c.vm)
			for _, err := range all.atOnce(t.Context(), (*terraformtest.Session).Run) {
				t.Error(err)
			}
			all.figures(t, name, began)
			all.mustHave(t, total, others)
			for _, err := range all.atOnce(t.Context(), (*terraformtest.Session).Destroy) {
				t.Error(err)
			}
			w.MustBeClean(t)
		})
	}
}
