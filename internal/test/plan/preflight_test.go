package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// fleet is many VMs, each with a disk and with memory.
func fleet(count int, node, storage, size string, memory int) string {
	return fmt.Sprintf(`
resource "proxmox_vm" "many" {
  count  = %d
  name   = "vm-${count.index}"
  node   = %s
  memory = { size = %d }
  disks  = { scsi0 = { storage = %q, size = %q } }
}
`, count, node, memory, storage, size)
}

// planned are the warnings of a plan, as "summary: detail", and its error.
func planned(t *testing.T, s *terraformtest.Session) ([]string, error) {
	t.Helper()
	_, err := s.Plan(t.Context())
	var said []string
	for _, d := range s.Diagnostics().Warnings() {
		said = append(said, d.Summary+": "+d.Detail)
	}
	return said, err
}

const spread = `"pve${count.index % 2 + 1}"`

// TestPreflightAddsUp: VMs that fit one by one and not together bring one warning for each storage and node that has not enough, whatever identity
// asks, one at a time or ten; those that fit bring none.
func TestPreflightAddsUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		want   []string // begins … and has
	}{
		"50 that fit":             {fleet(50, `"pve1"`, "local-zfs", "8G", 512), nil},
		"50 that do not":          {fleet(50, `"pve1"`, "local-zfs", "12G", 512), []string{"Storage local-zfs may run out of space: … 500.0 GiB are free"}},
		"on two nodes they fit":   {fleet(50, spread, "local-zfs", "12G", 512), nil},
		"a storage that is one":   {fleet(50, spread, "shared-nfs", "24G", 512), []string{"Storage shared-nfs may run out of space: …42 VMs whose"}},
		"on both nodes too many":  {fleet(50, spread, "local-zfs", "24G", 512), []string{"Storage local-zfs…21 VMs", "Storage local-zfs…21 VMs"}},
		"memory of one node":      {fleet(5, `"pve1"`, "local-zfs", "1G", 16<<10), []string{"Node pve1 may run out of memory: …starts 4 VMs with 64.0 GiB"}},
		"memory of both":          {fleet(4, spread, "local-zfs", "1G", 30<<10), []string{"Node pve1 may…2 VMs with 60.0", "Node pve2 may…2 VMs"}},
		"memory of stopped VMs":   {strings.Replace(fleet(5, `"pve1"`, "local-zfs", "1G", 16<<10), "name ", "power_state = \"stopped\"\n  name ", 1), nil},
		"linked clones take none": {clones("clone = { vmid = 9000 }"), nil},
		"full clones take all":    {clones("clone = { vmid = 9000, full = true, storage = \"local2\" }"), []string{"Storage local2 may run out of"}},
		"what they grow by":       {clones("clone = { vmid = 9000 }\n  disks = { scsi0 = { size = \"60G\" } }"), []string{"Storage local-zfs may run out of"}},
	} {
		for _, parallelism := range []int{1, 10} {
			t.Run(fmt.Sprint(name, " ", parallelism), func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				s := w.Session(t, rig.TokenNoSSH, c.config)
				s.Parallelism = parallelism
				said, err := planned(t, s)
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(said)
				if !slices.EqualFunc(said, c.want, func(has, want string) bool {
					begin, rest, _ := strings.Cut(want, "…")
					return strings.HasPrefix(has, begin) && strings.Contains(has, rest)
				}) {
					t.Errorf("said %q, want %q", said, c.want)
				}
				if used := rig.BudgetedRequests(w.Sim.Ops()); len(used) > 3 {
					t.Errorf("%d requests: %s", len(used), used)
				}
			})
		}
	}
}

// clones are many of the template.
func clones(source string) string {
	return "resource \"proxmox_vm\" \"many\" {\n  count = 150\n  name = \"vm-${count.index}\"\n  node = \"pve1\"\n  power_state = \"stopped\"\n  " +
		source + "\n}\n"
}

// TestSpaceWarningIsOnTheLargestDisk: a storage that runs out of space is named at the disk that takes most of it.
func TestSpaceWarningIsOnTheLargestDisk(t *testing.T) {
	t.Parallel()
	block := func(size string) string {
		return rig.NodeVMBlock(fmt.Sprintf("power_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = %q }, "+
			"scsi1 = { storage = \"local-zfs\", size = \"600G\" } }\n", size))
	}
	s := rig.NewWorld(t).Session(t, rig.TokenNoSSH, block("20G"))
	_, err := s.Plan(t.Context())
	rig.Must(t, err)
	if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, "1 VM whose new disks may take 620.0 GiB") ||
		!strings.Contains(said, `disks["scsi1"].storage`) {
		t.Errorf("said %s", said)
	}
}

// TestPreflightCountsAVMOnce: a replaced VM and a changed VM count only with the difference to their present size. The apply that
// follows counts nothing twice, and afterwards the plan is empty and silent.
func TestPreflightCountsAVMOnce(t *testing.T) {
	t.Parallel()
	config := func(size string, vmid int) string {
		return fmt.Sprintf("resource \"proxmox_vm\" \"one\" {\n  count = 3\n  name = \"vm-${count.index}\"\n  node = \"pve1\"\n  vmid = %d + "+
			"count.index\n  power_state = \"stopped\"\n  disks = { scsi0 = { size = %q, storage = \"local-zfs\" } }\n}\n", vmid, size)
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, config("100G", 300))
	if err := s.Converge(t.Context()); err != nil || len(s.Diagnostics()) > 0 {
		t.Fatal(err, s.Diagnostics())
	}
	w.Sim.Advance(20e9)
	for _, c := range []struct {
		config string
		want   string // of the one warning; "": none
	}{
		{config("160G", 300), ""},
		{config("170G", 300), "3 VMs whose new disks may take 210.0 GiB of it, and 190.0 GiB"},
		{config("60G", 400), ""},
		{config("80G", 400), "3 VMs whose new disks may take 240.0 GiB of it, and 190.0 GiB"},
	} {
		w.Reconfigure(t, s, rig.TokenNoSSH, c.config)
		for range 2 {
			said, err := planned(t, s)
			said = slices.DeleteFunc(said, func(text string) bool { return !strings.Contains(text, "run out of space") })
			if err != nil || len(said) > 1 || (len(said) == 1) != (c.want != "") || !strings.Contains(strings.Join(said, ""), c.want) {
				t.Errorf("%s: said %q, %v, want %q", c.config, said, err, c.want)
			}
		}
	}
}

// TestPreflightMayNotLook: an identity that may see no figures gets no message about them and no refusal.
func TestPreflightMayNotLook(t *testing.T) {
	t.Parallel()
	for name, hidden := range map[string][]string{"storages": {"Datastore.Audit"}, "nodes": {"Sys.Audit"}, "both": {"Datastore.Audit", "Sys.Audit"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}})
			w.Change(func(world *state.World) {
				role := world.Roles["TerraformProvider"]
				world.Roles["TerraformProvider"] = slices.DeleteFunc(slices.Clone(role), func(p string) bool { return slices.Contains(hidden, p) })
				world.Nodes["pve3"].Online = false
			})
			said, err := planned(t, w.Session(t, rig.TokenNoSSH, fleet(3, spread, "local-zfs", "1000G", 1<<20)))
			said = slices.DeleteFunc(said, func(text string) bool {
				return slices.Contains(hidden, "Datastore.Audit") != strings.HasPrefix(text, "Storage ") &&
					slices.Contains(hidden, "Sys.Audit") != strings.HasPrefix(text, "Node ")
			})
			if err != nil || len(said) > 0 {
				t.Errorf("said %q, %v", said, err)
			}
		})
	}
}

// TestPreflightFaultyClusters: the plan reports each defect of a cluster, as an error where the apply certainly fails and as a warning where
// it may, and the apply of a plan with warnings alone works. Nothing but reads is sent for a plan that is refused.
func TestPreflightFaultyClusters(t *testing.T) {
	t.Parallel()
	on := func(storage string) string { return fleet(1, `"pve1"`, storage, "10G", 512) }
	for name, c := range map[string]struct {
		happens func(*state.World)
		config  string
		refused string
		warned  string
	}{
		"maintenance":       {func(w *state.World) { w.Nodes["pve1"].Maintenance = true }, on("local-zfs"), "", "Node pve1 is in maintenance"},
		"elsewhere":         {func(w *state.World) { w.Nodes["pve2"].Maintenance = true }, on("local-zfs"), "", ""},
		"pvestatd hangs":    {func(w *state.World) { w.Nodes["pve1"].Silent = true }, on("local-zfs"), "", "Node pve1 does not report"},
		"one node lost":     {func(w *state.World) { w.Nodes["pve3"].Online = false }, on("local-zfs"), "", ""},
		"two of three lost": {func(w *state.World) { w.Nodes["pve2"].Online, w.Nodes["pve3"].Online = false, false }, on("local-zfs"), "no quorum", ""},
		"node renamed": {renamed("pve3", "pve9"),
			fleet(1, `"pve3"`, "local-zfs", "1G", 512), "Unknown node \"pve3\"", ""},
		"NFS is gone":             {func(w *state.World) { w.Storages["shared-nfs"].Offline = true }, on("shared-nfs"), "does not work on node pve1", ""},
		"an unused NFS":           {func(w *state.World) { w.Storages["shared-nfs"].Offline = true }, on("local-zfs"), "", ""},
		"disabled":                {func(w *state.World) { w.Storages["local2"].Disabled = true }, on("local2"), "Unknown storage \"local2\"", ""},
		"not on the node":         {func(w *state.World) { w.Storages["local2"].Nodes = []string{"pve2"} }, on("local2"), "is not on node pve1", ""},
		"not for disks":           {func(w *state.World) { w.Storages["local2"].Content = []string{"iso"} }, on("local2"), "is not for disks", ""},
		"quota of nothing":        {func(w *state.World) { w.Storages["local2"].Total = 0 }, on("local2"), "", ""},
		"a thin pool given twice": {func(w *state.World) { w.Storages["local-lvm"].Total = 5 << 30 }, on("local-lvm"), "", "Storage local-lvm may run out of space"},
		"a small volume group":    {thick(5 << 30), on("vg0"), "The disks are larger than storage vg0", ""},
		"a full volume group":     {filled(11 << 30), on("vg0"), "", "so the apply fails where nothing is freed before"},
		"root sees the same": {func(w *state.World) { w.Nodes["pve1"].Maintenance = true }, on("local-zfs"), "",
			"Node pve1 is in maintenance"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}})
			w.Change(c.happens)
			w.Mark()
			as := rig.TokenNoSSH
			if strings.HasPrefix(name, "root") {
				as = rig.RootTicket
			}
			s := w.Session(t, as, c.config)
			said, err := planned(t, s)
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Fatalf("refused: %v, want %q", err, c.refused)
			}
			if len(said) > 1 || (len(said) == 1) != (c.warned != "") || !strings.Contains(strings.Join(said, ""), c.warned) {
				t.Errorf("warned: %q, want %q", said, c.warned)
			}
			if c.refused != "" {
				w.MustBeClean(t)
				return
			}
			if err := s.Run(t.Context()); err != nil && !strings.Contains(c.warned, "the apply fails") {
				t.Errorf("the apply: %v", err)
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			w.MustBeClean(t)
		})
	}
}

// renamed gives a node another name, with everything on it.
func renamed(was, is string) func(*state.World) {
	return func(w *state.World) {
		w.Nodes[is] = w.Nodes[was]
		w.Nodes[is].Name = is
		delete(w.Nodes, was)
		for key, volume := range maps.Clone(w.Volumes) {
			if key.Node == was {
				delete(w.Volumes, key)
				volume.Node = is
				w.Put(volume)
			}
		}
	}
}

// thick adds a volume group, filled one in which something is.
func thick(total int64) func(*state.World) {
	return func(w *state.World) {
		w.Storages["vg0"] = &state.Storage{ID: "vg0", Type: "lvm", Path: "vg0", Content: []string{"images"}, Total: total}
	}
}

func filled(total int64) func(*state.World) {
	return func(w *state.World) {
		thick(total)(w)
		w.Put(&state.Volume{Storage: "vg0", Node: "pve1", Name: "vm-8000-disk-9", VMID: 8000, Content: "images", Format: "raw", Size: total - 1<<30})
	}
}

// TestPreflightGrant: the commands that a refused plan names, done, are enough for the apply, for a user's token of either kind and
// with a pool: nothing that was held before is lost by them.
func TestPreflightGrant(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"VM.Allocate", "VM.Audit", "VM.PowerMgmt", "VM.Config.CPU", "VM.Config.Options", "Datastore.AllocateSpace"} {
		for _, pool := range []string{"", "  pool = \"web\"\n"} {
			t.Run(missing+pool, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				w.Change(func(world *state.World) {
					role := world.Roles["TerraformProvider"]
					world.Roles["TerraformProvider"] = slices.DeleteFunc(slices.Clone(role), func(p string) bool { return p == missing })
				})
				s := w.Session(t, rig.TokenNoSSH, strings.Replace(fleet(2, `"pve1"`, "local-zfs", "1G", 512), "  memory",
					pool+"  cpu = { cores = 2 }\n  memory", 1))
				_, err := planned(t, s)
				if err == nil || !strings.Contains(err.Error(), "It takes "+missing+" on ") {
					t.Fatalf("the plan: %v", err)
				}
				if ran, err := (accessDatabase{w}).obey(t.Context(), err.Error()); err != nil || ran == 0 {
					t.Fatalf("%d commands ran: %v", ran, err)
				}
				if err := s.Converge(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := s.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestPreflightNarrowPaths: entries that are enough for PVE, on whatever paths, are enough for the plan; what is missing on one of them is
// found, also where an entry above has it.
func TestPreflightNarrowPaths(t *testing.T) {
	t.Parallel()
	const options = "VM.Allocate VM.Audit VM.PowerMgmt VM.Config.CPU VM.Config.Memory VM.Config.Options VM.Config.Network VM.Config.HWType VM.Config.Disk"
	const inPool = options + " Pool.Audit" // else PVE does not show that the VM is in the pool
	scratch := func(more string) string {
		return "resource \"proxmox_vm\" \"one\" {\n  name = \"one\"\n  node = \"pve1\"\n  cpu = { cores = 2 }\n  disks = { scsi0 = { storage = " +
			"\"local-zfs\", size = \"1G\" } }\n" + more + "}\n"
	}
	storage := entry{"/storage/local-zfs", "Datastore.AllocateSpace Datastore.Audit", true}
	for name, c := range map[string]struct {
		entries []entry
		config  string
		refused string
	}{
		"the pool alone":                 {[]entry{{"/pool/web", inPool, true}, storage}, scratch("  pool = \"web\"\n"), ""},
		"the pool, not below":            {[]entry{{"/pool/web", inPool, false}, storage}, scratch("  pool = \"web\"\n"), ""},
		"a pool that is not seen":        {[]entry{{"/pool/web", options, true}, storage}, scratch("  pool = \"web\"\n"), "Pool.Audit on /pool/web"},
		"a VM that is not there":         {[]entry{{"/vms/300", options, false}, storage}, scratch("  vmid = 300\n"), ""},
		"another VM":                     {[]entry{{"/vms/301", options, false}, storage}, scratch("  vmid = 300\n"), "VM.Allocate on /vms/300"},
		"all VMs":                        {[]entry{{"/vms", options, true}, storage}, scratch(""), ""},
		"the path of all VMs alone":      {[]entry{{"/vms", options, false}, storage}, scratch(""), "VM.Allocate on /vms"},
		"replaced by less":               {[]entry{{"/", options, true}, {"/vms", "VM.Audit", true}, storage}, scratch(""), "VM.Allocate on /vms"},
		"replaced on the way only":       {[]entry{{"/", options, true}, {"/vms", "VM.Audit", false}, storage}, scratch(""), ""},
		"all but the storage":            {[]entry{{"/vms", options, true}, {"/storage", "Datastore.Audit", true}}, scratch(""), "Datastore.AllocateSpace on /storage/local-zfs"},
		"another storage":                {[]entry{{"/vms", options, true}, {"/storage/local-lvm", "Datastore.AllocateSpace", true}}, scratch(""), "Datastore.AllocateSpace on /storage/local-zfs"},
		"a storage that is not seen":     {[]entry{{"/vms", options, true}, {"/storage/local-zfs", "Datastore.AllocateSpace", true}, {"/storage/local", "Datastore.Audit", true}}, scratch(""), ""},
		"an id with an entry of its own": {[]entry{{"/vms/100", options, true}, storage}, scratch(""), ""},
		"a clone without its bridge": {[]entry{{"/vms/9000", "VM.Clone VM.Audit", true}, {"/pool/web", inPool, true}, storage},
			"resource \"proxmox_vm\" \"one\" {\n  node = \"pve1\"\n  pool = \"web\"\n  protection = false\n  clone = { vmid = 9000 }\n}\n", "SDN.Use on /sdn/zones/localnetwork/vmbr0"},
		"a clone": {[]entry{{"/vms/9000", "VM.Clone VM.Audit", true}, {"/pool/web", inPool, true}, storage, {"/sdn/zones/localnetwork/vmbr0", "SDN.Use", true}},
			"resource \"proxmox_vm\" \"one\" {\n  node = \"pve1\"\n  pool = \"web\"\n  protection = false\n  clone = { vmid = 9000 }\n}\n", ""},
		"a clone of what may not be": {[]entry{{"/vms/9000", "VM.Audit", true}, {"/pool/web", inPool, true}, storage},
			"resource \"proxmox_vm\" \"one\" {\n  node = \"pve1\"\n  pool = \"web\"\n  protection = false\n  clone = { vmid = 9000 }\n}\n", "VM.Clone on /vms/9000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			token, _, _ := strings.Cut(w.Sim.Credentials().Token, "=")
			user, _, _ := strings.Cut(token, "!")
			w.Change(func(world *state.World) {
				world.ACL = nil
				for i, e := range c.entries {
					role := fmt.Sprint("role", i)
					world.Roles[role] = strings.Fields(e.privileges)
					for _, who := range []string{user, token} {
						world.ACL = append(world.ACL, state.ACLEntry{Path: e.path, Subject: who, Role: role, Propagate: e.below})
					}
				}
			})
			w.Mark()
			s := w.Session(t, rig.TokenNoSSH, c.config)
			_, err := planned(t, s)
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), "It takes "+c.refused) {
				t.Fatalf("the plan: %v, want %q", err, c.refused)
			}
			if c.refused != "" {
				return
			}
			if err := s.Run(t.Context()); err != nil {
				t.Errorf("the apply: %v", err)
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			for _, line := range w.Leaks() {
				if !strings.HasPrefix(line, "gone: acl /vms/") { // PVE removes the VM's entries with it
					t.Error(line)
				}
			}
		})
	}
}

// entry is one of an access control list.
type entry struct {
	path, privileges string
	below            bool
}

// TestPreflightOfReplacement: the doubts about the VM that takes the place of another one are in the plan that replaces it.
func TestPreflightOfReplacement(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	config := func(vmid int, bridge string) string {
		return fmt.Sprintf("resource \"proxmox_vm\" \"one\" {\n  vmid = %d\n  name = \"one\"\n  node = \"pve1\"\n"+
			"  networks = { net0 = { bridge = %q } }\n}\n", vmid, bridge)
	}
	s := w.Session(t, rig.TokenNoSSH, config(300, "vmbr0"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for bridge, want := range map[string]string{"vmbr0": "", "vmbr77": "Unknown bridge \"vmbr77\""} {
		if err := s.Configure(w.ProviderBlock(rig.TokenNoSSH), config(301, bridge)); err != nil {
			t.Fatal(err)
		}
		said, err := planned(t, s)
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(said, "\n"); !strings.Contains(all, want) || want == "" && strings.Contains(all, "bridge") {
			t.Errorf("%s: the plan says %q, want %q", bridge, all, want)
		}
	}
}
