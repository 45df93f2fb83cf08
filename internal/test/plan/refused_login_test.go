package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

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
