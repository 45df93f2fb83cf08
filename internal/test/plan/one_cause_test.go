package plan_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// allOf makes VMs, and forgets what the provider was told.
func allOf(t *testing.T, count int) (*rig.World, *terraformtest.Session, *atomic.Bool) {
	t.Helper()
	w, down := rig.NewWorld(t), new(atomic.Bool)
	w.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if down.Load() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		}
		return w.Sim.DialContext(ctx, network, address)
	}
	s := w.Session(t, rig.TokenNoSSH, fleet(count, `"pve1"`, "local-zfs", "1G", 512))
	rig.Must(t, s.Converge(t.Context()))
	rig.Must(t, s.Configure(w.ProviderBlock(rig.TokenNoSSH)))
	return w, s, down
}

// inFull returns the errors with a detail, and those without.
func inFull(s *terraformtest.Session) (full, short []string) {
	for _, d := range s.Diagnostics() {
		text := d.Summary + "\n" + d.Detail
		if d.Detail == "" {
			short = append(short, text)
		} else {
			full = append(full, text)
		}
	}
	return full, short
}

// TestOneCauseOfAll: a cause that hits every VM of a run is told once in full. The other errors are one line, and name the
// first VM; warnings have one summary, of which Terraform shows one.
func TestOneCauseOfAll(t *testing.T) {
	t.Parallel()
	const count = 12
	for name, c := range map[string]struct {
		hit  func(w *rig.World, down *atomic.Bool)
		want string // in the error in full
	}{
		"expired token": {func(w *rig.World, _ *atomic.Bool) {
			w.Sim.SetFaults([]fault.Rule{{Phase: fault.Before, Times: -1, Status: 401, Reason: "authentication failure"}})
		}, "refused the credentials of terraform@pve!prov"},
		"no server": {func(_ *rig.World, down *atomic.Bool) { down.Store(true) }, "check that the node is up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s, down := allOf(t, count)
			c.hit(w, down)
			if err := s.Refresh(t.Context()); err == nil {
				t.Fatal("no error")
			}
			full, short := inFull(s)
			if len(full) != 1 || len(short) != count-1 || !strings.Contains(full[0], c.want) {
				t.Fatalf("%d in full, %d short:\n%s\n%s", len(full), len(short), strings.Join(full, "\n"), strings.Join(short, "\n"))
			}
			first, _, _ := strings.Cut(strings.TrimPrefix(full[0], "Cannot read "), "\n")
			for _, line := range short {
				if !strings.HasSuffix(strings.TrimSpace(line), "as for "+first) {
					t.Error(line)
				}
			}
			t.Logf("%d VMs: 1 error in full, %d in one line", count, len(short))
		})
	}
}

// TestOneCauseIsNotAnother: an error with other words is told in full.
func TestOneCauseIsNotAnother(t *testing.T) {
	t.Parallel()
	w, s, _ := allOf(t, 4)
	w.Change(func(world *state.World) { world.Nodes["pve1"].Online = false })
	rig.Must(t, s.Refresh(t.Context()))
	summaries := map[string]int{}
	for _, d := range s.Diagnostics() {
		summaries[d.Summary]++
	}
	if len(summaries) > 2 {
		t.Errorf("a node that is away has %d summaries: %v\n%s", len(summaries), summaries, s.Diagnostics())
	}
	w.Change(func(world *state.World) { world.Nodes["pve1"].Online = true })
	w.Sim.SetFaults([]fault.Rule{{Phase: fault.Before, Times: -1, Status: 401, Reason: "authentication failure"}})
	if err := s.Refresh(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if full, _ := inFull(s); len(full) != 1 || !strings.Contains(full[0], "refused the credentials") {
		t.Errorf("%q", full)
	}
}

// TestOneCauseOfMissingPrivileges: VMs that lack the privileges of another VM of the plan have one error each, which names
// it; one that lacks another privilege besides says all. The first error of a token that may only look names plan_only.
func TestOneCauseOfMissingPrivileges(t *testing.T) {
	t.Parallel()
	const count = 10
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		world.Roles["TerraformProvider"] = slices.DeleteFunc(slices.Clone(world.Roles["TerraformProvider"]), func(p string) bool {
			return p != "VM.Audit" && p != "Datastore.Audit" && p != "Sys.Audit"
		})
	})
	s := w.Session(t, rig.TokenNoSSH, fleet(count, `"pve1"`, "local-zfs", "1G", 512))
	s.Parallelism = 1
	_, err := planned(t, s)
	if err == nil {
		t.Fatal("no error")
	}
	by, hints := map[string]int{}, 0
	for _, d := range s.Diagnostics().Errors() {
		by[fmt.Sprint(d.Address)]++
		hints += strings.Count(d.Detail, "PROXMOX_VE_PLAN_ONLY")
		if n := strings.Count(d.Detail, "The same "); n == 1 && !strings.Contains(d.Detail, "as for vm-") {
			t.Error(d.Detail)
		}
	}
	if hints != 1 {
		t.Errorf("%d errors name plan_only", hints)
	}
	alone := 0
	for _, n := range by {
		if n == 1 {
			alone++
		}
	}
	t.Logf("%d VMs: %v", count, by)
	if len(by) != count || alone != count-1 {
		t.Errorf("%d of %d VMs have one error", alone, len(by))
	}
}
