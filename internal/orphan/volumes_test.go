package orphan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func TestOrphansOfACleanCluster(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.vm(300, nil)
	report := r.find()
	r.mustFind("a clean cluster", report)
	r.mustMiss("a clean cluster", report)
}

// guestThat is another user's guest, with a use for the volume of the test.
func guestThat(vmid int, typ string, config map[string]string) func(r *rig) {
	return func(r *rig) {
		r.change(func(w *state.World) {
			w.Guests[vmid] = &state.Guest{VMID: vmid, Type: typ, Node: "pve1", Config: config}
			if typ == "qemu" {
				config["smbios1"], config["onboot"] = "uuid=1", "1"
			}
		})
	}
}

// TestOrphansAmongVolumes: a volume whose id no guest has is one, unless a guest uses it under its own id.
func TestOrphansAmongVolumes(t *testing.T) {
	t.Parallel()
	const volume = "local-zfs:vm-300-disk-0"
	free := []string{"volume " + volume + " likely pvesm free " + volume} // ZFS does not say when it was made
	for name, c := range map[string]struct {
		happens func(r *rig)
		want    []string
	}{
		"no guest has the id":       {want: free},
		"a guest elsewhere":         {happens: guestThat(600, "qemu", map[string]string{"scsi5": "local-zfs:vm-600-disk-0"}), want: free},
		"a container has the id":    {happens: guestThat(300, "lxc", map[string]string{"arch": "amd64"})},
		"the disk of a VM":          {happens: guestThat(600, "qemu", map[string]string{"scsi5": volume + ",size=1G"})},
		"a detached disk of a VM":   {happens: guestThat(600, "qemu", map[string]string{"unused0": volume})},
		"a mount point":             {happens: guestThat(600, "lxc", map[string]string{"arch": "amd64", "mp0": volume + ",mp=/x"})},
		"a disk of a VM, by a path": {happens: guestThat(600, "qemu", map[string]string{"scsi5": "/dev/zvol/rpool/data/vm-300-disk-0"})},
		"a snapshot": {happens: func(r *rig) {
			r.vm(600, nil)
			r.change(func(w *state.World) {
				w.Guests[600].Snaps = map[string]map[string]string{"one": {"scsi5": volume, "snaptime": "1"}}
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.volume("local-zfs", "vm-300-disk-0", 300)
			if c.happens != nil {
				c.happens(r)
			}
			report := r.find()
			r.mustFind(name, report, c.want...)
			r.mustMiss(name, report)
		})
	}
}

// TestOrphansTellAll: what, where, size, since.
func TestOrphansTellAll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume("local-lvm", "vm-300-disk-0", 300)
	report := r.find()
	r.mustFind("a thin volume", report, "volume local-lvm:vm-300-disk-0 certain pvesm free local-lvm:vm-300-disk-0")
	i := report.Items[0]
	if i.VMID != 300 || i.Node != "pve1" || i.Storage != "local-lvm" || i.Size != 1<<30 || !i.Since.Before(r.s.guests.Now().Add(-47*time.Hour)) || i.Reason == "" {
		t.Errorf("%+v", i)
	}
}

// TestOrphansThatAreNotSure: a volume that another user may still need has no command, and says why.
func TestOrphansThatAreNotSure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-301-disk-0", VMID: 301, Content: "images", Format: "raw", Size: 1})
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "base-302-disk-0", VMID: 302, Content: "images", Format: "raw", Size: 1})
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "base-302-disk-0/vm-303-disk-0", VMID: 303, Content: "images", Format: "raw",
			Size: 1, Parent: "base-302-disk-0"})
	})
	r.volume("shared-nfs", "300/vm-300-disk-0.raw", 300)
	report := r.find()
	r.mustFind("not sure", report, "volume shared-nfs:300/vm-300-disk-0.raw unknown", "volume local-lvm:vm-301-disk-0 unknown",
		"volume local-zfs:base-302-disk-0 unknown", "volume local-zfs:base-302-disk-0/vm-303-disk-0 likely pvesm free "+
			"local-zfs:base-302-disk-0/vm-303-disk-0")
	for n, says := range []string{"may belong to another cluster", "so new", "linked clones are based on the volume: " +
		"local-zfs:base-302-disk-0/vm-303-disk-0"} {
		if n < len(report.Items) && !strings.Contains(report.Items[n].Reason, says) {
			t.Errorf("%s: %s", report.Items[n].ID, report.Items[n].Reason)
		}
	}
	r.later(2 * fresh)
	report = r.find(Options{Exclusive: []string{"shared-nfs"}})
	if got, want := line(report.Items[0]), "volume shared-nfs:300/vm-300-disk-0.raw certain pvesm free "+
		"shared-nfs:300/vm-300-disk-0.raw"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if report.Items[1].Certainty != Certain {
		t.Errorf("%+v is not sure any more", report.Items[1])
	}
}

// TestOrphansOnStoragesThatAreNotMarkedShared: another cluster may reach a volume group on iSCSI, and a directory of a
// share, although no entry says that the storage is shared. A host without a cluster needs no such mark.
func TestOrphansOnStoragesThatAreNotMarkedShared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.change(func(w *state.World) {
		w.Storages["san"] = &state.Storage{ID: "san", Type: "lvm", Path: "san", Content: []string{"images"}, Nodes: []string{"pve1"},
			Total: 1 << 40, Options: map[string]string{"base": "target:0.0.1.scsi-36001405"}}
		w.Storages["nas-vms"] = &state.Storage{ID: "nas-vms", Type: "dir", Path: "/mnt/pve/shared-nfs/vms", Content: []string{"images"},
			Nodes: []string{"pve1"}, Total: 1 << 40}
	})
	r.volume("san", "vm-300-disk-0", 300)
	r.volume("nas-vms", "301/vm-301-disk-0.raw", 301)
	r.mustFind("not marked", r.find(), "volume san:vm-300-disk-0 unknown", "volume nas-vms:301/vm-301-disk-0.raw unknown")
	r.mustFind("exclusive", r.find(Options{Exclusive: []string{"san", "nas-vms"}}),
		"volume san:vm-300-disk-0 certain pvesm free san:vm-300-disk-0",
		"volume nas-vms:301/vm-301-disk-0.raw certain pvesm free nas-vms:301/vm-301-disk-0.raw")
}

// TestOrphansWithoutALook: what could not be looked at is said, and makes nothing certain.
func TestOrphansWithoutALook(t *testing.T) {
	t.Parallel()
	const shared, local = "volume shared-nfs:300/vm-300-disk-0.raw ", "volume local-zfs:vm-300-disk-0 "
	sharedSure, localLikely := shared+"certain pvesm free shared-nfs:300/vm-300-disk-0.raw", local+"likely pvesm free "+
		"local-zfs:vm-300-disk-0"
	for name, c := range map[string]struct {
		happens func(r *rig)
		want    []string
		misses  []string
	}{
		"nothing in the way": {want: []string{localLikely, sharedSure}},
		"a node is " +
			"away": {happens: func(r *rig) { r.sim.SetNode("pve2", false); r.later(time.Minute) }, want: []string{localLikely, shared + "unknown"},
			misses: []string{"node pve2: it is not online"}},
		"a storage is disabled": {happens: func(r *rig) { r.change(func(w *state.World) { w.Storages["local-zfs"].Disabled = true }) },
			want: []string{sharedSure}, misses: []string{"local-zfs on node pve1: it is disabled", "local-zfs on node pve2: it is " +
				"disabled"}},
		"a shared storage is away": {happens: func(r *rig) { r.change(func(w *state.World) { w.Storages["shared-nfs"].Offline = true }) },
			want: []string{localLikely}, misses: []string{"storage shared-nfs: it is not available"}},
		"a storage for " +
			"containers": {happens: func(r *rig) { r.change(func(w *state.World) { w.Storages["local-lvm"].Content = []string{"rootdir"} }) },
			want: []string{localLikely, sharedSure}, misses: []string{"local-lvm on node pve1: it holds disks of " +
				"containers", "local-lvm on node pve2: it"}},
		"without VM.Audit": {happens: func(r *rig) { r.without("VM.Audit") }, want: []string{local + "unknown", shared + "unknown"},
			misses: []string{"guests that are not listed: this identity does not see all guests", "members of pools: "}},
		"without Datastore.Audit": {happens: func(r *rig) { r.without("Datastore.Audit", "Datastore.AllocateSpace", "Datastore.Allocate") },
			misses: []string{"storages that are not listed: "}},
		"without Datastore.Allocate and VM.Config.Disk": {happens: func(r *rig) { r.without("Datastore.Allocate", "VM.Config.Disk") },
			misses: []string{"disks on storage local:", "disks on storage local-lvm:", "disks on storage local-zfs: needs " +
				"Datastore.Allocate",
				"disks on storage local2:", "disks on storage shared-nfs:"}},
		"without Sys.Audit": {happens: func(r *rig) { r.without("Sys.Audit") },
			want:   []string{"volume local-zfs:vm-300-disk-0 unknown", "volume shared-nfs:300/vm-300-disk-0.raw unknown"},
			misses: []string{"entries of HA: ", "permissions on guests: ", "members of pools: ", "guests that are not listed: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.volume("local-zfs", "vm-300-disk-0", 300)
			r.volume("shared-nfs", "300/vm-300-disk-0.raw", 300)
			if c.happens != nil {
				c.happens(r)
			}
			report := r.find(Options{Exclusive: []string{"shared-nfs"}})
			r.mustFind(name, report, c.want...)
			r.mustMiss(name, report, c.misses...)
		})
	}
}

// TestOrphanThatIsABackingFile: a disk that was made by hand has the volume as its backing file or device, by its whole
// path also on another storage. A number may be any volume that is a device.
func TestOrphanThatIsABackingFile(t *testing.T) {
	t.Parallel()
	const file, raw, lvm, zvol = "plain:300/vm-300-disk-0.qcow2", "fast:300/vm-300-disk-0.raw", "local-lvm:vm-300-disk-0",
		"local-zfs:vm-300-disk-0"
	for name, c := range map[string]struct {
		base, storage, backing string
		based                  bool
	}{
		"no backing file":     {file, "plain", "", false},
		"relative":            {file, "plain", "../300/vm-300-disk-0.qcow2", true},
		"whole path":          {file, "plain", "/mnt/plain/images/300/vm-300-disk-0.qcow2", true},
		"another storage":     {file, "other", "/mnt/plain/images/300/vm-300-disk-0.qcow2", true},
		"of the other":        {file, "other", "../300/vm-300-disk-0.qcow2", false},
		"a number and a file": {file, "plain", "/dev/dm-7", false},
		"raw of btrfs":        {raw, "fast", "../300/vm-300-disk-0/disk.raw", true},
		"from elsewhere":      {raw, "plain", "/mnt/fast/images/300/vm-300-disk-0/disk.raw", true},
		"LVM":                 {lvm, "plain", "/dev/pve/vm-300-disk-0", true},
		"LVM, mapped":         {lvm, "plain", "/dev/mapper/pve-vm--300--disk--0", true},
		"LVM, by a number":    {lvm, "plain", "/dev/dm-7", true},
		"ZFS":                 {zvol, "plain", "/dev/zvol/rpool/data/vm-300-disk-0", true},
		"a partition":         {zvol, "plain", "/dev/zvol/rpool/data/vm-300-disk-0-part1", true},
	} {
		r := newRig(t)
		r.change(func(w *state.World) {
			for id, kind := range map[string]string{"plain": "dir", "other": "dir", "fast": "btrfs"} {
				w.Storages[id] = &state.Storage{ID: id, Type: kind, Path: "/mnt/" + id, Content: []string{"images"},
					Nodes: []string{"pve1"}, Total: 1 << 40}
			}
		})
		storage, base, _ := strings.Cut(c.base, ":")
		id, over := r.volume(storage, base, 300), r.volume(c.storage, "600/vm-600-disk-0.qcow2", 600)
		r.change(func(w *state.World) {
			w.Volume("pve1", over).Format, w.Volume("pve1", over).Backing = "qcow2", c.backing
			if id == file {
				w.Volume("pve1", id).Format = "qcow2"
			}
		})
		guestThat(600, "qemu", map[string]string{"scsi0": over + ",size=1G"})(r)
		found := false
		for _, i := range r.find().Items {
			if i.ID != id {
				continue
			}
			if found = true; (i.Certainty == Unknown) != c.based {
				t.Errorf("%s: %s is %s: %s", name, id, i.Certainty, i.Reason)
			}
		}
		if !found {
			t.Errorf("%s: %s is not found", name, id)
		}
	}
}

// TestBaseOfALinkedCloneIsNoOrphan: its template is gone, and no listing tells that the disk of a VM is based on it, as
// below the snapshots of a storage with snapshot-as-volume-chain. The configuration of that VM does.
func TestBaseOfALinkedCloneIsNoOrphan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for vmid, base := range map[int]string{310: r.volume("shared-nfs", "300/base-300-disk-0.qcow2", 300), 311: r.volume("local-zfs", "base-301-disk-0", 301)} {
		clone := fmt.Sprintf("%s/vm-%d-disk-0,size=1G", base, vmid)
		if vmid == 310 {
			clone = base + "/310/vm-310-disk-0.qcow2,size=1G"
		}
		guestThat(vmid, "qemu", map[string]string{"scsi0": clone})(r)
		if slices.ContainsFunc(r.find(Options{Exclusive: []string{"shared-nfs"}}).Items, func(i Item) bool { return i.ID == base }) {
			t.Errorf("%s is listed", base)
		}
		_, err := NewDeleter(r.s, destroy.New(r.s.jobs, r.s.guests, nil)).Delete(t.Context(), Named{Kind: Volume, ID: base}, Unknown,
			Options{Exclusive: []string{"shared-nfs"}})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("VM %d", vmid)) {
			t.Errorf("%s: %v", base, err)
		}
	}
}
