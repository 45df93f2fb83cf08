package destroy

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestCommandsForCopies: volumes that a dead task may have left are named after the destroy. A command frees one only
// where no configuration mentions it by then, and none is given where another cluster may have the volume.
func TestCommandsForCopies(t *testing.T) {
	const local, shared = "local-zfs:vm-300-disk-7", "shared-nfs:300/vm-300-disk-7.qcow2"
	r := newRig(t, asRoot)
	ref := r.vm(300)
	r.sim.StaleLock(300, "backup", "root@pam")
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-7", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
		w.Put(&state.Volume{Storage: "shared-nfs", Name: "300/vm-300-disk-7.qcow2", VMID: 300, Content: "images", Format: "qcow2", Size: 1 << 30})
	})
	_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, w := range warnings {
		said += w.Detail + "\n"
	}
	if !strings.Contains(said, "`grep -rF -- "+local+" /etc/pve/nodes; [ $? = 1 ] && pvesm free "+local+"`") {
		t.Errorf("no command that looks first: %s", said)
	}
	if !strings.Contains(said, shared) || strings.Contains(said, "free "+shared) || !strings.Contains(said, "another cluster") {
		t.Errorf("of the shared storage: %s", said)
	}
}

// TestSnapshotsLeftOnDisksOfOthers: a VM goes with a snapshot of a disk of another id. The disk stays, and its snapshot with it, which no
// configuration names any more: a warning does. Of its own disks, and of a medium, nothing is said.
func TestSnapshotsLeftOnDisksOfOthers(t *testing.T) {
	const own, held, medium = "local-zfs:vm-300-disk-0", "local-zfs:vm-310-disk-0", "local-zfs:vm-310-disk-1"
	for _, taken := range []bool{false, true} {
		r := newRig(t, asRoot)
		ref := r.vm(300)
		r.vm(310)
		r.change(func(w *state.World) {
			w.Guests[310].Node = "pve2" // as on a shared storage
			w.Guests[300].Config["scsi1"] = held + ",size=1G"
			if taken {
				w.Guests[300].Snaps = map[string]map[string]string{"before": {"snaptime": "1", "scsi0": own + ",size=1G",
					"scsi1": held + ",size=1G", "ide2": medium + ",media=cdrom"}}
			}
		})
		_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, w := range warnings {
			said += w.Summary + ": " + w.Detail + "\n"
		}
		// a proxmox_disk may go in the same run: then the command finds no file of its VM, and does nothing
		ends := strings.Contains(said, "if it is destroyed, too") && strings.Contains(said, "/etc/pve/nodes/pve2/qemu-server/310.conf")
		if strings.Contains(said, "before of "+held) != taken || ends != taken || strings.Contains(said, "zfs destroy") || strings.Contains(said, own) || strings.Contains(said, medium) {
			t.Errorf("taken %t: %s", taken, said)
		}
		if is, kept := r.has(310, held); !is || !kept {
			t.Errorf("the other VM is there: %t, its disk: %t", is, kept)
		}
	}
}

// TestLeftoverThatPVEDoesNotList: the storage of the disk is not configured for images any more, so PVE lists none there. A disk that PVE
// could not destroy with its VM is named all the same, and a leftover that is remembered stays so. One that went is not named.
func TestLeftoverThatPVEDoesNotList(t *testing.T) {
	const volume = "local-zfs:vm-300-disk-0"
	for name, auth := range map[string]func(*pve.Config, pvesim.Credentials){"root": asRoot, "token": asToken} {
		for _, busy := range []int{0, -1} {
			r := newRig(t, auth)
			ref := r.vm(300)
			r.change(func(w *state.World) {
				w.Storages["local-zfs"].BusyFrees, w.Storages["local-zfs"].Content = busy, []string{"rootdir"}
			})
			left, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
			if named := len(left) == 1 && left[0].ID == volume; named != (busy != 0) || (err != nil) != named {
				t.Errorf("%s, busy %d: left %v, %v", name, busy, left, err)
			}
			still, err := r.s.Recheck(t.Context(), ref, left)
			if err != nil || len(still) != len(left) {
				t.Errorf("%s, busy %d: the next look says %v, %v", name, busy, still, err)
			}
		}
	}
}

// TestPurgedIsNamed: PVE takes a VM that it destroys out of the jobs and the HA entry that administrators have made for it, and removes those
// that are for it alone. A warning names them; without a purge, and where nothing names the VM, nothing is said.
func TestPurgedIsNamed(t *testing.T) {
	jobs := map[string]*state.BackupJob{"only": {ID: "only", VMIDs: []int{300}}, "some": {ID: "some", VMIDs: []int{300, 301}},
		"most": {ID: "most", All: true, Exclude: []int{300}}, "other": {ID: "other", VMIDs: []int{301}}}
	named := []string{"backup job only, removed", "backup job some, which goes only with the last", "backup job most, whose exclusions"}
	said := func(t *testing.T, r *rig, request Request) string {
		t.Helper()
		_, warnings, err := r.s.Delete(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, w := range warnings {
			text += w.Summary + ": " + w.Detail + "\n"
		}
		return text
	}
	for name, keep := range map[string]bool{"purge": false, "keep": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asRoot)
			ref := r.vm(300)
			r.change(func(w *state.World) { w.Backups = jobs })
			text := said(t, r, Request{Ref: ref, KeepReferences: keep})
			for _, job := range named {
				if strings.Contains(text, job) == keep {
					t.Errorf("of %q it says: %s", job, text)
				}
			}
			if strings.Contains(text, "other, ") || strings.Contains(text, "HA resource") {
				t.Errorf("it says: %s", text)
			}
		})
	}
	for name, ours := range map[string]bool{"its own HA entry": true, "an administrator's": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asRoot)
			ref := managedVM(t, r)
			r.change(func(w *state.World) {
				w.Replication["300-0"] = &state.ReplicationJob{ID: "300-0", Guest: 300, Target: "pve2", Schedule: "*/15"}
			})
			r.sim.Advance(20 * time.Second)
			text := said(t, r, Request{Ref: ref, OwnHA: ours})
			if strings.Contains(text, "HA resource vm:300") == ours || !strings.Contains(text, "replication job 300-0 to node pve2") {
				t.Errorf("it says: %s", text)
			}
		})
	}
}

// TestFleecingImageThatStays: a killed backup has left an image on a storage that has no disk of the VM, and PVE cannot free
// it as it destroys the VM: its record goes with the configuration. It is a leftover like a disk, which the next destroy frees.
func TestFleecingImageThatStays(t *testing.T) {
	const image = "local-lvm:vm-300-fleece-0"
	r := newRig(t, asRoot)
	ref := r.vm(300)
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-300-fleece-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
		w.Guests[300].Fleecing, w.Storages["local-lvm"].BusyFrees = []string{image}, -1
	})
	left, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
	if err == nil || len(left) != 1 || left[0].ID != image || !strings.Contains(left[0].Reason, "fleecing image") {
		t.Errorf("left %+v: %v", left, err)
	}
	r.change(func(w *state.World) { w.Storages["local-lvm"].BusyFrees = 0 })
	left, _, err = r.s.Delete(t.Context(), Request{Ref: ref, Left: left})
	if is, kept := r.has(300, image); err != nil || len(left) > 0 || is || kept {
		t.Errorf("the next destroy leaves %+v, VM %t, image %t: %v", left, is, kept, err)
	}
}
