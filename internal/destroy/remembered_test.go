package destroy

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// TestALeftoverWhoseVMIDIsAnothers: a create could not look whether its VM was left, and noted it. By the next run
// another user's guest has the VMID. The destroy says so in one sentence and ends well, so that later runs converge; a
// refresh agrees with it. Only what may be the create's own is kept.
func TestALeftoverWhoseVMIDIsAnothers(t *testing.T) {
	uuid := "uuid=" + uuidOf(1)
	for name, c := range map[string]struct {
		config map[string]string // of the guest that has the VMID; nil: none
		node   string
		lost   bool // the answer to the create was lost, and no task of it was found
		kept   bool
		says   int
	}{
		"none":                {},
		"another's, finished": {config: map[string]string{"name": "theirs", "smbios1": uuid, "meta": "ctime=2"}, says: 1},
		"another's, on another node": {node: "pve2", says: 1,
			config: map[string]string{"name": "theirs", "smbios1": uuid, "meta": "ctime=2"}},
		// a configuration that an administrator has copied, or of a very old version
		"another's, without what PVE writes into each": {config: map[string]string{"name": "theirs", "cores": "2"}, says: 1},
		"another's, being made":                        {config: map[string]string{"lock": "create", "memory": "96"}, says: 1},
		"half made, by whom cannot be told":            {config: map[string]string{"lock": "create", "memory": "96"}, lost: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asToken)
			mark := r.s.guests.NewMark("pve1,pve2", 300)
			if c.config != nil {
				g := &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: c.config}
				if c.node != "" {
					g.Node = c.node
				}
				if c.config["lock"] != "" {
					g.LockCause = "state"
				}
				r.change(func(w *state.World) { w.Guests[300] = g })
			}
			proof := &guest.Proof{VMID: 300, Nodes: []string{"pve1"}, Cluster: mark.Cluster, Saga: mark.Saga, Lost: c.lost,
				Baselines: []guest.BaselineRecord{{Node: "pve1", Storages: []string{"local-zfs"}}}}
			ref := guest.Ref{VMID: 300, Node: "pve1", Proof: proof}
			noted := []saga.Residue{{Kind: "guest", Node: "pve1", ID: "300", What: "VM 300 on node pve1"}}
			seen, err := r.s.Recheck(t.Context(), ref, noted)
			if err != nil || (len(seen) > 0) != c.kept {
				t.Errorf("a refresh keeps %v: %v", seen, err)
			}
			left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref, Left: noted})
			if (err != nil) != c.kept || (len(left) > 0) != c.kept || len(warnings) != c.says {
				t.Errorf("left %v, said %v: %v", left, warnings, err)
			}
			if is, _ := r.has(300, contested); is != (c.config != nil) {
				t.Errorf("the guest is there: %t", is)
			}
		})
	}
}

// TestRemovedStorageIsNamedWithTheOptions: each option that has a volume of a storage that was removed is named, so that
// one command lets the VM go without it. Nothing is changed before.
func TestRemovedStorageIsNamedWithTheOptions(t *testing.T) {
	for _, c := range []struct {
		config, pending map[string]string
		says            string
	}{
		{config: map[string]string{"scsi1": rescanned + ",size=1G"}, says: "`qm set 300 --delete scsi1`"},
		{config: map[string]string{"unused0": rescanned}, says: "`qm set 300 --delete unused0`"},
		{pending: map[string]string{"sata2": rescanned + ",size=1G"}, says: "`qm set 300 --delete sata2`"},
		{config: map[string]string{"efidisk0": rescanned + ",size=1G", "scsi1": rescanned + ",size=1G"},
			says: "`qm set 300 --delete efidisk0,scsi1`"},
	} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.change(func(w *state.World) {
			maps.Copy(w.Guests[300].Config, c.config)
			w.Guests[300].Pending = c.pending
			delete(w.Storages, "local2")
		})
		before := string(r.sim.Snapshot())
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{rescanned}}})
		if err == nil || !strings.Contains(err.Error(), c.says) || string(r.sim.Snapshot()) != before {
			t.Errorf("%v, %v: changed %t: %v", c.config, c.pending, string(r.sim.Snapshot()) != before, err)
		}
	}
}

// TestOnlyTheStorageThatIsAwayMayHaveLeftovers: a storage of a VM in state goes away once PVE was told to destroy the
// VM. The volume on the other one is seen to be gone, so it is not among what is left.
func TestOnlyTheStorageThatIsAwayMayHaveLeftovers(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local2", Node: "pve1", Name: "300/vm-300-disk-7.raw", VMID: 300, Content: "images",
			Format: "raw", Size: 1 << 30})
		w.Guests[300].Config["scsi1"] = rescanned + ",size=1G"
	})
	r.answered = func(method, path string) {
		if method == http.MethodDelete && strings.HasSuffix(path, "/qemu/300") {
			r.change(func(w *state.World) { w.Storages["local2"].Offline = true })
		}
	}
	left, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
	if err == nil || len(left) != 1 || left[0].ID != rescanned || !strings.Contains(left[0].Reason, "could not be looked at") {
		t.Errorf("%v, left %+v", err, left)
	}
}

// TestRememberedNameOfAnotherVMsDisk: a leftover was freed by hand, and a new VM of another user has the id, and a disk of that name and
// size: in a slot, detached, in a snapshot, or beside it. Neither the destroy of a failed create nor that of a VM in state frees it.
func TestRememberedNameOfAnotherVMsDisk(t *testing.T) {
	const zfs, dir = "local-zfs:vm-300-disk-0", "local2:300/vm-300-disk-0.raw"
	for name, config := range map[string]map[string]string{"in a slot": {"scsi0": "VOLUME,size=1G"}, "detached": {"unused0": "VOLUME"},
		"in a snapshot": nil, "beside it": {}} {
		for _, volume := range []string{zfs, dir} {
			for _, uncommitted := range []bool{false, true} {
				r := newRig(t, asRoot)
				r.change(func(w *state.World) {
					storage, in, _ := strings.Cut(volume, ":")
					w.Put(&state.Volume{Storage: storage, Node: "pve1", Name: in, VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
					own := map[string]string{"name": "theirs", "smbios1": "uuid=99999999-2222-3333-4444-555555555555", "meta": "ctime=2"}
					for option, value := range config {
						own[option] = strings.Replace(value, "VOLUME", volume, 1)
					}
					w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: own}
					if config == nil {
						w.Guests[300].Snaps = map[string]map[string]string{"one": {"scsi0": volume + ",size=1G", "snaptime": "1"}}
					}
				})
				mark := r.s.guests.NewMark("pve1,pve2", 300)
				ref := guest.Ref{VMID: 300, Node: "pve1", Identity: guest.Identity{UUID: "11111111-2222-3333-4444-555555555555"}}
				if uncommitted {
					ref.Identity, ref.Proof = guest.Identity{}, &guest.Proof{VMID: 300, Nodes: []string{"pve1"}, Cluster: mark.Cluster, Saga: mark.Saga,
						Baselines: []guest.BaselineRecord{{Node: "pve1", Storages: []string{"local-zfs", "local2"}}}}
				}
				noted := saga.Residue{Kind: "volume", Node: "pve1", ID: volume, What: "volume " + volume, Size: 1 << 30}
				if volume == dir {
					noted.CreatedAt = r.sim.World().Volume("pve1", volume).Created.Truncate(time.Second)
				}
				left, _, err := r.s.Delete(t.Context(), Request{Ref: ref, Left: []saga.Residue{noted}})
				if r.sim.World().Volume("pve1", volume) == nil {
					t.Errorf("%s, %s, uncommitted %t: it is gone; left %v: %v", volume, name, uncommitted, left, err)
				}
			}
		}
	}
}

// TestRememberedVolumeThatWasNotSeen: a storage is away when the leftovers of a VM are noted. They have the sizes that
// state knows, and by the next destroy a volume of such a name is freed only if it has that size. Without a size nothing
// tells whose it is: it is named.
func TestRememberedVolumeThatWasNotSeen(t *testing.T) {
	for name, c := range map[string]struct {
		sizes map[string]int64 // in state
		now   int64            // the volume's; 0: it is gone
		kept  bool
	}{
		"as it was":                {sizes: map[string]int64{rescanned: 1 << 30}, now: 1 << 30},
		"another's of its name":    {sizes: map[string]int64{rescanned: 1 << 30}, now: 7 << 30, kept: true},
		"of an unknown size":       {now: 1 << 30, kept: true},
		"gone, of an unknown size": {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asToken)
			ref := r.vm(300)
			put := func(w *state.World, size int64) {
				w.Put(&state.Volume{Storage: "local2", Node: "pve1", Name: "300/vm-300-disk-7.raw", VMID: 300, Content: "images",
					Format: "raw", Size: size})
			}
			r.change(func(w *state.World) {
				put(w, 1<<30)
				w.Guests[300].Config["scsi1"] = rescanned + ",size=1G"
			})
			r.answered = func(method, path string) {
				if method == http.MethodDelete && strings.HasSuffix(path, "/qemu/300") {
					r.change(func(w *state.World) { w.Storages["local2"].Offline = true })
				}
			}
			left, _, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{rescanned}, Sizes: c.sizes}})
			if err == nil || len(left) != 1 || left[0].Size != c.sizes[rescanned] {
				t.Fatalf("%v, left %+v", err, left)
			}
			r.answered = func(string, string) {}
			r.change(func(w *state.World) {
				w.Storages["local2"].Offline = false
				delete(w.Guests, 300)
				for key, v := range w.Volumes {
					if v.Volid() == rescanned {
						delete(w.Volumes, key)
					}
				}
				if c.now > 0 {
					put(w, c.now)
				}
			})
			rest, _, err := r.s.Delete(t.Context(), Request{Ref: ref, Left: left})
			if _, kept := r.has(300, rescanned); kept != c.kept || (err != nil) != c.kept || (len(rest) > 0) != c.kept {
				t.Errorf("it is there %t, left %+v: %v", kept, rest, err)
			}
			if len(rest) > 0 && rest[0].Command != "pvesm list local2 --vmid 300" {
				t.Errorf("the command: %s", rest[0].Command)
			}
		})
	}
}
