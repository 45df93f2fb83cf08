package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// putDisk puts a disk of 1 GiB into a slot of a guest by hand, and returns its volume.
func putDisk(world *state.World, g *state.Guest, slot string) string {
	name := fmt.Sprintf("vm-%d-by-hand-%s", g.VMID, slot)
	world.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: name, Content: "images", VMID: g.VMID, Format: "raw", Size: 1 << 30})
	g.Config[slot] = "local-zfs:" + name + ",size=1G"
	return "local-zfs:" + name
}

// TestNoWordOfDevicesThatAreNotTakenOver: a plan tells of devices that were added by hand only where it is known that
// the configuration names them and gives them other settings, and of disks where it may name them.
func TestNoWordOfDevicesThatAreNotTakenOver(t *testing.T) {
	l := rig.NewVM(t, "")
	l.Guest(func(world *state.World, g *state.Guest) {
		g.Config["serial0"], g.Config["net1"] = "socket", "virtio=BC:24:11:00:00:07,bridge=vmbr0"
		putDisk(world, g, "scsi3")
		putDisk(world, g, "ide2")
	})
	object := func(keys ...string) cty.Value {
		types := map[string]cty.Type{}
		for _, key := range keys {
			types[key] = cty.String
		}
		return cty.UnknownVal(cty.Map(cty.Object(types)))
	}
	for name, c := range map[string]struct {
		body string
		open cty.Value
		told bool
	}{
		"networks that are not known":     {"networks = var.open\n", object("bridge"), false},
		"disks that are not known":        {"disks = var.open\n", object("storage", "size"), true},
		"serial ports that are not known": {"serial = var.open\n", object("device"), false},
		"a slot that is not known": {"cloud_init = { storage = \"local-zfs\", slot = var.open }\n", cty.UnknownVal(cty.String),
			false},
		"a port that is as planned": {"serial = { serial0 = { device = var.open } }\n", cty.StringVal("socket"), false},
		"a device that changes":     {"networks = { net1 = { bridge = var.open } }\n", cty.StringVal("vmbr1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			l.World.Reconfigure(t, l.Session, rig.TokenNoSSH, "variable \"open\" {}\n"+rig.NodeVMBlock(c.body))
			l.Session.SetVariable("open", c.open)
			_, err := l.Session.Plan(t.Context())
			rig.Must(t, err)
			said := l.Session.Diagnostics().String()
			if told := strings.Contains(said, "is not empty"); told != c.told || strings.Contains(said, "PVE changes serial0") {
				t.Errorf("the plan says %v", l.Session.Diagnostics())
			}
		})
	}
}

// TestDriveThatTheStateDoesNotKnow: a configuration names the slot of an optical drive that an administrator has added.
// The plan says which medium is ejected, and of a restart only where the drive itself waits for one.
func TestDriveThatTheStateDoesNotKnow(t *testing.T) {
	const has, none = "local:iso/debian.iso", `cdroms = { ide2 = { file = "none" } }`
	for name, c := range map[string]struct {
		has, body      string
		waits, stopped bool
		ejects         bool
	}{
		"another medium":     {has, `cdroms = { ide2 = { file = "local:iso/other.iso" } }`, false, false, true},
		"no medium":          {has, none, false, false, true},
		"the same medium":    {has, `cdroms = { ide2 = { file = "local:iso/debian.iso" } }`, false, false, false},
		"an empty drive":     {"none", `cdroms = { ide2 = { file = "local:iso/debian.iso" } }`, false, false, false},
		"a drive that waits": {has, none, true, false, true},
		"another slot":       {has, `cdroms = { ide0 = { file = "none" } }`, false, true, false},
		"a disk":             {has, `disks = { ide2 = { storage = "local-zfs", size = "1G" } }`, false, true, true},
		"cloud-init":         {has, `cloud_init = { storage = "local-zfs" }`, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			power := ""
			if c.stopped {
				power = "power_state = \"stopped\"\n"
			}
			l := rig.NewVM(t, power)
			l.Guest(func(world *state.World, g *state.Guest) {
				world.Put(&state.Volume{Storage: "local", Node: g.Node, Name: "iso/other.iso", Content: "iso", Format: "iso", Size: 600 << 20})
				if value := c.has + ",media=cdrom"; c.waits {
					g.Pending = map[string]string{"ide2": value}
				} else {
					g.Config["ide2"] = value
				}
			})
			pl := l.Plan(power + c.body)
			said := l.Session.Diagnostics().String()
			if strings.Contains(said, has+" is in it") != c.ejects || strings.Contains(said, "will be restarted") != c.waits {
				t.Errorf("ejects %t, waits %t, but the plan says: %s", c.ejects, c.waits, said)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			if rest := l.Plan(power + c.body); !rest.Empty() {
				t.Errorf("the next plan changes %s", rest)
			}
		})
	}
}

// TestMediumThatCameSinceThePlan: an administrator puts a medium into a slot that the plan fills. The apply ejects what the
// plan has known, and nothing else.
func TestMediumThatCameSinceThePlan(t *testing.T) {
	const iso, other, none = "local:iso/debian.iso", "local:iso/other.iso", "none"
	const stopped = "power_state = \"stopped\"\n"
	for name, c := range map[string]struct {
		was, is, body, attribute string // attribute: the one that is refused
	}{
		"cloud-init":             {"", iso, `cloud_init = { storage = "local-zfs" }`, "cloud_init"},
		"cloud-init in a slot":   {"", iso, `cloud_init = { storage = "local-zfs", slot = "ide2" }`, "cloud_init"},
		"a CD-ROM drive":         {"", iso, `cdroms = { ide2 = { file = "none" } }`, `cdroms["ide2"]`},
		"a disk":                 {"", iso, `disks = { ide2 = { storage = "local-zfs", size = "1G" } }`, `disks["ide2"]`},
		"another medium":         {other, iso, `cdroms = { ide2 = { file = "none" } }`, `cdroms["ide2"]`},
		"a drive with a medium":  {none, iso, `cloud_init = { storage = "local-zfs" }`, "cloud_init"},
		"the medium of the plan": {"", iso, `cdroms = { ide2 = { file = "local:iso/debian.iso" } }`, ""},
		"an empty drive":         {"", none, `cloud_init = { storage = "local-zfs" }`, ""},
		"a medium that was told": {iso, iso, `cloud_init = { storage = "local-zfs" }`, ""},
		"a medium that went":     {iso, none, `cdroms = { ide2 = { file = "local:iso/debian.iso" } }`, ""},
		"another slot":           {"", iso, `cdroms = { ide0 = { file = "none" } }`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, stopped)
			put := func(medium string) {
				l.Guest(func(world *state.World, g *state.Guest) {
					world.Put(&state.Volume{Storage: "local", Node: g.Node, Name: "iso/other.iso", Content: "iso", Format: "iso", Size: 600 << 20})
					if medium != "" {
						g.Config["ide2"] = medium + ",media=cdrom"
					}
				})
			}
			put(c.was)
			pl := l.Plan(stopped + c.body)
			put(c.is)
			l.World.ResetCalls()
			err := l.Session.Apply(t.Context(), pl)
			if c.attribute == "" {
				rig.Must(t, err)
				return
			}
			rig.MustSay(t, err, "ide2 of VM 400 has changed since the plan", iso, "was not ejected", "make a new plan")
			errs, has := l.Session.Diagnostics().Errors(), l.Config()["ide2"]
			if len(errs) != 1 || errs[0].Attribute != c.attribute || has != iso+",media=cdrom" {
				t.Errorf("refused with %v, and ide2 is %q", errs, has)
			}
			l.To(stopped + c.body)
		})
	}
}

// TestDriveOverADiskOfAnImportedVM: the state has the disk from the import, and the plan that forgets it puts an optical
// drive into its slot.
func TestDriveOverADiskOfAnImportedVM(t *testing.T) {
	for attribute, drive := range map[string]string{
		`cdroms["ide2"]`:  `cdroms = { ide2 = { file = "none" } }`,
		"cloud_init.slot": `cloud_init = { storage = "local-zfs" }`,
	} {
		w := rig.NewWorld(t)
		var volume string
		w.Change(func(world *state.World) { volume = putDisk(world, world.Guests[8000], "ide2") })
		s := w.Session(t, rig.TokenNoSSH, `
resource "proxmox_vm" "x" {
  vmid  = 8000
  disks = { scsi0 = { storage = "local-lvm", size = "4G" } }
  `+drive+`
}
`)
		rig.Must(t, s.Import(t.Context(), "proxmox_vm.x", "8000"))
		_, err := s.Plan(t.Context())
		rig.MustSay(t, err, "The slot is not empty: "+volume+" is in ide2", "proxmox_vm.x."+attribute)
	}
}

// TestTaintedVMWithADiskOfAThirdParty: Terraform plans the replacement of a tainted VM as the create of a new one. The
// plan names the disks that go with the old one all the same, and a disk that has come since stays.
func TestTaintedVMWithADiskOfAThirdParty(t *testing.T) {
	const disk = `disks = { scsi0 = { storage = "local-zfs", size = "1G" } }` + "\npower_state = \"stopped\"\n"
	for name, c := range map[string]struct {
		body            string
		before, since   bool
		tainted, warned bool
	}{
		"a disk that the plan knows":      {"vmid = 400\nname = \"x\"\n", true, false, true, true},
		"an id that the plan chooses":     {"name = \"x\"\n", true, false, true, true},
		"no name either":                  {"", true, false, true, true},
		"a disk that has come since":      {"vmid = 400\nname = \"x\"\n", false, true, true, false},
		"one that has come, no id":        {"name = \"x\"\n", false, true, true, false},
		"no such disk":                    {"vmid = 400\n", false, false, true, false},
		"a VM that is replaced otherwise": {"vmid = 400\nname = \"x\"\n", true, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(c.body+"node = \"pve1\"\n"+disk))
			rig.Must(t, s.Converge(t.Context()))
			vmid, theirs := 100, ""
			if strings.Contains(c.body, "400") {
				vmid = 400
			}
			put := func() {
				w.Change(func(world *state.World) { theirs = putDisk(world, world.Guests[vmid], "scsi1") })
			}
			if c.before {
				put()
				rig.Must(t, s.Refresh(t.Context()))
			}
			if s.Taint(rig.VMAddress, c.tainted); !c.tainted {
				w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock("vmid = 401\nname = \"x\"\nnode = \"pve1\"\n"+disk))
			}
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := s.Diagnostics().String()
			if warned := strings.Count(said, "scsi1: local-zfs:vm-"); (warned == 1) != c.warned || warned > 1 {
				t.Errorf("the plan says %s", said)
			}
			if c.since {
				put()
				rig.MustSay(t, s.Apply(t.Context(), pl), theirs+" is in scsi1, which the plan does not know")
				w.Change(func(world *state.World) {
					if world.Volume("pve1", theirs) == nil {
						t.Errorf("%s is gone", theirs)
					}
				})
				pl, err = s.Plan(t.Context())
				rig.Must(t, err)
				rig.MustSayAll(t, s.Diagnostics().String(), theirs)
			}
			rig.Must(t, s.Apply(t.Context(), pl))
			w.Change(func(world *state.World) {
				if theirs != "" && world.Volume("pve1", theirs) != nil {
					t.Errorf("%s is left", theirs)
				}
			})
		})
	}
}

// TestSlotChangeThatIsDone: a disk has changed its slot, and the state does not know it: the provider was killed at the
// end of the apply, or a user did it by hand and writes it down now. The plan takes the disk over, where it is.
func TestSlotChangeThatIsDone(t *testing.T) {
	t.Parallel()
	const head = "power_state = \"stopped\"\nremoved_disks = \"destroy\"\n"
	const first, is = `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, `, `scsi1 = { storage = "local-zfs", size = "2G" } }`
	for name, c := range map[string]struct {
		more   string
		byHand bool
		sent   []string
	}{
		"with its size":    {`, size = "2G"`, false, nil},
		"bare":             {"", false, nil},
		"with its storage": {`, size = "2G", storage = "local-zfs"`, false, nil},
		"grows":            {`, size = "4G"`, false, nil},
		"by hand":          {`, size = "2G"`, true, nil},
		"by hand, bare":    {"", true, nil},
		"by hand, grows":   {`, size = "4G"`, true, []string{"PUT resize disk=scsi2 size=4G"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, head+first+is)
			to := head + first + l.Named("scsi2 = { imported_disk = { volume = <scsi1> }"+c.more+" } }")
			before := l.Session.SaveState()
			if c.byHand {
				l.Guest(func(_ *state.World, g *state.Guest) {
					g.Config["scsi2"] = g.Config["scsi1"]
					delete(g.Config, "scsi1")
				})
			} else {
				rig.Must(t, l.Session.Apply(t.Context(), l.Plan(to)))
				l.Session.RestoreState(before)
			}
			planned := l.Plan(to)
			l.Warned(`disks["scsi2"]`, "takes this one over")
			l.World.ResetCalls()
			rig.Must(t, l.Session.Apply(t.Context(), planned))
			l.WantSent(c.sent...)
			if next := l.Plan(to); !next.Empty() {
				t.Errorf("the next plan is not empty: %s", next)
			}
			l.Want(map[string]string{"scsi0": "scsi0", "scsi2": "scsi1"})
		})
	}
}

// TestDriveOverACloudInitDrive: a VM has a cloud-init drive that the configuration does not name, as a clone has its
// template's. Another drive or a disk in its slot is refused, and comes where the cloud-init drive gets another slot.
func TestDriveOverACloudInitDrive(t *testing.T) {
	const volume = "local-zfs:vm-400-cloudinit"
	put := func(l *rig.VM) {
		l.Guest(func(world *state.World, g *state.Guest) {
			world.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: "vm-400-cloudinit", Content: "images", VMID: 400,
				Format: "raw", Size: 4 << 20})
			g.Config["ide2"] = volume + ",media=cdrom"
		})
	}
	const stopped = "power_state = \"stopped\"\n"
	for attribute, drive := range map[string]string{
		`cdroms["ide2"]`: `cdroms = { ide2 = { file = "none" } }`,
		`disks["ide2"]`:  `disks = { ide2 = { storage = "local-zfs", size = "1G" } }`,
	} {
		t.Run(attribute, func(t *testing.T) {
			l := rig.NewVM(t, stopped)
			put(l)
			for range 2 { // also once the state knows of it
				l.Refuses(stopped+drive, attribute, "The slot is not empty: "+volume+" is in ide2", "cloud_init.slot")
				rig.Must(t, l.Session.Refresh(t.Context()))
			}
			l.To(stopped + drive + "\ncloud_init = { slot = \"ide0\" }")
			if has := l.Config(); !strings.Contains(has["ide0"], "cloudinit") || strings.Contains(has["ide2"], "cloudinit") {
				t.Errorf("ide0 is %q, ide2 is %q", has["ide0"], has["ide2"])
			}
		})
	}
	t.Run("in the place of a configured one", func(t *testing.T) {
		const drive = stopped + "cdroms = { ide2 = { file = \"none\" } }"
		l := rig.NewVM(t, drive)
		put(l)
		l.Plan(drive)
		l.Warned(`cdroms["ide2"]`, "ide2 of VM 400 on pve1 has a cloud-init drive", "the apply leaves it there")
		rig.Must(t, l.Session.Run(t.Context()))
		if has := l.Config()["ide2"]; !strings.HasPrefix(has, volume) {
			t.Errorf("ide2 is %q", has)
		}
	})
}

// TestBootOrderFollowsADisk: where the configuration has no boot order, the VM boots from the same disk after that has got
// another slot.
func TestBootOrderFollowsADisk(t *testing.T) {
	const two = `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "2G" } }` + "\n"
	const net = "networks = { net0 = { bridge = \"vmbr0\" } }\n"
	for name, c := range map[string]struct{ boot, to, want string }{
		"alone":                 {"scsi0", `disks = { virtio0 = { imported_disk = { volume = <scsi0> } }, scsi1 = { storage = "local-zfs", size = "2G" } }`, "virtio0"},
		"among others":          {"net0;scsi1;scsi0", `disks = { virtio0 = { imported_disk = { volume = <scsi0> } }, scsi1 = { storage = "local-zfs", size = "2G" } }`, "net0;scsi1;virtio0"},
		"both":                  {"scsi0;scsi1", `disks = { virtio0 = { imported_disk = { volume = <scsi1> } }, sata0 = { imported_disk = { volume = <scsi0> } } }`, "sata0;virtio0"},
		"and another goes":      {"scsi0;scsi1", `disks = { virtio0 = { imported_disk = { volume = <scsi1> } } }`, "virtio0"},
		"and a new medium":      {"scsi0", `disks = { virtio0 = { imported_disk = { volume = <scsi0> } }, scsi1 = { storage = "local-zfs", size = "2G" } }` + "\ncdroms = { ide2 = { file = \"none\" } }", "virtio0"},
		"into a slot of it":     {"scsi0;net0;scsi1", `disks = { scsi1 = { imported_disk = { volume = <scsi0> } }, scsi2 = { imported_disk = { volume = <scsi1> } } }`, "net0;scsi1"},
		"exchanged":             {"scsi0", `disks = { scsi0 = { imported_disk = { volume = <scsi1> } }, scsi1 = { imported_disk = { volume = <scsi0> } } }`, "scsi1"},
		"one that is not in it": {"scsi1", `disks = { virtio0 = { imported_disk = { volume = <scsi0> } }, scsi1 = { storage = "local-zfs", size = "2G" } }`, "scsi1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, rig.Stopped+net+two)
			l.Guest(func(_ *state.World, g *state.Guest) { g.Config["boot"] = "order=" + c.boot })
			rig.Must(t, l.Session.Refresh(t.Context()))
			l.To(rig.Stopped + net + l.Named(c.to))
			if is := l.Config()["boot"]; is != "order="+c.want {
				t.Errorf("the boot order is %q, not %q", is, c.want)
			}
		})
	}
}
