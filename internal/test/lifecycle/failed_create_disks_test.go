package lifecycle_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDisksOfAVMWhoseCreateFailed: a third party gives a disk to a VM that its failed create has left. A plan names it,
// and a destroy that was planned before refuses it. All that the create has made goes without a word.
func TestDisksOfAVMWhoseCreateFailed(t *testing.T) {
	t.Parallel()
	const kept, copied = "on_failure = \"keep\"\n", "vmid = 400\nname = \"x\"\nnode = \"pve1\"\nclone = { vmid = 9000 }\n"
	const diskless = "vmid = 400\nname = \"x\"\nnode = \"pve1\"\n"
	own := strings.Replace(madeVM, "stopped", "running", 1)
	theirs := func(world *state.World, g *state.Guest) { putDisk(world, g, "scsi5") }
	detach := func(_ *state.World, g *state.Guest) {
		g.Config["unused0"] = strings.Split(g.Config["scsi0"], ",")[0]
		delete(g.Config, "scsi0")
	}
	for name, c := range map[string]struct {
		body          string
		read          bool // a refresh comes first
		before, since func(*state.World, *state.Guest)
		with          []terraformtest.PlanOption
		says, refuses string
	}{
		"kept":                          {body: own + kept, with: toDestroy},
		"kept, replaced":                {body: own + kept},
		"left":                          {body: own, with: toDestroy},
		"left, replaced":                {body: own},
		"a copy":                        {body: copied, with: toDestroy},
		"a copy, replaced":              {body: copied},
		"a disk before, a copy":         {body: copied, before: theirs, with: toDestroy, says: "scsi5: local-zfs:vm-400-by-hand-scsi5"},
		"a copy, not read":              {body: copied, with: append(toDestroy, terraformtest.WithoutRefresh())},
		"a disk before, kept":           {body: own + kept, before: theirs, with: toDestroy, says: "scsi5: local-zfs:vm-400-by-hand-scsi5"},
		"a disk before, kept, replaced": {body: own + kept, before: theirs, says: "scsi5: local-zfs:vm-400-by-hand-scsi5"},
		"a disk before, left":           {body: own, before: theirs, with: toDestroy, says: "scsi5: local-zfs:vm-400-by-hand-scsi5"},
		"a disk since, kept":            {body: own + kept, since: theirs, with: toDestroy, refuses: "by-hand-scsi5 is in scsi5"},
		"a disk since, kept, replaced":  {body: own + kept, since: theirs, refuses: "by-hand-scsi5 is in scsi5"},
		"a disk since, left":            {body: own, since: theirs, with: toDestroy, refuses: "by-hand-scsi5 is in scsi5"},
		"a disk since, a copy":          {body: copied, since: theirs, with: toDestroy, refuses: "by-hand-scsi5 is in scsi5"},
		"a disk under its name": {body: own, since: func(_ *state.World, g *state.Guest) {
			g.Config["scsi0"] = strings.Replace(g.Config["scsi0"], "size=1G", "size=50G", 1)
		}, with: toDestroy, refuses: "the plan knows it with 1G"},
		"no disks":                       {body: diskless, with: toDestroy},
		"no disks, replaced":             {body: diskless},
		"no disks, a disk before":        {body: diskless, before: theirs, with: toDestroy, says: "scsi5: local-zfs:vm-400-by-hand-scsi5"},
		"no disks, a disk since":         {body: diskless, since: theirs, with: toDestroy, refuses: "by-hand-scsi5 is in scsi5"},
		"no disks, a disk since, kept":   {body: diskless + kept, since: theirs, with: toDestroy, refuses: "by-hand-scsi5 is in scsi5"},
		"no disks, replaced, since":      {body: diskless, since: theirs, refuses: "by-hand-scsi5 is in scsi5"},
		"its disk detached since":        {body: own, read: true, since: detach, with: toDestroy},
		"its disk detached before":       {body: own, read: true, before: detach, with: toDestroy},
		"its disk detached before, kept": {body: own + kept, read: true, before: detach, with: toDestroy},
		"its disk in another slot": {body: own, since: func(_ *state.World, g *state.Guest) {
			g.Config["scsi3"] = g.Config["scsi0"]
			delete(g.Config, "scsi0")
		}, with: toDestroy},
		"its disk moved": {body: own, since: func(world *state.World, g *state.Guest) {
			moved := *world.Volume("pve1", strings.Split(g.Config["scsi0"], ",")[0])
			maps.DeleteFunc(world.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Volid() == moved.Volid() })
			moved.Storage = "local-lvm"
			world.Put(&moved)
			g.Config["scsi0"] = moved.Volid() + ",size=1G"
		}, with: toDestroy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(c.body))
			failToStart(t, w, s)
			change := func(by func(*state.World, *state.Guest)) {
				if by != nil {
					w.Change(func(world *state.World) { by(world, world.Guests[400]) })
				}
			}
			if c.read {
				rig.Must(t, s.Refresh(t.Context()))
			}
			change(c.before)
			planned, err := s.Plan(t.Context(), c.with...)
			rig.Must(t, err)
			if said := s.Diagnostics().String(); strings.Contains(said, "disks that the state does not have") != (c.says != "") ||
				!strings.Contains(said, c.says) {
				t.Errorf("the plan said %s", said)
			}
			change(c.since)
			before := rig.TracesOf(w, 400)
			if err = s.Apply(t.Context(), planned); c.refuses != "" {
				rig.MustSay(t, err, c.refuses, "The VM was not removed")
				if after := rig.TracesOf(w, 400); len(after) != len(before) {
					t.Errorf("there were %v, and are %v", before, after)
				}
				planned, err = s.Plan(t.Context(), c.with...)
				rig.Must(t, err)
				err = s.Apply(t.Context(), planned)
			}
			rig.Must(t, err)
			if left := rig.TracesOf(w, 400); len(c.with) > 0 && len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

var toDestroy = []terraformtest.PlanOption{terraformtest.ToDestroy()}

// TestDetachedNameOfAVMWhoseCreateFailed: the disk that state knows of such a VM was detached, and its name has come
// free: another disk has it.
func TestDetachedNameOfAVMWhoseCreateFailed(t *testing.T) {
	t.Parallel()
	for size, stays := range map[int64]bool{50 << 30: true, 1 << 30: false} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(strings.Replace(madeVM, "stopped", "running", 1)))
		w.Sim.SetFaults([]fault.Rule{refusedAt(http.MethodPost, "/status/start"), refusedAt(http.MethodDelete, "")})
		if err := s.Run(t.Context()); err == nil {
			t.Fatal("the create has not failed")
		}
		w.Sim.SetFaults(nil)
		planned, err := s.Plan(t.Context(), toDestroy...)
		rig.Must(t, err)
		w.Change(func(world *state.World) {
			g := world.Guests[400]
			g.Config["unused0"], _, _ = strings.Cut(g.Config["scsi0"], ",")
			delete(g.Config, "scsi0")
			world.Volume("pve1", g.Config["unused0"]).Size = size
		})
		if err = s.Apply(t.Context(), planned); stays {
			rig.MustSay(t, err, "the VM was not removed")
		} else {
			rig.Must(t, err)
		}
		if left := rig.TracesOf(w, 400); (len(left) > 0) != stays {
			t.Errorf("of %d: left %v", size, left)
		}
	}
}

// TestProtectedSinceItsCreateFailed: a create has failed and left its VM, or kept it. A destroy takes it away, with the
// protection that it has from its source. Once an administrator protects it, it stays, and the destroy says so.
func TestProtectedSinceItsCreateFailed(t *testing.T) {
	const kept = "on_failure = \"keep\"\n"
	own := strings.Replace(madeVM, "stopped", "running", 1)
	clone := "vmid = 400\nnode = \"pve1\"\nname = \"x\"\nclone = { vmid = 9000 }\n"
	for name, c := range map[string]struct {
		body     string
		protects bool
	}{
		"kept":                         {own + kept, true},
		"left":                         {own, true},
		"kept, as it was":              {own + kept, false},
		"kept clone of a protected VM": {clone + kept, false},
		"left clone of a protected VM": {clone, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) { world.Guests[9000].Config["protection"] = "1" })
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(c.body))
			failToStart(t, w, s)
			if c.protects {
				w.Change(func(world *state.World) { world.Guests[400].Config["protection"] = "1" })
			}
			planned, err := s.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			err = s.Apply(t.Context(), planned)
			w.Change(func(world *state.World) {
				if (world.Guests[400] != nil) != c.protects || (err != nil) != c.protects ||
					c.protects && (world.Guests[400].Config["protection"] != "1" || !strings.Contains(err.Error(), "is protected, and its create")) {
					t.Errorf("the VM is there %t: %v", world.Guests[400] != nil, err)
				}
			})
		})
	}
}

// TestDiskGivenWhileTheCreateWaits: a third party gives a disk to the VM while its create waits for the guest. The plan
// of a destroy names that disk, at once and after a refresh. It does not name the disks that a clone has from its source.
func TestDiskGivenWhileTheCreateWaits(t *testing.T) {
	for _, c := range []struct {
		more, slot string
		source     func(*state.World, *state.Guest) // it has the slot, and nothing that a clone copies into it
	}{
		{slot: "scsi5"}, {more: "clone = { vmid = 9000 }\nprotection = false", slot: "scsi5"},
		{"clone = { vmid = 8000, full = true }", "ide0", func(_ *state.World, g *state.Guest) { g.Config["ide0"] = "none,media=cdrom" }},
		{"clone = { vmid = 8000, full = true, snapshot = \"old\" }", "scsi5", func(world *state.World, g *state.Guest) {
			snapshot := maps.Clone(g.Config)
			snapshot["snaptime"] = "946684800"
			g.Snaps, g.Config["parent"] = map[string]map[string]string{"old": snapshot}, "old"
			world.Volume(g.Node, "local-lvm:vm-8000-disk-0").TakeSnapshot("old")
			putDisk(world, g, "scsi5")
		}},
	} {
		more := c.more
		for _, given := range []bool{true, false} {
			inTime(t, func(t *testing.T, w *rig.World) {
				if c.source != nil {
					w.Change(func(world *state.World) { c.source(world, world.Guests[8000]) })
				}
				s := w.Session(t, rig.TokenNoSSH, awaited(`wait_for = { ipv4 = true, timeout = "2m" }`, more))
				rig.SilenceAgent(w, 8)
				theirs := ""
				go func() {
					time.Sleep(10 * time.Second)
					w.Change(func(world *state.World) {
						if g := world.Guests[500]; g != nil && g.Config["lock"] == "" && given {
							theirs = putDisk(world, g, c.slot)
						}
					})
				}()
				rig.Must(t, s.Run(t.Context()))
				for _, refreshed := range []bool{false, true} {
					if refreshed {
						rig.Must(t, s.Refresh(t.Context()))
					}
					_, err := s.Plan(t.Context(), terraformtest.ToDestroy())
					rig.Must(t, err)
					said := s.Diagnostics().String()
					if (theirs != "") != given || strings.Contains(said, "local-zfs:vm-500-") != given || !strings.Contains(said, theirs) {
						t.Errorf("%q, given %t, refreshed %t: the plan said %q", more, given, refreshed, said)
					}
				}
				if err := s.Run(t.Context()); err != nil || strings.Contains(s.Diagnostics().String(), "disk") {
					t.Errorf("%q, given %t: a plan without a change: %s, %v", more, given, s.Diagnostics(), err)
				}
			})
		}
	}
}

// TestFailedCreateWhoseLogsAreGone: PVE has removed the logs of a failed create's tasks by the time that its VM is
// destroyed. The VM goes with its own detached disk, and a third party's disk is refused by its name.
func TestFailedCreateWhoseLogsAreGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		since  func(*state.World, *state.Guest)
		with   []terraformtest.PlanOption
		refuse string
	}{
		"detached": {func(_ *state.World, g *state.Guest) {
			g.Config["unused0"] = strings.Split(g.Config["scsi0"], ",")[0]
			delete(g.Config, "scsi0")
		}, []terraformtest.PlanOption{terraformtest.ToDestroy(), terraformtest.WithoutRefresh()}, ""},
		"given": {func(world *state.World, g *state.Guest) { putDisk(world, g, "scsi5") },
			[]terraformtest.PlanOption{terraformtest.ToDestroy()}, "by-hand-scsi5 is in scsi5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(strings.Replace(madeVM, "stopped", "running", 1)))
			failToStart(t, w, s)
			planned, err := s.Plan(t.Context(), c.with...)
			rig.Must(t, err)
			w.Change(func(world *state.World) {
				clear(world.Tasks)
				c.since(world, world.Guests[400])
			})
			if err = s.Apply(t.Context(), planned); c.refuse != "" {
				rig.MustSay(t, err, c.refuse)
				return
			}
			rig.Must(t, err)
			if left := rig.TracesOf(w, 400); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// failToStart plays a create whose guest does not start, and whose roll-back cannot remove the VM.
func failToStart(t *testing.T, w *rig.World, s *terraformtest.Session) {
	t.Helper()
	fails := func(method, path string) fault.Rule {
		return fault.Rule{Match: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}" + path}, Phase: fault.Before,
			Status: 500, Reason: "not now", Times: -1}
	}
	w.Sim.SetFaults([]fault.Rule{fails(http.MethodPost, "/status/start"), fails(http.MethodDelete, "")})
	if err := s.Run(t.Context()); err == nil {
		t.Fatal("the create has not failed")
	} else if strings.Contains(err.Error(), "pvesm free") {
		t.Error("a command fails, since that for the VM takes the disk along:", err)
	}
	w.Sim.SetFaults(nil)
}

// TestNameThatCameFreeInARestoredVM: a failed create has left a restored VM, or kept it. A user gives it a disk, whose name is that of a
// disk which the create has moved, or which the user has removed. The log of the restore has that name. No destroy takes the disk in
// silence.
func TestNameThatCameFreeInARestoredVM(t *testing.T) {
	t.Parallel()
	const body = "vmid = 400\nname = \"x\"\npower_state = \"running\"\n"
	const moved, grown = body + "disks = { scsi0 = { storage = \"local-lvm\" } }\n", body + "disks = { scsi0 = { size = \"4G\" } }\n"
	for _, c := range []struct {
		body, removed, slot, value string
		since, unread              bool
	}{
		{moved, "", "unused0", "", false, false}, {moved, "", "unused0", "", true, false}, {moved, "", "unused0", "", true, true},
		{moved, "", "scsi5", ",size=7G", true, false},
		{grown, "scsi1", "unused0", "", false, false}, {grown, "scsi1", "unused0", "", true, false}, {grown, "scsi1", "unused0", "", true, true},
	} {
		for _, kept := range []string{"", "on_failure = \"keep\"\n"} {
			t.Run(fmt.Sprintf("%s in %s, since %t, unread %t, %s", c.removed, c.slot, c.since, c.unread, kept), func(t *testing.T) {
				t.Parallel()
				w := restoreWorld(t, nil)
				s := w.Session(t, rig.TokenNoSSH, restoredVM(c.body+kept))
				failToStart(t, w, s)
				volume := "local-zfs:vm-400-disk-0"
				give := func() {
					w.Change(func(world *state.World) {
						g := world.Guests[400]
						if c.removed != "" {
							volume, _, _ = strings.Cut(g.Config[c.removed], ",")
							delete(g.Config, c.removed)
						}
						g.Config[c.slot] = volume + c.value
						storage, name, _ := strings.Cut(volume, ":")
						world.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: 400, Content: "images", Format: "raw",
							Size: 7 << 30, Data: "theirs"})
					})
				}
				if !c.since {
					give()
				}
				with := toDestroy
				if c.unread {
					with = append(slices.Clone(with), terraformtest.WithoutRefresh())
				}
				planned, err := s.Plan(t.Context(), with...)
				rig.Must(t, err)
				if c.since {
					give()
				}
				rig.MustSay(t, s.Apply(t.Context(), planned), volume)
				w.Change(func(world *state.World) {
					if v := world.Volume("pve1", volume); v == nil || v.Data != "theirs" {
						t.Errorf("%s is gone: %v", volume, world.Guests[400])
					}
				})
			})
		}
	}
}
