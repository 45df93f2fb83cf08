package lifecycle_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestCloneAddsDevices: devices that the template does not have need what PVE needs, and no more from the user.
func TestCloneAddsDevices(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		delete(world.Guests[9000].Config, "ide2")
		for key, v := range world.Volumes {
			if v.VMID == 9000 && strings.Contains(v.Name, "cloudinit") {
				delete(world.Volumes, key)
			}
		}
	})
	s := w.Session(t, rig.TokenNoSSH, `
resource "proxmox_vm" "x" {
  name       = "x"
  vmid       = 400
  clone      = { vmid = 9000 }
  networks   = { net1 = { bridge = "vmbr1" } }
  cloud_init = { storage = "local-zfs", user = "ops" }
}
`)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		config := world.Guests[400].Config
		if !strings.HasPrefix(config["net1"], "virtio=") || !strings.Contains(config["ide2"], "cloudinit") || config["ciuser"] != "ops" {
			t.Errorf("net1 %q, ide2 %q, ciuser %q", config["net1"], config["ide2"], config["ciuser"])
		}
	})
}

// TestResizeAndAnotherChangeOfARunningDisk: the resize is at once, the other waits; state tells both.
func TestResizeAndAnotherChangeOfARunningDisk(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	config := `
resource "proxmox_vm" "x" {
  name  = "x"
  node  = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "4G", discard = false } }
}
`
	s := w.Session(t, rig.TokenNoSSH, config)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, strings.NewReplacer("4G", "6G", "discard = false", "discard = true").Replace(config))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Attr("proxmox_vm.x", "disks.scsi0.size"); got.AsString() != "6G" {
		t.Errorf("size in state: %s", terraformtest.ShowValue(got))
	}
}

// TestAddingASlotThatIsThere: a disk that the VM has and state does not know is taken as it is, with its volume and data.
func TestAddingASlotThatIsThere(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	config := `
resource "proxmox_vm" "x" {
  name     = "x"
  vmid     = 400
  clone    = { vmid = 9000 }
  %s
}
`
	s := w.Session(t, rig.TokenNoSSH, strings.Replace(config, "%s", "", 1))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var before map[string]string
	w.Change(func(world *state.World) { before = world.Guests[400].Config })
	w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(config, "%s", `disks    = { scsi0 = { size = "5G" } }
  networks = { net0 = { bridge = "vmbr1" } }`, 1))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		after := world.Guests[400].Config
		volume, _, _ := strings.Cut(before["scsi0"], ",")
		mac, _, _ := strings.Cut(before["net0"], ",")
		if after["scsi0"] != volume+",size=5G" || !strings.HasPrefix(after["net0"]+",", mac+",") || after["unused0"] != "" {
			t.Errorf("before %q %q, after %q %q, unused0 %q", before["scsi0"], before["net0"], after["scsi0"], after["net0"], after["unused0"])
		}
	})
}

// TestDefaultOfADiskThatIsThere: the configuration names PVE's default for an option that a disk has otherwise from its
// source. The first apply sets it, and not the one after that.
func TestDefaultOfADiskThatIsThere(t *testing.T) {
	t.Parallel()
	for option, line := range map[string]string{"backup=0": "backup = true", "replicate=0": "replicate = true",
		"discard=on": "discard = false", "ssd=1": "ssd = false", "iothread=1": "iothread = false"} {
		w := rig.NewWorld(t)
		w.Change(func(world *state.World) { world.Guests[9000].Config["scsi0"] += "," + option })
		block := func(more string) string {
			return "resource \"proxmox_vm\" \"x\" {\n  vmid = 400\n  power_state = \"stopped\"\n  clone = { vmid = 9000 }\n" + more + "}\n"
		}
		s := w.Session(t, rig.TokenNoSSH, block(""))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.TokenNoSSH, block("disks = { scsi0 = { "+line+" } }\n"))
		if err := s.Converge(t.Context()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if is := rig.GuestOf(w, 400).Config["scsi0"]; strings.Contains(is, option) {
			t.Errorf("%s: scsi0 is %s", line, is)
		}
		w.Change(func(world *state.World) { world.Guests[400].Config["net0"] += ",firewall=1,link_down=1" })
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.TokenNoSSH, block("disks = { scsi0 = { "+line+" } }\nnetworks = { net0 = { bridge = \"vmbr0\", "+
			"firewall = false, link_down = false } }\n"))
		if err := s.Converge(t.Context()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if is := rig.GuestOf(w, 400).Config["net0"]; strings.Contains(is, "=1") {
			t.Errorf("net0 is %s", is)
		}
	}
}

// TestRemovedDiskComesBack: a disk that left the configuration leaves the running guest at its next stop. Configured
// again before that, it stays with its data. One that a third party has given the VM, and removed, makes place for a new
// one.
func TestRemovedDiskComesBack(t *testing.T) {
	t.Parallel()
	disks := func(more string) string {
		return "reboot_policy = \"never\"\nhotplug = [\"network\"]\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }" + more + " }\n"
	}
	const second = `, sata1 = { storage = "local-zfs", size = "1G" }`
	l := rig.NewVM(t, disks(second))
	was := l.Volume("sata1")
	l.To(disks(""))
	l.WantWaiting("sata1")
	l.To(disks(second))
	l.WantWaiting()
	if is := l.Volume("sata1"); is != was {
		t.Errorf("sata1 has %s, not %s", is, was)
	}
	l.To(disks(""))
	l.To("power_state = \"stopped\"\n" + disks(second)) // PVE carries a removal out that waits at the stop
	l.To("power_state = \"running\"\n" + disks(second))
	if is := l.Volume("sata1"); is != was {
		t.Errorf("off, sata1 has %s, not %s", is, was)
	}
	l.Guest(func(world *state.World, g *state.Guest) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30})
		g.Config["sata3"], g.Deletes = "local-zfs:vm-400-disk-7,size=1G", map[string]int{"sata3": 1}
	})
	l.To(disks(second + strings.Replace(second, "sata1", "sata3", 1)))
	l.WantWaiting("sata3")
	if is := l.Attr(`disks["sata3"].volume`); is == "local-zfs:vm-400-disk-7" {
		t.Errorf("the state has %s, which a third party had removed", is)
	}
}

// TestAnotherDiskInASlotWithoutHotplug: PVE takes no disk out of SATA while the VM runs, and refuses another one in its place. The plan says so. It
// goes with the VM off, or at the restart of a guest whose hotplug setting leaves out disks.
func TestAnotherDiskInASlotWithoutHotplug(t *testing.T) {
	t.Parallel()
	for setting, refused := range map[string]bool{"": true, rig.Stopped: false, "hotplug = [\"network\"]\n": false} {
		const boot, one, two = `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, `, `{ storage = "local-zfs", size = "2G" }`, `{ storage = "local-zfs", size = "3G" }`
		l := rig.NewVM(t, setting+"boot_order = [\"scsi0\"]\n"+boot+"sata1 = "+one+", sata2 = "+two+" }\n")
		l.World.ExpectPowerOffs(state.PowerReboot)
		body := setting + "boot_order = [\"scsi0\"]\n" + l.Named(boot+"sata1 = { imported_disk = { volume = <sata2> } }, sata2 = { imported_disk = { volume = <sata1> } } }\n")
		if refused {
			l.Refuses(body, `disks["sata1"].imported_disk`, "takes no disk out of IDE or SATA", "power_state = \"stopped\"")
			continue
		}
		l.To(body)
		l.Want(map[string]string{"scsi0": "scsi0", "sata1": "sata2", "sata2": "sata1"})
	}
}

// TestBootOrderOfADiskThatComesBack: a disk that is about to leave is wanted again. It returns to its place in the boot
// order, which the plan leaves open. An order stays that the configuration has, or that an administrator has set.
func TestBootOrderOfADiskThatComesBack(t *testing.T) {
	t.Parallel()
	disks := func(more string) string {
		return "reboot_policy = \"never\"\nnetworks = { net0 = { bridge = \"vmbr0\" } }\n" +
			"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }" + more + " }\n"
	}
	without, with := disks(""), disks(`, sata1 = { storage = "local-zfs", size = "1G" }`)
	for name, c := range map[string]struct{ configured, byHand, late, want string }{
		"of PVE":                         {"", "", "", "order=sata1;scsi0"},
		"configured":                     {"boot_order = [\"net0\"]\n", "", "", "order=net0"},
		"configured, and as PVE's":       {"boot_order = [\"scsi0\"]\n", "", "", "order=scsi0"},
		"set by hand":                    {"", "order=net0", "", "order=net0"},
		"set by hand, after the plan":    {"", "", "order=net0", "order=net0"},
		"configured, and then otherwise": {"boot_order = [\"net0\"]\n", "", "order=scsi0;net0", "order=scsi0;net0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, with)
			l.Guest(func(_ *state.World, g *state.Guest) { g.Config["boot"] = "order=sata1;scsi0" })
			set := func(order string) {
				if order != "" {
					l.Guest(func(_ *state.World, g *state.Guest) { g.Pending["boot"] = order })
				}
			}
			l.To(without + c.configured)
			set(c.byHand)
			planned := l.Plan(with + c.configured)
			set(c.late)
			rig.Must(t, l.Session.Apply(t.Context(), planned))
			var is string
			l.Guest(func(_ *state.World, g *state.Guest) { is = cmp.Or(g.Pending["boot"], g.Config["boot"]) })
			if is != c.want || l.Config()["sata1"] == "" {
				t.Errorf("the boot order is %s", is)
			}
			if c.late == "" {
				l.To(with + c.configured)
			}
		})
	}
}

// TestSlotAndNodeChange: a running VM whose volume names have a gap goes to another node, where PVE names its disks again.
// The plan that also puts one of them into another slot by its name is refused; in two applies each keeps its content.
func TestSlotAndNodeChange(t *testing.T) {
	t.Parallel()
	disks := func(boot, rest string) string {
		return "removed_disks = \"destroy\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " + boot + rest + " }\n"
	}
	const one, two, three = `scsi1 = { storage = "shared-nfs", size = "2G" }, `, `scsi2 = { storage = "local-zfs", size = "2G" }, `,
		`scsi3 = { storage = "local-zfs", size = "2G" }`
	l := rig.NewVM(t, disks(one, `scsi4 = { storage = "local-zfs", size = "2G" }, `+two+three))
	l.To(disks(one, two+three))
	there := func(body string) {
		l.World.Reconfigure(t, l.Session, rig.TokenNoSSH, strings.Replace(rig.NodeVMBlock(l.Named(body)), `"pve1"`, `"pve2"`, 1))
	}
	there(disks(one, `scsi5 = { imported_disk = { volume = <scsi2> } }`))
	_, err := l.Session.Plan(t.Context())
	rig.MustSay(t, err, `disks["scsi5"].imported_disk.volume`, "first change the node alone")
	there(disks(one, two+three+`, scsi5 = { storage = "local-lvm", import_from = <scsi2> }`))
	_, err = l.Session.Plan(t.Context())
	rig.MustSay(t, err, `disks["scsi5"].import_from`, "first change the node alone")
	there(disks(`scsi6 = { imported_disk = { volume = <scsi1> } }, `, two+three))
	rig.Must(t, l.Session.Converge(t.Context()))
	l.Want(map[string]string{"scsi0": "scsi0", "scsi2": "scsi2", "scsi3": "scsi3", "scsi6": "scsi1"})
	there(disks(`scsi6 = { storage = "shared-nfs", size = "2G" }, `, `scsi5 = { imported_disk = { volume = <scsi2> } }`))
	rig.Must(t, l.Session.Converge(t.Context()))
	l.Want(map[string]string{"scsi0": "scsi0", "scsi5": "scsi2", "scsi6": "scsi1"})
}

// TestCopyAndItsOriginal: a disk is to be copied into a new slot and to leave its own, with its data. One apply does not
// do both: QEMU refuses the copy, which is taken back, and the original stays until the copy is there.
func TestCopyAndItsOriginal(t *testing.T) {
	t.Parallel()
	const head, rest = "removed_disks = \"destroy\"\nscsihw = \"virtio-scsi-pci\"\nboot_order = [\"scsi0\"]\n" +
		`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, `, " }\n"
	const one = `scsi2 = { storage = "local-zfs", size = "2G" }`
	l := rig.NewVM(t, head+one+rest)
	ignores := func(what ...string) { l.Guest(func(_ *state.World, g *state.Guest) { g.Ignores = what }) }
	ignores("plug")
	copied := l.Named(`scsi5 = { storage = "local-lvm", import_from = <scsi2> }`)
	l.World.Reconfigure(t, l.Session, rig.TokenNoSSH, rig.NodeVMBlock(head+copied+rest))
	_, err := l.Session.Plan(t.Context())
	rig.MustSay(t, err, `disks["scsi5"].import_from`, "first the copy alone")
	both := rig.NodeVMBlock(head + one + ", " + copied + rest)
	l.World.Reconfigure(t, l.Session, rig.TokenNoSSH, both)
	rig.MustSay(t, l.Session.Converge(t.Context()), "adding drive failed")
	l.Want(map[string]string{"scsi0": "scsi0", "scsi2": "scsi2"})
	ignores()
	rig.Must(t, l.Session.Converge(t.Context()))
	l.World.Reconfigure(t, l.Session, rig.TokenNoSSH, rig.NodeVMBlock(head+copied+rest))
	rig.Must(t, l.Session.Converge(t.Context()))
	l.Want(map[string]string{"scsi0": "scsi0", "scsi5": "scsi2"})
	into := l.Named(`scsi0 = { storage = "local-zfs", size = "1G", import_from = <scsi5> }`)
	l.World.Reconfigure(t, l.Session, rig.TokenNoSSH, rig.NodeVMBlock(strings.Replace(head, `scsi0 = { storage = "local-zfs", size = "1G" }, `, into, 1)+rest))
	_, err = l.Session.Plan(t.Context()) // the slot has a disk, which stays
	rig.MustSay(t, err, `disks["scsi0"].import_from`, "nothing is copied into it")
}

// TestSlotChangeOfANewTemplate: a disk gets another slot by its name in the apply that makes its VM a template, which renames it. The plan
// promised the name from before. It is refused now, and two applies do it.
func TestSlotChangeOfANewTemplate(t *testing.T) {
	t.Parallel()
	body := func(more, rest string) string {
		return "power_state = \"stopped\"\n" + more + `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, ` + rest + " }\n"
	}
	l := rig.NewVM(t, body("", `scsi2 = { storage = "local-zfs", size = "2G" }`))
	moved := l.Named(`scsi5 = { imported_disk = { volume = <scsi2> } }`)
	l.Configure(body("template = true\n", moved))
	_, err := l.Session.Plan(t.Context())
	rig.MustSay(t, err, `disks["scsi5"].imported_disk.volume`, "first put the disk into scsi5")
	l.To(body("", moved))
	l.To(body("template = true\n", moved))
	l.Want(map[string]string{"scsi0": "scsi0", "scsi5": "scsi2"})
}

// TestExchangeOfANewTemplate: nor does a slot that has a disk get another one in such an apply. The plan left the volumes of all slots open, so
// each kept its own, and the disk that had left its slot was destroyed without a word.
func TestExchangeOfANewTemplate(t *testing.T) {
	t.Parallel()
	const more, template = "power_state = \"stopped\"\nremoved_disks = \"destroy\"\n", "template = true\n"
	with := func(disks string) string {
		return `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, ` + disks + " }\n"
	}
	const into1, into2 = `scsi1 = { imported_disk = { volume = <scsi2> } }`, `scsi2 = { imported_disk = { volume = <scsi1> } }`
	for after, want := range map[string]map[string]string{
		into1:                {"scsi0": "scsi0", "scsi1": "scsi2", "unused1": "scsi1"},
		into1 + ", " + into2: {"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "scsi1"},
	} {
		t.Run(after, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, more+with(`scsi1 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "2G" }`))
			disks := with(l.Named(after))
			l.Configure(more + template + disks)
			_, err := l.Session.Plan(t.Context())
			rig.MustSay(t, err, `disks["scsi1"].imported_disk.volume`, "first put the disk into scsi1")
			l.To(more + disks)
			l.To(more + template + disks)
			l.Want(want)
		})
	}
}

// TestPlanTellsOfADiskThatIsUnplugged: a disk that changes its slot leaves the running guest for a moment, mounted or not, and the plan says so. A
// guest that is off, or is shut down first, loses nothing, and in IDE and SATA a restart makes the change.
func TestPlanTellsOfADiskThatIsUnplugged(t *testing.T) {
	t.Parallel()
	const moved = `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi3 = { imported_disk = { volume = <scsi1> } }, scsi2 = { storage = "local-zfs", size = "3G" } }
`
	const cold = `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, sata1 = { storage = "local-zfs", size = "2G" } }
`
	for name, c := range map[string]struct {
		before, after string
		told          map[string]string // the slot that leaves the guest, by the one that it goes to
	}{
		"another slot":    {rig.ThreeDisks, moved, map[string]string{"scsi3": "scsi1"}},
		"a swap":          {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> } }, scsi2 = { imported_disk = { volume = <scsi1> } } }`, map[string]string{"scsi1": "scsi2", "scsi2": "scsi1"}},
		"off":             {rig.Stopped + rig.ThreeDisks, rig.Stopped + moved, nil},
		"shut down first": {rig.ThreeDisks, rig.Stopped + moved, nil},
		"at a restart":    {cold, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, sata2 = { imported_disk = { volume = <sata1> } } }`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.before)
			pl := l.Plan(l.Named(c.after))
			for slot, old := range c.told {
				l.Warned(`disks["`+slot+`"].imported_disk`, old+" of", "unplugged while the guest runs", "back in "+slot, "Unmount it", `power_state = "stopped"`)
			}
			if said := strings.Count(pl.Diagnostics.String(), "is unplugged while"); said != len(c.told) {
				t.Errorf("told of %d, want %d:\n%s", said, len(c.told), pl.Diagnostics)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
		})
	}
}

// TestPlanTellsOfVolumesThatAreNotKnownYet: a slot gets a volume that the same apply makes. The plan tells which disk makes room for it, that a
// running guest loses that, and of the disk of another user in a slot of which nothing is known.
func TestPlanTellsOfVolumesThatAreNotKnownYet(t *testing.T) {
	t.Parallel()
	const theirs, new, boot, second = "local-zfs:vm-400-disk-8", "local-zfs:vm-400-disk-9", `scsi0 = { storage = "local-zfs", size = "1G" }`,
		`scsi1 = { storage = "local-zfs", size = "1G" }`
	disks := func(more string) string { return "disks = { " + boot + more + " }\n" }
	named := cty.ObjectVal(map[string]cty.Value{"volume": cty.StringVal(new)})
	slots := func(slots ...string) cty.Value {
		all := map[string]cty.Value{}
		for _, slot := range slots {
			all[slot] = cty.ObjectVal(map[string]cty.Value{"storage": cty.StringVal("local-zfs"), "size": cty.StringVal("1G")})
		}
		return cty.ObjectVal(all)
	}
	const detached, plugged = "is detached for it and stays with the VM", "takes it from the running guest, mounted or not"
	for name, c := range map[string]struct {
		before, after string
		is            cty.Value
		says, not     []string
	}{
		"of a running guest": {disks(", " + second), disks(", scsi1 = { imported_disk = { volume = var.it } }"), cty.StringVal(new), []string{"scsi1 of VM 400", "may get another volume", detached, plugged}, nil},
		"as a whole":         {disks(", " + second), disks(", scsi1 = { imported_disk = var.it }"), named, []string{"scsi1 of VM 400", "may get another volume", detached, plugged}, nil},
		"of a guest that is off": {rig.Stopped + disks(", "+second), rig.Stopped + disks(", scsi1 = { imported_disk = { volume = var.it } }"), cty.StringVal(new),
			[]string{"may get another volume", detached}, []string{plugged}},
		"a slot with another user's disk": {disks(""), disks(", scsi5 = var.it"), slots("scsi5").GetAttr("scsi5"), []string{"scsi5 of VM 400 on pve1 is not empty", theirs, "If it is configured"}, nil},
		"all slots":                       {disks(""), "disks = var.it\n", slots("scsi0", "scsi5"), []string{"scsi5 of VM 400 on pve1 is not empty", theirs, "If it is configured"}, nil},
		"another attribute of the slot":   {disks(", " + second), disks(`, scsi1 = { storage = "local-zfs", size = "1G", cache = var.it }`), cty.StringVal("none"), nil, []string{"another volume", "not empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.ExpectPowerOffs(state.PowerReboot)
			s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(c.before))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				for slot, volume := range map[string]string{"unused0": new, "scsi5": theirs} {
					_, file, _ := strings.Cut(volume, ":")
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: file, Content: "images", VMID: 400, Format: "raw", Size: 1 << 30})
					world.Guests[400].Config[slot] = volume
				}
			})
			rig.Must(t, s.Refresh(t.Context()))
			w.Reconfigure(t, s, rig.RootTicket, "variable \"it\" {}\n"+rig.NodeVMBlock(c.after))
			s.SetVariable("it", cty.DynamicVal)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := pl.Diagnostics.String()
			for _, words := range c.says {
				if !strings.Contains(said, words) {
					t.Errorf("the plan does not say %q:\n%s", words, said)
				}
			}
			for _, words := range c.not {
				if strings.Contains(said, words) {
					t.Errorf("the plan says %q:\n%s", words, said)
				}
			}
			s.SetVariable("it", c.is)
			rig.Must(t, s.Apply(t.Context(), pl))
			if has := rig.GuestOf(w, 400).Config["scsi1"]; strings.Contains(c.after, "imported_disk") && !strings.HasPrefix(has, new) {
				t.Errorf("scsi1 has %s", has)
			}
		})
	}
}
