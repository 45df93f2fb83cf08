package vm

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestPlanTakesUnitsBeyondTheRangeForTheLimit: a node with cgroup v2 makes 10000 of a greater weight. That is no difference, to a VM that was made
// so, or is adopted.
func TestPlanTakesUnitsBeyondTheRangeForTheLimit(t *testing.T) {
	f, server := obedient(t)
	s := newSession(t, f)
	f.read = func(guest.Ref) (guest.Guest, guest.Presence, error) {
		server.CPU.Units = new(int64(10000))
		return guestOf(*server, ""), guest.Found, nil
	}
	f.adopt = func(string, int) (guest.Guest, error) { return guestOf(*server, ""), nil }
	config := plain()
	config.CPU = &vm.CPU{Units: new(int64(20000))}
	s.apply(config)
	for _, begin := range []func(){func() {}, func() { s.adopt("100") }} {
		begin()
		s.refresh()
		if planned, _ := s.plan(rawOf(t, s.v, config)); !planned.Equal(s.state) {
			t.Errorf("the plan is not empty:\n%s\n%s", planned, s.state)
		}
	}
	config.CPU.Units = new(int64(9000))
	if planned, _ := s.plan(rawOf(t, s.v, config)); planned.Equal(s.state) {
		t.Error("a weight that the node has is not planned")
	}
}
