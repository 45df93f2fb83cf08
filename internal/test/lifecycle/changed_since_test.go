package lifecycle_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestBootOrderThatOthersChange: PVE puts a new medium's drive into the boot order, and the apply takes it out again. An
// order that a third party has set since the plan stays, unless the plan changes the order itself.
func TestBootOrderThatOthersChange(t *testing.T) {
	const devices = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\nnetworks = { net0 = { bridge = \"vmbr0\" } }\n" +
		"power_state = \"stopped\"\n"
	const empty, medium = "cdroms = { ide2 = { file = \"none\" } }\n", "cdroms = { ide2 = { file = \"local:iso/debian.iso\" } }\n"
	for name, c := range map[string]struct{ order, want string }{
		"not configured": {"", "order=net0;scsi0"},
		"configured":     {"boot_order = [\"scsi0\"]\n", "order=net0;scsi0"},
	} {
		t.Run(name, func(t *testing.T) {
			l := rig.NewVM(t, devices+empty)
			l.Guest(func(_ *state.World, g *state.Guest) { g.Config["boot"] = "order=scsi0" })
			l.To(devices + empty + c.order)
			planned := l.Plan(devices + medium + c.order)
			l.Guest(func(_ *state.World, g *state.Guest) { g.Config["boot"] = "order=net0;scsi0" })
			rig.Must(t, l.Session.Apply(t.Context(), planned))
			if is := l.Config()["boot"]; is != c.want {
				t.Errorf("the boot order is %s", is)
			}
		})
	}
	t.Run("changed by the plan", func(t *testing.T) {
		l := rig.NewVM(t, devices+empty+"boot_order = [\"scsi0\"]\n")
		planned := l.Plan(devices + medium + "boot_order = [\"net0\", \"scsi0\"]\n")
		l.Guest(func(_ *state.World, g *state.Guest) { g.Config["boot"] = "order=net0" })
		rig.Must(t, l.Session.Apply(t.Context(), planned))
		if is := l.Config()["boot"]; is != "order=net0;scsi0" {
			t.Errorf("the boot order is %s", is)
		}
	})
}

// TestThirdValueOfAnOption: an administrator has given options another value than the plan knows. They stay as they are, in
// force or waiting, and the next plan shows them. The planned value, and another program's equal one, is no third one.
func TestThirdValueOfAnOption(t *testing.T) {
	t.Parallel()
	const body = "power_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	const notes = "web. Do not restart before 1 December: J. Doe, ticket 4711"
	for name, c := range map[string]struct {
		from, to string
		act      func(g *state.Guest)
		says     string // "": the apply does it
	}{
		"description": {"description = \"web\"", "description = \"web server\"",
			func(g *state.Guest) { g.Config["description"] = notes }, notes},
		"description of none": {"", "description = \"web server\"",
			func(g *state.Guest) { g.Config["description"] = notes }, notes},
		"description that goes": {"description = \"web\"", "description = \"\"",
			func(g *state.Guest) { g.Config["description"] = notes }, notes},
		"memory": {"memory = { size = 1024 }", "memory = { size = 2048 }",
			func(g *state.Guest) { g.Config["memory"] = "16384" }, `memory: was "1024", is "16384", planned "2048"`},
		"memory that waits": {"memory = { size = 1024 }", "memory = { size = 2048 }",
			func(g *state.Guest) { g.Pending = map[string]string{"memory": "16384"} }, `is "16384"`},
		"cores": {"", "cpu = { cores = 2 }", func(g *state.Guest) { g.Config["cores"] = "8" }, `cores: was none, is "8", planned "2"`},
		"as planned": {"memory = { size = 1024 }", "memory = { size = 2048 }\ncpu = { cores = 2 }",
			func(g *state.Guest) { g.Config["memory"] = "2048" }, ""},
		"default by name":        {"", "cpu = { cores = 2 }", func(g *state.Guest) { g.Config["cores"] = "1" }, ""},
		"default memory by name": {"", "memory = { size = 2048 }", func(g *state.Guest) { g.Config["memory"] = "512" }, ""},
		"another option": {"memory = { size = 1024 }", "memory = { size = 2048 }",
			func(g *state.Guest) { g.Config["description"] = notes }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := rig.NewVM(t, body+c.from)
			planned := l.Plan(body + c.to)
			l.Guest(func(_ *state.World, g *state.Guest) { c.act(g) })
			before := l.Config()
			err := l.Session.Apply(t.Context(), planned)
			if c.says == "" {
				rig.Must(t, err)
				return
			}
			rig.MustRefuse(t, err, []string{"Options of VM 400 were changed outside Terraform since the plan", c.says})
			if diff := cmp.Diff(before, l.Config()); diff != "" {
				t.Errorf("the VM was changed: %s", diff)
			}
			l.To(body + c.to)
		})
	}
}

// TestThirdValueDuringAStep: an administrator describes a VM while an apply moves its disk, migrates it or shuts it down, which takes its time.
// The description stays, and the error does not say that nothing was done.
func TestThirdValueDuringAStep(t *testing.T) {
	t.Parallel()
	const body = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	for path, c := range map[string]struct{ from, to, node string }{
		"/move_disk":       {rig.Stopped + body, rig.Stopped + strings.Replace(body, "local-zfs", "local-lvm", 1), "pve1"},
		"/migrate":         {rig.Stopped + body, rig.Stopped + body, "pve2"},
		"/status/shutdown": {body + "ha = { state = \"started\" }\n", rig.Stopped + body, "pve1"},
	} {
		t.Run(path, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(c.from+"description = \"web\"\n"))
			rig.Must(t, s.Converge(t.Context()))
			w.Sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Describe, VMID: 400,
				Before: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}" + path}}})
			to := rig.NodeVMBlock(c.to + "description = \"web server\"\n")
			w.Reconfigure(t, s, rig.RootTicket, strings.Replace(to, `"pve1"`, fmt.Sprintf("%q", c.node), 1))
			err := s.Run(t.Context())
			rig.MustRefuse(t, err, []string{"Options of VM 400 were changed outside Terraform since the plan"})
			if is := rig.GuestOf(w, 400).Config["description"]; is == "web server" || strings.Contains(err.Error(), "Nothing was") {
				t.Errorf("the description is %q: %v", is, err)
			}
		})
	}
}

// TestBootOrderOfASlotThatIsEmptiedFirst: an update takes a drive out of a slot, and puts another in. The order keeps the slot.
func TestBootOrderOfASlotThatIsEmptiedFirst(t *testing.T) {
	const body = "boot_order = [\"scsi0\", \"ide2\"]\npower_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	l := rig.NewVM(t, body+"cloud_init = { storage = \"local-zfs\", slot = \"ide2\" }\n")
	l.To(body + "cloud_init = { storage = \"local-zfs\", slot = \"ide0\" }\ncdroms = { ide2 = { file = \"local:iso/debian.iso\" } }\n")
	if is := l.Config()["boot"]; is != "order=scsi0;ide2" {
		t.Errorf("the boot order is %s", is)
	}
}

// TestGatewayThatOthersSet: PVE takes a gateway without a fixed address, and gives the guest no address at all then. So a gateway that a
// third party has set since the plan goes with the address that the plan changes.
func TestGatewayThatOthersSet(t *testing.T) {
	const body = "power_state = \"stopped\"\nnetworks = { net0 = { bridge = \"vmbr0\" } }\n"
	l := rig.NewVM(t, body+`cloud_init = { storage = "local-zfs", addresses = { net0 = { ipv4 = "10.0.0.5/24" } } }`)
	planned := l.Plan(body + `cloud_init = { storage = "local-zfs", addresses = { net0 = { ipv4 = "dhcp" } } }`)
	l.Guest(func(_ *state.World, g *state.Guest) { g.Config["ipconfig0"] = "ip=10.0.0.5/24,gw=10.0.0.1,ip6=auto" })
	rig.Must(t, l.Session.Apply(t.Context(), planned))
	if is := l.Config()["ipconfig0"]; is != "ip=dhcp,ip6=auto" {
		t.Errorf("the addresses are %s", is)
	}
}

// TestTagsThatOthersAdd: a tag that a third party has set since the plan stays, whether the configuration changes the
// tags or the provider block does. The next plan shows it where the configuration names the tags.
func TestTagsThatOthersAdd(t *testing.T) {
	for name, c := range map[string]struct {
		before, after [2]string // default_tags and tags
		has, want     string
		exact         bool // the datacenter tells "Web" from "web"
	}{
		"added":    {[2]string{"", "tags = [\"a\"]"}, [2]string{"", "tags = [\"a\", \"b\"]"}, "a;theirs", "a;b;theirs", false},
		"taken":    {[2]string{"", "tags = [\"a\", \"b\"]"}, [2]string{"", "tags = [\"a\"]"}, "a;b;theirs", "a;theirs", false},
		"same":     {[2]string{"", "tags = [\"a\"]"}, [2]string{"", "tags = [\"a\", \"b\"]"}, "a;b", "a;b", false},
		"defaults": {[2]string{"default_tags = [\"one\"]", ""}, [2]string{"default_tags = [\"two\"]", ""}, "one;theirs", "theirs;two", false},
		"folded":   {[2]string{"default_tags = [\"One\"]", ""}, [2]string{"default_tags = [\"Two\"]", ""}, "one;theirs", "theirs;two", false},
		"case":     {[2]string{"", "tags = [\"web\"]"}, [2]string{"", "tags = [\"Web\", \"db\"]"}, "theirs;web", "Web;db;theirs", true},
		"another":  {[2]string{"", "tags = [\"web\"]"}, [2]string{"", "tags = [\"web\", \"Web\", \"db\"]"}, "web", "Web;db;web", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.NewSession()
			block := func(tags string) string { return rig.VMBlock("node = \"pve1\"\nvmid = 400\n" + tags + "\n") }
			withDefaults(t, w, s, c.before[0], block(c.before[1]))
			rig.Must(t, s.Converge(t.Context()))
			withDefaults(t, w, s, c.after[0], block(c.after[1]))
			w.Change(func(world *state.World) { world.CaseSensitiveTags = c.exact })
			planned, err := s.Plan(t.Context())
			rig.Must(t, err)
			w.Change(func(world *state.World) { world.Guests[400].Config["tags"] = c.has })
			rig.Must(t, s.Apply(t.Context(), planned))
			if is := rig.GuestOf(w, 400).Config["tags"]; is != c.want {
				t.Errorf("the tags are %s", is)
			}
		})
	}
}

// TestVMThatOthersTakeOutOfHA: a change of the HA entry does not bring back an entry that a third party has removed since
// the plan.
func TestVMThatOthersTakeOutOfHA(t *testing.T) {
	with := func(restarts int) string {
		return rig.VMBlock(fmt.Sprintf("node = \"pve1\"\nvmid = 400\npower_state = \"stopped\"\n"+
			"ha = { state = \"stopped\", max_restart = %d }\n", restarts))
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, with(3))
	rig.Must(t, s.Converge(t.Context()))
	w.Reconfigure(t, s, rig.RootTicket, with(4))
	planned, err := s.Plan(t.Context())
	rig.Must(t, err)
	w.Change(func(world *state.World) { delete(world.HA, "vm:400") })
	if err := s.Apply(t.Context(), planned); err == nil || !strings.Contains(err.Error(), "VM 400 is not under HA any more") {
		t.Errorf("the apply said %v", err)
	}
	if _, ha := beside(w, 400); ha != nil {
		t.Errorf("the VM is under HA again: %v", ha)
	}
	rig.Must(t, s.Converge(t.Context()))
	if _, ha := beside(w, 400); ha == nil {
		t.Error("the next plan does not put it under HA")
	}
}

// TestDiskThatComesIntoAUsedSlot: a destroy removes only the disks that its plan has named, not another one that has
// come into one of their slots since. A disk that was moved to another storage is the same disk, and has the same size.
func TestDiskThatComesIntoAUsedSlot(t *testing.T) {
	const disks = "power_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " +
		"scsi1 = { storage = \"local-zfs\", size = \"1G\" } }\nbios = \"ovmf\"\n" +
		"efi_disk = { storage = \"local-zfs\" }\ntpm_state = { storage = \"local-zfs\", version = \"v2.0\" }\n"
	sized := func(world *state.World, g *state.Guest, slot string, gib int64) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: "vm-400-disk-77", Content: "images", VMID: 400, Format: "raw", Size: gib << 30})
		g.Config[slot] = fmt.Sprintf("local-zfs:vm-400-disk-77,size=%dG", gib)
	}
	another := func(world *state.World, g *state.Guest, slot string) { sized(world, g, slot, 1) }
	drop := func(world *state.World, volume string) {
		maps.DeleteFunc(world.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Volid() == volume })
	}
	for name, c := range map[string]struct {
		before, meanwhile func(*state.World, *state.Guest)
		goes              bool
	}{
		"the known disk is detached": {nil, func(world *state.World, g *state.Guest) {
			g.Config["unused0"] = strings.Split(g.Config["scsi1"], ",")[0]
			another(world, g, "scsi1")
		}, false},
		"the known disk is on its storage still": {nil, func(world *state.World, g *state.Guest) { another(world, g, "scsi1") }, false},
		"the known disk was moved": {nil, func(world *state.World, g *state.Guest) {
			drop(world, strings.Split(g.Config["scsi1"], ",")[0])
			another(world, g, "scsi1")
		}, true},
		"the known disk is gone, and this one is larger": {nil, func(world *state.World, g *state.Guest) {
			drop(world, strings.Split(g.Config["scsi1"], ",")[0])
			sized(world, g, "scsi1", 5)
		}, false},
		"the known disk may be on a storage that lists none": {nil, func(world *state.World, g *state.Guest) {
			another(world, g, "scsi1")
			world.Storages["local-zfs"].Content = []string{"rootdir"}
		}, false},
		"another EFI disk":         {nil, func(world *state.World, g *state.Guest) { another(world, g, "efidisk0") }, false},
		"another state of the TPM": {nil, func(world *state.World, g *state.Guest) { another(world, g, "tpmstate0") }, false},
		"the state of the TPM was moved": {nil, func(world *state.World, g *state.Guest) {
			is, rest, _ := strings.Cut(g.Config["tpmstate0"], ",")
			v := world.Volume("pve1", is)
			drop(world, is)
			v.Name = "vm-400-disk-77"
			world.Put(v)
			g.Config["tpmstate0"] = v.Volid() + "," + rest
		}, true},
		"the slot had a third party's disk": {func(world *state.World, g *state.Guest) { putDisk(world, g, "scsi2") },
			func(world *state.World, g *state.Guest) { another(world, g, "scsi2") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := rig.NewVM(t, disks)
			if c.before != nil {
				l.Guest(c.before)
			}
			planned, err := l.Session.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			l.Guest(c.meanwhile)
			err = l.Session.Apply(t.Context(), planned)
			if refused := err != nil && strings.Contains(err.Error(), "VM 400 has got another disk"); refused == c.goes {
				t.Errorf("the apply said %v", err)
			}
			l.World.Change(func(world *state.World) {
				if left := world.Volume("pve1", "local-zfs:vm-400-disk-77") != nil; left == c.goes {
					t.Errorf("the other disk is there: %v", left)
				}
			})
		})
	}
}

// TestHolderWithAnotherDisk: the destroy of a proxmox_disk removes that disk, and no other that a third party has given
// the VM which holds it.
func TestHolderWithAnotherDisk(t *testing.T) {
	beside := func(world *state.World, g *state.Guest) string { return putDisk(world, g, "scsi1") }
	inItsSlot := func(world *state.World, g *state.Guest) string {
		g.Config["unused0"] = strings.Split(g.Config["scsi0"], ",")[0]
		return putDisk(world, g, "scsi0")
	}
	instead := func(world *state.World, g *state.Guest) string {
		g.Config["unused0"] = strings.Split(g.Config["scsi0"], ",")[0]
		delete(g.Config, "scsi0")
		return putDisk(world, g, "scsi1")
	}
	underItsName := func(world *state.World, g *state.Guest) string {
		volume := strings.Split(g.Config["scsi0"], ",")[0]
		world.Volume(g.Node, volume).Size, g.Config["scsi0"] = 50<<30, volume+",size=50G"
		return volume
	}
	for name, c := range map[string]struct {
		put        func(*state.World, *state.Guest) string
		beforePlan bool
	}{
		"beside it, before the plan":  {beside, true},
		"beside it, since the plan":   {beside, false},
		"instead of it, before":       {instead, true},
		"instead of it, since":        {instead, false},
		"under its name, since":       {underItsName, false},
		"in its slot, since the plan": {inItsSlot, false}, // before the plan, the refresh has it and the plan names it
	} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, "resource \"proxmox_disk\" \"d\" {\n  vmid = 450\n  node = \"pve1\"\n  storage = \"local-zfs\"\n  size = \"1G\"\n}\n")
			rig.Must(t, s.Converge(t.Context()))
			var theirs string
			put := func() { w.Change(func(world *state.World) { theirs = c.put(world, world.Guests[450]) }) }
			if c.beforePlan {
				put()
			}
			w.Reconfigure(t, s, rig.RootTicket, "")
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			if !c.beforePlan {
				put()
			}
			if err := s.Apply(t.Context(), plan); err == nil || !strings.Contains(err.Error(), theirs) {
				t.Errorf("the destroy said %v", err)
			}
			w.Change(func(world *state.World) {
				if world.Volume("pve1", theirs) == nil || world.Guests[450] == nil {
					t.Errorf("%s is gone", theirs)
				}
			})
		})
	}
}

// TestOtherDiskInASlotThatLeaves: a disk leaves the configuration of a running VM, and an administrator has exchanged it
// since the plan. His disk is not unplugged before a plan has named it.
func TestOtherDiskInASlotThatLeaves(t *testing.T) {
	t.Parallel()
	const one = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	l := rig.NewVM(t, strings.Replace(one, "} }", "}, scsi1 = { storage = \"local-zfs\", size = \"1G\" } }", 1))
	planned, theirs := l.Plan(one+"description = \"less\"\n"), ""
	l.Guest(func(world *state.World, g *state.Guest) {
		g.Config["unused0"], _, _ = strings.Cut(g.Config["scsi1"], ",")
		theirs = putDisk(world, g, "scsi1")
	})
	before := l.Config()
	rig.MustRefuse(t, l.Session.Apply(t.Context(), planned), []string{"scsi1 of VM 400 does not have the disk of the plan", theirs,
		before["unused0"]})
	if diff := cmp.Diff(before, l.Config()); diff != "" {
		t.Errorf("the VM was changed: %s", diff)
	}
	if again := l.Plan(one).String(); !strings.Contains(again, theirs) {
		t.Errorf("the next plan does not name %s:\n%s", theirs, again)
	}
	l.To(one)
	if config := l.Config(); config["scsi1"] != "" || config["unused0"] == "" || config["unused1"] != theirs {
		t.Errorf("the VM has %v", config)
	}
}

// TestNameOfADetachedEFIDisk: an administrator moves the EFI disk or the TPM state to another storage, and PVE gives the
// name that came free to a data disk, which he detaches. It stays. The VM's own goes with it, also detached.
func TestNameOfADetachedEFIDisk(t *testing.T) {
	t.Parallel()
	begin := rig.NewVM(t, oneDisk+"\nbios = \"ovmf\"\nefi_disk = { storage = \"local-zfs\" }\n"+
		"tpm_state = { storage = \"local-zfs\", version = \"v2.0\" }").Again()
	for _, slot := range []string{"efidisk0", "tpmstate0"} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, own %t", slot, own), func(t *testing.T) {
				l := begin(t)
				name, _, _ := strings.Cut(l.Config()[slot], ",")
				act := func(path, params string) { rig.RunTask(t, l.World, "/nodes/pve1/qemu/400/"+path, params) }
				leaves := slot
				if !own {
					act("move_disk", "disk="+slot+"&storage=shared-nfs&delete=1&format=raw")
					act("config", "scsi5=local-zfs:50")
					leaves = "scsi5"
				}
				act("config", "delete="+leaves)
				planned, err := l.Session.Plan(t.Context(), terraformtest.ToDestroy())
				rig.Must(t, err)
				rig.Must(t, l.Session.Apply(t.Context(), planned))
				l.World.Change(func(world *state.World) {
					if stays := world.Volume("pve1", name) != nil; stays == own {
						t.Errorf("%s stays: %t", name, stays)
					}
				})
			})
		}
	}
}
