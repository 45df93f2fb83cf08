package action_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestActionsStartNoGuestBesideAnother: an administrator mends the disk of a VM in a VM of their own, which runs, or is suspended to disk and
// goes on later. Two guests on one disk destroy what is on it.
func TestActionsStartNoGuestBesideAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, action string
		runs         bool // the other one
	}{
		"start":                    {"stopped", "start", true},
		"resume from disk":         {"stopped suspended", "resume", true},
		"start from disk":          {"stopped suspended", "start", true},
		"start, the other is off":  {"stopped", "start", false},
		"resume, the other is off": {"stopped suspended", "resume", false},
		"start, the other sleeps":  {"stopped", "start", true},
		"resume":                   {"paused", "resume", true},
		"resume, and it is off":    {"paused", "resume", false},
		"resume, and it was there": {"paused", "resume", false},
		"reboot":                   {"running", "reboot", true},
		"reboot, it is off":        {"running", "reboot", false},
		"reboot, they share":       {"running", "reboot", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newActor(t, rig.TokenNoSSH)
			a.w.ExpectPowerOffs(state.PowerStop, state.PowerSuspend, state.PowerReboot)
			a.set(c.from)
			a.w.Sim.Advance(time.Minute)
			other := a.w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Attach, VMID: 500})
			if strings.HasPrefix(name, "reboot") && !strings.Contains(name, "share") {
				a.w.Change(func(world *state.World) { // it gets the disk at its restart
					g := world.Guests[500]
					g.Pending = map[string]string{"sata1": g.Config["scsi0"]}
					g.Config["scsi0"], g.Running.Booted["scsi0"] = "local-zfs:vm-500-disk-9,size=1G", "local-zfs:vm-500-disk-9,size=1G"
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-500-disk-9", VMID: 500, Content: "images", Format: "raw", Size: 1 << 30})
				})
			}
			switch {
			case strings.Contains(name, "sleeps"):
				a.w.Change(func(world *state.World) { world.Guests[other.Made].SetLock("suspended", "an administrator") })
			case c.runs, strings.Contains(name, "share"):
				a.w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Start, VMID: other.Made})
			case strings.Contains(name, "was there"):
				a.w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Start, VMID: other.Made})
				a.w.Change(func(world *state.World) { world.Guests[500].Running.StartedAt = world.Clock.Now().Add(time.Second) })
			}
			a.w.Sim.Advance(30 * time.Second)
			_, err := a.act("action = \"" + c.action + "\"")
			said := ""
			if err != nil {
				said = err.Error()
			}
			if c.runs != strings.Contains(said, "Two guests on one disk") || c.runs != (len(a.writes()) == 0) || c.runs && a.guest() != c.from {
				t.Errorf("the other one runs: %t; VM 500 is %s, sent %v: %s", c.runs, a.guest(), a.writes(), said)
			}
		})
	}
}

// TestActionsResumeFromDiskWithTheDisksInForce: a guest that was suspended to disk goes on with the disks that it had, and its start applies
// nothing that waits. Another guest runs with one of them, or with one that only waits to come.
func TestActionsResumeFromDiskWithTheDisksInForce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		action  string
		leaves  bool // the disk that the other one runs with waits to leave; else it waits to come
		refused bool
	}{
		"resume, it leaves":         {"resume", true, true},
		"start, it leaves":          {"start", true, true},
		"start unlocked, it leaves": {"start", true, true},
		"resume, it comes":          {"resume", false, false},
		"start unlocked, it comes":  {"start", false, false},
		"start from off, it leaves": {"start", true, false},
		"start from off, it comes":  {"start", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newActor(t, rig.TokenNoSSH)
			a.w.ExpectPowerOffs(state.PowerStop, state.PowerSuspend)
			from := "stopped suspended"
			if strings.Contains(name, "from off") {
				from = "stopped"
			}
			a.set(from)
			other := a.w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Attach, VMID: 500})
			a.w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Start, VMID: other.Made})
			a.w.Change(func(world *state.World) {
				g := world.Guests[500]
				if strings.Contains(name, "unlocked") {
					g.SetLock("", "")
				}
				if c.leaves {
					g.Deletes = map[string]int{"scsi0": 1}
					return
				}
				g.Pending = map[string]string{"sata1": g.Config["scsi0"]}
				g.Config["scsi0"] = "local-zfs:vm-500-disk-9,size=1G"
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-500-disk-9", VMID: 500, Content: "images", Format: "raw", Size: 1 << 30})
			})
			a.w.Sim.Advance(30 * time.Second)
			_, err := a.act("action = \"" + c.action + "\"")
			refused := err != nil && strings.Contains(err.Error(), "Two guests on one disk")
			if refused != c.refused || !refused && (err != nil || a.guest() != "running") {
				t.Errorf("it is %s: %v", a.guest(), err)
			}
			a.w.Change(func(world *state.World) {
				if g := world.Guests[500]; from != "stopped" && g.Config["scsi0"] == "" {
					t.Errorf("its start applied what waited: %v", g.Config)
				}
			})
		})
	}
}

// TestActionsResumeAGuestThatQEMUHasStopped: QEMU stops a guest whose storage is full. PVE calls it running, and its `qm resume` lets it go on
// when there is space again.
func TestActionsResumeAGuestThatQEMUHasStopped(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"io-error", "shutdown", "watchdog"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			a := newActor(t, rig.TokenNoSSH)
			a.w.Change(func(world *state.World) { world.Guests[500].Running.QMPStatus = status })
			told, err := a.act("action = \"resume\"")
			if err != nil || a.guest() != "running" || len(a.writes()) != 1 {
				t.Errorf("it is %s, sent %v, told %q: %v", a.guest(), a.writes(), told, err)
			}
		})
	}
}

// TestActionsResumeAGuestThatShares: the nodes of a cluster share a disk while both run. The one that has run longer is paused, and goes on.
// Not so where the other one was started during the pause, or may have been.
func TestActionsResumeAGuestThatShares(t *testing.T) {
	t.Parallel()
	const start, pause, resume, again, blind = "start", "suspend", "resume", "again", "blind"
	for name, c := range map[string]struct {
		before  []string
		refused bool
	}{
		"paused beside it":               {[]string{start, pause}, false},
		"paused beside it, a second try": {[]string{pause, resume, start, pause}, false},
		"started during the pause":       {[]string{pause, start}, true},
		"started during a second pause":  {[]string{pause, resume, pause, start}, true},
		"paused twice":                   {[]string{pause, start, again}, true},
		"without Sys.Audit":              {[]string{start, pause, blind}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newActor(t, rig.TokenNoSSH)
			a.w.ExpectPowerOffs(state.PowerStop)
			other := a.w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Attach, VMID: 500})
			for _, step := range c.before {
				a.w.Sim.Advance(time.Minute)
				switch step {
				case start:
					a.w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Start, VMID: other.Made})
				case again: // a pause of a paused guest does nothing
					a.w.Change(func(world *state.World) {
						now := world.Clock.Now()
						upid := fmt.Sprintf("UPID:pve1:00000BB8:00000001:%08X:qmpause:500:root@pam:", now.Unix())
						world.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: "qmpause", ID: "500", User: "root@pam", Start: now, End: now, ExitStatus: "OK"}
					})
				case blind:
					a.w.Change(func(world *state.World) {
						for role, privileges := range world.Roles {
							world.Roles[role] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == "Sys.Audit" })
						}
					})
				default:
					if _, err := a.act("action = \"" + step + "\""); err != nil {
						t.Fatalf("%s: %v", step, err)
					}
				}
			}
			a.w.Sim.Advance(30 * time.Second)
			_, err := a.act("action = \"resume\"")
			refused := err != nil && strings.Contains(err.Error(), "Two guests on one disk")
			if refused != c.refused || !refused && (err != nil || a.guest() != "running") {
				t.Errorf("it is %s: %v", a.guest(), err)
			}
		})
	}
}
