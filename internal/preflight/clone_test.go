package preflight

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// snapped is VM 8000 with a snapshot and a disk of ZFS, of whose snapshots PVE makes no copies.
func snapped(w *state.World) {
	disk := &state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-8000-disk-7", VMID: 8000, Content: "images",
		Format: "raw", Size: 1 << 30}
	w.Put(disk)
	disk.TakeSnapshot("before")
	w.Guests[8000].Config = map[string]string{"name": "existing", "scsi0": disk.Volid() + ",size=1G"}
	w.Guests[8000].Snaps = map[string]map[string]string{"before": {"scsi0": disk.Volid() + ",size=1G", "snaptime": "1"}}
}

// casesOfClones are those of cases of which PVE makes no clones.
func casesOfClones() map[string]one {
	of := func(snapshot string) Request {
		return Request{Creating: true, Node: "pve1", Clone: &guest.Clone{VMID: 8000, Snapshot: snapshot}}
	}
	alter := func(w *world) { w.change(snapped) }
	return map[string]one{
		"PVE makes no such clone of VM 8000": {alter, of("before")},
		"VM 8000 has no snapshot \"gone\"":   {alter, of("gone")},
		"VM 8000 cannot be cloned, since": {func(w *world) {
			w.change(func(w *state.World) { w.Guests[8000].Node, w.Nodes["pve2"].Online = "pve2", false })
		}, of("")},
		"VM 8000 could not be read": {func(w *world) {
			w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before,
				Times: -1, Status: 500, Reason: "got timeout"}})
		}, of("")},
		"The disk that the copy has in scsi0": {nil, Request{Creating: true, Node: "pve1", Clone: &guest.Clone{VMID: 8000},
			Imported: []string{"scsi0"}}},
		"The copy has no cloud-init drive": {func(w *world) {
			w.change(func(w *state.World) { w.Guests[8000].Config["ide2"] = "local-zfs:vm-8000-cloudinit,media=cdrom" })
		}, Request{Creating: true, Node: "pve1", Clone: &guest.Clone{VMID: 8000}, Whole: true,
			Planned: vm.Spec{CDROMs: map[string]vm.CDROM{"ide2": {File: "none"}}}}},
		"VM 8000 cannot be cloned while": {func(w *world) { w.sim.StaleLock(8000, "backup", "root@pam") }, of("")},
		"VM 8000 runs and has a TPM state": {func(w *world) {
			w.change(func(w *state.World) {
				w.Guests[8000].Config["tpmstate0"] = "local-zfs:vm-8000-disk-9,size=4M,version=v2.0"
				w.Guests[8000].Running = &state.Running{PID: 7}
			})
			w.sim.Advance(time.Minute)
		}, of("")},
	}
}

// TestClonesAreAskedAboutOnce: the plans of many clones ask PVE once whether their source can be cloned like this, and
// not at all of a template whose configuration shows it, of a source that the run changes, or once the apply has begun.
func TestClonesAreAskedAboutOnce(t *testing.T) {
	t.Parallel()
	snapshot := &guest.Clone{VMID: 8000, Snapshot: "before"}
	is := func(int) bool { return true }
	for name, c := range map[string]struct {
		request Request
		asked   int
		says    string
	}{
		"a template":             {Request{Clone: &guest.Clone{VMID: 9000}}, 0, ""},
		"a whole copy":           {Request{Clone: &guest.Clone{VMID: 8000}}, 0, ""},
		"a snapshot":             {Request{Clone: snapshot}, 1, "clone.snapshot: PVE makes no such clone of VM 8000: "},
		"linked to a VM":         {Request{Clone: &guest.Clone{VMID: 8000, Full: to(false)}}, 1, "clone.full: PVE makes no such"},
		"linked to a snapshot":   {Request{Clone: &guest.Clone{VMID: 8000, Full: to(false), Snapshot: "before"}}, 1, "clone.full: PVE"},
		"of a source that turns": {Request{Clone: snapshot, SourceOpen: is}, 0, ""},
		"within the apply":       {Request{Clone: snapshot, Acting: true}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.change(snapped)
			c.request.Creating, c.request.Node = true, "pve1"
			for range 20 {
				has := found(w.Check(t.Context(), c.request))
				if (c.says != "") != (len(has) == 1) || len(has) > 0 && !strings.HasPrefix(has[0], c.says) {
					t.Fatalf("found %q, want %q", has, c.says)
				}
			}
			asked := 0
			for _, op := range w.sim.Ops() {
				if strings.HasSuffix(op.Path, "/feature") {
					asked++
				}
			}
			if asked != c.asked {
				t.Errorf("asked %d times, want %d", asked, c.asked)
			}
		})
	}
}

// TestStorageOfASourceDoesNotWork: the storages of an image, a medium and a backup, and those of the VM that is cloned,
// are looked at as those of new disks are, though they hold no disks. The old VM of a replacement is destroyed first.
// That of a snippet counts when the VM starts.
func TestStorageOfASourceDoesNotWork(t *testing.T) {
	t.Parallel()
	here := func(r Request) Request { r.Creating, r.Node = true, "pve1"; return r }
	need := func(path string, kind Kind, file string) Request {
		return here(Request{Needs: []Need{{Path: path, Kind: kind, Value: "away:" + string(kind) + "/" + file}}})
	}
	for path, r := range map[string]Request{
		"disks.scsi0.import_from": need("disks.scsi0.import_from", Import, "debian.qcow2"),
		"cdroms.ide2.file":        need("cdroms.ide2.file", Medium, "debian.iso"),
		"restore.archive": here(Request{Restore: &guest.Restore{
			Archive: "away:backup/vzdump-qemu-9100-2026_01_01-00_00_00.vma.zst"}}),
		"clone.vmid": here(Request{Clone: &guest.Clone{VMID: 8000}}),
		"":           need("hookscript", Snippet, "hook.pl"),
	} {
		w := newWorld(t)
		w.change(func(w *state.World) {
			w.Storages["away"] = &state.Storage{ID: "away", Type: "nfs", Path: "/mnt/pve/away", Shared: true, Offline: true,
				Content: []string{"images", "iso", "import", "backup", "snippets"}, Total: 100 << 30}
			w.Guests[8000].Config["scsi0"] = "away:8000/vm-8000-disk-0.qcow2,size=1G"
		})
		has := found(w.Check(t.Context(), r))
		if path == "" && len(has) > 0 || path != "" && !slices.EqualFunc(has,
			[]string{path + ": Storage away does not work on node pve1"}, says) {
			t.Errorf("%s: found %q", path, has)
		}
	}
}

// TestLockThatATaskHolds: the create waits for the task, so the plan of a clone says nothing.
func TestLockThatATaskHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.change(func(w *state.World) { w.Roles["TerraformProvider"] = append(w.Roles["TerraformProvider"], "Sys.Audit") })
	w.sim.HoldLock(8000, "backup", time.Hour, "root@pam")
	if has := found(w.Check(t.Context(), Request{Creating: true, Node: "pve1", Clone: &guest.Clone{VMID: 8000}})); len(has) > 0 {
		t.Errorf("found %q", has)
	}
}

// TestLockWhoseTaskIsNotSeen: without Sys.Audit the task of another user is not seen, so the plan of a clone says nothing.
// A suspended source has no task: it is started or resumed, and is never unlocked.
func TestLockWhoseTaskIsNotSeen(t *testing.T) {
	t.Parallel()
	for lock, says := range map[string]bool{"backup": false, "suspended": true} {
		w := newWorld(t)
		w.change(func(all *state.World) {
			lose(all, "Sys.Audit")
			all.Guests[8000].SetLock(lock, "an administrator")
		})
		all := w.Check(t.Context(), Request{Creating: true, Node: "pve1", Clone: &guest.Clone{VMID: 8000}})
		if len(all.Refused) > 0 || (len(all.Doubtful) > 0) != says || says && (strings.Contains(all.Doubtful[0].Detail, "unlock") ||
			!strings.Contains(all.Doubtful[0].Detail, "Start or resume it first")) {
			t.Errorf("%s: %v", lock, found(all))
		}
	}
}

// TestCloneForANodeThatIsNotKnown: a plan that does not know the node yet does not hold the VM against the source's.
func TestCloneForANodeThatIsNotKnown(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		w := newWorld(t)
		w.change(func(w *state.World) {
			w.Mappings = []*state.Mapping{{Kind: "pci", ID: "gpu", Nodes: []string{"pve2"}}}
		})
		r := Request{Creating: true, NodeOpen: open, Clone: &guest.Clone{VMID: 8000}, Started: true,
			Needs: []Need{{Path: "pci.hostpci0.mapping", Kind: PCIMapping, Value: "gpu"}}}
		if has := found(w.Check(t.Context(), r)); (len(has) > 0) == open {
			t.Errorf("open %t: %q", open, has)
		}
	}
}

// TestSourceThatGoesAwayInTheApply: a plan within an apply refuses nothing that the create itself is told. Where such a
// plan fails, Terraform has lost the old VM of a replacement from its state.
func TestSourceThatGoesAwayInTheApply(t *testing.T) {
	t.Parallel()
	for _, acting := range []bool{false, true} {
		w := newWorld(t)
		w.change(func(w *state.World) { w.Guests[8000].Node, w.Nodes["pve2"].Online = "pve2", false })
		w.sim.Advance(time.Minute)
		r := Request{Creating: true, Node: "pve1", Acting: acting, Clone: &guest.Clone{VMID: 8000}}
		if all := w.Check(t.Context(), r); (len(all.Refused) > 0) == acting {
			t.Errorf("acting %t: %q", acting, found(all))
		}
	}
}

// TestCloneThatCannotBeLookedAt: a failed look is no finding. PVE tells in the apply.
func TestCloneThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/nodes/{node}/qemu/{vmid}/feature", "/nodes/{node}/qemu/{vmid}/snapshot"} {
		w := newWorld(t)
		w.change(snapped)
		name := "before"
		if strings.HasSuffix(path, "/snapshot") {
			name = "gone"
		}
		request := Request{Creating: true, Node: "pve1", Clone: &guest.Clone{VMID: 8000, Snapshot: name}}
		if has := found(w.Check(t.Context(), request)); len(has) != 1 {
			t.Errorf("found %q", has)
		}
		w = newWorld(t)
		w.change(snapped)
		w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: path}, Phase: fault.Before, Times: -1, Status: 500,
			Reason: "no luck"}})
		if has := found(w.Check(t.Context(), request)); len(has) > 0 {
			t.Errorf("found %q", has)
		}
	}
}

// TestDrivesThatMayHaveNoClones: the configuration alone shows that the disks of a template can be linked to. A TPM
// state and a cloud-init drive are copied by linked clones, too.
func TestDrivesThatMayHaveNoClones(t *testing.T) {
	t.Parallel()
	config := map[string]string{
		"scsi0": "nfs:9/base-9-disk-0.qcow2,size=1G", "scsi1": "zfs:base-8-disk-1/base-9-disk-1,size=1G", "ide2": "none,media=cdrom",
		"efidisk0": "zfs:base-9-disk-2,size=1M", "tpmstate0": "san:vm-9-disk-3,size=4M", "ide0": "zfs:vm-9-cloudinit,media=cdrom",
	}
	both := func(full bool) []string {
		device, unlinked := notCloned(config, full)
		return []string{device, unlinked}
	}
	if has := both(false); !slices.Equal(has, []string{"", ""}) {
		t.Errorf("of a template: %q", has)
	}
	config["scsi2"], config["scsi3"], config["sata0"] = "san:vm-9-disk-4,size=1G", "/dev/sdb,size=1G", "/dev/cdrom,media=cdrom"
	if has := both(false); !slices.Equal(has, []string{"scsi3", "scsi2, san:vm-9-disk-4"}) {
		t.Errorf("of one on LVM: %q", has)
	}
	if has := both(true); !slices.Equal(has, []string{"scsi3", ""}) {
		t.Errorf("of whole copies: %q", has)
	}
}

// TestCloneOfASnapshotHasItsDevices: a clone has the devices of the snapshot, and not those that the VM has by now.
func TestCloneOfASnapshotHasItsDevices(t *testing.T) {
	t.Parallel()
	for device, refused := range map[string]bool{"ide2": false, "ide3": true} {
		w := newWorld(t)
		w.change(snapped)
		w.change(func(w *state.World) {
			w.Guests[8000].Snaps["before"]["ide2"] = "none,media=cdrom"
			w.Guests[8000].Config["ide3"] = "none,media=cdrom"
		})
		said := strings.Join(found(w.Check(t.Context(), Request{Creating: true, Node: "pve1", Whole: true,
			Clone: &guest.Clone{VMID: 8000, Snapshot: "before"}, Planned: vm.Spec{Options: vm.Options{BootOrder: []string{device}}}})), "\n")
		if strings.Contains(said, "boot_order: ") != refused {
			t.Errorf("%s: %s", device, said)
		}
	}
}
