package destroy

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestDestroySparesTheBaseBelowAChain: a linked clone on a storage of files with snapshot-as-volume-chain (Proxmox VE 9)
// has a snapshot. PVE renames its image to "snap-before-vm-400-disk-0.qcow2", with the template's base as its backing
// file, and makes a new "vm-400-disk-0.qcow2" on top of that (pve-storage Plugin.pm volume_snapshot,
// alloc_backed_image). The listing leaves snapshots out, and names the base nowhere (list_images). PVE's own look at
// linked clones goes by it (Storage.pm volume_is_base_and_used), and lets the base go. The clone itself is destroyed.
func TestDestroySparesTheBaseBelowAChain(t *testing.T) {
	r := newRigWith(t, asRoot, pvesim.Options{Profile: "9.2", Violated: func(error) {}})
	const base, clone = "shared-nfs:300/base-300-disk-0.qcow2", "shared-nfs:300/base-300-disk-0.qcow2/400/vm-400-disk-0.qcow2,size=1G"
	r.change(func(w *state.World) {
		w.Storages["shared-nfs"].Options = map[string]string{"snapshot-as-volume-chain": "1"}
		w.Put(&state.Volume{Storage: "shared-nfs", Name: "300/base-300-disk-0.qcow2", VMID: 300, Content: "images", Format: "qcow2", Size: 1 << 30})
		w.Put(&state.Volume{Storage: "shared-nfs", Name: "400/vm-400-disk-0.qcow2", VMID: 400, Content: "images", Format: "qcow2", Size: 1 << 30,
			Backing: "snap-before-vm-400-disk-0.qcow2"})
		w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "golden", "memory": "512", "template": "1",
			"scsi0": base + ",size=1G", "smbios1": "uuid=" + uuidOf(300), "meta": "creation-qemu=9.2.0,ctime=1"}}
		w.Guests[400] = &state.Guest{VMID: 400, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "web", "memory": "512", "parent": "before",
			"scsi0": clone, "smbios1": "uuid=" + uuidOf(400), "meta": "creation-qemu=9.2.0,ctime=2"},
			Snaps: map[string]map[string]string{"before": {"scsi0": clone, "memory": "512", "snaptime": "1700000000"}}}
	})
	before := string(r.sim.Snapshot())
	ref := guest.Ref{VMID: 300, Node: "pve1", Identity: guest.Identity{UUID: uuidOf(300), CTime: "1"}}
	template := Request{Ref: ref, Disks: Disks{Known: []string{base}}}
	_, _, err := r.s.Delete(t.Context(), template)
	for _, want := range []string{"Template 300 has linked clones", "VM 400 (web) on node pve1 (scsi0", "(snapshot before"} {
		if err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("want %q once, got %v", want, err)
		}
	}
	if string(r.sim.Snapshot()) != before {
		t.Error("something was changed")
	}
	r.change(func(w *state.World) { // as it is without the snapshot: the listing names the base
		v := *w.Volume("", "shared-nfs:400/vm-400-disk-0.qcow2")
		delete(w.Volumes, state.VolumeKey{Storage: v.Storage, Node: v.Node, Name: v.Name})
		v.Name, v.Backing, v.Parent = "300/base-300-disk-0.qcow2/400/vm-400-disk-0.qcow2", "", "300/base-300-disk-0.qcow2"
		w.Put(&v)
		delete(w.Guests[400].Config, "parent")
		w.Guests[400].Snaps = nil
	})
	ref = guest.Ref{VMID: 400, Node: "pve1", Identity: guest.Identity{UUID: uuidOf(400), CTime: "2"}}
	if left, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); err != nil || len(left) > 0 {
		t.Errorf("the clone: %v, left %v", err, left)
	}
	if left, _, err := r.s.Delete(t.Context(), template); err != nil || len(left) > 0 {
		t.Errorf("the template without clones: %v, left %v", err, left)
	}
}

// TestTemplateWhoseDiskAnotherVMHas: a VM that has a disk of a template attached is no linked clone of it. The refusal does not ask to destroy it.
func TestTemplateWhoseDiskAnotherVMHas(t *testing.T) {
	r := newRigWith(t, asRoot, pvesim.Options{Profile: "9.2"})
	const base = "shared-nfs:300/base-300-disk-0.qcow2"
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "shared-nfs", Name: "300/base-300-disk-0.qcow2", VMID: 300, Content: "images", Format: "qcow2", Size: 1 << 30})
		w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "golden", "template": "1",
			"scsi0": base + ",size=1G", "smbios1": "uuid=" + uuidOf(300), "meta": "creation-qemu=9.2.0,ctime=1"}}
		w.Guests[400] = &state.Guest{VMID: 400, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "rescue",
			"scsi5": base + ",size=1G,ro=1", "smbios1": "uuid=" + uuidOf(400), "meta": "creation-qemu=9.2.0,ctime=2"}}
	})
	ref := guest.Ref{VMID: 300, Node: "pve1", Identity: guest.Identity{UUID: uuidOf(300), CTime: "1"}}
	_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{base}}})
	if err == nil || !strings.Contains(err.Error(), "Detach it there") || strings.Contains(err.Error(), "linked clones") {
		t.Errorf("the refusal: %v", err)
	}
}
