package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// coresAndPolicy is a running VM whose cores only a restart changes.
func coresAndPolicy(cores, policy string) string {
	return "cpu = { cores = " + cores + " }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n" +
		"networks = { net0 = { bridge = \"vmbr0\" } }\nshutdown_timeout = \"30s\"\nreboot_policy = \"" + policy + "\""
}

// foretells tells whether a plan warns that the VM will be restarted.
func foretells(pl *terraformtest.Plan) bool {
	return slices.ContainsFunc(pl.Diagnostics, func(d terraformtest.Diagnostic) bool { return strings.HasSuffix(d.Summary, "will be restarted") })
}

// TestRestartPolicies: what a user sees of the three policies, from the plan to the plan after.
func TestRestartPolicies(t *testing.T) {
	t.Parallel()
	again := rig.NewVM(t, coresAndPolicy("2", "auto")).Again()

	t.Run("auto", func(t *testing.T) {
		l := again(t)
		if !foretells(l.Plan(coresAndPolicy("4", "auto"))) {
			t.Error("the plan does not say that the VM will be restarted")
		}
		l.To(coresAndPolicy("4", "auto"))
		l.WantOffs(state.PowerReboot)
		if pending := l.Session.Attr(rig.VMAddress, "pending_changes"); pending.LengthInt() != 0 {
			t.Errorf("pending_changes is %#v", pending)
		}
	})

	t.Run("auto, with what a running guest takes", func(t *testing.T) {
		l := again(t)
		body := strings.Replace(coresAndPolicy("2", "auto"), `bridge = "vmbr0"`, `bridge = "vmbr1"`, 1) + "\ndescription = \"x\"\ntags = [\"x\"]"
		if foretells(l.Plan(body)) {
			t.Error("the plan says that the VM will be restarted, and it need not be")
		}
		l.To(body)
		l.To(strings.Replace(body, `networks = { net0 = { bridge = "vmbr1" } }`, "networks = {}", 1)) // PVE takes it out of its boot order
		l.WantOffs()
	})

	t.Run("auto, and the guest does not obey", func(t *testing.T) {
		l := again(t)
		l.Disobeys(true)
		l.Fails(coresAndPolicy("4", "auto"), "reboot_policy", "cores", "runs on")
		for range 2 { // the change is made and waits: the restart is what is left to do, and is said again
			pl := l.Plan(coresAndPolicy("4", "auto"))
			if pl.Empty() || !foretells(pl) {
				t.Errorf("the next plan does not show the restart: %s", pl)
			}
			l.Fails(coresAndPolicy("4", "auto"), "reboot_policy", "cores")
		}
		l.WantOffs()
		l.Disobeys(false)
		l.To(coresAndPolicy("4", "auto"))
		l.WantOffs(state.PowerReboot)
	})

	t.Run("never", func(t *testing.T) {
		l := again(t)
		planned := l.Plan(coresAndPolicy("4", "never"))
		const tells = "keeps running with the old values"
		if text := planned.Diagnostics.String(); foretells(planned) || !strings.Contains(text, tells) || !strings.Contains(text, "cores takes effect") {
			t.Errorf("the plan says %s", text)
		}
		rig.Must(t, l.Session.Apply(t.Context(), planned))
		l.WantOffs()
		if text := l.Session.Diagnostics().String(); strings.Contains(text, "runs with the old values") {
			t.Errorf("the apply says again: %s", text)
		}
		want := cty.ListVal([]cty.Value{cty.StringVal("cores")})
		if pending := l.Session.Attr(rig.VMAddress, "pending_changes"); pending.LengthInt() != 1 || !pending.RawEquals(want) {
			t.Errorf("pending_changes is %#v", pending)
		}
		l.To(coresAndPolicy("4", "auto")) // the policy is another: what waits is put in force
		l.WantOffs(state.PowerReboot)
	})

	t.Run("force", func(t *testing.T) {
		l := again(t)
		l.Disobeys(true)
		l.To(coresAndPolicy("4", "force"))
		l.WantOffs(state.PowerStop)
		l.Disobeys(false)
		l.To(coresAndPolicy("2", "force"))
		l.WantOffs(state.PowerStop, state.PowerReboot)
	})

	t.Run("force, killed before the start", func(t *testing.T) {
		l := again(t)
		l.To(coresAndPolicy("2", "force"))
		l.Disobeys(true)
		l.Configure(coresAndPolicy("4", "force"))
		before := l.Session.SaveState()
		l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before, Times: -1}})
		if err := l.Session.Run(t.Context()); err == nil {
			t.Fatal("the start was not refused")
		}
		l.World.Sim.SetFaults(nil)
		l.Session.RestoreState(before)
		l.World.Sim.Advance(time.Minute) // the listing tells the power state late
		rig.Must(t, l.Session.Refresh(t.Context()))
		l.Warned("", "VM 400 may be off because its restart was interrupted", "qm start 400")
		rig.Must(t, l.Session.Refresh(t.Context()))
		if text := l.Session.Diagnostics().String(); strings.Contains(text, "interrupted") {
			t.Errorf("it is said again: %s", text)
		}
	})
}

// TestPendingByHandInAGroup: an administrator changes a running VM in a group or a map of which the configuration sets
// other parts, and the change waits for the next start. The unchanged configuration plans nothing. A change of the
// configuration itself is put in force as soon as its policy allows a restart.
func TestPendingByHandInAGroup(t *testing.T) {
	t.Parallel()
	const body = "cpu = { cores = 2 }\nmemory = { size = 512 }\ncdroms = { ide0 = { file = \"none\" } }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, sata1 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	again := rig.NewVM(t, body).Again()
	for option, value := range map[string]string{"sockets": "2", "balloon": "256", "numa": "1", "sata3": "", "ide2": "local:iso/debian.iso,media=cdrom"} {
		t.Run(option, func(t *testing.T) {
			l := again(t)
			l.Guest(func(world *state.World, g *state.Guest) {
				wants := value
				if wants == "" {
					wants = putDisk(world, g, option) + ",size=1G"
					delete(g.Config, option)
				}
				g.Pending = map[string]string{option: wants}
			})
			if pl := l.Plan(body); !pl.Empty() {
				t.Errorf("the plan is\n%s", pl)
			}
			l.WantOffs()
		})
	}
	for name, c := range map[string]struct{ before, after string }{
		"a new value":     {body, strings.Replace(body, "cores = 2", "cores = 2, sockets = 2", 1)},
		"another value":   {body, strings.Replace(body, "cores = 2", "cores = 4", 1)},
		"a removed value": {strings.Replace(body, "cores = 2", "cores = 2, sockets = 2", 1), body},
		"a removed disk":  {body, strings.Replace(body, ", sata1 = { storage = \"local-zfs\", size = \"1G\" }", "", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			l := rig.NewVM(t, c.before)
			l.To(c.after + "reboot_policy = \"never\"\n")
			l.WantOffs()
			l.To(c.after + "description = \"x\"\nreboot_policy = \"never\"\n")
			l.WantOffs()
			l.To(c.after)
			l.WantOffs(state.PowerReboot)
		})
	}
}

// TestRestartForNoChangeByHand: an administrator has changed a running VM, and the change waits for the next maintenance. The
// configuration has the new value: with ignore_changes Terraform hands over what the refresh has found. Or it sets other keys of the
// same option. No plan restarts the guest for that, now or later. A change of the configuration itself names what else comes into force.
func TestRestartForNoChangeByHand(t *testing.T) {
	t.Parallel()
	const disks = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	const body = "cpu = { cores = 2 }\nmemory = { size = 512 }\nvga = { type = \"std\" }\nsmbios = { manufacturer = \"a\" }\n" + disks
	again := rig.NewVM(t, body).Again()
	for name, c := range map[string]struct {
		option, now string // what is set by hand
		config      string // what the configuration has by then
		warns       bool
	}{
		"another key of cpu":    {"cpu", "host", body, false},
		"another key of a disk": {"scsi0", "+,cache=writeback", body, true},
		"another key of vga":    {"vga", "std,memory=32", body, true},
		"another key of smbios": {"smbios1", "+,product=Yg==", body, true},
		"memory, ignored":       {"memory", "1024", strings.Replace(body, "512", "1024", 1), true},
		"cores, ignored":        {"cores", "4", strings.Replace(body, "cores = 2", "cores = 4", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			l := again(t)
			l.Guest(func(_ *state.World, g *state.Guest) {
				g.Pending = map[string]string{c.option: strings.Replace(c.now, "+", g.Config[c.option], 1)}
			})
			pl := l.Plan(c.config)
			if !pl.Empty() || strings.Contains(pl.Diagnostics.String(), "will be restarted") {
				t.Errorf("the plan is\n%s\n%s", pl, pl.Diagnostics)
			}
			if warns := strings.Contains(pl.Diagnostics.String(), "runs with earlier values of "+c.option); warns != c.warns {
				t.Errorf("warns %t:\n%s", warns, pl.Diagnostics)
			}
			l.To(c.config + "description = \"x\"\n")
			l.To(c.config + "description = \"y\"\n")
			l.WantOffs()
			pl = l.Plan(strings.Replace(c.config, "cores =", "sockets = 2, cores =", 1))
			const beside = "changes by others that wait: "
			if !strings.Contains(pl.Diagnostics.String(), "will be restarted") || !strings.Contains(pl.Diagnostics.String(), beside+c.option) {
				t.Errorf("the plan says\n%s", pl.Diagnostics)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			l.WantOffs(state.PowerReboot)
		})
	}
}

// TestRestartThatIsOwed: a removal waits for a restart that the apply does not make, or that the guest does not obey. The
// next apply that may restarts the guest, once, and nothing waits any more. If the guest is restarted by hand nothing is
// owed, and a value that an administrator sets then is theirs.
func TestRestartThatIsOwed(t *testing.T) {
	t.Parallel()
	const disk = "scsi0 = { storage = \"local-zfs\", size = \"1G\" }"
	const one, never = "disks = { " + disk + " }\n", "reboot_policy = \"never\"\n"
	const deaf = "shutdown_timeout = \"10s\"\ntimeouts = { update = \"1m\" }\n"
	for name, c := range map[string]struct{ was, option, theirs string }{
		"disk": {"disks = { " + disk + ", sata1 = { storage = \"local-zfs\", size = \"1G\" } }\n", "sata1", ""},
		"CD-ROM": {one + "cdroms = { ide0 = { file = \"local:iso/debian.iso\" } }\n", "ide0",
			"local:iso/debian.iso,media=cdrom,size=600M"},
		"cloud-init": {one + "cloud_init = { storage = \"local-zfs\", slot = \"ide2\", user = \"a\" }\n", "ide2", ""},
		"part":       {one + "cpu = { cores = 1, sockets = 2 }\n", "sockets", "4"},
		"group":      {one + "watchdog = { model = \"i6300esb\" }\n", "watchdog", "model=ib700"},
	} {
		for _, how := range []string{"never", "deaf", "by hand", "set again"} {
			if theirs := how == "by hand" || how == "set again"; theirs && c.theirs == "" {
				continue
			}
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				w.ExpectPowerOffs("stop")
				s := w.Session(t, rig.RootTicket, "")
				configure := func(lines string) error {
					w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock("power_state = \"running\"\n"+lines))
					return s.Converge(t.Context())
				}
				obeys := func(ignored ...string) {
					w.Change(func(world *state.World) { world.Guests[400].Ignores = ignored })
				}
				policy, is := map[string]string{"deaf": deaf}[how], one
				if name == "part" {
					is += "cpu = { cores = 1 }\n"
				}
				if how != "deaf" {
					policy = never
				}
				rig.Must(t, configure(policy+c.was))
				obeys("shutdown")
				if err := configure(policy + is); (err != nil) != (how == "deaf") || rig.GuestOf(w, 400).Config[c.option] == "" {
					t.Fatal("nothing waits for a restart:", err)
				}
				obeys()
				w.Sim.ResetPowerOffs()
				want, waits, restarts := "", 0, 1
				switch how {
				case "by hand":
					want, restarts = c.theirs, 2
					byHand(t, w, s, c.option, c.theirs)
				case "set again": // which waits in place of the removal
					want, waits, restarts = rig.GuestOf(w, 400).Config[c.option], 1, 0
					w.Change(func(world *state.World) {
						world.Guests[400].Pending = map[string]string{c.option: c.theirs}
						delete(world.Guests[400].Deletes, c.option)
					})
				}
				rig.Must(t, configure(is))
				g, offs := rig.GuestOf(w, 400), w.Sim.PowerOffs()
				if g.Config[c.option] != want || len(g.Pending)+len(g.Deletes) != waits || len(offs) != restarts {
					t.Errorf("%s is %q, %v and %v wait after %v", c.option, g.Config[c.option], g.Pending, g.Deletes, offs)
				}
			})
		}
	}
}

// byHand restarts a guest, and sets an option that no configuration has.
func byHand(t *testing.T, w *rig.World, s *terraformtest.Session, option, value string) {
	restart := func() {
		rig.RunTask(t, w, "/nodes/pve1/qemu/400/status/stop", "")
		rig.RunTask(t, w, "/nodes/pve1/qemu/400/status/start", "")
	}
	restart()
	rig.Must(t, s.Refresh(t.Context()))
	w.Change(func(world *state.World) { world.Guests[400].Config[option] = value })
	restart()
}

// TestRestartOfAKilledChange: an apply that was killed has sent what its configuration sets for the first time, or not any more, and it
// waits for the restart that it owed. Where the state has no such device yet, the next plan shows the restart, and its apply makes it. Where
// state and configuration agree, nothing tells it from a change by hand, and a warning says so.
func TestRestartOfAKilledChange(t *testing.T) {
	t.Parallel()
	const body, drive, disk = "cpu = { cores = 2 }\n", "cdroms = { ide3 = { file = \"none\" } }\n", "disks = { sata3 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	for name, c := range map[string]struct {
		before, after string
		set           map[string]string
		deleted       []string
		foreign, warn bool
	}{
		"an option":        {after: "rng = { source = \"/dev/urandom\" }\n", set: map[string]string{"rng0": "/dev/urandom"}, foreign: true, warn: true},
		"a slot":           {after: "serial = { serial0 = { device = \"socket\" } }\n", set: map[string]string{"serial0": "socket"}},
		"a drive":          {after: drive, set: map[string]string{"ide3": "none,media=cdrom"}},
		"no option":        {before: "rng = { source = \"/dev/urandom\" }\n", deleted: []string{"rng0"}, foreign: true, warn: true},
		"no drive":         {before: drive, deleted: []string{"ide3"}, foreign: true, warn: true},
		"no disk":          {before: disk, deleted: []string{"sata3"}, foreign: true, warn: true},
		"of a third party": {set: map[string]string{"rng0": "/dev/urandom", "ide3": "none,media=cdrom"}, foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := rig.NewVM(t, body+c.before)
			l.Guest(func(_ *state.World, g *state.Guest) {
				g.Pending = maps.Clone(c.set)
				for _, option := range c.deleted {
					g.Deletes = map[string]int{option: 1}
				}
			})
			pl := l.Plan(body + c.after)
			if foretells(pl) == c.foreign || pl.Empty() != c.foreign {
				t.Errorf("the plan is\n%s\n%s", pl, pl.Diagnostics)
			}
			waits := slices.Concat(slices.Sorted(maps.Keys(c.set)), c.deleted)
			warns := strings.Contains(pl.Diagnostics.String(), "runs with earlier values of "+waits[len(waits)-1])
			if warns != c.warn {
				t.Errorf("warns of what waits: %t", warns)
			}
			if c.foreign {
				return
			}
			l.To(body + c.after)
			l.WantOffs(state.PowerReboot)
		})
	}
}

// TestRestartThatNothingNeeds: an option waits that means what is in force, in PVE's other spelling or as its default, beside another that
// an administrator has left for the next window. A change of something else restarts nothing, as its plan says.
func TestRestartThatNothingNeeds(t *testing.T) {
	t.Parallel()
	for option, c := range map[string]struct{ lines, again string }{
		"watchdog": {"watchdog = { model = \"ib700\" }\n", "model=ib700"}, "cpu": {"cpu = { type = \"host\" }\n", "cputype=host"},
		"vga": {"vga = { type = \"std\" }\n", "type=std"}, "rng0": {"rng = { source = \"/dev/urandom\" }\n", "source=/dev/urandom"},
		"acpi": {lines: "acpi = true\n"}, "cores": {lines: "cpu = { cores = 1 }\n"}, "numa": {lines: "cpu = { numa = false }\n"},
		"bios": {lines: "bios = \"seabios\"\n"}, "memory": {lines: "memory = { size = 512 }\n"},
	} {
		for _, imported := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, imported %t", option, imported), func(t *testing.T) {
				l := rig.NewVM(t, c.lines)
				l.Guest(func(_ *state.World, g *state.Guest) {
					g.Pending = map[string]string{"machine": "q35", option: c.again}
					if c.again == "" {
						delete(g.Pending, option)
						g.Deletes = map[string]int{option: 1}
					}
				})
				if imported {
					l.Session.Forget(rig.VMAddress)
					rig.Must(t, l.Session.Import(t.Context(), rig.VMAddress, "pve1/400"))
				}
				body := c.lines + "description = \"x\"\n"
				if pl := l.Plan(body); foretells(pl) {
					t.Errorf("the plan is\n%s\n%s", pl, pl.Diagnostics)
				}
				rig.Must(t, l.Session.Run(t.Context()))
				l.WantOffs()
			})
		}
	}
}

// TestNoRestartWithoutAPlan: an administrator removes a device of a running VM, or changes a part of a group, which waits, and ignore_changes
// leaves it to them. A change of something else restarts the guest only if its plan says so, and the next plan is empty.
func TestNoRestartWithoutAPlan(t *testing.T) {
	t.Parallel()
	for option, c := range map[string]struct{ lines, ignored, waits string }{
		"ide2": {"cdroms = { ide2 = { file = \"local:iso/debian.iso\" } }\n", "cdroms", ""}, "watchdog": {"watchdog = { model = \"i6300esb\" }\n", "watchdog", ""},
		"serial0": {"serial = { serial0 = { device = \"socket\" } }\n", "serial", ""}, "rng0": {"rng = { source = \"/dev/urandom\" }\n", "rng", ""},
		"numa": {"cpu = { cores = 2 }\n", "cpu", "1"}, "balloon": {"memory = { size = 1024 }\n", "memory", "512"},
	} {
		for _, how := range []string{"made", "imported", "notes lost"} {
			t.Run(option+", "+how, func(t *testing.T) {
				l := rig.NewVM(t, c.lines)
				l.Guest(func(_ *state.World, g *state.Guest) {
					if g.Pending = map[string]string{option: c.waits}; c.waits == "" {
						g.Pending, g.Deletes = nil, map[string]int{option: 1}
					}
				})
				body := c.lines + "lifecycle { ignore_changes = [" + c.ignored + "] }\n"
				l.Configure(body)
				switch how {
				case "imported":
					l.Session.Forget(rig.VMAddress)
					rig.Must(t, l.Session.Import(t.Context(), rig.VMAddress, "pve1/400"))
				case "notes lost":
					l.Session.SetPrivate(rig.VMAddress, nil)
				}
				pl := l.Plan(body + "description = \"x\"\n")
				rig.Must(t, l.Session.Apply(t.Context(), pl))
				if restarted := len(l.World.Sim.PowerOffs()) > 0; restarted && !foretells(pl) {
					t.Errorf("restarted; the plan was\n%s\n%s", pl, pl.Diagnostics)
				}
				if next := l.Plan(body + "description = \"x\"\n"); !next.Empty() {
					t.Errorf("the next plan is\n%s\n%s", next, next.Diagnostics)
				}
			})
		}
	}
}

// TestSlotLeavesWhileAnExchangeWaits: another disk waits for its place in a slot of a running guest, and the slot leaves the configuration. PVE would
// forget the volume that waits: it becomes an unused disk, or is destroyed as the plan says. The plan names the one in force, too, which is kept.
func TestSlotLeavesWhileAnExchangeWaits(t *testing.T) {
	t.Parallel()
	for _, removed := range []string{"", "removed_disks = \"destroy\"\n"} {
		t.Run(removed, func(t *testing.T) {
			t.Parallel()
			body := func(more string) string {
				return "hotplug = [\"network\"]\npower_state = \"running\"\nreboot_policy = \"never\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }" + more + " }\n"
			}
			const first, second = ", scsi1 = { storage = \"local-zfs\", size = \"2G\" }", ", scsi2 = { storage = \"local-zfs\", size = \"3G\" }"
			l := rig.NewVM(t, body(first+second))
			l.World.ExpectPowerOffs(state.PowerStop)
			inForce, waits := l.Volume("scsi1"), l.Volume("scsi2")
			l.To(body(first))
			rig.RunTask(t, l.World, "/nodes/pve1/qemu/400/status/stop", "")
			l.To(body(first) + "description = \"started again\"\n")
			l.To(body(", scsi1 = { imported_disk = { volume = \"" + waits + "\" } }"))
			l.WantWaiting("scsi1")
			pl := l.Plan(removed + body(""))
			l.Warned(`disks["scsi1"]`, "scsi1 of VM 400 on pve1 has another disk as well", inForce, waits)
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			named, there := l.Config()["unused0"] == waits, false
			l.World.Change(func(w *state.World) { there = w.Volume("pve1", waits) != nil })
			if kept := removed == ""; named != kept || there != kept || l.Volume("scsi1") != inForce {
				t.Errorf("%s is there: %t; the VM is %v", waits, there, l.Config())
			}
			rig.RunTask(t, l.World, "/nodes/pve1/qemu/400/status/stop", "")
			rig.Must(t, l.Session.Refresh(t.Context()))
			rig.Must(t, l.Session.Destroy(t.Context()))
			if left := rig.TracesOf(l.World, 400); len(left) > 0 {
				t.Errorf("the destroy has left %v", left)
			}
		})
	}
}
