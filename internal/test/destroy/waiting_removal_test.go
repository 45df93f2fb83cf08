package destroy_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPlanNamesADiskWhoseRemovalWaits: a third party has asked PVE to detach a disk of a running guest, and PVE keeps the
// removal for the next stop. The disk is destroyed with the VM, so the plan of the destroy names it, also where an update is the first to
// see it. One that an update has removed was told of before.
func TestPlanNamesADiskWhoseRemovalWaits(t *testing.T) {
	t.Parallel()
	const running, added = "power_state = \"running\"\nreboot_policy = \"never\"\nhotplug = []", "local-zfs:vm-400-disk-7"
	wait := func(slot string) func(*state.World) {
		return func(world *state.World) { // as PUT config with delete leaves it: "can't unplug bootdisk 'scsi0'"
			world.Guests[400].Deletes = map[string]int{slot: 1}
		}
	}
	for name, c := range map[string]struct {
		acts   []func(*state.World) // each is followed by a refresh that is written
		volume string
		ours   bool
		update string // the acts come between its plan and its apply
	}{
		"of the state":             {[]func(*state.World){wait("scsi0")}, "", false, ""},
		"and a refresh":            {[]func(*state.World){wait("scsi0"), func(*state.World) {}}, "", false, ""},
		"that a third party added": {[]func(*state.World){addSATA, wait("sata0")}, added, false, ""},
		"both at once":             {[]func(*state.World){func(w *state.World) { addSATA(w); wait("sata0")(w) }}, added, false, ""},
		"of an update":             {nil, "", true, ""},
		"while an update fails":    {[]func(*state.World){wait("scsi0")}, "", false, "fails"},
		"while an update succeeds": {[]func(*state.World){wait("scsi0")}, "", false, "succeeds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(running))
			volume := c.volume
			w.Change(func(world *state.World) {
				if volume == "" {
					volume, _, _ = strings.Cut(world.Guests[400].Config["scsi0"], ",")
				}
			})
			if c.ours {
				without := strings.Replace(rig.DestroyBlock(running), `scsi0 = { storage = "local-zfs", size = "1G" }, `, "", 1)
				w.Reconfigure(t, s, rig.TokenNoSSH, without)
				_ = s.Run(t.Context()) // says that the removal waits
			}
			if c.update != "" {
				w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(rig.DestroyBlock(running), `"pve1"`, `"pve2"`, 1))
				pl, err := s.Plan(t.Context())
				rig.Must(t, err)
				w.Change(c.acts[0])
				if c.update == "fails" {
					w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/migrate"},
						Phase: fault.Before, Times: -1, Status: 400, Reason: "no luck"}})
				}
				if err = s.Apply(t.Context(), pl); (err != nil) != (c.update == "fails") {
					t.Fatal(err)
				}
				w.Sim.SetFaults(nil)
				rig.Must(t, s.Refresh(t.Context()))
				c.acts = nil
			}
			for _, act := range c.acts {
				w.Change(act)
				rig.Must(t, s.Refresh(t.Context()))
			}
			if c.volume != "" { // an ordinary apply leaves it alone, and forgets nothing
				rig.Must(t, s.Converge(t.Context()))
			}
			if waits := rig.GuestOf(w, 400).Deletes; len(waits) != 1 {
				t.Errorf("these wait to be removed: %v", waits)
			}
			pl, err := s.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			if named := strings.Contains(pl.Diagnostics.String(), volume); named == c.ours {
				t.Errorf("the plan names %s: %t\n%s", volume, named, pl.Diagnostics)
			}
			rig.Must(t, s.Apply(t.Context(), pl))
			w.MustBeClean(t)
		})
	}
}

func addSATA(world *state.World) {
	world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: 400, Format: "raw",
		Size: 1 << 30, Data: "the user's data"})
	world.Guests[400].Config["sata0"] = "local-zfs:vm-400-disk-7,size=1G"
}
