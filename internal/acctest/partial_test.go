package acctest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// blind hides the bridges from plans, so that one that does not exist is noticed by the apply.
func (l *life) blind() {
	l.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: "/nodes/{node}/network"}, Phase: fault.Before, Status: 403, Reason: "Permission check failed", Times: -1}})
}

// wantWaiting compares what waits for a restart.
func (l *life) wantWaiting(options ...string) {
	l.Helper()
	if diff := cmp.Diff(options, l.waiting()); diff != "" {
		l.Errorf("waits for a restart: %s", diff)
	}
}

// rest wants the next plan of a configuration to speak of some attributes and of no others.
func (l *life) rest(body string, speaks []string, silent ...string) {
	l.Helper()
	text := l.plan(body).String()
	for _, attribute := range speaks {
		if !strings.Contains(text, attribute) {
			l.Errorf("the next plan does not speak of %s:\n%s", attribute, text)
		}
	}
	for _, attribute := range silent {
		if strings.Contains(text, attribute) {
			l.Errorf("the next plan speaks of %s:\n%s", attribute, text)
		}
	}
}

// TestPartialSuccess: PVE takes a part of a change and refuses the rest. What it refused is taken back, what others have
// waiting keeps waiting, the state is true, and the next plan shows exactly the rest.
func TestPartialSuccess(t *testing.T) {
	t.Parallel()
	before := `networks = { net0 = { bridge = "vmbr0" }, net1 = { bridge = "vmbr0" } }
disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "1G" } }
reboot_policy = "never"
`
	all := map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi2": "scsi2"}
	begin := func(t *testing.T) *life {
		l := newLife(t, before)
		l.guest(func(_ *state.World, g *state.Guest) { // somebody else's, waiting for the restart
			g.Pending = map[string]string{"cores": "7"}
			g.Deletes = map[string]int{"scsihw": 1}
			g.Config["scsihw"] = "virtio-scsi-pci"
		})
		if err := l.s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	t.Run("a bridge that does not exist", func(t *testing.T) {
		l := begin(t)
		nic := l.config()["net1"]
		l.blind()
		after := strings.Replace(before, `net1 = { bridge = "vmbr0"`, `net1 = { bridge = "vmbr9"`, 1) + "description = \"new\"\n"
		l.fails(after, "interface vmbr9 does not exist", "net1")
		if config := l.config(); config["net1"] != nic || config["description"] != "new" {
			t.Errorf("net1 is %q, description %q", config["net1"], config["description"])
		}
		l.wantWaiting("cores", "scsihw")
		if bridge := l.attr("networks.net1.bridge"); bridge != "vmbr0" {
			t.Errorf("state says %s", bridge)
		}
		l.rest(after, []string{"vmbr9"}, "description")
		l.w.Sim.SetFaults(nil)
		l.guest(func(world *state.World, _ *state.Guest) {
			world.Nodes["pve1"].Bridges = append(slices.Clone(world.Nodes["pve1"].Bridges), "vmbr9")
		})
		l.to(after)
		l.wantWaiting("cores", "scsihw")
		l.steady()
	})
	t.Run("one of two disks does not go", func(t *testing.T) {
		l := begin(t)
		after := strings.Replace(before, `, scsi1 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "1G" }`, "", 1) + "description = \"new\"\n"
		pl := l.plan(after)
		l.guest(func(_ *state.World, g *state.Guest) { g.Config["boot"] = "order=scsi0;scsi2" })
		if err := l.s.Apply(t.Context(), pl); err == nil || !strings.Contains(err.Error(), "can't unplug bootdisk 'scsi2'") {
			t.Errorf("apply: %v", err)
		}
		l.want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1", "scsi2": "scsi2"})
		l.wantWaiting("cores", "scsihw")
		if l.attr("disks.scsi2.volume") == "" || l.attr("disks.scsi1.volume") != "" || l.attr("description") != "new" {
			t.Error("the state is not true")
		}
		l.refuses(after, "boots from scsi2")
		l.steady()
	})
	t.Run("a new disk is refused", func(t *testing.T) {
		l := begin(t)
		l.guest(func(_ *state.World, g *state.Guest) { g.Config["scsi4"] = "none,media=cdrom" })
		after := strings.Replace(before, "scsi2 =", `scsi5 = { storage = "local-zfs", size = "3G" }, scsi4 = { storage = "local-zfs", size = "2G" }, scsi2 =`, 1) + "description = \"new\"\n"
		l.fails(after, "unable to change media type")
		l.want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi2": "scsi2", "scsi5": ""})
		l.wantWaiting("cores", "scsihw")
		l.rest(after, []string{"scsi4"}, "scsi5", "description")
		l.steady()
	})
	t.Run("a swap that does not begin", func(t *testing.T) {
		l := begin(t)
		l.guest(func(_ *state.World, g *state.Guest) { g.Ignores = []string{"unplug"} })
		after := l.named(strings.NewReplacer(`scsi1 = { storage = "local-zfs", size = "1G" }`, `scsi1 = { imported_disk = { volume = <scsi2> } }`, `scsi2 = { storage = "local-zfs", size = "1G" }`, `scsi2 = { imported_disk = { volume = <scsi1> } }`).Replace(before))
		l.fails(after, "error on hot-unplugging device")
		l.want(all)
		l.wantWaiting("cores", "scsihw")
		l.guest(func(_ *state.World, g *state.Guest) { g.Ignores = nil })
		l.to(after)
		l.want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "scsi1"})
		l.steady()
	})
	t.Run("a move that stops in the middle", func(t *testing.T) {
		l := begin(t)
		after := l.named(strings.Replace(before, `scsi1 = { storage = "local-zfs", size = "1G" }`, `scsi7 = { imported_disk = { volume = <scsi1> } }`, 1))
		l.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config", Nth: 2}, Phase: fault.Before, Reason: "no quorum"}})
		l.fails(after, "no quorum")
		l.want(all)
		l.wantWaiting("cores", "scsihw")
		l.w.Sim.SetFaults(nil)
		l.to(after)
		l.want(map[string]string{"scsi0": "scsi0", "scsi7": "scsi1", "scsi2": "scsi2"})
		l.steady()
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
	for _, power := range []string{"", stopped} {
		name := map[bool]string{true: ", running", false: ", stopped"}[power == ""]
		t.Run("protected meanwhile"+name, func(t *testing.T) {
			l := newLife(t, power+before)
			pl := l.plan(power + less)
			l.guest(func(_ *state.World, g *state.Guest) { g.Config["protection"] = "1" })
			err := l.s.Apply(t.Context(), pl)
			if err == nil || !strings.Contains(err.Error(), "protection mode enabled") {
				t.Errorf("apply: %v", err)
			}
			l.want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1"})
			l.wantWaiting()
			if l.config()["description"] != "old" {
				t.Error("the description is gone")
			}
			l.guest(func(_ *state.World, g *state.Guest) { delete(g.Config, "protection") })
			l.to(power + less)
			l.want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1"})
		})
		t.Run("a storage fails"+name, func(t *testing.T) {
			l := newLife(t, power+before)
			l.guest(func(world *state.World, _ *state.Guest) { world.Storages["local-lvm"].Offline = true })
			l.fails(power+more, "local-lvm")
			l.want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1"})
			l.wantWaiting()
			l.guest(func(world *state.World, _ *state.Guest) { world.Storages["local-lvm"].Offline = false })
			l.w.Sim.Advance(20e9)
			l.to(power + more)
			l.want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi5": "", "scsi6": ""})
		})
		for _, phase := range []fault.Phase{fault.Task, fault.KillTask} {
			t.Run("the task: "+string(phase)+name, func(t *testing.T) {
				l := newLife(t, power+before)
				l.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: phase}})
				l.configure(power + more)
				err := l.s.Run(t.Context())
				l.w.Sim.SetFaults(nil)
				l.guest(func(world *state.World, g *state.Guest) { // what a dead worker leaves is told, and removed by a person
					for key, v := range world.Volumes {
						if v.VMID == 400 && v.Data == "" && phase == fault.KillTask && err != nil && strings.Contains(err.Error(), "pvesm free "+v.Volid()) {
							delete(world.Volumes, key)
						}
					}
				})
				l.to(power + more)
				l.want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi5": "", "scsi6": ""})
				l.wantWaiting()
			})
		}
	}
}

// TestOthersVolumeIsDetached: a volume of another VM that somebody attached here is let go, and stays.
func TestOthersVolumeIsDetached(t *testing.T) {
	t.Parallel()
	const one = `disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
`
	l := newLife(t, one)
	l.guest(func(world *state.World, g *state.Guest) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-399-disk-0", Content: "images", VMID: 399, Format: "raw", Size: 1 << 30, Data: "another's"})
		g.Config["scsi1"] = "local-zfs:vm-399-disk-0,size=1G"
	})
	l.to(strings.Replace(one, "} }", `}, scsi1 = { storage = "local-zfs", size = "1G" } }`, 1))
	l.want(map[string]string{"scsi0": "scsi0", "scsi1": "another's"})
	l.to(one)
	l.warned("vm-399-disk-0", "another VM", "never destroyed")
	l.want(map[string]string{"scsi0": "scsi0"})
	if err := l.s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.w.Change(func(world *state.World) {
		if v := world.Volume("pve1", "local-zfs:vm-399-disk-0"); v == nil || v.Data != "another's" {
			t.Error("the other VM's volume is gone")
		}
	})
}
