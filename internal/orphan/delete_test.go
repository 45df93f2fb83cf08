package orphan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestOrphanDeleteOnOneOfSeveralNodes: each node has a storage of that name for itself, and volumes of one id on two of
// them are left over. Without a node it is not known which one is meant.
func TestOrphanDeleteOnOneOfSeveralNodes(t *testing.T) {
	t.Parallel()
	const id = "local:777/vm-777-disk-0.raw"
	for name, c := range map[string]struct {
		on   []string
		node string
		left []string
		says string
	}{
		"no node":            {on: []string{"pve1", "pve2"}, left: []string{"pve1", "pve2"}, says: id + " is on the nodes pve1, pve2"},
		"a node":             {on: []string{"pve1", "pve2"}, node: "pve2", left: []string{"pve1"}},
		"there is one":       {on: []string{"pve2"}},
		"it is on the other": {on: []string{"pve2"}, node: "pve1", left: []string{"pve2"}},
	} {
		r := newRig(t)
		r.change(func(w *state.World) {
			for _, node := range c.on {
				v := &state.Volume{Storage: "local", Node: node, Name: "777/vm-777-disk-0.raw", VMID: 777, Content: "images",
					Format: "raw", Size: 1 << 30, Data: "of " + node}
				w.Put(v)
				v.Created = w.Clock.Now().Add(-48 * time.Hour)
			}
		})
		_, err := NewDeleter(r.s, destroy.New(r.s.jobs, r.s.guests, nil)).Delete(t.Context(),
			Named{Kind: Volume, ID: id, Node: c.node}, Certain, Options{})
		var left []string
		r.change(func(w *state.World) {
			for _, v := range w.Volumes {
				if v.VMID == 777 {
					left = append(left, v.Node)
				}
			}
		})
		slices.Sort(left)
		if !slices.Equal(left, c.left) || (err == nil) != (c.says == "") || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: left on %v: %v", name, left, err)
		}
	}
}

// TestOrphanDeleteNamesTheJobsThatGo: PVE takes the id of a half-made VM out of backup jobs, and removes a job that names no other guest. The
// action names them.
func TestOrphanDeleteNamesTheJobsThatGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.make(pve.Params{"name": "web", "boot": "order=scsi0", "vmid": "301"})
	r.change(func(w *state.World) {
		w.Backups = map[string]*state.BackupJob{"nightly": {ID: "nightly", VMIDs: []int{301}}, "other": {ID: "other", VMIDs: []int{600}}}
	})
	r.later(2 * fresh)
	done, err := NewDeleter(r.s, destroy.New(r.s.jobs, r.s.guests, nil)).Delete(t.Context(), Named{Kind: HalfMade, ID: "301"}, Likely, Options{})
	if err != nil || !strings.Contains(done, "backup job nightly, removed") || strings.Contains(done, "job other") {
		t.Errorf("%s: %v", done, err)
	}
}

// TestOrphanDeleteOfABackingFile: an image on another storage of files, made by hand, has the volume as its backing file. It is not removed.
func TestOrphanDeleteOfABackingFile(t *testing.T) {
	t.Parallel()
	const own, shared = "local:777/vm-777-disk-0.raw", "shared-nfs:777/vm-777-disk-0.raw"
	for name, c := range map[string]struct {
		volume, storage, node, backing string
	}{
		"on a share":                     {own, "shared-nfs", "", "/var/lib/vz/images/777/vm-777-disk-0.raw"},
		"in another directory":           {own, "local2", "pve1", "/var/lib/vz/images/777/vm-777-disk-0.raw"},
		"in another directory, relative": {own, "local2", "pve1", "../../../vz/images/777/vm-777-disk-0.raw"},
		"of a share, in a directory":     {shared, "local2", "pve1", "/mnt/pve/shared-nfs/images/777/vm-777-disk-0.raw"},
		"of a share, on another node":    {shared, "local2", "pve2", "/mnt/pve/shared-nfs/images/777/vm-777-disk-0.raw"},
		"of a share, on the share":       {shared, "shared-nfs", "", "../777/vm-777-disk-0.raw"},
	} {
		r := newRig(t)
		r.change(func(w *state.World) {
			storage, _, _ := strings.Cut(c.volume, ":")
			of := &state.Volume{Storage: storage, Name: "777/vm-777-disk-0.raw", VMID: 777, Content: "images", Format: "raw", Size: 1 << 30}
			if storage == "local" {
				of.Node = "pve1"
			}
			w.Put(of)
			w.Put(&state.Volume{Storage: c.storage, Node: c.node, Name: "600/vm-600-disk-0.qcow2", VMID: 600, Content: "images", Format: "qcow2",
				Size: 1 << 30, Backing: c.backing})
		})
		r.later(48 * time.Hour)
		_, err := NewDeleter(r.s, destroy.New(r.s.jobs, r.s.guests, nil)).Delete(t.Context(),
			Named{Kind: Volume, ID: c.volume}, Likely, Options{Exclusive: []string{"shared-nfs"}})
		if err == nil || !strings.Contains(err.Error(), "600/vm-600-disk-0.qcow2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
