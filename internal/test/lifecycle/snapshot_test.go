package lifecycle_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

func withSnapshot(vm, more string) string {
	return "resource \"proxmox_vm\" \"x\" {\n  node = \"pve1\"\n  vmid = 200\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n" + vm + "\n}\n" +
		"resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n  name = \"before\"\n" + more + "\n}\n"
}

// TestSnapshotLife takes a snapshot of a running VM with its memory, describes it again, imports it and removes it, and each plan after
// is empty.
func TestSnapshotLife(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), rig.NewWorld(t)
	w.Mark()
	s := w.Session(t, rig.TokenNoSSH, withSnapshot("", `description = "one"`+"\n  vmstate = true"))
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	snaps := rig.GuestOf(w, 200).Snaps
	if snaps["before"]["description"] != "one" || snaps["before"]["vmstate"] == "" {
		t.Fatalf("the snapshots are %v", snaps)
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, withSnapshot("", "vmstate = true"))
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	if got := rig.GuestOf(w, 200).Snaps["before"]["description"]; got != "" {
		t.Errorf("the description is %q", got)
	}
	taken := terraformtest.ShowValue(s.Attr("proxmox_vm_snapshot.s", "snaptime"))
	s.Forget("proxmox_vm_snapshot.s")
	w.Reconfigure(t, s, rig.TokenNoSSH, withSnapshot("", "")) // what was saved is kept where nothing is said of it
	if err := s.Import(ctx, "proxmox_vm_snapshot.s", "200/before"); err != nil {
		t.Fatal(err)
	}
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	if now := terraformtest.ShowValue(s.Attr("proxmox_vm_snapshot.s", "snaptime")); now != taken {
		t.Errorf("the snapshot of %s is one of %s after an import", taken, now)
	}
	if err := s.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestSnapshotDescribedSinceThePlan: a text that a third party has written since the plan stays, and the next plan shows it. One that is
// equal but for its Unicode form, which Terraform does not tell apart, is no other.
func TestSnapshotDescribedSinceThePlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was, now string
		stays    bool
	}{"another": {"one", "legal hold", true}, "none": {"one", "", true}, "the planned one": {"one", "two", false},
		"the same, decomposed": {"\u00e9t\u00e9", "e\u0301te\u0301", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, w := t.Context(), rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, withSnapshot("", fmt.Sprintf("description = %q", c.was)))
			if err := s.Converge(ctx); err != nil {
				t.Fatal(err)
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, withSnapshot("", `description = "two"`))
			plan, err := s.Plan(ctx)
			if err != nil {
				t.Fatal(err)
			}
			w.Change(func(world *state.World) { world.Guests[200].Snaps["before"]["description"] = c.now })
			err = s.Apply(ctx, plan)
			if is := rig.GuestOf(w, 200).Snaps["before"]["description"]; c.stays && is != c.now || !c.stays && is != "two" {
				t.Errorf("the description is %q", is)
			}
			if c.stays {
				rig.MustSay(t, err, "description of snapshot before of VM 200 has changed since the plan", `"one"`, strconv.Quote(c.now), "new plan")
			} else if err != nil {
				t.Error(err)
			}
			if err := s.Converge(ctx); err != nil {
				t.Error(err)
			}
			if is := rig.GuestOf(w, 200).Snaps["before"]["description"]; is != "two" {
				t.Errorf("after a new plan the description is %q", is)
			}
		})
	}
}

// TestSnapshotRefusals: what PVE would refuse, or do without a word, is told before anything is done.
func TestSnapshotRefusals(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, c := range map[string]struct{ vm, snapshot, want string }{
		"reserved":   {"", "", "PVE uses this name itself"},
		"stopped":    {`power_state = "stopped"`, "vmstate = true", "does not run, so it has no memory to save"},
		"template":   {`template = true` + "\n  power_state = \"stopped\"", "", "is a template, of which there are no snapshots"},
		"blank end":  {"", `description = "one\n"`, "PVE drops the white space at its end"},
		"no storage": {"", `description = ""`, "PVE does not store it"},
	} {
		w := rig.NewWorld(t)
		hcl := withSnapshot(c.vm, c.snapshot)
		if name == "reserved" {
			hcl = strings.Replace(hcl, `"before"`, `"current"`, 1)
		}
		s := w.Session(t, rig.TokenNoSSH, hcl)
		rig.MustRefuse(t, s.Run(ctx), []string{c.want})
	}
}

// TestSnapshotOfAnother: a name that is taken is refused with the way to take it over; one that was taken again under the name of ours
// leaves the state, and is neither taken for ours nor removed.
func TestSnapshotOfAnother(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, withSnapshot("", ""))
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) { world.Guests[200].Snaps["before"]["snaptime"] = "77" })
	rig.MustRefuse(t, s.Run(ctx), []string{"has a snapshot before already", "its import id is 200/before"})
	if len(rig.GuestOf(w, 200).Snaps) != 1 {
		t.Errorf("the snapshots are %v", rig.GuestOf(w, 200).Snaps)
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintln(strings.Split(withSnapshot("", ""), "resource \"proxmox_vm_snapshot\"")[0]))
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if len(rig.GuestOf(w, 200).Snaps) != 1 {
		t.Errorf("the third party's snapshot is gone")
	}
}

// TestSnapshotRollbackActions takes a VM back: what is taken back is told, and is taken back; another VM, or another snapshot of the
// name, is not touched.
func TestSnapshotRollbackActions(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, withSnapshot("cpu = { cores = 1 }", ""))
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	later := withSnapshot("cpu = { cores = 2 }\n  name = \"later\"", "")
	later = strings.Replace(later, `size = "1G" }`, `size = "1G" }, scsi5 = { storage = "local-zfs", size = "2G" }`, 1)
	w.Reconfigure(t, s, rig.TokenNoSSH, later)
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	const typ, named = "proxmox_vm_snapshot_rollback", "vmid = 200\nname = \"before\"\n"
	cut := func() int { return len(w.Sim.PowerOffs()) }
	for config, want := range map[string]string{
		named + "uuid = \"00000000-0000-0000-0000-000000000000\"": "VM 200 is another VM",
		named + "snaptime = 77":                                   "Snapshot before of VM 200 is another one",
		"vmid = 200\nname = \"after\"":                            "VM 200 on node pve1 has no snapshot after",
		"vmid = 9000\nname = \"before\"":                          "template",
		named + "node = \"pve2\"":                                 "VM 200 is on another node",
	} {
		off := cut()
		if _, err := rig.Invoke(t, s, typ, config, nil); err == nil || !strings.Contains(err.Error(), want) || cut() != off {
			t.Errorf("%s: %v, want %q; power-offs %d", config, err, want, cut()-off)
		}
	}
	ours := rig.GuestOf(w, 200).Config["smbios1"]
	_, err := rig.Invoke(t, s, typ, named+"uuid = proxmox_vm.x.uuid", func() {
		w.Change(func(world *state.World) {
			world.Guests[200].Config["smbios1"] = "uuid=99999999-0000-0000-0000-000000000000"
		})
	})
	if err == nil || rig.GuestOf(w, 200).Config["cores"] != "2" {
		t.Errorf("another VM since the plan: %v, %v", err, rig.GuestOf(w, 200).Config)
	}
	w.Change(func(world *state.World) { world.Guests[200].Config["smbios1"] = ours })
	w.ExpectPowerOffs(state.PowerRollback)
	told, err := rig.Invoke(t, s, typ, named+"uuid = proxmox_vm.x.uuid\nsnaptime = proxmox_vm_snapshot.s.snaptime\nstart = true", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Everything that VM 200 has written to its disks since", "The guest is cut off, and started again",
		"Options that change: cores, name", "Disks that came later are detached and kept as unusedN: scsi5", "VM 200 is as it was at"} {
		if !strings.Contains(told, want) {
			t.Errorf("told:\n%s\nwant %q", told, want)
		}
	}
	after := rig.GuestOf(w, 200)
	if after.Config["cores"] == "2" || after.Config["scsi5"] != "" || after.Config["unused0"] == "" || after.Running == nil {
		t.Errorf("the VM is %v, running %t", after.Config, after.Running != nil)
	}
	if plan, err := s.Plan(ctx); err != nil || plan.Empty() { // the configuration says otherwise, and the plan shows it
		t.Errorf("the plan is empty, %v", err)
	}
}

// TestCloneOfASnapshotOfThisApply: the plan of a clone has nothing against a snapshot that the same apply takes, against a source that it
// changes first, or against a value that it does not know.
func TestCloneOfASnapshotOfThisApply(t *testing.T) {
	t.Parallel()
	for name, clone := range map[string]string{
		"by its name":        "vmid = proxmox_vm.x.vmid\n full = true\n snapshot = proxmox_vm_snapshot.s.name",
		"by an unknown name": "vmid = 200\n full = true\n snapshot = proxmox_vm_snapshot.s.snaptime > 0 ? \"before\" : \"after\"",
		"full or linked":     "vmid = 9000\n full = proxmox_vm_snapshot.s.snaptime > 0\n storage = \"local-lvm\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			source, snapshot, _ := strings.Cut(strings.ReplaceAll(withSnapshot("", ""), "local-zfs", "local-lvm"), "resource \"proxmox_vm_s")
			s := w.Session(t, rig.TokenNoSSH, source)
			rig.Must(t, s.Converge(t.Context()))
			w.Sim.Advance(20e9)
			w.Reconfigure(t, s, rig.TokenNoSSH, source+"resource \"proxmox_vm_s"+snapshot+
				"resource \"proxmox_vm\" \"copy\" {\n node = \"pve1\"\n vmid = 400\n clone = {\n"+clone+"\n}\n}\n")
			rig.Must(t, s.Converge(t.Context()))
		})
	}
}

// TestSnapshotReplacedBesideAChangeThatFails: Terraform removes a snapshot that gets another name before it changes the VM; with
// create_before_destroy it stays until the new one is taken, which the schema says.
func TestSnapshotReplacedBesideAChangeThatFails(t *testing.T) {
	for first, stays := range map[string]bool{"": false, "lifecycle { create_before_destroy = true }\n": true} {
		w := rig.NewWorld(t)
		config := func(cores int, name string) string {
			return rig.VMBlock(fmt.Sprintf("vmid = 400\nnode = \"pve1\"\npower_state = \"stopped\"\ncpu = { cores = %d }\n", cores)) +
				fmt.Sprintf("resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = %s.vmid\n  name = %q\n%s}\n", rig.VMAddress, name, first)
		}
		s := w.Session(t, rig.TokenNoSSH, config(1, "v1"))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.TokenNoSSH, config(2, "v2"))
		var all []fault.Rule
		for _, method := range []string{http.MethodPut, http.MethodPost} {
			all = append(all, fault.Rule{Match: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before,
				Status: 500, Reason: "no", Times: -1})
		}
		w.Sim.SetFaults(all)
		if err := s.Run(t.Context()); err == nil {
			t.Fatal("the VM was changed")
		}
		if has := rig.GuestOf(w, 400).Snaps["v1"] != nil; has != stays {
			t.Errorf("%q: the old snapshot is there: %t", first, has)
		}
	}
}

// TestSnapshotsOfACountThatLosesOne: the snapshots after the one that left the list would get the names that the next ones have.
// Terraform orders their removals by no rule, so the plan refuses each, says the way out, and no snapshot is touched. The last one of
// a list goes without a word.
func TestSnapshotsOfACountThatLosesOne(t *testing.T) {
	t.Parallel()
	counted := func(names string) string {
		return "resource \"proxmox_vm_snapshot\" \"s\" {\n count = length(" + names + ")\n vmid = 200\n name = " + names + "[count.index]\n}\n"
	}
	for name, c := range map[string]struct {
		names   string
		refused []string
	}{
		"the middle one":     {`["s-a", "s-c"]`, []string{"s-c"}},
		"the first":          {`["s-b", "s-c"]`, []string{"s-b", "s-c"}},
		"the last":           {`["s-a", "s-b"]`, nil},
		"a swap":             {`["s-b", "s-a", "s-c"]`, []string{"s-b", "s-a"}},
		"one's that stays":   {`["s-a", "s-c", "s-c"]`, []string{"s-c"}},
		"a third party's":    {`["s-a", "theirs"]`, []string{"theirs"}},
		"a name that is new": {`["s-a", "s-n", "s-c"]`, nil},
	} {
		for _, opts := range [][]terraformtest.PlanOption{nil, {terraformtest.WithoutRefresh()}} {
			t.Run(fmt.Sprint(name, len(opts)), func(t *testing.T) {
				inTime(t, func(t *testing.T, w *rig.World) {
					vm := "resource \"proxmox_vm\" \"x\" {\n  node = \"pve1\"\n  vmid = 200\n  power_state = \"stopped\"\n  " + rig.OneDisk + "\n}\n"
					s := w.Session(t, rig.TokenNoSSH, vm)
					rig.Must(t, s.Run(t.Context()))
					w.Reconfigure(t, s, rig.TokenNoSSH, vm+counted(`["s-a", "s-b", "s-c"]`))
					rig.Must(t, s.Converge(t.Context()))
					w.Change(func(world *state.World) {
						world.Guests[200].Snaps["theirs"] = map[string]string{"snaptime": "1700000000"}
					})
					w.Reconfigure(t, s, rig.TokenNoSSH, vm+counted(c.names))
					pl, err := s.Plan(t.Context(), opts...)
					if len(c.refused) == 0 {
						rig.Must(t, err)
						rig.Must(t, s.Apply(t.Context(), pl))
						rig.Must(t, s.Converge(t.Context()))
						if had, want := len(rig.GuestOf(w, 200).Snaps), strings.Count(c.names, ",")+2; had != want {
							t.Errorf("%d snapshots instead of %d", had, want)
						}
						return
					}
					said := fmt.Sprint(s.Diagnostics())
					rig.MustSayAll(t, said, "for_each", "terraform state mv", "none would be left")
					for _, name := range c.refused {
						rig.MustSay(t, err, "has a snapshot "+name+" already")
					}
					if strings.Contains(said, "import id") {
						t.Errorf("the plan advises to import what may be in state: %s", said)
					}
					if had := len(rig.GuestOf(w, 200).Snaps); had != 4 {
						t.Errorf("%d snapshots instead of 4", had)
					}
				})
			})
		}
	}
}

// TestRemovalOfTheLatestSnapshotOfATPMState: PVE refuses it while the guest runs (qemu-server API2/Qemu.pm,
// assert_tpm_snapshot_delete_possible). A run that stops or destroys the VM removes the snapshot first, since that depends on the VM
// (terraform internal/terraform, transform_destroy_edge.go), so the plan warns there, too.
func TestRemovalOfTheLatestSnapshotOfATPMState(t *testing.T) {
	t.Parallel()
	const off = "power_state = \"stopped\""
	vm := func(more string) string {
		block, _, _ := strings.Cut(withSnapshot(more, ""), "resource \"proxmox_vm_snapshot\"")
		return block
	}
	for name, c := range map[string]struct {
		before, after string
		refused       bool
	}{
		"alone":                   {vm(""), vm(""), true},
		"with the VM's stop":      {vm(""), vm(off), true},
		"with the VM":             {vm(""), "", true},
		"of a guest that is off":  {vm(off), vm(off), false},
		"of one that is off, all": {vm(off), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, c.before)
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				local, g := world.Storages["local"], world.Guests[200]
				local.Content, local.Options = append(local.Content, "images"), map[string]string{"snapshot-as-volume-chain": "1"}
				v := &state.Volume{Storage: "local", Node: "pve1", Name: "200/vm-200-disk-9.qcow2", VMID: 200, Content: "images",
					Format: "qcow2", Size: 4 << 20}
				world.Put(v)
				g.Config["tpmstate0"] = v.Volid() + ",size=4M,version=v2.0"
			})
			w.Reconfigure(t, s, rig.RootTicket, c.before+strings.TrimPrefix(withSnapshot("", ""), vm("")))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.RootTicket, c.after)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			if said := s.Diagnostics().String(); strings.Contains(said, "cannot be removed while the guest runs") != c.refused {
				t.Errorf("the plan says: %s", said)
			}
			if err := s.Apply(t.Context(), pl); !c.refused {
				rig.Must(t, err)
			} else {
				rig.MustSay(t, err, "top-most snapshot of TPM state", "in an apply of its own")
			}
		})
	}
}
