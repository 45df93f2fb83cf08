package faults_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPartialSuccess: PVE accepts a part of a change and refuses the rest. The provider reverts the refused part, pending
// changes of other users stay pending, the state is true, and the next plan shows exactly the rest.
func TestPartialSuccess(t *testing.T) {
	t.Parallel()
	before := `networks = { net0 = { bridge = "vmbr0" }, net1 = { bridge = "vmbr0" } }
disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "1G" } }
reboot_policy = "never"
`
	all := map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi2": "scsi2"}
	begin := func(t *testing.T) *rig.VM {
		l := rig.NewVM(t, before)
		l.Guest(func(_ *state.World, g *state.Guest) { // a third party's, waiting for the restart
			g.Pending = map[string]string{"cores": "7"}
			g.Deletes = map[string]int{"scsihw": 1}
			g.Config["scsihw"] = "virtio-scsi-pci"
		})
		if err := l.Session.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	t.Run("a bridge that does not exist", func(t *testing.T) {
		l := begin(t)
		nic := l.Config()["net1"]
		l.Blind()
		after := strings.Replace(before, `net1 = { bridge = "vmbr0"`, `net1 = { bridge = "vmbr9"`, 1) + "description = \"new\"\n"
		l.Fails(after, "interface vmbr9 does not exist", "net1")
		if config := l.Config(); config["net1"] != nic || config["description"] != "new" {
			t.Errorf("net1 is %q, description %q", config["net1"], config["description"])
		}
		l.WantWaiting("cores", "scsihw")
		if bridge := l.Attr("networks.net1.bridge"); bridge != "vmbr0" {
			t.Errorf("state says %s", bridge)
		}
		l.Rest(after, []string{"vmbr9"}, "description")
		l.World.Sim.SetFaults(nil)
		l.Guest(func(world *state.World, _ *state.Guest) {
			world.Nodes["pve1"].Bridges = append(slices.Clone(world.Nodes["pve1"].Bridges), "vmbr9")
		})
		l.To(after)
		l.WantWaiting("cores", "scsihw")
		l.WantRunning()
	})
	t.Run("one of two disks does not go", func(t *testing.T) {
		l := begin(t)
		after := strings.Replace(before, `, scsi1 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "1G" }`, "", 1) + "description = \"new\"\n"
		pl := l.Plan(after)
		l.Guest(func(_ *state.World, g *state.Guest) { g.Config["boot"] = "order=scsi0;scsi2" })
		if err := l.Session.Apply(t.Context(), pl); err == nil || !strings.Contains(err.Error(), "can't unplug bootdisk 'scsi2'") {
			t.Errorf("apply: %v", err)
		}
		l.Want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1", "scsi2": "scsi2"})
		l.WantWaiting("cores", "scsihw")
		if l.Attr("disks.scsi2.volume") == "" || l.Attr("disks.scsi1.volume") != "" || l.Attr("description") != "new" {
			t.Error("the state is not true")
		}
		l.Refuses(after, `disks["scsi2"]`, "boots from scsi2")
		l.WantRunning()
	})
	t.Run("a new disk is refused", func(t *testing.T) {
		l := begin(t)
		l.Guest(func(_ *state.World, g *state.Guest) { g.Config["scsi4"] = "none,media=cdrom" })
		after := strings.Replace(before, "scsi2 =", `scsi5 = { storage = "local-zfs", size = "3G" }, scsi4 = { storage = "local-zfs", size = "2G" }, scsi2 =`, 1) + "description = \"new\"\n"
		l.Fails(after, "unable to change media type")
		l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi2": "scsi2", "scsi5": ""})
		l.WantWaiting("cores", "scsihw")
		l.Rest(after, []string{"scsi4"}, "scsi5", "description")
		l.WantRunning()
	})
	t.Run("a swap that does not begin", func(t *testing.T) {
		l := begin(t)
		l.Guest(func(_ *state.World, g *state.Guest) { // each disk has a controller, which the guest must let go of
			g.Config["scsihw"], g.Ignores = "virtio-scsi-single", []string{"unplug"}
		})
		after := l.Named(strings.NewReplacer(`scsi1 = { storage = "local-zfs", size = "1G" }`, `scsi1 = { imported_disk = { volume = <scsi2> } }`, `scsi2 = { storage = "local-zfs", size = "1G" }`, `scsi2 = { imported_disk = { volume = <scsi1> } }`).Replace(before))
		l.Fails(after, "error on hot-unplugging device")
		l.Want(all)
		l.WantWaiting("cores", "scsihw")
		l.Guest(func(_ *state.World, g *state.Guest) { g.Ignores = nil })
		l.To(after)
		l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "scsi1"})
		l.WantRunning()
	})
	t.Run("a move that stops in the middle", func(t *testing.T) {
		l := begin(t)
		after := l.Named(strings.Replace(before, `scsi1 = { storage = "local-zfs", size = "1G" }`, `scsi7 = { imported_disk = { volume = <scsi1> } }`, 1))
		l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config", Nth: 2}, Phase: fault.Before, Reason: "no quorum"}})
		l.Fails(after, "no quorum")
		l.Want(all)
		l.WantWaiting("cores", "scsihw")
		l.World.Sim.SetFaults(nil)
		l.To(after)
		l.Want(map[string]string{"scsi0": "scsi0", "scsi7": "scsi1", "scsi2": "scsi2"})
		l.WantRunning()
	})
}

// TestRequestsThatDieMidway: PVE writes a configuration option by option, and an error between them leaves the first ones
// waiting, never tried, on stopped guests as well.
func TestRequestsThatDieMidway(t *testing.T) {
	t.Parallel()
	before := `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "1G" } }
description = "old"
`
	less := "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	more := strings.Replace(before, "scsi1 =", `scsi5 = { storage = "local-zfs", size = "3G" }, scsi6 = { storage = "local-lvm", size = "2G" }, scsi1 =`, 1)
	for _, power := range []string{"", rig.Stopped} {
		name := map[bool]string{true: ", running", false: ", stopped"}[power == ""]
		t.Run("protected meanwhile"+name, func(t *testing.T) {
			l := rig.NewVM(t, power+before)
			pl := l.Plan(power + less)
			l.Guest(func(_ *state.World, g *state.Guest) { g.Config["protection"] = "1" })
			err := l.Session.Apply(t.Context(), pl)
			if err == nil || !strings.Contains(err.Error(), "protection mode enabled") {
				t.Errorf("apply: %v", err)
			}
			l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1"})
			l.WantWaiting()
			if l.Config()["description"] != "old" {
				t.Error("the description is gone")
			}
			l.Guest(func(_ *state.World, g *state.Guest) { delete(g.Config, "protection") })
			l.To(power + less)
			l.Want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1"})
		})
		t.Run("a storage fails"+name, func(t *testing.T) {
			l := rig.NewVM(t, power+before)
			l.Guest(func(world *state.World, _ *state.Guest) { world.Storages["local-lvm"].Offline = true })
			l.Fails(power+more, "local-lvm")
			l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1"})
			l.WantWaiting()
			l.Guest(func(world *state.World, _ *state.Guest) { world.Storages["local-lvm"].Offline = false })
			l.World.Sim.Advance(20e9)
			l.To(power + more)
			l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi5": "", "scsi6": ""})
		})
		for _, phase := range []fault.Phase{fault.Task, fault.KillTask} {
			t.Run("the task: "+string(phase)+name, func(t *testing.T) {
				l := rig.NewVM(t, power+before)
				l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: phase}})
				l.Configure(power + more)
				err := l.Session.Run(t.Context())
				l.World.Sim.SetFaults(nil)
				l.Guest(func(world *state.World, g *state.Guest) { // the provider names a dead worker's leftover, and a person removes it
					for key, v := range world.Volumes {
						if v.VMID == 400 && v.Data == "" && phase == fault.KillTask && err != nil && strings.Contains(err.Error(), "pvesm free "+v.Volid()) {
							delete(world.Volumes, key)
						}
					}
				})
				l.To(power + more)
				l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi5": "", "scsi6": ""})
				l.WantWaiting()
			})
		}
	}
}

// TestOthersVolumeIsDetached: a volume of another VM that a third party attached here is detached, and stays.
func TestOthersVolumeIsDetached(t *testing.T) {
	t.Parallel()
	const one = `disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
`
	l := rig.NewVM(t, one)
	l.Guest(func(world *state.World, g *state.Guest) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-399-disk-0", Content: "images", VMID: 399, Format: "raw", Size: 1 << 30, Data: "another's"})
		g.Config["scsi1"] = "local-zfs:vm-399-disk-0,size=1G"
	})
	l.To(strings.Replace(one, "} }", `}, scsi1 = { storage = "local-zfs", size = "1G" } }`, 1))
	l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "another's"})
	l.To(one)
	l.Warned(`disks["scsi1"]`, "vm-399-disk-0", "another VM", "does not destroy it")
	l.Want(map[string]string{"scsi0": "scsi0"})
	if err := l.Session.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.World.Change(func(world *state.World) {
		if v := world.Volume("pve1", "local-zfs:vm-399-disk-0"); v == nil || v.Data != "another's" {
			t.Error("the other VM's volume is gone")
		}
	})
}
