package destroy_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const leftoverVM = `
resource "proxmox_vm" "web" {
  name  = "web-1"
  node  = "pve1"
  vmid  = 400
  clone = { vmid = 9000, full = true }
}
`

// halfMade applies with a clone worker that dies, as an identity that cannot take its lock away.
func halfMade(t *testing.T) (*rig.World, *terraformtest.Session) {
	t.Helper()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, leftoverVM)
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/clone"}, Phase: fault.KillTask}})
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "qm unlock 400") {
		t.Fatalf("want an error with the command that removes the rest, got %v", err)
	}
	if i, err := s.Instance("proxmox_vm.web"); err != nil || !i.Tainted {
		t.Fatalf("the leftover is not in state, tainted: %+v, %v", i, err)
	}
	return w, s
}

// TestLeftoversAreKeptUntilTheyAreGone: neither a refresh nor a destroy forgets them, and each says the command.
func TestLeftoversAreKeptUntilTheyAreGone(t *testing.T) {
	t.Parallel()
	w, s := halfMade(t)
	for _, try := range []func() error{func() error { return s.Destroy(t.Context()) }, func() error { return s.Run(t.Context()) }} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "qm unlock 400") {
			t.Errorf("want an error with the command, got %v", err)
		}
		if len(s.Addresses()) != 1 {
			t.Fatal("the leftovers were forgotten")
		}
	}
	w.Change(func(world *state.World) { world.Guests[400].SetLock("", "") }) // qm unlock
	if err := s.Destroy(t.Context()); err != nil {
		t.Errorf("unlocked, and still not removed: %v", err)
	}
	w.MustBeClean(t)
	if len(s.Addresses()) != 0 {
		t.Errorf("in state: %v", s.Addresses())
	}
}

// TestLeftoversWhoseIDIsTaken: the operator removed them by hand, and another guest has the id: it is not touched, and
// a new one is made under another id or refused.
func TestLeftoversWhoseIDIsTaken(t *testing.T) {
	t.Parallel()
	w, s := halfMade(t)
	w.Change(func(world *state.World) {
		for key, v := range world.Volumes {
			if v.VMID == 400 {
				delete(world.Volumes, key)
			}
		}
		delete(world.Firewall, 400)
		world.Guests[400] = &state.Guest{VMID: 400, Type: "qemu", Node: "pve1", Config: map[string]string{
			"name": "the third party's", "smbios1": "uuid=" + rig.OtherUUID, "meta": "creation-qemu=9.2.0,ctime=1", "memory": "512"}}
	})
	w.Mark()
	w.Sim.Advance(20e9)
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("want: the id is taken, got %v", err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	w.MustBeClean(t)
	if len(s.Addresses()) != 0 {
		t.Errorf("in state: %v", s.Addresses())
	}
}
