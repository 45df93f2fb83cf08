package lifecycle

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// empty puts a configuration in the old one's place that stands there while the data is read. For an archive in a file
// it has no lock (restore_vma_archive), for one on a backup server it has (restore_proxmox_backup_archive).
func (x *restoring) empty(g *state.Guest) {
	cause := g.LockCause
	g.Config, g.Snaps, g.Pending, g.Deletes, g.LockCause = map[string]string{"memory": "128"}, nil, nil, nil, ""
	if x.fromServer {
		g.SetLock("create", cause)
	}
	config.Write(x.Engine, g)
}

// destroyVolumes takes back what was made (restore_destroy_volumes).
func (x *restoring) destroyVolumes(node string, volumes map[string]string) {
	for _, opt := range slices.Sorted(maps.Keys(volumes)) {
		volid := volumes[opt]
		if x.Worker.CleanupFails() {
			x.Logf("unable to cleanup '%s' - unable to free volume", volid)
			continue
		}
		if err := volume.Free(x.Process, node, volid); err != nil {
			x.Logf("unable to cleanup '%s' - %s", volid, perl.Message(err))
			continue
		}
		x.Logf("temporary volume '%s' successfully removed", volid)
	}
}

// devices are the volumes to make: of every drive in the archive, and the cloud-init image.
func (x *restoring) devices() (map[string]state.BackupDrive, error) {
	out := maps.Clone(x.backup.Drives)
	if out == nil {
		out = map[string]state.BackupDrive{}
	}
	for _, opt := range drive.DriveNames(x.backup.Config) {
		if d := drive.Parse(x.Engine, opt, x.backup.Config[opt]); d != nil && d.IsCloudinit() {
			id, name, _ := state.SplitVolid(d.File())
			out[opt] = state.BackupDrive{Storage: id, Format: drive.FileFormat(name), Size: drive.CloudinitSize}
		}
	}
	for _, opt := range slices.Sorted(maps.Keys(out)) {
		d := out[opt]
		if to := x.Params["storage"]; to != "" {
			d.Storage = to
		}
		s, err := x.W.StorageConfig(d.Storage)
		if err != nil {
			return nil, err
		}
		if !s.Has("images") {
			return nil, perl.Die("Content type 'images' is not available on storage '%s'", s.ID)
		}
		if err := x.Check("/storage/"+s.ID, "Datastore.AllocateSpace"); err != nil {
			return nil, err
		}
		if !slices.Contains(s.Formats(), d.Format) {
			d.Format = s.Formats()[0]
		}
		out[opt] = d
	}
	return out, nil
}

// cleanUpOld frees the drives that the archive replaces, and what belonged to the snapshots.
func (x *restoring) cleanUpOld(g *state.Guest, devices map[string]state.BackupDrive) {
	warn := func(err error) {
		if err != nil {
			x.Logf("%s", perl.Message(err))
		}
	}
	var kept []string
	for _, opt := range drive.DriveNames(g.Config) {
		d := drive.Parse(x.Engine, opt, g.Config[opt])
		if d == nil || d.IsMedia() || !drive.Owns(x.W, g.VMID, d.File()) {
			continue
		}
		if _, ok := devices[opt]; ok {
			warn(volume.Free(x.Process, g.Node, d.File()))
			continue
		}
		kept = append(kept, d.File())
	}
	for _, name := range slices.Sorted(maps.Keys(g.Snaps)) {
		if volid := g.Snaps[name]["vmstate"]; volid != "" {
			warn(volume.Free(x.Process, g.Node, volid))
		}
		for _, volid := range kept {
			warn(snapshot.DropVolumeSnapshot(x.Process, g, volid, name))
		}
	}
}
