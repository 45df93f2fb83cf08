package storage

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// contentUpdate is PUT content/{volume}: notes and protection of a backup (pve-storage API2/Storage/Content.pm,
// updateattributes; DirPlugin.pm, update_volume_attribute).
func contentUpdate(r *engine.Request) (any, error) {
	volid, err := volid(r)
	if err != nil {
		return nil, err
	}
	if err := drive.VolumeAccess(r, 0, volid); err != nil {
		return nil, err
	}
	id, name, _ := state.SplitVolid(volid)
	s, err := r.W.StorageConfig(id)
	if err != nil {
		return nil, err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return nil, err
	}
	notes, hasNotes := r.Params["notes"]
	protected, hasProtected := r.Params["protected"]
	switch {
	case !hasNotes && !hasProtected:
		return nil, nil
	case hasNotes && !s.IsDir():
		return nil, perl.Die("volume notes are not supported for storage type '%s'", s.Type)
	case !s.IsDir():
		return nil, perl.Die("attribute 'protected' is not supported for storage type '%s'", s.Type)
	case hasNotes && n.Content != "backup":
		return nil, perl.Die("only backups can have notes")
	case n.Content != "backup":
		return nil, perl.Die("only backups support attribute 'protected'")
	}
	v := r.W.Volume(r.Node(), volid)
	if v == nil { // the file of the attribute could not be written beside none
		return nil, perl.Die("volume '%s' does not exist", volid)
	}
	if hasNotes {
		v.Notes = notes
	}
	if hasProtected {
		v.Protected = protected == "1"
	}
	return nil, nil
}

// pruned are the backups of a storage by what a removal of old ones would do with them: of each guest the newest stay,
// keep-last in number, and the protected ones (PVE::Storage, prune_mark_backup_group). The other kinds of keep- count
// like keep-last.
func pruned(r *engine.Request) (marks map[*state.Volume]string, backups []*state.Volume, err error) {
	s, err := r.W.StorageActive(r.Node(), r.Params["storage"])
	if err != nil {
		return nil, nil, err
	}
	vmid, _ := strconv.Atoi(r.Params["vmid"])
	for _, v := range r.W.VolumesOn(r.Node(), s) {
		if v.Content == "backup" && (vmid == 0 || v.VMID == vmid) {
			backups = append(backups, v)
		}
	}
	slices.SortStableFunc(backups, func(a, b *state.Volume) int { return cmp.Compare(b.Ctime(), a.Ctime()) })
	keep, all := 0, perl.Subvalue(r.Params["prune-backups"], "keep-all", false) == "1"
	for _, kind := range []string{"last", "hourly", "daily", "weekly", "monthly", "yearly"} {
		keep += perl.Number(perl.Subvalue(r.Params["prune-backups"], "keep-"+kind, false))
	}
	marks, kept := map[*state.Volume]string{}, map[int]int{}
	for _, v := range backups {
		switch {
		case v.Protected:
			marks[v] = "protected"
		case all || keep == 0 || kept[v.VMID] < keep:
			kept[v.VMID]++
			marks[v] = "keep"
		default:
			marks[v] = "remove"
		}
	}
	return marks, backups, nil
}

// pruneDryRun is GET prunebackups.
func pruneDryRun(r *engine.Request) (any, error) {
	marks, backups, err := pruned(r)
	if err != nil {
		return nil, err
	}
	list := []any{}
	for _, v := range backups {
		list = append(list, map[string]any{"volid": v.Volid(), "type": "qemu", "vmid": v.VMID, "ctime": v.Ctime(),
			"mark": marks[v]})
	}
	return list, nil
}

// pruneBackups is DELETE prunebackups.
func pruneBackups(r *engine.Request) (any, error) {
	storage, id := r.Params["storage"], r.Params["storage"]
	if vmid := r.Params["vmid"]; vmid != "" {
		id = vmid + "@" + storage
		if err := r.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
			return nil, err
		}
		if err := r.Check("/vms/"+vmid, "VM.Backup"); err != nil {
			return nil, err
		}
	} else if err := r.Check("/storage/"+storage, "Datastore.Allocate"); err != nil {
		return nil, err
	}
	return guest.ForkFor(r, "prunebackups", id, func(*engine.Worker) error {
		marks, backups, err := pruned(r)
		if err != nil {
			return err
		}
		for _, v := range backups {
			if marks[v] == "remove" {
				maps.DeleteFunc(r.W.Volumes, func(_ state.VolumeKey, other *state.Volume) bool { return other == v })
			}
		}
		return nil
	}), nil
}
