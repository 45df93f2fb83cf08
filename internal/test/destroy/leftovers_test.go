package destroy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDestroyThatPVESaysIsOK: PVE says OK, or WARNINGS, and a volume could not be freed. While that passes it is removed after
// all; while it lasts it is an error that names the volume with PVE's reason, the resource stays in state, and a later
// destroy removes the volume. A volume that another process has open is one such case.
func TestDestroyThatPVESaysIsOK(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"8.4", "9.2"} {
		for _, who := range rig.Identities() {
			for _, storage := range []string{"local-zfs", "local"} {
				if (storage == "local") != (profile == "9.2") && who != rig.TokenSSH {
					continue
				}
				t.Run(fmt.Sprint(profile, " ", who, " ", storage), func(t *testing.T) {
					t.Parallel()
					w := rig.NewWorld(t, pvesim.Options{Profile: profile})
					s := w.Session(t, who, rig.DestroyBlock(""))
					frees := func(n int) { w.Change(func(world *state.World) { world.Storages[storage].BusyFrees = n }) }
					for _, passing := range []bool{true, false} {
						if err := s.Run(t.Context()); err != nil {
							t.Fatal(err)
						}
						frees(map[bool]int{true: 2, false: -1}[passing])
						err := s.Destroy(t.Context())
						frees(0)
						if passing {
							if err != nil {
								t.Error(err)
							}
							mustBeGone(t, w, 400)
							continue
						}
						rig.MustSay(t, err, "Left on the server", storage+":", "pvesm free "+storage+":", "check manually")
						mustHaveLeftOneVolume(t, w, s, storage)
						if err := s.Destroy(t.Context()); err != nil {
							t.Error(err)
						}
						mustBeGone(t, w, 400)
					}
				})
			}
		}
	}
}

// mustHaveLeftOneVolume checks the server after a destroy that left a volume, and the message of a refresh about it.
func mustHaveLeftOneVolume(t *testing.T, w *rig.World, s *terraformtest.Session, storage string) {
	t.Helper()
	if got := rig.TracesOf(w, 400); len(got) != 1 || !strings.HasPrefix(got[0], storage+":") {
		t.Errorf("left: %v", got)
	}
	w.Sim.Advance(20 * time.Second)
	if err := s.Refresh(t.Context()); err != nil || len(s.Addresses()) != 1 {
		t.Errorf("after a refresh %v is in state: %v", s.Addresses(), err)
	}
	if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, "Leftovers") {
		t.Errorf("the refresh does not name the volume: %s", said)
	}
}

// TestAVMThatCannotBeDestroyed: it is in state as it was, and a refresh does not warn of it as if it were its own leftover.
func TestAVMThatCannotBeDestroyed(t *testing.T) {
	t.Parallel()
	w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(""))
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "DELETE", VMID: 400}, Phase: fault.Before, Times: -1, Reason: "no quorum"}})
	rig.MustSay(t, s.Destroy(t.Context()), "no quorum", "VM 400")
	w.Sim.SetFaults(nil)
	w.Sim.Advance(20 * time.Second)
	if err := s.Refresh(t.Context()); err != nil || len(s.Addresses()) != 1 {
		t.Errorf("after a refresh %v is in state: %v", s.Addresses(), err)
	}
	if said := s.Diagnostics(); len(said) > 0 {
		t.Errorf("the refresh says: %v", said)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	mustBeGone(t, w, 400)
}

// TestDestroyWhileItsNodeGoesAway: the node crashes in the middle of the destroy, early or late. Nothing is dropped from
// state that is there; when the node is back the next destroy ends it.
func TestDestroyWhileItsNodeGoesAway(t *testing.T) {
	t.Parallel()
	for _, who := range rig.Identities() {
		for name, match := range map[string]fault.Match{
			"at the shutdown":  {Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/shutdown"},
			"in the destroy":   {Method: "DELETE", Path: "/nodes/{node}/qemu/{vmid}"},
			"at the last look": {Method: "GET", Path: "/nodes/{node}/storage/{storage}/content"},
		} {
			t.Run(fmt.Sprint(who, " ", name), func(t *testing.T) {
				t.Parallel()
				w, s := rig.Applied(t, who, rig.DestroyBlock(""))
				w.Sim.SetFaults([]fault.Rule{{Match: match, Phase: fault.Offline}})
				err := s.Destroy(t.Context())
				if left := rig.TracesOf(w, 400); len(left) > 0 {
					rig.MustSay(t, err, "VM 400")
					if len(s.Addresses()) != 1 {
						t.Errorf("dropped from state, and left: %v", left)
					}
				}
				w.Sim.SetFaults(nil)
				w.Sim.SetNode("pve1", true)
				w.Sim.Advance(20 * time.Second)
				if err := s.Destroy(t.Context()); err != nil {
					if who != rig.RootTicket && who != rig.TokenSSH {
						rig.MustSay(t, err, "qm unlock 400")
						return
					}
					t.Error(err)
				}
				mustBeGone(t, w, 400)
			})
		}
	}
}
