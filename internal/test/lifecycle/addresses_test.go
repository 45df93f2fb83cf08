package lifecycle_test

import (
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// outputs are the addresses in state.
func outputs(s *terraformtest.Session) [3]cty.Value {
	return [3]cty.Value{s.Attr("proxmox_vm.web", "ipv4_address"), s.Attr("proxmox_vm.web", "ipv6_address"), s.Attr("proxmox_vm.web", "addresses")}
}

func same(a, b [3]cty.Value) bool {
	return a[0].RawEquals(b[0]) && a[1].RawEquals(b[1]) && a[2].RawEquals(b[2])
}

// answers is an agent that reports addresses of both network devices of the VM that is waited for.
func answers(first ...string) *state.Agent {
	return &state.Agent{Interfaces: []state.AgentInterface{
		{Name: "lo", MAC: "00:00:00:00:00:00", Addresses: []string{"127.0.0.1/8", "::1/128"}},
		{Name: "docker0", MAC: "02:42:5d:00:00:01", Addresses: []string{"172.17.0.1/16"}},
		{Name: "br0", MAC: "bc:24:11:00:00:01", Addresses: first},
		{Name: "eth1", MAC: "bc:24:11:00:00:02", Addresses: []string{"10.2.0.1/24", "fe80::2/64"}},
	}}
}

// TestAddressesStay follows the addresses in state through the life of a guest: they are what the agent says; while it is
// silent they are what it said last; a stopped guest has none. No plan is ever anything but empty.
func TestAddressesStay(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		hcl := awaited("", `power_state = "running"`)
		s := w.Session(t, rig.TokenNoSSH, hcl)
		rig.Must(t, s.Run(t.Context()))
		now := func(what string, agent *state.Agent) [3]cty.Value {
			t.Helper()
			time.Sleep(time.Minute)
			w.Change(func(world *state.World) { world.Guests[500].Agent = agent })
			rig.Must(t, s.Refresh(t.Context()))
			if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
				t.Errorf("%s: the plan is not empty: %v", what, err)
			}
			return outputs(s)
		}
		known := now("answers", answers("10.1.0.1/24", "10.1.0.2/24", "fd00::1/64", "2001:db8::1/64"))
		for n, want := range []string{"10.1.0.1", "2001:db8::1"} {
			if known[n].IsNull() || known[n].AsString() != want {
				t.Errorf("%#v, want %s", known[n], want)
			}
		}
		if got := now("silent", &state.Agent{Silent: true}); !same(known, got) {
			t.Errorf("after silence %#v, before %#v", got, known)
		}
		if got := now("silent again", &state.Agent{Silent: true}); !same(known, got) {
			t.Errorf("after more silence %#v, before %#v", got, known)
		}
		if got := now("another order", answers("2001:db8::1/64", "fd00::1/64", "10.1.0.2/24", "10.1.0.1/24")); !same(known, got) {
			t.Errorf("in another order %#v, before %#v", got, known)
		}
		if got := now("another address", answers("10.1.0.9/24")); got[0].IsNull() || got[0].AsString() != "10.1.0.9" || !got[1].IsNull() {
			t.Errorf("with another address: %#v", got)
		}
		w.Sim.EndGuest(500)
		time.Sleep(time.Minute)
		rig.Must(t, s.Refresh(t.Context()))
		if got := outputs(s); !got[0].IsNull() || !got[1].IsNull() || !got[2].IsNull() {
			t.Errorf("of a stopped guest: %#v", got)
		}
		rig.Must(t, s.Converge(t.Context()))
	})
}

// TestAddressesInThePlan: a change that does not touch the addresses leaves them known, so that nothing that depends on them
// is planned again; also when the agent is silent meanwhile.
func TestAddressesInThePlan(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		s := w.Session(t, rig.TokenNoSSH, awaited(`wait_for = { ipv4 = true }`, ""))
		rig.Must(t, s.Converge(t.Context()))
		known := outputs(s)
		w.Change(func(world *state.World) { world.Guests[500].Agent = &state.Agent{Silent: true} })
		for _, c := range []struct {
			change string
			open   bool
		}{{`tags = ["a"]`, false}, {`description = "x"`, false}, {`cpu = { cores = 2 }`, false}, {`machine = "q35"`, true}} {
			change, open := c.change, c.open
			w.Reconfigure(t, s, rig.TokenNoSSH, awaited("", change))
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			for _, c := range pl.Changes {
				if address := terraformtest.At(c.Planned, "ipv4_address"); address.IsKnown() == open {
					t.Errorf("%s: ipv4_address is planned as %#v", change, address)
				}
			}
			rig.Must(t, s.Apply(t.Context(), pl))
			if got := outputs(s); !same(known, got) {
				t.Errorf("%s: %#v, before %#v", change, got, known)
			}
			rig.Must(t, s.Converge(t.Context()))
		}
	})
}
