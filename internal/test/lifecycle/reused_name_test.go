package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestNameThatCameFreeSinceThePlan: a disk of the VM is given to another VM, and PVE gives its name to a new disk. The
// destroy removes no disk of another size than the plan knows, and none that is in another slot.
func TestNameThatCameFreeSinceThePlan(t *testing.T) {
	const disks = "power_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " +
		"scsi1 = { storage = \"local-zfs\", size = \"1G\" } }"
	for name, c := range map[string]struct {
		slot, shown string
		goes        bool
	}{
		"in its slot":                   {"scsi1", ",size=50G", false},
		"in another slot":               {"scsi5", ",size=50G", false},
		"smaller":                       {"scsi1", ",size=512M", false},
		"the same disk, rounded up":     {"scsi1", ",size=1025M", true},
		"in another slot, of its size":  {"scsi5", ",size=1G", false},
		"the same disk, without a size": {"scsi1", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			l := rig.NewVM(t, disks)
			planned, err := l.Session.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			var volume string
			l.Guest(func(_ *state.World, g *state.Guest) {
				volume = strings.Split(g.Config["scsi1"], ",")[0]
				delete(g.Config, "scsi1")
				g.Config[c.slot] = volume + c.shown
			})
			err = l.Session.Apply(t.Context(), planned)
			if refused := err != nil && strings.Contains(err.Error(), "and the plan knows it "); refused == c.goes {
				t.Errorf("the apply said %v", err)
			}
			l.World.Change(func(world *state.World) {
				if left := world.Volume("pve1", volume) != nil; left == c.goes {
					t.Errorf("the disk is there: %v", left)
				}
			})
		})
	}
}

// TestNameOfADiskThatIsNotInState: a refresh has seen a disk in a slot that the configuration does not have. Then that
// disk leaves, and PVE gives its name to another one.
func TestNameOfADiskThatIsNotInState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shown          string
		tainted, stays bool
	}{
		"another disk":               {",size=50G", false, true},
		"another disk, tainted VM":   {",size=50G", true, true},
		"the disk":                   {",size=3G", false, false},
		"the disk, tainted VM":       {",size=3G", true, false},
		"the disk, and no size told": {"", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(madeVM))
			rig.Must(t, s.Converge(t.Context()))
			var volume string
			show := func(size string) {
				w.Change(func(world *state.World) {
					if volume == "" {
						volume = putDisk(world, world.Guests[400], "scsi3")
					}
					world.Guests[400].Config["scsi3"] = volume + size
				})
			}
			show(",size=3G")
			options := []terraformtest.PlanOption{terraformtest.ToDestroy()}
			if c.tainted {
				s.Taint(rig.VMAddress, true)
				options = nil
			}
			planned, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			show(c.shown)
			err = s.Apply(t.Context(), planned)
			if c.stays {
				rig.MustSay(t, err, volume+" is in scsi3, which the plan does not know")
			} else {
				rig.Must(t, err)
			}
			w.Change(func(world *state.World) {
				if there := world.Volume("pve1", volume) != nil; there != c.stays {
					t.Errorf("%s is there: %v", volume, there)
				}
			})
		})
	}
}

// oneDisk and twoDisks are a stopped VM before and after it has got a second disk.
const (
	oneDisk  = "power_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }"
	twoDisks = "power_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " +
		"scsi1 = { storage = \"local-zfs\", size = \"1G\" } }"
)

// nameComesFree has a third party remove the disk in an option of a VM, and give the VM another one in an option, which
// gets the name of the first. It has a size, which unused disks do not show.
func nameComesFree(l *rig.VM, from, to string, size int64) (volume string) {
	l.Guest(func(world *state.World, g *state.Guest) {
		volume, _, _ = strings.Cut(g.Config[from], ",")
		delete(g.Config, from)
		if g.Config[to] = volume; !strings.HasPrefix(to, "unused") {
			g.Config[to] += fmt.Sprintf(",size=%dM", size>>20)
		}
		world.Volume("pve1", volume).Size = size
	})
	return volume
}

// TestNameThatCameFreeBeforeThePlan: a third party's disk in another slot has the name of a former disk of the VM, or a
// user has put that disk there. The state does not have the slot, and the plan of a destroy names the disk.
func TestNameThatCameFreeBeforeThePlan(t *testing.T) {
	t.Parallel()
	begin := rig.NewVM(t, twoDisks).Again()
	for _, how := range []string{"destroy", "after an apply", "taint", "replace"} {
		for _, size := range []int64{50 << 30, 512 << 20, 1 << 30} {
			t.Run(fmt.Sprintf("%s, %d", how, size), func(t *testing.T) {
				l := begin(t)
				volume := nameComesFree(l, "scsi1", "scsi5", size)
				options := []terraformtest.PlanOption{terraformtest.ToDestroy()}
				l.Configure(oneDisk)
				switch how {
				case "after an apply":
					rig.Must(t, l.Session.Run(t.Context()))
				case "taint":
					l.Session.Taint(rig.VMAddress, true)
					options = nil
				case "replace":
					options[0] = terraformtest.Replacing(rig.VMAddress)
				}
				_, err := l.Session.Plan(t.Context(), options...)
				if (how == "replace") != (err != nil) {
					t.Fatal("the plan said", err)
				}
				said := l.Session.Diagnostics().String()
				if err != nil {
					said += err.Error()
				}
				if !strings.Contains(said, "scsi5: "+volume) {
					t.Errorf("the plan said %q", said)
				}
			})
		}
	}
}

// TestNameOfADetachedDisk: a disk of the VM is detached, and then its name comes free and PVE gives it to another one,
// which is in a slot or detached as well. The destroy destroys it only if it has the size of the first.
func TestNameOfADetachedDisk(t *testing.T) {
	t.Parallel()
	const gb = 1 << 30
	slotted, detached := rig.NewVM(t, twoDisks), rig.NewVM(t, twoDisks)
	detached.To(oneDisk)
	begin := map[string]func(*testing.T) *rig.VM{"scsi1": slotted.Again(), "unused0": detached.Again()}
	for name, c := range map[string]struct {
		from, to string
		size     int64  // negative: an inactive volume that takes so much
		planned  bool   // the refresh of the plan sees it
		says     string // "": it is the VM's own and goes with it
	}{
		"detached by the apply, since":  {"unused0", "unused0", 50 * gb, false, "unused disks"},
		"detached by the apply, before": {"unused0", "unused0", 50 * gb, true, "unused disks"},
		"smaller":                       {"unused0", "unused0", gb / 2, true, "unused disks"},
		"attached":                      {"unused0", "scsi5", 50 * gb, false, "the plan knows it with 1G"},
		"detached by hand, since":       {"scsi1", "unused0", 50 * gb, false, "unused disks"},
		"detached by hand, before":      {"scsi1", "unused0", 50 * gb, true, "unused disks"},
		"its own":                       {"unused0", "unused0", gb, true, ""},
		"its own, rounded up":           {"unused0", "unused0", gb + 1<<20, false, ""},
		"its own, by hand":              {"scsi1", "unused0", gb, true, ""},
		"its own, attached":             {"unused0", "scsi5", gb, false, ""},
		"of no known size":              {"unused0", "unused0", 0, false, "unused disks"},
		// inactive qcow2 volumes on LVM: 4 MiB of 1 GiB are for their tables
		"allocated, since":          {"unused0", "unused0", -50 * gb, false, "unused disks"},
		"allocated, before":         {"unused0", "unused0", -50 * gb, true, "unused disks"},
		"allocated, smaller":        {"unused0", "unused0", -gb / 2, true, "unused disks"},
		"allocated, a little more":  {"unused0", "unused0", -gb - 8<<20, true, "unused disks"},
		"its own, allocated":        {"unused0", "unused0", -gb - 4<<20, false, ""},
		"its own, allocated before": {"unused0", "unused0", -gb - 4<<20, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := begin[c.from](t)
			var volume string
			comes := func() {
				volume = nameComesFree(l, c.from, c.to, max(c.size, 0))
				if c.size < 0 {
					l.World.Change(func(world *state.World) {
						world.Profile, world.Volume("pve1", volume).Allocated = "9.2", -c.size // one that tells it
					})
				}
			}
			if c.planned {
				comes()
			}
			planned, err := l.Session.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			if !c.planned {
				comes()
			}
			err = l.Session.Apply(t.Context(), planned)
			said := l.Session.Diagnostics().String()
			if err != nil {
				said += err.Error()
			}
			l.World.Change(func(world *state.World) {
				stays := world.Volume("pve1", volume) != nil
				if stays != (c.says != "") || !strings.Contains(said, c.says) || stays && !strings.Contains(said, volume) {
					t.Errorf("it is there: %t; the apply said %q", stays, said)
				}
			})
		})
	}
}

// TestDisksThatTheApplyChanges: a disk that an apply has grown, moved and detached is the VM's, and a destroy leaves
// nothing of it.
func TestDisksThatTheApplyChanges(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, twoDisks)
	grown := strings.Replace(twoDisks, `1G" } }`, `3G" } }`, 1)
	l.To(grown)
	l.To(strings.Replace(grown, `local-zfs", size = "3G"`, `local-lvm", size = "3G"`, 1))
	l.To(oneDisk)
	rig.Must(t, l.Session.Destroy(t.Context()))
	if said := l.Session.Diagnostics().String(); said != "" || len(rig.TracesOf(l.World, 400)) > 0 {
		t.Errorf("the destroy said %q, left %v", said, rig.TracesOf(l.World, 400))
	}
}

// TestLateUpdateOfALargerDisk: since the plan, an administrator has removed a disk and put a larger one into its slot,
// to which PVE gave its name. The apply does to it nothing of what the plan said of the former one.
func TestLateUpdateOfALargerDisk(t *testing.T) {
	t.Parallel()
	begin := rig.NewVM(t, twoDisks).Again()
	scsi1 := func(options string) string {
		return strings.TrimSuffix(oneDisk, " }") + ", scsi1 = { " + options + " } }"
	}
	for name, after := range map[string]string{
		"detached":            oneDisk,
		"destroyed":           oneDisk + "\nremoved_disks = \"destroy\"",
		"moved":               scsi1(`storage = "local-lvm", size = "1G"`),
		"moved and grown":     scsi1(`storage = "local-lvm", size = "6G"`),
		"grown":               scsi1(`storage = "local-zfs", size = "6G"`),
		"left out of backups": scsi1(`storage = "local-zfs", size = "1G", backup = false`),
	} {
		t.Run(name, func(t *testing.T) {
			l := begin(t)
			planned := l.Plan(after)
			nameComesFree(l, "scsi1", "scsi1", 5<<30)
			before := l.Config()
			rig.MustSay(t, l.Session.Apply(t.Context(), planned), "a disk of that name with another size, 5G, is in it now")
			if diff := cmp.Diff(before, l.Config()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("of the planned size", func(t *testing.T) { // an apply that was killed may have grown it
		l := begin(t)
		planned := l.Plan(scsi1(`storage = "local-zfs", size = "5G", backup = false`))
		nameComesFree(l, "scsi1", "scsi1", 5<<30)
		rig.Must(t, l.Session.Apply(t.Context(), planned))
	})
}

// TestMigrationLeavesAMovedDisk: since a plan of a new node alone, an administrator has moved a disk to another storage.
// The migration does not move it back. A disk that the plan itself moves goes to its planned storage.
func TestMigrationLeavesAMovedDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ power, scsi0, planned, want string }{
		"running":             {"running", "local-lvm", "local-zfs", "local-lvm"},
		"stopped":             {"stopped", "local-lvm", "local-zfs", "local-lvm"},
		"moved by the plan":   {"running", "local-zfs", "local-lvm", "local-lvm"},
		"moved there by hand": {"running", "local-lvm", "local-lvm", "local-lvm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vm := func(node, storage string) string {
				return rig.VMBlock(fmt.Sprintf("vmid = 400\nnode = %q\npower_state = %q\ndisks = { scsi0 = { storage = %q, size = \"1G\" } }",
					node, c.power, storage))
			}
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, vm("pve1", "local-zfs"))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, vm("pve2", c.planned))
			planned, err := s.Plan(t.Context())
			rig.Must(t, err)
			if c.scsi0 != "local-zfs" {
				rig.RunTask(t, w, "/nodes/pve1/qemu/400/move_disk", "disk=scsi0&delete=1&storage="+c.scsi0)
			}
			rig.Must(t, s.Apply(t.Context(), planned))
			g := rig.GuestOf(w, 400)
			if on, _, _ := strings.Cut(g.Config["scsi0"], ":"); on != c.want || g.Node != "pve2" {
				t.Errorf("scsi0 is %s on %s", g.Config["scsi0"], g.Node)
			}
		})
	}
}

// TestCloneByNameOfAVMOfTheSameApply: PVE lists the new source without its name yet, and the first apply succeeds.
func TestCloneByNameOfAVMOfTheSameApply(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, `resource "proxmox_vm" "source" {
  name     = "base"
  node     = "pve1"
  template = true
}
resource "proxmox_vm" "copy" {
  name        = "copy"
  node        = "pve1"
  power_state = "stopped"
  clone       = { name = "base" }
  depends_on  = [proxmox_vm.source]
}
`)
	rig.Must(t, s.Converge(t.Context()))
}
