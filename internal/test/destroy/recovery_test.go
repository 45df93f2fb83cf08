package destroy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestApplyAfterAHalfDestroy: a destroy removed the VM and left a volume. There is nothing to update: the plan replaces the VM,
// with the same configuration and with another, and the apply removes the volume and makes the VM again.
func TestApplyAfterAHalfDestroy(t *testing.T) {
	for _, change := range []string{"", "description = \"another\""} {
		t.Run(change, func(t *testing.T) {
			w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(""))
			frees := func(n int) { w.Change(func(world *state.World) { world.Storages["local-zfs"].BusyFrees = n }) }
			whole := len(rig.TracesOf(w, 400))
			frees(-1)
			rig.MustSay(t, s.Destroy(t.Context()), "Left on the server")
			frees(0)
			mustHaveLeftOneVolume(t, w, s, "local-zfs")
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.DestroyBlock(change))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := rig.TracesOf(w, 400); len(got) != whole {
				t.Errorf("%d things of the VM, want %d: %v", len(got), whole, got)
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			mustBeGone(t, w, 400)
		})
	}
}

// TestDestroyCutShortOverAVolume: a destroy was cut short while the VM's id was taken again to remove a volume that was left.
// The empty VM that it made has the uuid of the one in state; it is none the less removed, never changed or taken for it.
func TestDestroyCutShortOverAVolume(t *testing.T) {
	for _, apply := range []bool{true, false} {
		t.Run(fmt.Sprint("apply ", apply), func(t *testing.T) {
			w, s := rig.Applied(t, rig.TokenNoSSH, rig.PoweredVM(""))
			w.Change(func(world *state.World) {
				g := world.Guests[400]
				g.Running = nil
				g.Config = map[string]string{"name": "", "smbios1": g.Config["smbios1"], "meta": g.Config["meta"],
					"unused0": strings.Split(g.Config["scsi0"], ",")[0], "description": rig.MarkOf(400)}
				delete(g.Config, "name")
			})
			w.Sim.Advance(20 * time.Second)
			if err := s.Refresh(t.Context()); err != nil || len(s.Addresses()) != 1 {
				t.Errorf("a refresh says %v and leaves %v", err, s.Addresses())
			}
			if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, "is gone") {
				t.Errorf("the refresh does not name its findings: %s", said)
			}
			if apply {
				if err := s.Converge(t.Context()); err != nil {
					t.Fatal(err)
				}
				if g := rig.GuestOf(w, 400); g.Config["description"] != "one" || g.Config["scsi0"] == "" || g.Config["unused0"] != "" || g.Running == nil {
					t.Errorf("not made again: %v", g.Config)
				}
				w.Sim.ResetPowerOffs()
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			mustBeGone(t, w, 400)
		})
	}
}

// TestAgainAtOnceAfterAKill: a run on another host may have been killed in the middle of a create. The next run comes before the
// listing has the name of the leftover, or wants the same id, and finds the leftover. The provider refuses the id. A name is no reason
// to refuse anything (create.TestVMsOfTheSameName), and a create that is known to be dead is undone (create.TestKilledDuringTheTask).
func TestAgainAtOnceAfterAKill(t *testing.T) {
	for name, body := range map[string]string{
		"by name": `name = "twin"`,
		"by id":   "name = \"twin\"\nvmid = 400",
	} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Guests[400] = &state.Guest{VMID: 400, Type: "qemu", Node: "pve1",
					Config: map[string]string{"name": "twin", "description": rig.MarkOf(400), "memory": "512"}}
			})
			w.Mark()
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("node = \"pve1\"\n"+body))
			if strings.HasSuffix(name, "name") { // which another live run has as much right to
				if err := s.Run(t.Context()); err != nil || rig.GuestOf(w, 400).Config["description"] != rig.MarkOf(400) {
					t.Errorf("no VM owns a name alone: %v, VM 400 is %v", err, rig.GuestOf(w, 400).Config)
				}
				return
			}
			rig.MustSay(t, s.Run(t.Context()), "VMID 400 is taken by a VM that was not finished", "0123456789abcdef", "proxmox_orphan_delete")
			w.MustBeClean(t)
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock("node = \"pve1\"\nname = \"other\""))
			if err := s.Converge(t.Context()); err != nil {
				t.Errorf("a VM of another name: %v", err)
			}
		})
	}
}

// TestIDsStayInTheDatacentersRange: an id that cannot be used is followed by another one of the range that the datacenter
// gives, and by none outside.
func TestIDsStayInTheDatacentersRange(t *testing.T) {
	for name, last := range map[string]int{"one left": 402, "none left": 401} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.NextID.Lower, world.NextID.Upper = 400, last+1
				key := state.VolumeKey{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-0"}
				world.Volumes[key] = &state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-0", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30}
				world.Guests[401] = &state.Guest{VMID: 401, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "taken"}}
			})
			s := w.Session(t, rig.RootTicket, rig.VMBlock("node = \"pve1\"\n"+rig.OneDisk))
			err := s.Run(t.Context())
			if last == 401 {
				rig.MustSay(t, err, "No free VMID", "401", "Widen the range of the datacenter")
				return
			}
			if g := rig.GuestOf(w, 402); err != nil || g.VMID != 402 {
				t.Errorf("VM 402 was not made: %v", err)
			}
		})
	}
}

// TestMigrateAcrossBridges: a running guest arrives with the bridges that it has, so one that the target lacks stands in the
// way although the plan has another. A guest that is shut down on the way needs none.
func TestMigrateAcrossBridges(t *testing.T) {
	lives := func(node, bridge, more string) string {
		return rig.VMBlock(fmt.Sprintf("vmid = 400\nnode = %q\nnetworks = { net0 = { bridge = %q } }\n%s\n%s", node, bridge, rig.OneDisk, more))
	}
	w, s := rig.Applied(t, rig.TokenNoSSH, lives("pve1", "vmbr1", ""))
	w.Change(func(world *state.World) { world.Nodes["pve2"].Bridges = []string{"vmbr0"} })
	w.Reconfigure(t, s, rig.TokenNoSSH, lives("pve2", "vmbr0", ""))
	_, err := s.Plan(t.Context())
	rig.MustSay(t, err, "VM 400 cannot be migrated to node pve2", "vmbr1")
	w.Reconfigure(t, s, rig.TokenNoSSH, lives("pve2", "vmbr0", `power_state = "stopped"`))
	if err := s.Converge(t.Context()); err != nil || rig.GuestOf(w, 400).Node != "pve2" {
		t.Errorf("not migrated while it was off: %v", err)
	}
}

// TestTaintedWithoutPrivateState: Terraform hands the destroy that begins the replacement of a tainted resource no private
// state, so the uuid in state is what tells which VM is meant. A third party under its id is refused all the same.
func TestTaintedWithoutPrivateState(t *testing.T) {
	w, s := rig.Applied(t, rig.TokenNoSSH, rig.PoweredVM(""))
	before := rig.GuestOf(w, 400).Config["smbios1"]
	s.Taint("proxmox_vm.x", true)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := rig.GuestOf(w, 400).Config["smbios1"]; after == "" || after == before {
		t.Errorf("not replaced: %q, %q", before, after)
	}
}
