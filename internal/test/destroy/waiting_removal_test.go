package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPlanNamesADiskWhoseRemovalWaits: a third party has asked PVE to detach a disk of a running guest, and PVE keeps the
// removal for the next stop. The disk is destroyed with the VM, so the plan of the destroy names it, also where an update is the first to
// see it, or has removed the disk itself.
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
			if !strings.Contains(pl.Diagnostics.String(), volume) {
				t.Errorf("the plan does not name %s:\n%s", volume, pl.Diagnostics)
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

// TestPlanNamesADiskWhoseExchangeWaits: another volume waits for the next stop in the slot of a running guest, since that is not restarted or has
// not obeyed. PVE destroys the disk in force with the VM as well (qemu-server QemuServer.pm destroy_vm). The state has the other one, so each plan
// that destroys or replaces the VM names the disk in force, with and without a refresh. The plan of the exchange has said that it goes with the VM.
func TestPlanNamesADiskWhoseExchangeWaits(t *testing.T) {
	t.Parallel()
	const never, obeys = "reboot_policy = \"never\"\n", "shutdown_timeout = \"5s\"\ntimeouts = { update = \"1m\" }\n"
	toDestroy, unread := terraformtest.ToDestroy(), terraformtest.WithoutRefresh()
	for name, c := range map[string]struct {
		policy string
		vmid   string
		with   []terraformtest.PlanOption
	}{
		"destroy":                   {never, "400", []terraformtest.PlanOption{toDestroy}},
		"destroy without a refresh": {never, "400", []terraformtest.PlanOption{toDestroy, unread}},
		"replacement":               {never, "401", nil},
		"deaf guest":                {obeys, "400", []terraformtest.PlanOption{toDestroy}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := func(more string) string {
				return "power_state = \"running\"\nhotplug = [\"network\"]\n" + c.policy + "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }" + more + " }\n"
			}
			const second = ", scsi1 = { storage = \"local-zfs\", size = \"2G\" }"
			off := strings.NewReplacer("running", "stopped")
			l := rig.NewVM(t, off.Replace(body(second+", scsi2 = { storage = \"local-zfs\", size = \"3G\" }")))
			l.World.ExpectPowerOffs(state.PowerStop, state.PowerShutdown, state.PowerReboot)
			a, b := l.Volume("scsi1"), l.Volume("scsi2")
			l.To(off.Replace(body(second)))
			l.To(body(second))
			l.Disobeys(true)
			exchange := body(fmt.Sprintf(", scsi1 = { imported_disk = { volume = %q } }", b))
			pl := l.Plan(exchange)
			rig.MustSay(t, fmt.Errorf("%s", pl.Diagnostics), a, "is destroyed with the VM")
			if err := l.Session.Apply(t.Context(), pl); (err != nil) != (c.policy == obeys) {
				t.Fatal(err)
			}
			l.Disobeys(false)
			if c.vmid != "400" {
				l.World.Reconfigure(t, l.Session, rig.TokenNoSSH, strings.Replace(rig.NodeVMBlock(body(second)), "400", c.vmid, 1))
			}
			pl, err := l.Session.Plan(t.Context(), c.with...)
			rig.Must(t, err)
			rig.MustSay(t, fmt.Errorf("%s", pl.Diagnostics), "scsi1: "+a, "While the VM runs, detach the disk first, or shut the VM down")
		})
	}
}
