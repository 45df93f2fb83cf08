package lifecycle_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDevicesAfterARefusedUpdate: the plan takes devices over that a third party has added, and its apply is refused
// before anything is written. They do not come into the state: with the configuration of before, nothing becomes of
// them.
func TestDevicesAfterARefusedUpdate(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	before := madeVM + "removed_disks = \"destroy\"\n"
	s := w.Session(t, rig.RootTicket, rig.VMBlock(before))
	rig.Must(t, s.Converge(t.Context()))
	theirs := ""
	w.Change(func(world *state.World) {
		g := world.Guests[400]
		theirs = putDisk(world, g, "scsi1")
		g.Config["scsi1"] = theirs + ",size=50G"
		g.Config["net1"] = "virtio=BC:24:11:99:99:99,bridge=vmbr0"
	})
	taking := strings.Replace(before, "scsi0 = {", "scsi1 = { storage = \"local-zfs\", size = \"2G\" }, scsi0 = {", 1) +
		"networks = { net1 = { bridge = \"vmbr0\", mtu = 1400 } }\n"
	w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(taking))
	rig.MustSay(t, s.Run(t.Context()), "cannot be shrunk")
	w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(before))
	rig.Must(t, s.Converge(t.Context()))
	if is := rig.GuestOf(w, 400).Config; !strings.HasPrefix(is["scsi1"], theirs) || is["net1"] == "" {
		t.Errorf("the VM is %v", is)
	}
}

// TestAfterAFailedUpdate: an update fails before it has reached a part of its plan. A third party's devices there do
// not come into the state: with the configuration of before, nothing becomes of them. A part that was reached does.
func TestAfterAFailedUpdate(t *testing.T) {
	t.Parallel()
	const own = `scsi0 = { storage = "local-zfs", size = "1G" }`
	const more = `scsi1 = { storage = "local-zfs", size = "1G" }`
	const head = "vmid = 400\nname = \"x\"\nremoved_disks = \"destroy\"\nshutdown_timeout = \"10s\"\ntimeouts = { update = \"1m\" }\n"
	before := head + "node = \"pve1\"\npower_state = \"running\"\ndisks = { " + own + " }\n"
	moved := strings.Replace(before, "pve1", "pve2", 1)
	taking := func(body string) string {
		return strings.Replace(body, own, own+", "+more, 1) + "networks = { net1 = { bridge = \"vmbr0\", mtu = 1400 } }\n"
	}
	disk := func(world *state.World) {
		g := world.Guests[400]
		g.Config["scsi1"] = putDisk(world, g, "scsi1") + ",size=1G"
		g.Config["net1"] = "virtio=BC:24:11:99:99:99,bridge=vmbr0"
	}
	hasDisk := func(world *state.World) bool {
		g := world.Guests[400]
		return strings.Contains(g.Config["scsi1"], "by-hand") && g.Config["net1"] != "" &&
			world.Volume("pve1", strings.Split(g.Config["scsi1"], ",")[0]) != nil
	}
	firewall := func(world *state.World) {
		world.Firewall[400] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "DROP"},
			Rules: []map[string]string{{"type": "in", "action": "ACCEPT", "enable": "1", "proto": "tcp", "dport": "22"}}}
	}
	hasFirewall := func(world *state.World) bool {
		f := world.Firewall[400]
		return f != nil && len(f.Rules) == 1 && f.Options["enable"] == "1" && f.Options["policy_in"] == "DROP"
	}
	const rules = "firewall = { policy_in = \"ACCEPT\", rules = [{ type = \"in\", action = \"ACCEPT\", proto = \"tcp\", dport = \"443\" }] }\n"
	ha := func(world *state.World) {
		world.HA["vm:400"] = &state.HAResource{SID: "vm:400", State: "started", Options: map[string]string{"max_restart": "3"}}
	}
	hasHA := func(world *state.World) bool { return world.HA["vm:400"] != nil }
	fails := func(path string) func(*rig.World) {
		return func(w *rig.World) {
			w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}" + path},
				Phase: fault.Before, Status: 500, Reason: "not now", Times: -1}})
		}
	}
	locked := func(w *rig.World) { w.Sim.StaleLock(400, "backup", "") }
	deaf := func(w *rig.World) {
		w.Change(func(world *state.World) { world.Guests[400].Ignores = []string{"shutdown"} })
	}
	for name, c := range map[string]struct {
		after  string
		theirs func(*state.World)
		since  bool // they come after the plan
		fail   func(*rig.World)
		stays  func(*state.World) bool
		taken  bool // stays is not to hold: the part was reached
	}{
		"devices, locked":             {after: taking(before), theirs: disk, fail: locked, stays: hasDisk},
		"devices, not shut down":      {after: taking(strings.Replace(before, "running", "stopped", 1)), theirs: disk, fail: deaf, stays: hasDisk},
		"devices, not migrated":       {after: taking(moved), theirs: disk, fail: fails("/migrate"), stays: hasDisk},
		"devices, not restarted":      {after: taking(before) + "cpu = { cores = 2 }\n", theirs: disk, fail: fails("/status/reboot"), stays: hasDisk, taken: true},
		"firewall, not migrated":      {after: moved + "firewall = { enabled = true }\n", theirs: firewall, fail: fails("/migrate"), stays: hasFirewall},
		"firewall since, not set":     {after: before + rules, theirs: firewall, since: true, fail: func(*rig.World) {}, stays: hasFirewall},
		"HA since, not migrated":      {after: moved + "ha = { state = \"started\" }\n", theirs: ha, since: true, fail: fails("/migrate"), stays: hasHA},
		"HA since, with new firewall": {after: before + rules + "ha = { state = \"started\" }\n", theirs: func(world *state.World) { firewall(world); ha(world) }, since: true, fail: func(*rig.World) {}, stays: hasHA},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, rig.VMBlock(before))
			rig.Must(t, s.Converge(t.Context()))
			if !c.since {
				w.Change(c.theirs)
			}
			w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(c.after))
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerReboot)
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			if c.since {
				w.Change(c.theirs)
			}
			c.fail(w)
			if err = s.Apply(t.Context(), plan); err == nil {
				t.Fatal("the update has not failed")
			}
			w.Sim.SetFaults(nil)
			w.Change(func(world *state.World) {
				world.Guests[400].Ignores = nil
				delete(world.Guests[400].Config, "lock")
			})
			w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(before))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				if c.stays(world) == c.taken {
					t.Errorf("after %v\nthe VM is %v, %+v, %v", err, world.Guests[400].Config, world.Firewall[400], world.HA)
				}
			})
		})
	}
}

// TestForgottenDiskAfterALockedUpdate: a disk that an import has found is not managed. An update that ends at a lock, and
// was to change an option of it, does not manage it either: a configuration without the disk forgets it.
func TestForgottenDiskAfterALockedUpdate(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	const head = "vmid = 400\nname = \"x\"\nnode = \"pve1\"\nremoved_disks = \"destroy\"\npower_state = \"stopped\"\ntimeouts = { update = \"5s\" }\n"
	with := func(more string) string {
		return rig.VMBlock(head + `disks = { scsi0 = { storage = "local-zfs", size = "1G" }` + more + " }\n")
	}
	const second = `, scsi1 = { storage = "local-zfs", size = "1G" }`
	rig.Must(t, w.Session(t, rig.RootTicket, with(second)).Converge(t.Context()))
	s := w.Session(t, rig.RootTicket, with(second))
	rig.Must(t, s.Import(t.Context(), "proxmox_vm.x", "400"))
	w.Reconfigure(t, s, rig.RootTicket, with(strings.Replace(second, "1G\"", "1G\", backup = false", 1)))
	plan, err := s.Plan(t.Context())
	rig.Must(t, err)
	w.Sim.StaleLock(400, "backup", "")
	rig.MustSay(t, s.Apply(t.Context(), plan), "backup")
	w.Change(func(world *state.World) { delete(world.Guests[400].Config, "lock") })
	w.Reconfigure(t, s, rig.RootTicket, with(""))
	rig.Must(t, s.Run(t.Context()))
	if is := rig.GuestOf(w, 400).Config; is["scsi1"] == "" {
		t.Errorf("the VM is %v", is)
	}
}

// waitsToLeave is a VM that runs, of which a disk waits to leave a slot, and the body of a plan that gives the slot another disk.
func waitsToLeave(t *testing.T, setting, slot string) (l *rig.VM, body func(disk string) string) {
	const other, apart = "local-zfs:vm-400-disk-9", "reboot_policy = \"never\"\nboot_order = [\"scsi0\"]\n"
	body = func(disk string) string {
		return apart + setting + "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " + slot + " = { " + disk + " } }\n"
	}
	l = rig.NewVM(t, strings.ReplaceAll(body(`storage = "local-zfs", size = "2G"`), rig.Stopped, ""))
	l.World.ExpectPowerOffs(state.PowerShutdown)
	l.Guest(func(world *state.World, g *state.Guest) {
		world.Volume("pve1", l.File(g, slot)).Data = "ours"
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-9", Content: "images", VMID: 400, Format: "raw", Size: 2 << 30})
		g.Config["unused0"], g.Deletes, g.Ignores = other, map[string]int{slot: 1}, []string{"unplug"}
	})
	l.World.Sim.Advance(time.Minute)
	return l, body
}

// TestDiskThatWaitsToLeaveBesideAnUnknownVolume: what the slot gets is not known yet, so the plan is certain of nothing. The apply goes on with that
// disk if it is the one, and is refused otherwise. No pending change is announced as taken back, and no restart.
func TestDiskThatWaitsToLeaveBesideAnUnknownVolume(t *testing.T) {
	t.Parallel()
	const volume = `imported_disk = { volume = var.it }`
	for _, setting := range []string{"", "hotplug = [\"network\"]\n", rig.Stopped} {
		for _, slot := range []string{"sata1", "scsi1"} {
			for name, c := range map[string]struct{ disk, value, refused string }{
				"its own":        {volume, "", ""},
				"another volume": {volume, "local-zfs:vm-400-disk-9", "The slot is not empty"},
			} {
				t.Run(slot+", "+name+", "+setting, func(t *testing.T) {
					t.Parallel()
					l, body := waitsToLeave(t, setting, slot)
					ours := l.Volume(slot)
					l.World.Reconfigure(t, l.Session, rig.RootTicket, "variable \"it\" {}\n"+rig.NodeVMBlock(body(c.disk)))
					l.Session.SetVariable("it", cty.DynamicVal)
					pl, err := l.Session.Plan(t.Context())
					rig.Must(t, err)
					l.Warned(`disks["`+slot+`"]`, slot+" of VM 400 on pve1 may keep its disk", ours)
					for _, certain := range []string{" keeps its disk", "takes back the pending change", "will be restarted"} {
						if said := pl.Diagnostics.String(); strings.Contains(said, certain) {
							t.Errorf("the plan is certain: %s", said)
						}
					}
					l.Session.SetVariable("it", cty.StringVal(cmp.Or(c.value, ours)))
					err = l.Session.Apply(t.Context(), pl)
					if c.refused != "" {
						rig.MustRefuse(t, err, []string{c.refused})
						l.WantWaiting(slot)
						return
					}
					rig.Must(t, err)
					l.WantWaiting()
					if l.Volume(slot) != ours {
						t.Errorf("%s is %s", slot, l.Config()[slot])
					}
				})
			}
		}
	}
}

// TestDiskThatWaitsToLeaveStaysForAnUnknownImage: a copy of an image that is not known yet is no reason to let the disk go, as a known one is
// none: the plan says that it stays, and the apply makes no copy.
func TestDiskThatWaitsToLeaveStaysForAnUnknownImage(t *testing.T) {
	t.Parallel()
	l, body := waitsToLeave(t, "", "scsi1")
	ours := l.Volume("scsi1")
	l.World.Reconfigure(t, l.Session, rig.RootTicket, "variable \"it\" {}\n"+rig.NodeVMBlock(body(`storage = "local-zfs", import_from = var.it`)))
	l.Session.SetVariable("it", cty.DynamicVal)
	pl, err := l.Session.Plan(t.Context())
	rig.Must(t, err)
	l.Warned(`disks["scsi1"]`, "scsi1 of VM 400 on pve1 keeps its disk", ours, "It makes no new disk")
	l.Session.SetVariable("it", cty.StringVal("local:import/disk.qcow2"))
	rig.Must(t, l.Session.Apply(t.Context(), pl))
	l.WantWaiting()
	if l.Volume("scsi1") != ours {
		t.Errorf("scsi1 is %s", l.Config()["scsi1"])
	}
}

// TestProtectionEndsBeforeADriveLeaves: a plan that ends the protection of a VM may take drives from it, or move them to other slots, in the same
// apply: PVE looks at the protection that the VM has when a drive leaves. One that keeps it is refused.
func TestProtectionEndsBeforeADriveLeaves(t *testing.T) {
	t.Parallel()
	const keeps, ends = "protection = true\n", "protection = false\n"
	const boot, second = `scsi0 = { storage = "local-zfs", size = "1G" }`, `scsi1 = { storage = "local-zfs", size = "1G" }`
	const order = "boot_order = [\"scsi0\"]\n"
	const elsewhere = `scsi3 = { imported_disk = { volume = "local-zfs:vm-400-disk-1" } }`
	disks := func(all ...string) string { return "disks = { " + strings.Join(all, ", ") + " }\n" }
	drive := func(slot string) string { return "cloud_init = { storage = \"local-zfs\", slot = \"" + slot + "\" }\n" }
	for name, c := range map[string]struct{ before, after, attribute string }{
		"a disk leaves":                           {disks(boot, second), disks(boot), `disks["scsi1"]`},
		"a disk is destroyed":                     {disks(boot, second), "removed_disks = \"destroy\"\n" + disks(boot), `disks["scsi1"]`},
		"a disk changes its slot":                 {disks(boot, second), disks(boot, elsewhere), `disks["scsi1"]`},
		"a CD-ROM drive leaves":                   {disks(boot) + "cdroms = { ide3 = { file = \"none\" } }\n", disks(boot), `cdroms["ide3"]`},
		"the cloud-init drive changes its slot":   {order + disks(boot) + drive("scsi5"), order + disks(boot) + drive("scsi6"), ""},
		"the cloud-init drive leaves with a disk": {disks(boot, second) + drive("ide2"), disks(boot), ""},
	} {
		for _, power := range []string{"", rig.Stopped} {
			t.Run(strings.TrimSpace(name+" "+power), func(t *testing.T) {
				t.Parallel()
				l := rig.NewVM(t, power+keeps+c.before)
				if c.attribute != "" {
					l.Refuses(power+keeps+c.after, c.attribute, "The VM is protected", "Set protection = false as well")
				}
				l.To(power + ends + c.after)
				if config := l.Config(); config["protection"] == "1" || config["scsi1"] != "" || config["ide3"] != "" || config["scsi5"] != "" {
					t.Errorf("the VM has %v", config)
				}
			})
		}
	}
	l := rig.NewVM(t, keeps+disks(boot, second)) // left out instead of false
	l.To(disks(boot))
	if config := l.Config(); config["protection"] == "1" || config["scsi1"] != "" {
		t.Errorf("the VM has %v", config)
	}
}

// TestRefusedDiskThatHasLeftTheGuest: PVE takes a disk out of a running guest to put another in its place, and cannot add
// that. The configuration has the old disk again, the guest has none, and the error says so, and how it comes back. A disk
// of the boot order does not leave.
func TestRefusedDiskThatHasLeftTheGuest(t *testing.T) {
	t.Parallel()
	disk := func(slot, size string) string {
		return slot + " = { storage = \"local-zfs\", size = \"" + size + "\" }\n"
	}
	for slot, boots := range map[string]bool{"scsi1": false, "virtio1": false, "scsi0": true} {
		t.Run(slot, func(t *testing.T) {
			t.Parallel()
			body := func(disks string) string {
				return "boot_order = [\"scsi0\"]\ndisks = {\n" + disks + "}\n"
			}
			rest := disk("scsi0", "1G")
			if boots {
				rest = ""
			}
			one := body(rest + disk(slot, "2G"))
			l := rig.NewVM(t, body(rest+disk(slot, "2G")+disk("scsi7", "3G")))
			b := l.Volume("scsi7")
			l.To(one)
			l.Guest(func(_ *state.World, g *state.Guest) { g.Ignores = []string{"plug"} })
			l.Configure(body(rest + slot + " = { imported_disk = { volume = \"" + b + "\" } }\n"))
			err := l.Session.Converge(t.Context())
			has := ""
			l.Guest(func(_ *state.World, g *state.Guest) { has, g.Ignores = g.Running.Booted[slot], nil })
			if err == nil || strings.Contains(err.Error(), "may run without "+slot) == boots || (has == "") == boots {
				t.Errorf("the guest has %q, and the error is: %v", has, err)
			}
			if !boots && !strings.Contains(err.Error(), "qm reboot 400") {
				t.Errorf("the error does not say how it comes back: %v", err)
			}
		})
	}
}

// TestDiskGrownByHandBesideAFailedUpdate: the state of an update that fails has the size that a third party has given a disk. It stays a disk
// that has grown outside of Terraform: no plan and no destroy fails on it. A disk that the update itself has grown is not one.
func TestDiskGrownByHandBesideAFailedUpdate(t *testing.T) {
	t.Parallel()
	body := func(cores, size string) string {
		return "description = \"" + cores + "\"\ncpu = { cores = " + cores + " }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"" + size + "\" } }\n"
	}
	grow := func(l *rig.VM, gib int64) {
		l.Guest(func(world *state.World, g *state.Guest) {
			volume := world.Volume("pve1", l.File(g, "scsi0"))
			g.Config["scsi0"] = strings.Replace(g.Config["scsi0"], fmt.Sprintf("size=%dG", volume.Size>>30), fmt.Sprintf("size=%dG", gib), 1)
			volume.Size = gib << 30
		})
	}
	refuse := func(l *rig.VM, path string) {
		l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}" + path, Method: "PUT"}, Phase: fault.Before,
			Status: 500, Reason: "not now", Times: -1}, {Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}" + path, Method: "POST"}, Phase: fault.Before,
			Status: 500, Reason: "not now", Times: -1}})
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		l := rig.NewVM(t, body("1", "4G"))
		pl := l.Plan(body("2", "4G"))
		grow(l, 6)
		l.Guest(func(_ *state.World, g *state.Guest) { g.Config["cores"] = "3" })
		rig.MustSay(t, l.Session.Apply(t.Context(), pl), "changed outside Terraform since the plan")
		for range 2 {
			l.Plan(body("2", "4G"))
			l.Warned(`disks["scsi0"].size`, "has 6G, not 4G", "outside of Terraform")
		}
		rig.Must(t, l.Session.Run(t.Context()))
		l.Refuses(body("2", "3G"), `disks["scsi0"].size`, "cannot be shrunk to 3G")
		l.Configure(body("2", "4G"))
		rig.Must(t, l.Session.Destroy(t.Context()))
		l.GuestIsGone()
	})
	t.Run("grown by the update", func(t *testing.T) {
		t.Parallel()
		l := rig.NewVM(t, body("1", "4G"))
		refuse(l, "/config")
		l.Fails(body("2", "5G"), "not now")
		l.World.Sim.SetFaults(nil)
		if is := l.Attr("disks.scsi0.size"); is != "5G" {
			t.Fatalf("the update has not grown the disk: %s", is)
		}
		l.Refuses(body("2", "4G"), `disks["scsi0"].size`, "cannot be shrunk to 4G")
		l.To(body("2", "5G"))
		if said := l.Session.Diagnostics().String(); strings.Contains(said, "outside of Terraform") {
			t.Error(said)
		}
	})
}

// TestRefusedRemovalThatHasTakenTheDisk: PVE takes a SCSI disk out of a running guest, and then its controller, which the guest keeps. The
// configuration has the disk again, and so has the state; the guest has none, and the error says so of each.
func TestRefusedRemovalThatHasTakenTheDisk(t *testing.T) {
	t.Parallel()
	const one, two = `scsi1 = { storage = "local-zfs", size = "2G" }`, `scsi2 = { storage = "local-zfs", size = "3G" }`
	body := func(hw, second string) string {
		return "scsihw = \"" + hw + "\"\nboot_order = [\"scsi0\"]\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " + second + " }\n"
	}
	for name, c := range map[string]struct {
		hw, after string
		lost      []string
	}{
		"removed":                {"virtio-scsi-single", two, []string{"scsi1"}},
		"exchanged":              {"virtio-scsi-single", `scsi1 = { imported_disk = { volume = <scsi2> } }, scsi2 = { imported_disk = { volume = <scsi1> } }`, []string{"scsi1", "scsi2"}},
		"the controller is left": {"virtio-scsi-pci", two, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, body(c.hw, one+", "+two))
			l.Guest(func(_ *state.World, g *state.Guest) { g.Ignores = []string{"unplug"} })
			if len(c.lost) == 0 {
				l.To(body(c.hw, c.after))
				return
			}
			said := l.Fails(l.Named(body(c.hw, c.after)), "error on hot-unplugging device", "qm reboot 400")
			l.Guest(func(_ *state.World, g *state.Guest) {
				for _, slot := range c.lost {
					if g.Config[slot] == "" || g.Running.Booted[slot] != "" || !strings.Contains(said, "may run without "+strings.Join(c.lost, " and ")) {
						t.Errorf("the guest has %q in %s, the configuration %q, and the error is: %s", g.Running.Booted[slot], slot, g.Config[slot], said)
					}
				}
			})
		})
	}
}
