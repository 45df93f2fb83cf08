package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestCreateBeforeDestroy: in the apply of a replacement with create_before_destroy Terraform plans the create without the
// state of the VM that it replaces, in a process that has refreshed nothing. Where that plan fails, the VM is lost to Terraform;
// where the create does, it is kept. So the id of the VM itself is the create's to refuse.
func TestCreateBeforeDestroy(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"with a name": "name = \"mine\"\nvmid = 400\nnode = \"pve1\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n",
		"nameless":    "vmid = 400\nnode = \"pve1\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(body))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Sim.Advance(20e9) // pvestatd has seen it
			w.Mark()
			s.Forget(rig.VMAddress) // what the second plan knows of it
			pl, err := s.Plan(t.Context())
			if err != nil {
				t.Fatalf("the plan within the apply fails: %v", err)
			}
			err = s.Apply(t.Context(), pl)
			if err == nil || !strings.Contains(err.Error(), "VMID 400 is taken") || !strings.Contains(err.Error(), "create_before_destroy") ||
				strings.Contains(err.Error(), "()") {
				t.Errorf("the create says: %v", err)
			}
			w.MustBeClean(t)
		})
	}
	w := rig.NewWorld(t) // another's id is refused in the plan as before
	w.Change(func(world *state.World) {
		world.Guests[400] = &state.Guest{VMID: 400, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs"}}
	})
	w.Sim.Advance(20e9)
	if _, err := w.Session(t, rig.TokenNoSSH, rig.VMBlock("name = \"mine\"\nvmid = 400\nnode = \"pve1\"\n")).Plan(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "VMID 400 is taken") {
		t.Errorf("the id of another VM is planned: %v", err)
	}
}

// replacedFirst is a session with a VM that is replaced with create_before_destroy, and a change of its block.
func replacedFirst(t *testing.T, w *rig.World, body string) (*terraformtest.Session, func(body string)) {
	t.Helper()
	const first = "lifecycle { create_before_destroy = true }\n"
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(body+first))
	rig.Must(t, s.Converge(t.Context()))
	w.Sim.Advance(20e9) // pvestatd has seen it
	return s, func(body string) { w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(body+first)) }
}

const placedVM = "name = %q\nvmid = 400\nnode = \"pve1\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"

// TestVMStaysInStateIfItsReplacementIsRefused: whatever the server says between a plan and its apply, the VM that was to be
// replaced is in state afterwards, and not deposed. The create says why.
func TestVMStaysInStateIfItsReplacementIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule fault.Rule
		says string
	}{
		"VMID of its own": {says: "VMID 400 is taken"},
		"failed listing": {rule: fault.Rule{Match: fault.Match{Method: "GET", Path: "/cluster/resources"}, Phase: fault.Before, Times: -1},
			says: "Cannot look at the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s, configure := replacedFirst(t, w, fmt.Sprintf(placedVM, "repl"))
			configure(fmt.Sprintf(placedVM, "repl2"))
			w.Mark()
			pl, err := s.Plan(t.Context(), terraformtest.Replacing(rig.VMAddress))
			rig.Must(t, err)
			if c.rule.Phase != "" {
				w.Sim.SetFaults([]fault.Rule{c.rule})
			}
			rig.MustSay(t, s.Apply(t.Context(), pl), c.says)
			w.Sim.SetFaults(nil)
			if got := s.Addresses(); !slices.Equal(got, []string{rig.VMAddress}) {
				t.Errorf("in state there is %v", got)
			}
			w.MustBeClean(t)
			configure(fmt.Sprintf(placedVM, "repl"))
			if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
				t.Errorf("the next plan: %v\n%v", err, pl)
			}
		})
	}
}

// TestReplacementOfAProtectedVM: the plan refuses what PVE would refuse in the apply.
func TestReplacementOfAProtectedVM(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"", "lifecycle { create_before_destroy = true }\n"} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(fmt.Sprintf(placedVM, "repl")+"protection = true\n"+first))
		rig.Must(t, s.Converge(t.Context()))
		w.Sim.Advance(20e9)
		_, err := s.Plan(t.Context(), terraformtest.Replacing(rig.VMAddress))
		rig.MustSay(t, err, "Cannot replace VM 400", "Apply protection = false first, and replace it then")
	}
}

// TestReplacementWithoutARefresh: the id of a VM in state is its own, though the plan of its replacement has not refreshed it.
func TestReplacementWithoutARefresh(t *testing.T) {
	t.Parallel()
	for _, tainted := range []bool{false, true} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(fmt.Sprintf(placedVM, "repl")))
		rig.Must(t, s.Converge(t.Context()))
		w.Sim.Advance(20e9)
		w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(fmt.Sprintf(placedVM, "repl2")))
		options := []terraformtest.PlanOption{terraformtest.WithoutRefresh()}
		if tainted {
			s.Taint(rig.VMAddress, true)
		} else {
			options = append(options, terraformtest.Replacing(rig.VMAddress))
		}
		pl, err := s.Plan(t.Context(), options...)
		rig.Must(t, err)
		rig.Must(t, s.Apply(t.Context(), pl))
		if got := rig.GuestOf(w, 400).Config["name"]; got != "repl2" {
			t.Errorf("tainted %v: VM 400 is %q", tainted, got)
		}
	}
}

// TestCompletedVMIsNotDestroyed: a create that fails leaves a VM in state, tainted. With create_before_destroy the next apply
// completes that very VM, and destroys the tainted object last: the VM stays.
func TestCompletedVMIsNotDestroyed(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	const body = "name = \"web\"\nnode = \"pve1\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(body+"lifecycle { create_before_destroy = true }\n"))
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/pending"}, Phase: fault.Before, Times: -1}})
	if err := s.Run(t.Context()); err == nil {
		t.Fatal("the create has not failed")
	}
	w.Sim.SetFaults(nil)
	if i, err := s.Instance(rig.VMAddress); err != nil || !i.Tainted {
		t.Fatalf("nothing was left: %v", err)
	}
	w.Sim.Advance(20e9)
	rig.Must(t, s.Converge(t.Context()))
	if got := rig.GuestsNamed(w)["web"]; got == 0 {
		t.Error("there is no VM")
	}
}

// TestPlanTellsThatANamesakeHasTheID: a state was lost, or another directory has the same configuration, so the VM is there. The plan says
// that its create will fail, and how to adopt the VM. A VM that the plan replaces is no such one.
func TestPlanTellsThatANamesakeHasTheID(t *testing.T) {
	t.Parallel()
	const says = "VMID 400 is taken by a VM of the same name"
	w := rig.NewWorld(t)
	config := rig.VMBlock(fmt.Sprintf(placedVM, "mine"))
	s := w.Session(t, rig.TokenNoSSH, config)
	rig.Must(t, s.Converge(t.Context()))
	w.Sim.Advance(20e9) // pvestatd has seen it

	other := w.Session(t, rig.TokenNoSSH, config)
	pl, err := other.Plan(t.Context())
	if said := fmt.Sprint(other.Diagnostics()); err != nil || !strings.Contains(said, says) || !strings.Contains(said, "terraform import ADDRESS 400") {
		t.Errorf("%v; %v; it says %s", err, pl, said)
	}
	for name, plan := range map[string]func() (*terraformtest.Plan, error){
		"-replace": func() (*terraformtest.Plan, error) {
			return s.Plan(t.Context(), terraformtest.Replacing(rig.VMAddress))
		},
		"tainted": func() (*terraformtest.Plan, error) {
			s.Taint(rig.VMAddress, true)
			defer s.Taint(rig.VMAddress, false)
			return s.Plan(t.Context())
		},
	} {
		pl, err := plan()
		if said := fmt.Sprint(s.Diagnostics()); err != nil || pl.Empty() || strings.Contains(said, "is taken") {
			t.Errorf("%s: %v; %v; it says %s", name, err, pl, said)
		}
	}
}

// TestPlanRefusesAReplacementByAVMWhoseIDAnotherHas: a VM gets the vmid of another that stays. The old VM would be destroyed and the new one
// could not be made, so the plan is refused, also where that VM has the name of this one, and where it is in the same state, whichever
// Terraform plans first. An id that the same plan makes free is not refused.
func TestPlanRefusesAReplacementByAVMWhoseIDAnotherHas(t *testing.T) {
	t.Parallel()
	block := func(label, name string, vmid int) string {
		return fmt.Sprintf("resource \"proxmox_vm\" %q {\nname = %q\nvmid = %d\nnode = \"pve1\"\npower_state = \"stopped\"\n}\n", label, name, vmid)
	}
	const taken = "VMID 401 is taken by a VM that stays"
	for name, c := range map[string]struct{ was, is, says string }{
		"a third party's namesake":     {block("a", "n", 400), block("a", "n", 777), "VMID 777 is taken"},
		"one of this state":            {block("a", "a", 400) + block("b", "b", 401), block("a", "a", 401) + block("b", "b", 401), taken},
		"one of it, planned first":     {block("b", "a", 400) + block("a", "b", 401), block("b", "a", 401) + block("a", "b", 401), taken},
		"a namesake of it":             {block("a", "n", 400) + block("b", "n", 401), block("a", "n", 401) + block("b", "n", 401), taken},
		"one that gets another itself": {block("b", "a", 400) + block("a", "b", 401), block("b", "a", 401) + block("a", "b", 402), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Guests[777] = &state.Guest{VMID: 777, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "n"}}
			})
			s := w.Session(t, rig.TokenNoSSH, c.was)
			rig.Must(t, s.Converge(t.Context()))
			w.Sim.Advance(20e9)
			w.Reconfigure(t, s, rig.TokenNoSSH, c.is)
			_, err := s.Plan(t.Context())
			said := fmt.Sprint(s.Diagnostics())
			if (err == nil) != (c.says == "") || !strings.Contains(said, c.says) || strings.Contains(said, "taken by a VM of the same name") {
				t.Errorf("%v; it says %s", err, said)
			}
		})
	}
}

// TestPlanTellsOfARenamedVM: a count became a for_each without a moved block, so the plan destroys each VM and makes it again. Whichever
// plan Terraform shows second says so, of a fixed vmid and of a name. A VM that is replaced, and one that only goes, are no such ones.
func TestPlanTellsOfARenamedVM(t *testing.T) {
	t.Parallel()
	block := func(label, body string) string {
		return "resource \"proxmox_vm\" \"" + label + "\" {\n" + body + "node = \"pve1\"\npower_state = \"stopped\"\n}\n"
	}
	const fixed, byName, other = "vmid = 400\nname = \"web\"\n", "name = \"web\"\n", "vmid = 401\nname = \"web\"\n"
	for name, c := range map[string]struct {
		from, to, before, after string
		says                    string
	}{
		"a fixed vmid":                {"b", "a", fixed, fixed, "has its vmid"},
		"a fixed vmid, planned later": {"a", "b", fixed, fixed, "has its vmid"},
		"a fixed vmid and a new name": {"a", "b", fixed, "vmid = 400\nname = \"new\"\n", "has its vmid"},
		"the name":                    {"b", "a", byName, byName, "has its name"},
		"the name, planned later":     {"a", "b", byName, byName, "has its name"},
		"the name, and a vmid of its": {"a", "b", fixed, other, ""},
		"a replacement":               {"a", "a", fixed, other, ""},
		"nothing else":                {"a", "b", byName, "name = \"new\"\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, block(c.from, c.before))
			rig.Must(t, s.Converge(t.Context()))
			w.Sim.Advance(20e9)
			w.Reconfigure(t, s, rig.TokenNoSSH, block(c.to, c.after))
			pl, err := s.Plan(t.Context())
			said := fmt.Sprint(s.Diagnostics())
			times := strings.Count(said, "made again under another address")
			if c.says == "" && times != 0 || c.says != "" && (times != 1 || !strings.Contains(said, c.says)) {
				t.Errorf("%v; %v; it says %s", err, pl, said)
			}
		})
	}
}

// TestPlanRefusesACloneThatPVERefuses: the plan names a source that PVE does not clone in this way, on the attribute that says so. A
// replacement would destroy the old VM first, and every create after that would fail. A clone that PVE makes is planned and made.
func TestPlanRefusesACloneThatPVERefuses(t *testing.T) {
	t.Parallel()
	disk := func(world *state.World, storage, name string) *state.Volume {
		v := &state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: 9100, Content: "images", Format: "raw", Size: 1 << 30}
		world.Put(v)
		return v
	}
	with := func(slot, storage, more string) func(*state.World, *state.Guest) {
		return func(world *state.World, g *state.Guest) {
			g.Config[slot] = disk(world, storage, "vm-9100-disk-0").Volid() + more
		}
	}
	snapshotOn := func(storage string) func(*state.World, *state.Guest) {
		return func(world *state.World, g *state.Guest) {
			v := disk(world, storage, "vm-9100-disk-0")
			v.TakeSnapshot("before")
			g.Config["scsi0"] = v.Volid() + ",size=1G"
			old := maps.Clone(g.Config)
			old["snaptime"] = "1700000000"
			g.Snaps = map[string]map[string]string{"before": old}
		}
	}
	template := func(world *state.World, g *state.Guest) {
		world.Storages["san"] = &state.Storage{ID: "san", Type: "lvm", Path: "san", Content: []string{"images"}, Total: 100 << 30}
		g.Config["template"], g.Config["scsi0"] = "1", disk(world, "san", "vm-9100-disk-0").Volid()+",size=1G"
	}
	running := func(world *state.World, g *state.Guest) {
		with("tpmstate0", "local-zfs", ",size=4M,version=v2.0")(world, g)
		g.Running = &state.Running{PID: 77, Booted: maps.Clone(g.Config)}
	}
	for name, c := range map[string]struct {
		clone string
		world func(*state.World, *state.Guest)
		says  []string
	}{
		"a linked clone of a template on LVM": {"", template, []string{"clone.full", "no such clone of VM 9100", "san:vm-9100-disk-0", "clone.full = true"}},
		"a full clone of it":                  {"full = true", template, nil},
		"a linked clone of a VM":              {"full = false", with("scsi0", "local-zfs", ",size=1G"), []string{"clone.full", "is no template"}},
		"a full clone of a snapshot on ZFS":   {"full = true\nsnapshot = \"before\"", snapshotOn("local-zfs"), []string{"clone.snapshot", "no such clone", "ZFS"}},
		"one on LVM-thin":                     {"full = true\nsnapshot = \"before\"", snapshotOn("local-lvm"), nil},
		"a snapshot that is not there":        {"snapshot = \"befor\"", snapshotOn("local-lvm"), []string{"clone.snapshot", "has no snapshot \"befor\"", "Did you mean \"before\"", "proxmox_vm_snapshot"}},
		"a snapshot of a VM without any":      {"snapshot = \"before\"", with("scsi0", "local-zfs", ",size=1G"), []string{"clone.snapshot", "It has none"}},
		"a running VM with a TPM state":       {"full = true", running, []string{"clone.vmid", "VM 9100 runs and has a TPM state"}},
		"such a VM that is off":               {"full = true", with("tpmstate0", "local-zfs", ",size=4M,version=v2.0"), nil},
		"a VM with a device of its node": {"", func(_ *state.World, g *state.Guest) { g.Config["scsi1"] = "/dev/sdb,size=1G" },
			[]string{"clone.vmid", "scsi1 is a device of node pve1"}},
	} {
		for _, how := range []string{"new", "replacing another VM"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				block := func(clone string) string {
					return rig.VMBlock("node = \"pve1\"\nvmid = 400\nname = \"x\"\nprotection = false\nclone = {\n" + clone + "\n}\n")
				}
				w.Change(func(world *state.World) {
					g := &state.Guest{VMID: 9100, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "golden",
						"smbios1": "uuid=11111111-0000-0000-0000-000000000000"}}
					c.world(world, g)
					world.Guests[9100] = g
				})
				s := w.Session(t, rig.TokenNoSSH, block("vmid = 9000"))
				if how != "new" {
					rig.Must(t, s.Converge(t.Context()))
				}
				w.Sim.Advance(20e9)
				w.Reconfigure(t, s, rig.TokenNoSSH, block("vmid = 9100\n"+c.clone))
				pl, err := s.Plan(t.Context())
				if len(c.says) > 0 {
					rig.MustSay(t, err, c.says...)
					return
				}
				rig.Must(t, err)
				rig.Must(t, s.Apply(t.Context(), pl))
			})
		}
	}
}

// TestReplacementWhoseSourceIsLostSinceThePlan: the destroy that begins a replacement looks for the source of the new VM once more.
// A nightly build gives the template's name to another VM, an administrator removes it, or its node goes down between plan and apply.
func TestReplacementWhoseSourceIsLostSinceThePlan(t *testing.T) {
	t.Parallel()
	rebuilt := func(w *state.World) {
		next := *w.Guests[9000]
		next.VMID, next.Config = 9001, map[string]string{"name": w.Guests[9000].Config["name"], "template": "1"}
		w.Guests[9001], w.Guests[9000].Config["name"] = &next, "last-night"
	}
	for name, c := range map[string]struct {
		clone string
		since func(*state.World)
		says  string // "" where the replacement comes
	}{
		"its name is another's":  {`name = "template"`, rebuilt, "by now clone.name names VM 9001"},
		"it was changed":         {`vmid = 9000`, rebuilt, "its configuration was changed since"},
		"it is gone":             {`vmid = 9000`, func(w *state.World) { delete(w.Guests, 9000) }, "the source cannot be read"},
		"its node is off":        {`vmid = 9000`, func(w *state.World) { w.Guests[9000].Node, w.Nodes["pve2"].Online = "pve2", false }, "the source cannot be read"},
		"nothing has happened":   {`name = "template"`, func(*state.World) {}, ""},
		"it has a detached disk": {`name = "template"`, func(w *state.World) { w.Guests[9000].Config["unused3"] = "local-zfs:vm-9000-disk-7" }, ""},
		"it has other tags":      {`name = "template"`, func(w *state.World) { w.Guests[9000].Config["tags"] = "new" }, "its configuration was changed since"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nnode = \"pve1\"\nprotection = false\nclone = { "+c.clone+" }\n"))
			rig.Must(t, s.Converge(t.Context()))
			s.Taint(rig.VMAddress, true)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			made := rig.GuestOf(w, 400).Config["smbios1"]
			w.Change(c.since)
			w.Sim.Advance(20e9) // pvestatd has seen it
			err = s.Apply(t.Context(), pl)
			stays := rig.GuestOf(w, 400).Config["smbios1"] == made
			if (err != nil) != (c.says != "") || stays != (c.says != "") || c.says != "" && !strings.Contains(err.Error(), c.says) {
				t.Errorf("stays: %t, %v", stays, err)
			}
		})
	}
}
