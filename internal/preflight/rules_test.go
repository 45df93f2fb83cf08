package preflight

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestDocumented: the page of the documentation has the table, word for word.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), Markdown()) {
		t.Errorf("docs/design/plan.md does not have:\n%s", Markdown())
	}
}

// ruleOf is the rule that says a summary, by its place in the table: the one with most words of its own; -1 if there is
// none.
func ruleOf(f *guest.FieldError, severity Severity) int {
	found, words := -1, 0
	for i, r := range Rules() {
		parts := strings.Split(r.Summary, "…")
		for n := range parts {
			parts[n] = regexp.QuoteMeta(parts[n])
		}
		if r.Severity == severity && regexp.MustCompile("^"+strings.Join(parts, ".+")+"$").MatchString(f.Summary) {
			if own := len(strings.Join(parts, "")); own > words {
				found, words = i, own
			}
		}
	}
	return found
}

// disks are of one size each.
func disks(storage string, sizes ...int64) vm.Spec {
	var s vm.Spec
	s.Disks = map[string]vm.Disk{}
	for i, gib := range sizes {
		s.Disks["scsi"+string(rune('0'+i))] = vm.Disk{Storage: storage, Size: to(gib << 30)}
	}
	return s
}

// named are volumes that slots get by their names: a local one, a shared one, and one of another VM.
var named = map[string]string{"scsi5": "local-zfs:vm-8000-disk-2", "scsi6": "shared-nfs:8000/vm-8000-disk-1.raw",
	"scsi7": "local-zfs:vm-300-disk-0"}

type one struct {
	happens func(*world)
	request Request
}

// cases has a plan for each rule that it breaks, by the beginning of the message.
func cases() map[string]one {
	all := casesOfVMs()
	maps.Copy(all, casesOfDevices())
	return all
}

func casesOfDevices() map[string]one {
	nic := vm.NIC{Model: "virtio", NICOptions: vm.NICOptions{Bridge: to("vmbr1"), Tag: to(int64(7))}}
	return map[string]one{
		"VM 8000 is paused": {paused, Request{Removing: true, ID: 8000, Stopped: true}},
		"PVE may not plug net0 into bridge vmbr1": {func(w *world) {
			w.change(func(w *state.World) { w.Nodes["pve1"].Isolated = []string{"vmbr1"} })
		}, Request{Creating: true, Node: "pve1",
			Planned: vm.Spec{Networks: map[string]vm.NIC{"net0": nic}}}},
		"local-zfs:vm-300-disk-0 cannot be copied while": {func(w *world) { w.change(heldInUse) },
			Request{Creating: true, Node: "pve1", Needs: []Need{copyOfHeld}}},
		"local-zfs:vm-300-disk-0 may be copied while": {func(w *world) { w.change(heldInUse) }, Request{Node: "pve1", Needs: []Need{copyOfHeld},
			Changes: func(int) bool { return true }}},
		"Mapping gpu has no entry for node": {func(w *world) {
			w.change(func(w *state.World) {
				w.Mappings = []*state.Mapping{{Kind: "pci", ID: "gpu", Nodes: []string{"pve2", "pve3"}}}
			})
		}, Request{Creating: true, Node: "pve1", Needs: []Need{{Path: "pci.hostpci0.mapping", Kind: PCIMapping, Value: "gpu"}}}},
	}
}

func casesOfVMs() map[string]one {
	alter := func(f func(*state.World)) func(*world) { return func(w *world) { w.change(f) } }
	fails := func(path, reason string, status int) func(*world) {
		return func(w *world) {
			w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: path}, Phase: fault.Before, Times: -1, Status: status,
				Reason: reason}})
		}
	}
	made := func(r Request) Request { r.Creating = true; return r }
	here := func(r Request) Request { r.Node = "pve1"; return made(r) }
	golden := &guest.Clone{VMID: 9000}
	const lvm, archive = "vg0", "local:backup/vzdump-qemu-8000-2026_01_01-00_00_00.vma.zst"
	return map[string]one{
		"Cannot look at the cluster": {fails("/cluster/resources", "no luck", 500), here(Request{})},
		"The cluster has no quorum": {alter(func(w *state.World) {
			w.Nodes["pve3"], w.Nodes["pve4"], w.Nodes["pve5"] = &state.Node{Name: "pve3"}, &state.Node{Name: "pve4"},
				&state.Node{Name: "pve5"}
		}), here(Request{})},
		"Unknown node":                {nil, made(Request{Node: "pve9"})},
		"Node pve2 is not online":     {alter(func(w *state.World) { w.Nodes["pve2"].Online = false }), made(Request{Node: "pve2"})},
		"None of the nodes":           {nil, made(Request{Nodes: []string{"pve8", "pve9"}})},
		"No node given":               {nil, made(Request{})},
		"Node pve1 does not report":   {alter(func(w *state.World) { w.Nodes["pve1"].Silent = true }), here(Request{})},
		"Node pve1 is in maintenance": {alter(func(w *state.World) { w.Nodes["pve1"].Maintenance = true }), here(Request{})},
		"Node pve1 has":               {nil, here(Request{CPUs: 1000})},
		"Node pve1 may run out of memory": {nil, here(Request{Started: true,
			Planned: vm.Spec{Memory: vm.Memory{Size: to(int64(1 << 30))}}})},
		"VMID 8000 is taken":               {nil, here(Request{VMID: 8000})},
		"VMID 8000 is taken by a VM of th": {nil, here(Request{VMID: 8000, Name: "existing"})},
		"Volumes of another VM 100":        {alter(orphanOf100), here(Request{VMID: 100, Storages: map[string]string{"disks.scsi0.storage": "local-zfs"}})},
		"Volumes with VMID 100 may have": {alter(func(w *state.World) {
			w.Put(&state.Volume{Storage: "shared-nfs", Name: "100/vm-100-disk-3.raw", VMID: 100, Content: "images",
				Format: "raw", Size: 1 << 30})
		}), here(Request{VMID: 100, Orphans: true, Storages: map[string]string{"disks.scsi0.storage": "local-zfs"}})},
		"Volumes with VMID 100 will": {alter(orphanOf100),
			here(Request{VMID: 100, Orphans: true, Storages: map[string]string{"disks.scsi0.storage": "local-zfs"}})},
		"No VM to clone": {nil, here(Request{Clone: &guest.Clone{Name: "none"}})},
		"Several VMs to clone": {func(w *world) { w.change(twin); w.sim.Advance(time.Minute) },
			here(Request{Clone: &guest.Clone{Name: "existing"}})},
		"Another VM may be": {alter(twinAway), here(Request{Clone: &guest.Clone{Name: "existing"}})},
		"VM 8000 is not finished": {alter(func(w *state.World) {
			w.Guests[8000].Config["description"] = "Terraform is creating this VM. Do not touch it."
		}), here(Request{Clone: &guest.Clone{VMID: 8000}})},
		"VM 9000 cannot be cloned to node pve2": {nil, made(Request{Node: "pve2", Clone: golden})},
		"A linked clone stays":                  {nil, here(Request{Clone: &guest.Clone{VMID: 9000, Storage: "local-lvm"}})},
		"VM 9000 cannot be cloned like":         {nil, here(Request{Clone: golden, Planned: disks("", 1), Whole: true})},
		"The backup cannot be restored like": {alter(backup(archive)),
			here(Request{Restore: &guest.Restore{Archive: archive, Storage: "local-zfs"},
				Planned: disks("", 1), Whole: true})},
		"This identity may not read": {func(w *world) {
			w.change(backup(archive))
			w.change(func(all *state.World) {
				all.Roles["TerraformProvider"] = []string{"Datastore.Audit", "VM.Allocate", "VM.Audit"}
			})
		}, here(Request{Restore: &guest.Restore{Archive: archive, Storage: "local-zfs"}})},
		"The backup could not be read": {func(w *world) {
			w.change(backup(archive))
			fails("/nodes/{node}/vzdump/extractconfig", "no luck", 500)(w)
		}, here(Request{Restore: &guest.Restore{Archive: archive, Storage: "local-zfs"}})},
		"The disks in the backup were on storages": {alter(backup(archive)),
			here(Request{Restore: &guest.Restore{Archive: archive}})},
		"VM 8000 cannot be migrated to node pve2": {
			alter(func(w *state.World) { w.Guests[8000].Config["hostpci0"] = "0000:01:00" }),
			Request{Node: "pve2", ID: 8000, Moving: &Moving{From: "pve1"}}},
		"The volume for scsi5 of VM 8000 may have": {nil, Request{Node: "pve2", ID: 8000, Moving: &Moving{From: "pve1", Attached: named}}},
		"scsi1 of VM 8000 is a copy":               {nil, copyOf8000()},
		"HA moves other guests to node pve2 with VM 8000": {alter(func(w *state.World) {
			w.Profile = "9.2"
			for _, sid := range []string{"vm:8000", "ct:8100"} {
				w.HA[sid] = &state.HAResource{SID: sid, State: "stopped"}
			}
			w.HARules = map[string]map[string]string{"together": {"type": "resource-affinity", "affinity": "positive",
				"resources": "vm:8000,ct:8100"}}
		}), Request{Node: "pve2", ID: 8000, Moving: &Moving{From: "pve1"}}},
		"HA keeps VM 8000 off node pve2": {alter(func(w *state.World) {
			w.Profile = "9.2"
			for _, sid := range []string{"vm:8000", "ct:8100"} {
				w.HA[sid] = &state.HAResource{SID: sid, State: "stopped"}
			}
			w.Guests[8100].Node = "pve2"
			w.HARules = map[string]map[string]string{"apart": {"type": "resource-affinity", "affinity": "negative",
				"resources": "vm:8000,ct:8100"}}
		}), Request{Node: "pve2", ID: 8000, Moving: &Moving{From: "pve1"}}},
		"A snapshot keeps scsi0 of VM 8000 on its": {alter(snapshotOf8000),
			Request{Node: "pve1", ID: 8000, Storages: map[string]string{"disks.scsi0.storage": "local-lvm"},
				Prior: diskOf8000("local-zfs", theirs), Planned: diskOf8000("local-lvm", "")}},
		"A snapshot keeps scsi0 of VM 8000 on node pve1": {alter(snapshotOf8000),
			Request{Node: "pve2", ID: 8000, Running: true, Moving: &Moving{From: "pve1"},
				Prior: diskOf8000("local-zfs", theirs), Planned: diskOf8000("local-zfs", theirs)}},
		"VM 8000 is replicated and gets no": {alter(replicatedTo("pve2")), Request{Node: "pve1", ID: 8000, Planned: disks("local-lvm", 1),
			Storages: map[string]string{"disks.scsi0.storage": "local-lvm"}}},
		"VM 8000 is replicated, and is not migrated to node pve2": {alter(replicatedTo("pve3")), Request{Node: "pve2", ID: 8000, Running: true, Moving: &Moving{From: "pve1"}}},
		"VM 8000 has snapshots": {alter(snapshotOf8000), Request{Node: "pve1", ID: 8000,
			Planned: vm.Spec{Options: vm.Options{Template: new(true)}}}},
		"Unknown storage": {nil, here(Request{Storages: map[string]string{"disks.scsi0.storage": "none"}})},
		"Storage local2 is not on node pve1": {alter(func(w *state.World) { w.Storages["local2"].Nodes = []string{"pve2"} }),
			here(Request{Storages: map[string]string{"disks.scsi0.storage": "local2"}})},
		"Storage shared-nfs does not work": {alter(func(w *state.World) { w.Storages["shared-nfs"].Offline = true }),
			here(Request{Storages: map[string]string{"disks.scsi0.storage": "shared-nfs"}})},
		"Storage local2 is not for disks": {alter(func(w *state.World) { w.Storages["local2"].Content = []string{"iso"} }),
			here(Request{Storages: map[string]string{"disks.scsi0.storage": "local2"}})},
		"There is no format qcow2": {nil, here(Request{Formats: []Format{{Path: "disks.scsi0.format", Storage: "local-zfs",
			Format: "qcow2"}}})},
		"Machine pc-q35-9.2 cannot run from": {alter(withChains), here(Request{Started: true, Planned: vm.Spec{Options: vm.Options{Machine: to("pc-q35-9.2")}, Disks: map[string]vm.Disk{"scsi0": {Storage: "chain", Format: to("qcow2")}}}})},
		"The disks are larger than":          {alter(group(lvm)), here(Request{Planned: disks(lvm, 60, 60)})},
		"Storage local-zfs may run out of":   {nil, here(Request{Planned: disks("local-zfs", 100_000)})},
		"Unknown pool":                       {nil, here(Request{Pool: "none"})},
		`Unknown bridge "vmbr9" as error`: {alter(func(w *state.World) { lose(w, "SDN.Use") }),
			here(Request{Bridges: map[string]string{"networks.net0.bridge": "vmbr9"}})},
		`Unknown bridge "vmbr9"`: {nil, here(Request{Bridges: map[string]string{"networks.net0.bridge": "vmbr9"}})},
		"There is no local:iso/none": {nil, here(Request{Needs: []Need{{Path: "cdroms.ide2.file", Kind: Medium,
			Value: "local:iso/none.iso"}}})},
		"Unknown CPU type": {nil, here(Request{Needs: []Need{{Path: "cpu.type", Kind: CPUType,
			Value: "8086"}}})},
		"The image is larger": {alter(image), here(Request{Needs: []Need{{Path: "disks.scsi0.import_from",
			Kind: Import, Value: "local:import/big.qcow2", Size: 1}}})},
		"No permission to clone VM 900": {alter(func(w *state.World) { lose(w, "VM.Clone") }), here(Request{Clone: golden})},
		"Privileges are missing":        {afterAnother, here(Request{VMID: 501, ID: 501, Who: "VM 501"})},
	}
}

// replicatedTo has VM 8000 run, with a replication job to a node.
func replicatedTo(node string) func(*state.World) {
	return func(w *state.World) {
		w.Replication["8000-0"] = &state.ReplicationJob{ID: "8000-0", Guest: 8000, Target: node}
		w.Guests[8000].Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(),
			Booted: maps.Clone(w.Guests[8000].Config), PID: 4000}
	}
}

// afterAnother has another VM planned without two privileges.
func afterAnother(w *world) {
	w.change(func(all *state.World) { lose(all, "VM.Allocate"); lose(all, "VM.Config.Options") })
	w.Check(w.t.Context(), Request{Creating: true, Node: "pve1", VMID: 500, ID: 500, Who: "VM 500"})
}

const theirs = "local-zfs:vm-8000-disk-0"

func diskOf8000(storage, volume string) vm.Spec {
	var s vm.Spec
	s.Disks = map[string]vm.Disk{"scsi0": {Storage: storage, Volume: volume, Size: to(int64(1 << 30))}}
	return s
}

// copyOf8000 copies a disk into another slot, and destroys the original.
func copyOf8000() Request {
	r := Request{Node: "pve1", ID: 8000, DestroyRemoved: true, Prior: diskOf8000("local-zfs", theirs),
		Storages: map[string]string{"disks.scsi1.storage": "local-lvm"}}
	r.Planned.Disks = map[string]vm.Disk{"scsi1": {Storage: "local-lvm", ImportFrom: to(theirs)}}
	return r
}

func snapshotOf8000(w *state.World) {
	g := w.Guests[8000]
	g.Config["scsi0"], g.Config["parent"] = theirs+",size=1G", "before"
	g.Snaps = map[string]map[string]string{"before": {"scsi0": theirs + ",size=1G"}}
	w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-8000-disk-0", VMID: 8000, Content: "images",
		Format: "raw", Size: 1 << 30})
}

var copyOfHeld = Need{Path: "disks.scsi1.import_from", Kind: Image, Value: "local-zfs:vm-300-disk-0"}

// heldInUse has VM 8000 run with the disk that VM 300 holds.
func heldInUse(w *state.World) {
	w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
	disk := copyOfHeld.Value + ",size=1G"
	w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"scsi0": disk,
		"description": vm.HolderDescription("")}}
	w.Guests[8000].Config["scsi5"] = disk
	w.Guests[8000].Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(), Booted: maps.Clone(w.Guests[8000].Config), PID: 4000}
}

func lose(w *state.World, privilege string) {
	w.Roles["TerraformProvider"] = slices.DeleteFunc(slices.Clone(w.Roles["TerraformProvider"]),
		func(p string) bool { return p == privilege })
}

func orphanOf100(w *state.World) {
	w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-100-disk-3", VMID: 100, Content: "images",
		Format: "raw", Size: 1 << 30})
}

// paused is seen in the listing once pvestatd has come round.
func paused(w *world) {
	w.change(func(all *state.World) { all.Guests[8000].Running = &state.Running{QMPStatus: "paused"} })
	w.sim.Advance(time.Minute)
}

func image(w *state.World) {
	w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "import/big.qcow2", Content: "import", Format: "qcow2",
		Size: 1 << 40})
}

func twin(w *state.World) {
	w.Guests[8001] = &state.Guest{VMID: 8001, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "existing"}}
}

// twinAway is on a node that is away, so that its name cannot be read.
func twinAway(w *state.World) {
	twin(w)
	w.Guests[8001].Node, w.Nodes["pve2"].Online = "pve2", false
}

// TestPlanReadsNamesOfNewVMs: the first seconds after their create, PVE lists VMs without names. The plan of a clone by
// name reads them: one of another name is not the source, a second one of that name is, and so is the only one.
func TestPlanReadsNamesOfNewVMs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		twin, source string
		want         []string
	}{
		"another name":  {"web", "existing", nil},
		"the same name": {"existing", "existing", []string{"clone.name: Several VMs to clone"}},
		"the only one":  {"fresh", "fresh", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.change(func(all *state.World) {
				twin(all)
				all.Guests[8001].Config["name"] = c.twin
			})
			has := found(w.Check(t.Context(), Request{Creating: true, Node: "pve1", Clone: &guest.Clone{Name: c.source}}))
			if !slices.EqualFunc(has, c.want, says) {
				t.Errorf("found %q, want %q", has, c.want)
			}
		})
	}
}

// group is a volume group of 100 GiB.
func group(id string) func(*state.World) {
	return func(w *state.World) {
		w.Storages[id] = &state.Storage{ID: id, Type: "lvm", Content: []string{"images"}, Path: id, Total: 100 << 30}
	}
}

// backup is one of a VM with a disk on a storage that is not there.
func backup(archive string) func(*state.World) {
	return func(w *state.World) {
		storage, name, _ := strings.Cut(archive, ":")
		w.Storages[storage].Content = append(w.Storages[storage].Content, "backup")
		w.Roles["TerraformProvider"] = append(slices.Clone(w.Roles["TerraformProvider"]), "VM.Backup")
		w.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: 8000, Content: "backup", Format: "vma.zst",
			Size:   1 << 20,
			Backup: &state.Backup{VMID: 8000, Config: map[string]string{"name": "old", "scsi0": "gone:vm-8000-disk-0,size=8G"}}})
	}
}

// places are the attributes on which the messages stand, or PVE's names of them, by the case.
func places() map[string]string {
	byPlace := map[string][]string{
		"": {"Cannot look at the cluster", "The cluster has no quorum", "Privileges are missing"},
		"node": {"Unknown node", "Node pve2 is not online", "No node given", "Node pve1 does not report",
			"Node pve1 is in maintenance", "HA moves other guests to node pve2 with VM 8000", "HA keeps VM 8000 off node pve2",
			"VM 8000 is replicated, and is not migrated to node pve2"},
		"nodes":                {"None of the nodes"},
		"cpu.cores":            {"Node pve1 has"},
		"on_destroy.power_off": {"VM 8000 is paused"},
		"memory.size":          {"Node pve1 may run out of memory"},
		"vmid":                 {"VMID 8000 is taken", "VMID 8000 is taken by a VM of th", "Volumes of another VM 100"},

		"on_orphaned_volumes": {"Volumes with VMID 100 may have", "Volumes with VMID 100 will"},
		"clone.name":          {"No VM to clone", "Several VMs to clone", "Another VM may be"},
		"clone.vmid": {"No permission to clone VM 900", "VM 8000 runs and has a TPM state", "VM 8000 cannot be cloned, since",
			"VM 8000 could not be read", "VM 8000 cannot be cloned while", "VM 8000 is not finished"},
		"clone.snapshot":                   {"PVE makes no such clone of VM 8000", "VM 8000 has no snapshot \"gone\""},
		"clone.full":                       {"VM 9000 cannot be cloned to node pve2"},
		"clone.storage":                    {"A linked clone stays"},
		"disks.scsi5.imported_disk.volume": {"The volume for scsi5 of VM 8000 may have"},
		"disks.scsi1.import_from":          {"scsi1 of VM 8000 is a copy", "local-zfs:vm-300-disk-0 cannot be copied while", "local-zfs:vm-300-disk-0 may be copied while"},

		"hostpci0":        {"VM 8000 cannot be migrated to node pve2"},
		"restore.archive": {"This identity may not read", "The backup could not be read"},
		"restore.storage": {"The disks in the backup were on storages"},
		"disks.scsi0.storage": {"Unknown storage", "Storage local2 is not on node pve1", "Storage shared-nfs does not work",
			"Storage local2 is not for disks", "The disks are larger than", "Machine pc-q35-9.2 cannot run from", "Storage local-zfs may run out of",
			"A snapshot keeps scsi0 of VM 8000 on its"},
		"scsi0":                     {"A snapshot keeps scsi0 of VM 8000 on node pve1"},
		"disks.scsi0":               {"VM 8000 is replicated and gets no"},
		"template":                  {"VM 8000 has snapshots"},
		"cloud_init":                {"The copy has no cloud-init drive"},
		"disks.scsi0.imported_disk": {"The disk that the copy has in scsi0"},
		"disks.scsi0.format":        {"There is no format qcow2"},
		"disks.scsi0.size": {"The image is larger", "VM 9000 cannot be cloned like",
			"The backup cannot be restored like"},
		"pool":                 {"Unknown pool"},
		"networks.net0.bridge": {`Unknown bridge "vmbr9" as error`, `Unknown bridge "vmbr9"`},
		"networks.net0.tag":    {"PVE may not plug net0 into bridge vmbr1"},
		"cdroms.ide2.file":     {"There is no local:iso/none"},
		"cpu.type":             {"Unknown CPU type"},
		"pci.hostpci0.mapping": {"Mapping gpu has no entry for node"},
	}
	all := map[string]string{}
	for place, begins := range byPlace {
		for _, begin := range begins {
			all[begin] = place
		}
	}
	return all
}

// withChains has a storage with snapshot-as-volume-chain.
func withChains(w *state.World) {
	w.Storages["chain"] = &state.Storage{ID: "chain", Type: "dir", Path: "/mnt/chain", Content: []string{"images"}, Total: 1 << 40,
		Options: map[string]string{"snapshot-as-volume-chain": "1"}}
}

// TestRules: every rule of the table is said by a plan that breaks it, on its attribute, as bad as the table has it, and
// nothing is said that no rule has.
func TestRules(t *testing.T) {
	said := map[int]bool{}
	all := cases()
	maps.Copy(all, casesOfClones())
	for begins, c := range all {
		t.Run(begins, func(t *testing.T) {
			w := newWorld(t)
			if c.happens != nil {
				c.happens(w)
			}
			if strings.HasPrefix(begins, "The cluster has no quorum") {
				w.change(func(all *state.World) {
					for name, node := range all.Nodes {
						node.Online = name < "pve3"
					}
				})
			}
			all := w.Check(t.Context(), c.request)
			var is []string
			for severity, found := range map[Severity][]*guest.FieldError{Refused: all.Refused, Doubtful: all.Doubtful} {
				for _, f := range found {
					is = append(is, f.Summary)
					if i := ruleOf(f, severity); i < 0 {
						t.Errorf("no rule says as %s: %s", severity, f.Summary)
					} else if want, _, asError := strings.Cut(begins, " as error"); strings.HasPrefix(f.Summary, want) {
						said[i] = true
						if place, known := places()[begins]; !known || f.Path != place {
							t.Errorf("%s stands on %q, want %q", f.Summary, f.Path, place)
						}
						if asError && severity != Refused {
							t.Errorf("%s is a %s", f.Summary, severity)
						}
					}
				}
			}
			want, _, _ := strings.Cut(begins, " as error")
			if !slices.ContainsFunc(is, func(s string) bool { return strings.HasPrefix(s, want) }) {
				t.Errorf("not said, but %q", is)
			}
		})
	}
	for i, r := range Rules() {
		if !said[i] {
			t.Errorf("no plan has: %s %s", r.Severity, r.Summary)
		}
	}
}
