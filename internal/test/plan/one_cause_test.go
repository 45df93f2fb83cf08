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
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
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

// TestRefusedCredentialsInAnApplyAreOfNoPlan: a token that expires after the plan fails the check that an apply begins
// with. The errors do not say that a plan fails.
func TestRefusedCredentialsInAnApplyAreOfNoPlan(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, "resource \"proxmox_vm\" \"x\" {\n  count = 3\n  name = \"x-${count.index}\"\n  node = \"pve1\"\n}\n")
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	w.Sim.SetFaults([]fault.Rule{{Phase: fault.Before, Times: -1, Status: 401, Reason: "authentication failure"}})
	w.Sim.Advance(20e9) // what the plan has read is old
	err = s.Apply(t.Context(), pl)
	if full, short := inFull(s); err == nil || len(full) != 1 || len(short) != 2 {
		t.Errorf("%v: %d in full, %d short", err, len(full), len(short))
	}
	if said := fmt.Sprint(s.Diagnostics()); strings.Contains(said, "annot plan") || strings.Contains(said, "plan needs") {
		t.Errorf("said %s", said)
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

// TestOneCauseRefusedLoginIsNotRepeated: PVE holds each 401 back for 3 s. A run of many VMs whose token has expired ends
// within seconds of the cluster's clock, and not after 3 s for each VM: the first refusals stand for the other VMs. A
// password is sent once, since an account may be locked after a few.
func TestOneCauseRefusedLoginIsNotRepeated(t *testing.T) {
	t.Parallel()
	many := 100
	if share.IsWhole() {
		many = 400
	}
	for name, c := range map[string]struct {
		as       rig.Identity
		refuse   func(world *state.World)
		count    int
		requests int
		said     string
	}{
		"expired token": {rig.TokenNoSSH, func(world *state.World) {
			for _, token := range world.Tokens {
				token.Expire = world.Clock.Now().Add(-time.Hour).Unix()
			}
		}, many, 3, "Authentication failed!"},
		"disabled user": {rig.RootTicket, func(world *state.World) { world.Users["root@pam"].Disabled = true }, 40, 1,
			"authentication failure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(c.refuse)
			s := w.Session(t, c.as, fleet(c.count, `"pve1"`, "local-zfs", "1G", 512))
			before := w.Sim.World().Clock.Now()
			if _, err := s.Plan(t.Context()); err == nil {
				t.Fatal("no error")
			}
			took, requests := w.Sim.World().Clock.Now().Sub(before), len(w.Sim.Ops())
			full, short := inFull(s)
			t.Logf("%d VMs: %d requests, %v, %d errors in full, %d in one line", c.count, requests, took, len(full), len(short))
			if len(full) != 1 || len(short) != c.count-1 || !strings.Contains(full[0], c.said) {
				t.Errorf("%s", strings.Join(full, "\n"))
			}
			if took > 10*time.Second || requests > c.requests {
				t.Errorf("%d requests took %v", requests, took)
			}
		})
	}
}
