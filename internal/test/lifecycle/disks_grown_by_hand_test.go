package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDiskGrownByHand: a disk that has grown by hand stops no plan, no change of something else and no destroy.
func TestDiskGrownByHand(t *testing.T) {
	t.Parallel()
	const body = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	l := rig.NewVM(t, body)
	l.Guest(func(world *state.World, g *state.Guest) {
		g.Config["scsi0"] = strings.Replace(g.Config["scsi0"], "size=1G", "size=3G", 1)
		for _, v := range world.Volumes {
			if v.VMID == 400 {
				v.Size = 3 << 30
			}
		}
	})
	if pl := l.Plan(body); !pl.Empty() {
		t.Errorf("planned:\n%s", pl)
	}
	l.Warned(`disks["scsi0"].size`, "scsi0", "3G, not 1G", `ignore_changes = [disks["scsi0"].size]`)
	l.To("description = \"x\"\n" + body)
	l.WantRunning()
	l.Refuses("description = \"x\"\n"+strings.Replace(body, "1G", "2G", 1), `disks["scsi0"].size`, "cannot be shrunk", "ignore_changes")
	l.Configure("description = \"x\"\n" + body)
	if err := l.Session.Destroy(t.Context()); err != nil {
		t.Errorf("the destroy fails: %v", err)
	}
	l.GuestIsGone()
}

// TestVolumeGrownBehindPVE: PVE compares with the volume, and has an older size in its configuration. The error says how
// the size gets there.
func TestVolumeGrownBehindPVE(t *testing.T) {
	t.Parallel()
	const body = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	l := rig.NewVM(t, body)
	l.Guest(func(world *state.World, g *state.Guest) { world.Volume("pve1", l.File(g, "scsi0")).Size = 3 << 30 })
	l.Fails(strings.Replace(body, "1G", "2G", 1), "shrinking disks is not supported", "`qm disk rescan --vmid 400` on node pve1")
}

// TestDiskGrownByHandLeavesItsSlot: the size of a disk that has grown by hand stays with the disk. Another one that comes into its slot keeps its own, and
// is not grown for good.
func TestDiskGrownByHandLeavesItsSlot(t *testing.T) {
	t.Parallel()
	for _, power := range []string{"", rig.Stopped} {
		l := rig.NewVM(t, power+`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "2G" }, scsi2 = { storage = "local-zfs", size = "2G" } }`)
		l.Guest(func(world *state.World, g *state.Guest) {
			world.Volume("pve1", l.File(g, "scsi1")).Size = 5 << 30
			g.Config["scsi1"] = strings.Replace(g.Config["scsi1"], "size=2G", "size=5G", 1)
		})
		swapped := l.Named(power + `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> }, size = "2G" }, scsi2 = { imported_disk = { volume = <scsi1> }, size = "5G" } }`)
		if pl := l.Plan(swapped); strings.Contains(pl.Diagnostics.String(), "has grown outside") {
			t.Errorf("the plan says of another disk:\n%s", pl.Diagnostics)
		}
		l.To(swapped)
		l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "scsi1"})
		for slot, size := range map[string]string{"scsi1": "size=2G", "scsi2": "size=5G"} {
			if !strings.HasSuffix(l.Config()[slot], size) {
				t.Errorf("%s is %s, want %s", slot, l.Config()[slot], size)
			}
		}
	}
}

// TestDiskGrownByHandSinceThePlan: a disk that has grown since the plan stops no change of something else, a change of
// node among them. The next plan tells of it. One that the plan is to grow to less is refused, with the next step.
func TestDiskGrownByHandSinceThePlan(t *testing.T) {
	t.Parallel()
	const disk = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	of := func(node, body string) string {
		return rig.VMBlock("name = \"x\"\nvmid = 400\nnode = \"" + node + "\"\n" + body)
	}
	for name, c := range map[string]struct {
		to      string
		refused bool
	}{
		"another description":                     {of("pve1", "description = \"x\"\n"+disk), false},
		"another node":                            {of("pve2", disk), false},
		"another node, and off":                   {of("pve2", rig.Stopped+disk), false},
		"another node, and it is to grow to less": {of("pve2", strings.Replace(disk, "1G", "2G", 1)), true},
		"it is to grow to less":                   {of("pve1", strings.Replace(disk, "1G", "2G", 1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, of("pve1", disk))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, c.to)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			w.Change(func(all *state.World) {
				g := all.Guests[400]
				g.Config["scsi0"] = strings.Replace(g.Config["scsi0"], "size=1G", "size=3G", 1)
				for _, v := range all.Volumes {
					if v.VMID == 400 {
						v.Size = 3 << 30
					}
				}
			})
			err = s.Apply(t.Context(), pl)
			if c.refused {
				rig.MustSay(t, err, "3G", "Make a new plan")
				return
			}
			rig.Must(t, err)
			next, err := s.Plan(t.Context())
			rig.Must(t, err)
			if !next.Empty() || !strings.Contains(next.Diagnostics.String(), "3G, not 1G") {
				t.Errorf("the next plan:\n%s\n%s", next, next.Diagnostics)
			}
		})
	}
}

// TestRestartBesideARemovalByHand: an administrator has set a disk of the running guest to be removed, which a restart brings in force,
// and destroys its volume if he has forced that. No restart for another option takes a disk of the configuration; the plan and the apply
// name a disk that is none of it.
func TestRestartBesideARemovalByHand(t *testing.T) {
	t.Parallel()
	const disks = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, sata1 = { storage = \"local-zfs\", size = \"2G\" } }\n"
	const theirs = "local-zfs:vm-400-disk-7"
	for kind, becomes := range map[int]string{1: "is detached", 2: "is destroyed with its data"} {
		for _, slot := range []string{"sata1", "sata3"} {
			l := rig.NewVM(t, "cpu = { cores = 1 }\n"+disks)
			remove := func() {
				l.Guest(func(world *state.World, g *state.Guest) {
					if slot == "sata3" {
						world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30})
						g.Config[slot], g.Running.Booted[slot] = theirs+",size=1G", theirs+",size=1G"
					}
					g.Deletes = map[string]int{slot: kind}
				})
			}
			if slot == "sata3" {
				remove()
			}
			pl := l.Plan("cpu = { cores = 2 }\n" + disks)
			l.World.Sim.ResetPowerOffs()
			if slot == "sata3" {
				if said := pl.Diagnostics.String(); !strings.Contains(said, slot+": "+theirs+" "+becomes) {
					t.Errorf("the plan says %s", said)
				}
				rig.Must(t, l.Session.Apply(t.Context(), pl))
				l.Warned("", "The restart of VM 400 has let disks go", theirs+" "+becomes)
				continue
			}
			remove()
			rig.MustRefuse(t, l.Session.Apply(t.Context(), pl), []string{"was changed, but not restarted", becomes, "`qm set 400 --revert sata1`", "reboot_policy"})
			l.WantRunning()
			rig.Must(t, l.Session.Converge(t.Context()))
			l.Want(map[string]string{"scsi0": "scsi0", "sata1": "sata1"})
			l.WantWaiting()
		}
	}
}

// TestRestartBesideAReplacementByHand: an administrator has put another disk, or an empty optical drive, in the place of a disk of the
// running guest, which a restart brings in force. A restart takes no disk of the plan. The plan names the one that leaves if the state
// has the other by then.
func TestRestartBesideAReplacementByHand(t *testing.T) {
	t.Parallel()
	const disks = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, sata1 = { storage = \"local-zfs\", size = \"2G\" } }\n"
	for _, value := range []string{"local-zfs:vm-400-disk-7,size=1G", "none,media=cdrom"} {
		for _, before := range []bool{true, false} {
			l := rig.NewVM(t, "cpu = { cores = 1 }\n"+disks)
			ours, _, _ := strings.Cut(l.Config()["sata1"], ",")
			replace := func() {
				l.Guest(func(world *state.World, g *state.Guest) {
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30})
					g.Pending = map[string]string{"sata1": value}
				})
			}
			if before {
				replace()
			}
			pl := l.Plan("cpu = { cores = 2 }\n" + disks)
			if !before {
				replace()
			}
			isTold, leaves := strings.Contains(pl.Diagnostics.String(), "sata1: "+ours+" is detached"), before && value[0] == 'l'
			if err := l.Session.Apply(t.Context(), pl); before {
				rig.Must(t, err)
			} else {
				rig.MustRefuse(t, err, []string{"was changed, but not restarted", ours + " is detached", "`qm set 400 --revert sata1`", "reboot_policy"})
				l.WantRunning()
			}
			if has := strings.HasPrefix(l.Config()["sata1"], ours+","); isTold != leaves || has == leaves {
				t.Errorf("%q: it is told: %t, the disk stays: %t, the plan is\n%s", value, isTold, has, pl.Diagnostics)
			}
		}
	}
}

// TestWaitingExchangeWithoutARestart: an administrator has put another disk in the place of one of a guest that runs, or has set that to leave, and PVE carries
// that out with a stop, with any request to a guest that has gone off since, and with its start. The plan names the disk. One that the plan does not
// know is kept: nothing is sent.
func TestWaitingExchangeWithoutARestart(t *testing.T) {
	t.Parallel()
	const disks = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, sata1 = { storage = \"local-zfs\", size = \"2G\" } }\n"
	const his = "local-zfs:vm-400-disk-7"
	exchange := func(g *state.Guest) { g.Pending = map[string]string{"sata1": his + ",size=2G"} }
	remove := func(g *state.Guest) { g.Deletes = map[string]int{"sata1": 2} }
	for name, c := range map[string]struct {
		more    string
		wentOff bool
		waits   func(*state.Guest)
		known   bool // to the plan
	}{
		"off, another description":         {"description = \"x\"\n", true, exchange, true},
		"off, more memory":                 {"memory = { size = 1024 }\n", true, exchange, true},
		"off, its start":                   {"power_state = \"running\"\n", true, exchange, true},
		"its stop":                         {rig.Stopped, false, exchange, true},
		"HA stops it":                      {"ha = { state = \"stopped\" }\n", false, exchange, true},
		"off, since the plan":              {"description = \"x\"\n", true, exchange, false},
		"off, its start, since the plan":   {"power_state = \"running\"\n", true, exchange, false},
		"its stop, since the plan":         {rig.Stopped + "description = \"x\"\n", false, exchange, false},
		"HA stops it, since the plan":      {"ha = { state = \"stopped\" }\n", false, exchange, false},
		"off, a removal since the plan":    {"tags = [\"x\"]\n", true, remove, false},
		"its stop, a removal since a plan": {rig.Stopped, false, remove, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			l := &rig.VM{T: t, World: w, Session: w.Session(t, rig.RootTicket, rig.NodeVMBlock(disks))}
			rig.Must(t, l.Session.Converge(t.Context()))
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			ours := l.Volume("sata1")
			if c.wentOff {
				l.Guest(func(_ *state.World, g *state.Guest) { g.Running = nil })
			}
			comes := func() {
				l.Guest(func(world *state.World, g *state.Guest) {
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: 400, Format: "raw", Size: 2 << 30})
					c.waits(g)
				})
			}
			if c.known {
				comes()
			}
			w.Sim.Advance(time.Minute)
			w.Reconfigure(t, l.Session, rig.RootTicket, rig.NodeVMBlock(disks+c.more))
			pl, err := l.Session.Plan(t.Context())
			rig.Must(t, err)
			if !c.known {
				comes()
			} else {
				l.Warned(`disks["sata1"]`, "sata1 of VM 400 on pve1 loses a disk", ours+" is detached", "`qm set 400 --revert sata1`")
			}
			err = l.Session.Apply(t.Context(), pl)
			w.Sim.Advance(3 * time.Minute)
			if c.known {
				rig.Must(t, err)
				if l.Volume("sata1") != his || l.Config()["unused0"] != ours {
					t.Errorf("the exchange was not carried out: %v", l.Config())
				}
				rig.Must(t, l.Session.Converge(t.Context()))
				return
			}
			rig.MustRefuse(t, err, []string{"sata1 of VM 400 would lose its disk", ours, "`qm set 400 --revert sata1`", `disks["sata1"]`})
			if l.Volume("sata1") != ours || l.Config()["description"] != "" || !slices.Contains(l.Waiting(), "sata1") {
				t.Errorf("the refused apply has changed the VM: %v", l.Config())
			}
			l.WantOffs()
		})
	}
}

// TestDiskThatWaitsToLeaveIsKept: an administrator has a disk of the running guest removed, or destroyed, which waits since the guest does not let go
// of it. No empty disk takes its place: the disk stays, also where the plan moves it, and the plan names it. One that he has grown is refused.
func TestDiskThatWaitsToLeaveIsKept(t *testing.T) {
	t.Parallel()
	disks := func(storage string) string {
		return "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { storage = \"" + storage + "\", size = \"2G\" } }\n"
	}
	for _, more := range []string{"description = \"x\"\n", rig.Stopped} {
		for change, storage := range map[string]string{"as it was": "local-zfs", "moved": "local-lvm", "grown": "local-zfs"} {
			t.Run(change+", "+more, func(t *testing.T) {
				t.Parallel()
				l := rig.NewVM(t, disks("local-zfs"))
				l.World.ExpectPowerOffs(state.PowerShutdown)
				ours := l.Volume("scsi1")
				l.Guest(func(world *state.World, g *state.Guest) {
					world.Volume("pve1", l.File(g, "scsi1")).Data = "ours"
					if change == "grown" {
						world.Volume("pve1", l.File(g, "scsi1")).Size = 5 << 30
						g.Config["scsi1"] = strings.Replace(g.Config["scsi1"], "size=2G", "size=5G", 1)
					}
					g.Deletes, g.Ignores = map[string]int{"scsi1": 2}, []string{"unplug"}
				})
				l.World.Sim.Advance(time.Minute)
				pl := l.Plan(more + disks(storage))
				says := " keeps its disk"
				if change == "grown" {
					says = " cannot be as planned"
				}
				l.Warned(`disks["scsi1"]`, "scsi1 of VM 400 on pve1"+says, ours)
				err := l.Session.Apply(t.Context(), pl)
				if change == "grown" {
					rig.MustRefuse(t, err, []string{"scsi1 of VM 400 has another disk than the plan", ours, "`qm set 400 --revert scsi1`", `disks["scsi1"]`})
					l.WantWaiting("scsi1")
					return
				}
				rig.Must(t, err)
				data := ""
				l.Guest(func(world *state.World, g *state.Guest) { data = world.Volume("pve1", l.File(g, "scsi1")).Data })
				if l.WantWaiting(); data != "ours" || !strings.HasPrefix(l.Config()["scsi1"], storage+":") {
					t.Errorf("scsi1 is %s with %q", l.Config()["scsi1"], data)
				}
				rig.Must(t, l.Session.Converge(t.Context()))
			})
		}
	}
}

// TestDiskDetachedByHandIsNamed: a plan that makes a new, empty disk in a slot that a third party or an earlier configuration has emptied names the
// detached one and the line that takes it back with its data.
func TestDiskDetachedByHandIsNamed(t *testing.T) {
	t.Parallel()
	body := func(disks ...string) string {
		return "disks = {\nscsi0 = { storage = \"local-zfs\", size = \"1G\" }\n" + strings.Join(disks, "\n") + "\n}\n"
	}
	disk := func(slot, storage, size string) string {
		return slot + " = { storage = \"" + storage + "\", size = \"" + size + "\" }"
	}
	for name, c := range map[string]struct {
		power, again string
		byHand, told bool
	}{
		"running":         {"", disk("scsi1", "local-zfs", "2G"), true, true},
		"off":             {rig.Stopped, disk("scsi1", "local-zfs", "2G"), true, true},
		"another size":    {"", disk("scsi1", "local-zfs", "3G"), true, true},
		"another storage": {"", disk("scsi1", "local-lvm", "2G"), true, true},
		"let go before":   {"", disk("scsi1", "local-zfs", "2G"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.power+body(disk("scsi1", "local-zfs", "2G")))
			volume := l.Volume("scsi1")
			if !c.byHand {
				l.To(c.power + body())
			} else {
				l.Guest(func(_ *state.World, g *state.Guest) {
					g.Config["unused0"] = volume
					delete(g.Config, "scsi1")
					if g.Running != nil {
						delete(g.Running.Booted, "scsi1")
					}
				})
			}
			pl := l.Plan(c.power + body(c.again))
			if c.told {
				l.Warned(`disks["scsi1"]`, "scsi1 of VM 400 on pve1 will be a new, empty disk", `disks.scsi1.imported_disk = { volume = "`+volume+`" }`)
			}
			if said := strings.Contains(pl.Diagnostics.String(), "empty"); said != c.told {
				t.Errorf("told %t, want %t:\n%s", said, c.told, pl.Diagnostics)
			}
			l.To(l.Named(c.power + body("scsi1 = { imported_disk = { volume = <unused0> } }")))
			l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1"})
		})
	}
}

// TestDiskThatLeftItsSlotIsNamed: a plan that makes a new, empty disk in a slot of which a third party has put the disk into another slot, given it
// to another VM or destroyed it says so, and the way that it names makes no new disk.
func TestDiskThatLeftItsSlotIsNamed(t *testing.T) {
	t.Parallel()
	body := func(slot string) string {
		return fmt.Sprintf("disks = {\nscsi0 = { storage = \"local-zfs\", size = \"1G\" }\n%s = { storage = \"local-zfs\", size = \"2G\" }\n}\n", slot)
	}
	for name, c := range map[string]struct {
		power string
		act   func(w *state.World, g *state.Guest, volume string)
		says  string
	}{
		"to another slot": {"", func(_ *state.World, g *state.Guest, volume string) { g.Config["scsi5"] = volume + ",size=2G" }, "It is in scsi5 of the VM now"},
		"to another slot, off": {rig.Stopped, func(_ *state.World, g *state.Guest, volume string) { g.Config["scsi5"] = volume + ",size=2G" },
			"It is in scsi5 of the VM now"},
		"destroyed": {rig.Stopped, func(w *state.World, _ *state.Guest, volume string) {
			maps.DeleteFunc(w.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Volid() == volume })
		}, "another VM may have got it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.power+body("scsi1"))
			volume := l.Volume("scsi1")
			l.Guest(func(w *state.World, g *state.Guest) {
				delete(g.Config, "scsi1")
				c.act(w, g, volume)
				if g.Running != nil {
					g.Running.Booted = maps.Clone(g.Config)
				}
			})
			l.Plan(c.power + body("scsi1"))
			l.Warned(`disks["scsi1"]`, "scsi1 of VM 400 on pve1 will be a new, empty disk", "lost its disk outside of Terraform", c.says, volume)
			if strings.Contains(c.says, "scsi5") {
				l.To(c.power + body("scsi5"))
				if is := l.Volume("scsi5"); is != volume {
					t.Errorf("scsi5 has %s, not %s", is, volume)
				}
			}
		})
	}
}
