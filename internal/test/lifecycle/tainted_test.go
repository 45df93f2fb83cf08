package lifecycle_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const (
	diskOff = "node = \"pve1\"\npower_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	madeVM  = "vmid = 400\nname = \"x\"\n" + diskOff
)

// TestTaintedVMKeepsItsDetachedDisk: the destroy of a tainted VM knows the disks that an update has detached from it, as
// that of another VM does. An unused disk that was never in state is not its own.
func TestTaintedVMKeepsItsDetachedDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tainted, theirs bool }{
		"tainted":                   {true, false},
		"replaced":                  {false, false},
		"tainted, with another one": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			two := strings.Replace(madeVM, "scsi0 = {", "scsi1 = { storage = \"local-zfs\", size = \"2G\" }, scsi0 = {", 1)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(two))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(madeVM))
			rig.Must(t, s.Converge(t.Context()))
			if c.theirs {
				w.Change(func(world *state.World) { putDisk(world, world.Guests[400], "unused1") })
			}
			var options []terraformtest.PlanOption
			if s.Taint(rig.VMAddress, c.tainted); !c.tainted {
				options = append(options, terraformtest.Replacing(rig.VMAddress))
			}
			pl, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), pl))
			said := fmt.Sprint(s.Diagnostics())
			if named := strings.Contains(said, "none of its disks: local-zfs:vm-400-by-hand-unused1 on node pve1."); named != c.theirs {
				t.Errorf("the apply says %s", said)
			}
			w.Change(func(world *state.World) {
				if is := world.Volume("pve1", "local-zfs:vm-400-by-hand-unused1") != nil; is != c.theirs {
					t.Errorf("the other one is there: %t", is)
				}
			})
			if _, has := rig.GuestOf(w, 400).Config["unused0"]; has {
				t.Errorf("VM 400 has %v", rig.GuestOf(w, 400).Config)
			}
			if i, err := s.Instance(rig.VMAddress); err != nil || strings.Contains(string(i.Private), "failed") {
				t.Errorf("the new VM keeps what the plan passed on: %v, %s", err, i.Private)
			}
		})
	}
}

// TestTaintedVMWithoutARefresh: then the destroy is handed nothing but the state, so it removes no disk that the state
// does not have. A plan with a refresh names it.
func TestTaintedVMWithoutARefresh(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, since bool }{
		"a disk before the plan": {true, false},
		"a disk since the plan":  {false, true},
		"the disks of the state": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(madeVM))
			rig.Must(t, s.Converge(t.Context()))
			put := func(comes bool) {
				if comes {
					w.Change(func(world *state.World) { putDisk(world, world.Guests[400], "scsi1") })
				}
			}
			if put(c.before); c.before {
				rig.Must(t, s.Refresh(t.Context()))
			}
			s.Taint(rig.VMAddress, true)
			pl, err := s.Plan(t.Context(), terraformtest.WithoutRefresh())
			rig.Must(t, err)
			put(c.since)
			if err = s.Apply(t.Context(), pl); !c.before && !c.since {
				rig.Must(t, err)
				return
			}
			rig.MustSay(t, err, "vm-400-by-hand-scsi1 is in scsi1", "no refresh has seen it", "Nothing was touched", "with a refresh")
			pl, err = s.Plan(t.Context())
			rig.Must(t, err)
			if said := s.Diagnostics().String(); !strings.Contains(said, "vm-400-by-hand-scsi1") {
				t.Errorf("the plan with a refresh says %s", said)
			}
			rig.Must(t, s.Apply(t.Context(), pl))
		})
	}
}

// TestReplacementTellsOfAddedDisks: a replacement takes disks along that no configuration has made. The plan names them,
// once. Terraform shows no warning of a plan for a replacement that the VM's own plan does not ask for, so that is refused.
func TestReplacementTellsOfAddedDisks(t *testing.T) {
	t.Parallel()
	const first = "lifecycle { create_before_destroy = true }\n"
	another := strings.Replace(madeVM, "400", "401", 1)
	for name, c := range map[string]struct {
		body, says             string
		replace, stale, noDisk bool
	}{
		"no change":           {madeVM, "Cannot replace VM 400 on pve1", true, false, false},
		"a change in place":   {madeVM + "tags = [\"a\"]\n", "Cannot replace VM 400 on pve1", true, false, false},
		"no refresh":          {madeVM, "Cannot replace VM 400 on pve1", true, true, false},
		"the new one first":   {madeVM + first, "Cannot replace VM 400 on pve1", true, false, false},
		"another id":          {another, "VM 400 on pve1 has disks", true, false, false},
		"another id alone":    {another, "VM 400 on pve1 has disks", false, false, false},
		"another id, stale":   {another + first, "VM 400 on pve1 has disks", false, true, false},
		"no such disk":        {madeVM, "", true, false, true},
		"it is not replaced":  {madeVM, "", false, false, false},
		"it changes in place": {madeVM + "tags = [\"a\"]\n", "", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(madeVM))
			rig.Must(t, s.Converge(t.Context()))
			if !c.noDisk {
				w.Change(func(world *state.World) { putDisk(world, world.Guests[400], "scsi1") })
				rig.Must(t, s.Refresh(t.Context()))
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(c.body))
			var with []terraformtest.PlanOption
			if c.stale {
				with = append(with, terraformtest.WithoutRefresh())
			}
			if c.replace {
				with = append(with, terraformtest.Replacing(rig.VMAddress))
			}
			pl, err := s.Plan(t.Context(), with...)
			said := s.Diagnostics().String()
			if named := strings.Count(said, "scsi1: local-zfs:vm-400-by-hand-scsi1"); !strings.Contains(said, c.says) ||
				c.says == "" && named > 0 || c.says != "" && named != 1 {
				t.Errorf("the plan says %s", said)
			}
			if strings.HasPrefix(c.says, "Cannot") {
				s.Taint(rig.VMAddress, true) // as the error says
				pl, err = s.Plan(t.Context())
			}
			rig.Must(t, err)
			if c.body == madeVM+first { // the new one cannot have its id
				return
			}
			rig.Must(t, s.Apply(t.Context(), pl))
		})
	}
}

// TestTaintedVMThatIsRenamed: name and id of a tainted VM may change in the plan that replaces it.
func TestTaintedVMThatIsRenamed(t *testing.T) {
	t.Parallel()
	const named = "name = \"x\"\n" + diskOff
	for name, c := range map[string]struct {
		was, is string
		since   bool
	}{
		"name":                    {named, "name = \"y\"\n" + diskOff, false},
		"name, disk since":        {named, "name = \"y\"\n" + diskOff, true},
		"id":                      {"vmid = 100\n" + named, "vmid = 101\n" + named, false},
		"id, disk since":          {"vmid = 100\n" + named, "vmid = 101\n" + named, true},
		"id and name, disk since": {"vmid = 100\n" + named, "vmid = 101\nname = \"y\"\n" + diskOff, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(c.was))
			rig.Must(t, s.Converge(t.Context()))
			theirs := ""
			put := func() {
				w.Change(func(world *state.World) { theirs = putDisk(world, world.Guests[100], "scsi1") })
			}
			if !c.since {
				put()
				rig.Must(t, s.Refresh(t.Context()))
			}
			s.Taint(rig.VMAddress, true)
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(c.is))
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			if said := s.Diagnostics().String(); c.since {
				put()
				rig.MustSay(t, s.Apply(t.Context(), pl), theirs+" is in scsi1, which the plan does not know")
				pl, err = s.Plan(t.Context())
				rig.Must(t, err)
				rig.MustSayAll(t, s.Diagnostics().String(), theirs)
			} else if strings.Count(said, theirs) != 1 {
				t.Errorf("the plan says %s", said)
			}
			rig.Must(t, s.Apply(t.Context(), pl))
		})
	}
}

// TestPlanAmongOtherVMs: a plan of many VMs names no disk of one that stays, and passes on no more of tainted VMs than
// their destroys may need.
func TestPlanAmongOtherVMs(t *testing.T) {
	t.Parallel()
	const many = 80
	for name, c := range map[string]struct {
		body  string
		bound int // of the VMs that one plan passes on
	}{
		"named": {"vmid = 500 + count.index\nname = \"n${count.index}\"\n", 1},
		"alike": {"name = \"n\"\n", many},
		"none":  {"", 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			block := func(n int) string {
				return rig.VMBlock(fmt.Sprintf("count = %d\nnode = \"pve1\"\npower_state = \"stopped\"\n%s", n, c.body))
			}
			s := w.Session(t, rig.TokenNoSSH, block(many))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				for _, g := range world.Guests {
					if strings.HasPrefix(g.Config["name"], "n") && g.Config["template"] == "" {
						putDisk(world, g, "scsi1")
					}
				}
			})
			rig.Must(t, s.Refresh(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, block(many+1))
			if _, err := s.Plan(t.Context()); err != nil || strings.Contains(s.Diagnostics().String(), "by-hand") {
				t.Errorf("the plan of another VM says %v %s", err, s.Diagnostics())
			}
			for _, address := range s.Addresses() {
				s.Taint(address, true)
			}
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			for _, change := range pl.Changes {
				if n := strings.Count(string(change.PlannedPrivate), "Identity"); n > c.bound {
					t.Errorf("the plan of %s passes %d VMs on", change.Address, n)
				}
			}
		})
	}
}

// TestCopyThatARollBackHasAttached: the worker of a create's move dies, the roll-back gives its copy to the VM, and PVE refuses to destroy
// that. A later destroy whose plan refreshes removes both. A disk that a user detaches there stays, and the destroy names it.
func TestCopyThatARollBackHasAttached(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []string{"", "given", "exchanged"} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nname = \"x\"\nnode = \"pve1\"\n"+
			"clone = { vmid = 9000, full = true, storage = \"local2\" }\ndisks = { scsi0 = { storage = \"local-zfs\" } }\n"))
		of := func(method, path string) fault.Match {
			return fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}" + path}
		}
		w.Sim.SetFaults([]fault.Rule{{Match: of(http.MethodPost, "/move_disk"), Phase: fault.KillTask},
			{Match: of(http.MethodDelete, ""), Phase: fault.Before, Status: 500, Reason: "not now", Times: -1}})
		rig.MustSay(t, s.Run(t.Context()), "not now")
		w.Sim.SetFaults(nil)
		w.Change(func(world *state.World) {
			if is := world.Guests[400].Config["unused0"]; is != "local-zfs:vm-400-disk-0" {
				t.Errorf("the copy is not attached: %v", world.Guests[400].Config)
			}
			if meanwhile == "given" {
				putDisk(world, world.Guests[400], "scsi5")
				world.Guests[400].Config["unused5"], _, _ = strings.Cut(world.Guests[400].Config["scsi5"], ",")
				delete(world.Guests[400].Config, "scsi5")
			}
		})
		rig.Must(t, s.Refresh(t.Context()))
		planned, err := s.Plan(t.Context(), toDestroy...)
		rig.Must(t, err)
		if meanwhile == "exchanged" { // its name comes free, and an import gets it
			w.Change(func(world *state.World) { world.Volume("pve1", "local-zfs:vm-400-disk-0").Size = 5 << 30 })
		}
		err = s.Apply(t.Context(), planned)
		if other := map[string]string{"given": "local-zfs:vm-400-by-hand-scsi5", "exchanged": "local-zfs:vm-400-disk-0"}[meanwhile]; other != "" {
			rig.MustSay(t, err, other)
			w.Change(func(world *state.World) {
				if world.Volume("pve1", other) == nil {
					t.Errorf("%s is gone", other)
				}
			})
			continue
		}
		rig.Must(t, err)
		if left := rig.TracesOf(w, 400); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}

// TestReplacementWhoseSourceIsAway: the plan of a replacement refuses a source that PVE cannot read now, and warns of
// one that it may not read by then. The old VM was destroyed first, without a word, and none was made in its place.
func TestReplacementWhoseSourceIsAway(t *testing.T) {
	t.Parallel()
	const disk = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	const clone = "clone = { vmid = 9100 }\n"
	unread := []fault.Rule{{Match: fault.Match{Method: "GET", VMID: 9100}, Phase: fault.Before, Status: 500,
		Reason: "got timeout", Times: -1}}
	for name, c := range map[string]struct {
		body            string
		happens         func(w *rig.World)
		refused, warned string
	}{
		"node": {clone, func(w *rig.World) { w.Sim.SetNode("pve2", false) }, "its node pve2 is not online", ""},
		"configuration": {clone, func(w *rig.World) { w.Sim.SetFaults(unread) }, "",
			"VM 9100 could not be read to clone it"},
		"stale lock": {clone, func(w *rig.World) { w.Sim.StaleLock(9100, "backup", "root@pam") }, "",
			"VM 9100 cannot be cloned while it is locked"},
		"disk of the source": {"clone = { vmid = 9101 }\n", nil, "Storage away does not work on node pve1", ""},
		"image": {"disks = { scsi0 = { storage = \"local-zfs\", import_from = \"away:import/debian.qcow2\" } }\n", nil,
			"Storage away does not work on node pve1", ""},
		"medium": {disk + "cdroms = { ide2 = { file = \"away:iso/debian.iso\" } }\n", nil,
			"Storage away does not work on node pve1", ""},
		"backup": {"restore = { archive = \"away:backup/vzdump-qemu-9100-2026_01_01-00_00_00.vma.zst\" }\n", nil,
			"Storage away does not work on node pve1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, disk)
			l.World.Change(func(w *state.World) {
				w.Storages["away"] = &state.Storage{ID: "away", Type: "nfs", Path: "/mnt/pve/away", Shared: true, Offline: true,
					Content: []string{"images", "iso", "import", "backup"}, Total: 100 << 30}
				for vmid, storage := range map[int]string{9100: "shared-nfs", 9101: "away"} {
					v := &state.Volume{Storage: storage, Name: fmt.Sprintf("%d/base-%d-disk-0.qcow2", vmid, vmid), VMID: vmid,
						Content: "images", Format: "qcow2", Size: 1 << 30}
					w.Put(v)
					w.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "o",
						"template": "1", "scsi0": v.Volid() + ",size=1G"}}
				}
				w.Guests[9101].Node = "pve1"
			})
			if c.happens != nil {
				c.happens(l.World)
			}
			l.Session.Taint(rig.VMAddress, true)
			l.Configure(c.body)
			_, err := l.Session.Plan(t.Context())
			if said := l.Session.Diagnostics().String(); (err != nil) != (c.refused != "") ||
				!strings.Contains(said, c.refused) || !strings.Contains(said, c.warned) {
				t.Errorf("%v; %s", err, said)
			}
		})
	}
}
