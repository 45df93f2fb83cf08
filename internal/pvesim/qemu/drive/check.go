// Package drive parses, checks, makes and imports the drives of virtual machines.
package drive

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Await waits up to so many seconds for a task: null if it ended well in that time, an error if it failed, else its
// UPID.
func Await(r *engine.Request, upid string, seconds int, prefix string) (any, error) {
	r.StartForked()
	task := r.W.Tasks[upid]
	r.Engine.Wait(time.Duration(seconds)*time.Second, func() bool { return !task.Running })
	switch {
	case task.Running:
		return upid, nil
	case task.ExitStatus != "OK" && !strings.HasPrefix(task.ExitStatus, "WARNINGS: "):
		return nil, perl.Die("%s%s", prefix, task.ExitStatus)
	}
	return nil, nil
}

// CheckVM checks privileges on a VM, or on the pool that it will be in (RPCEnvironment.pm check_vm_perm).
func CheckVM(r *engine.Request, vmid int, pool string, privs ...string) error {
	if pool != "" && r.Check("/pool/"+pool, privs...) == nil {
		return nil
	}
	return r.Check("/vms/"+strconv.Itoa(vmid), privs...)
}

// VolumeAccess is PVE::Storage::check_volume_access: may the caller use the volume for the VM? vmid 0 is no VM.
func VolumeAccess(r *engine.Request, vmid int, volid string) error {
	id, name, ok := state.SplitVolid(volid)
	if !ok {
		if r.Auth.IsRoot() {
			return nil
		}
		return perl.Die("Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 581.")
	}
	s, err := r.W.StorageConfig(id)
	if err != nil {
		return err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return err
	}
	path := "/storage/" + id
	if r.Check(path, "Datastore.Allocate") == nil {
		return nil
	}
	switch {
	case n.Content == "iso" || n.Content == "vztmpl" || n.Content == "import":
		return r.CheckAny(path, "Datastore.AllocateSpace", "Datastore.Audit")
	case n.VMID != 0 && n.VMID == vmid:
		return nil
	case n.Content == "backup" && n.VMID != 0:
		if err := r.Check(path, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		return CheckVM(r, n.VMID, "", "VM.Backup")
	case n.Content == "images" && n.VMID != 0:
		if err := r.Check(path, "Datastore.Audit"); err != nil {
			return err
		}
		return CheckVM(r, n.VMID, "", "VM.Config.Disk")
	}
	return perl.Die("missing privileges to access %s", volid)
}

// CheckStorageAccess checks every drive of a create or update against the storages (qemu-server API2/Qemu.pm,
// check_storage_access). fallback is the create's storage parameter.
func CheckStorageAccess(r *engine.Request, vmid int, params map[string]string, fallback string) error {
	for _, opt := range slices.Sorted(maps.Keys(params)) {
		if HasIndex(opt, "unused") {
			if err := VolumeAccess(r, vmid, params[opt]); err != nil {
				return err
			}
		}
		if !IsDrive(opt) {
			continue
		}
		d := Parse(r.Engine, opt, params[opt])
		if d == nil {
			return perl.Invalid(opt, "unable to parse drive options")
		}
		if err := driveAccess(r, vmid, opt, d, fallback); err != nil {
			return err
		}
		if src := d["import-from"]; src != "" {
			if err := importAccess(r, vmid, opt, src); err != nil {
				return err
			}
		}
	}
	if s := params["vmstatestorage"]; s != "" {
		return r.Check("/storage/"+s, "Datastore.AllocateSpace")
	}
	return nil
}

func driveAccess(r *engine.Request, vmid int, opt string, d Drive, fallback string) error {
	file := d.File()
	id, name, isVolume := state.SplitVolid(file)
	switch {
	case file == "" || file == "none" || file == "cloudinit" || name == "cloudinit":
		return nil
	case d.IsCDROM() && file == "cdrom":
		return r.Check("/", "Sys.Console")
	case !d.IsCDROM() && newDisk.MatchString(file):
		m := newDisk.FindStringSubmatch(file)
		id = m[1]
		if id == "" {
			id = fallback
		}
		if id == "" {
			return perl.Die("no storage ID specified (and no default storage)")
		}
		if err := r.Check("/storage/"+id, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		s, err := r.W.StorageConfig(id)
		if err != nil {
			return err
		}
		if !s.Has("images") {
			return perl.Invalid("storage", fmt.Sprintf("storage '%s' does not support vm images", id))
		}
		return nil
	}
	if err := VolumeAccess(r, vmid, file); err != nil {
		return err
	}
	if !isVolume {
		return nil
	}
	if n, err := r.W.Storages[id].ParseName(name); err == nil && n.Content != "images" && n.Content != "iso" {
		return perl.Invalid(opt, "content type needs to be 'images' or 'iso'")
	}
	return nil
}

func importAccess(r *engine.Request, vmid int, opt, src string) error {
	id, name, ok := state.SplitVolid(src)
	if !ok {
		return VolumeAccess(r, vmid, src)
	}
	s, err := r.W.StorageConfig(id)
	if err != nil {
		return err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return err
	}
	if err := imageFormat(src, n); err != nil {
		return err
	}
	if n.Content != "images" && n.Content != "import" {
		return perl.Invalid(opt, fmt.Sprintf("%s has wrong type '%s' - needs to be 'images' or 'import'", src, n.Content))
	}
	if strings.HasPrefix(n.Format, "ova+") {
		if err := extractionAccess(r, opt, id); err != nil {
			return err
		}
	}
	if n.VMID != 0 {
		return CheckVM(r, n.VMID, "", "VM.Clone")
	}
	return VolumeAccess(r, vmid, src)
}

// imageFormat refuses what QEMU cannot open (Drive.pm, checked_parse_volname).
func imageFormat(volid string, n state.VolumeName) error {
	if n.Content != "import" || strings.HasPrefix(n.Format, "ova+") ||
		slices.Contains([]string{"raw", "qcow2", "vmdk"}, n.Format) {
		return nil
	}
	return perl.Die("volume '%s' - not a QEMU image format '%s'", volid, n.Format)
}

// extractionAccess checks the storage on which a disk of an appliance is unpacked: it must hold images as files.
func extractionAccess(r *engine.Request, opt, source string) error {
	id, param := source, opt
	if work := r.Params["import-working-storage"]; work != "" {
		id, param = work, "import-working-storage"
	}
	s, err := r.W.StorageConfig(id)
	if err != nil {
		return err
	}
	if !s.Has("images") || !s.IsDir() {
		return perl.Invalid(param,
			fmt.Sprintf("import working storage '%s' does not support 'images' content type or is not file based.", id))
	}
	return r.Check("/storage/"+id, "Datastore.AllocateSpace")
}

// volumeOf is the storage of a drive's volume, and the volume's name on it, if it has one.
func volumeOf(r *engine.Request, d Drive) (*state.Storage, string, bool) {
	id, name, ok := state.SplitVolid(d.File())
	s := r.W.Storages[id]
	return s, name, ok && s != nil
}

// CheckDrives parses the drives of a request, refuses what their syntax forbids and writes them back canonically
// (API2/Qemu.pm, check_drive_param).
func CheckDrives(r *engine.Request, params map[string]string) error {
	for _, opt := range slices.Sorted(maps.Keys(params)) {
		if !IsDrive(opt) {
			continue
		}
		d := Parse(r.Engine, opt, params[opt])
		if d == nil {
			return perl.Invalid(opt, "unable to parse drive options")
		}
		if err := toVolume(r.W, opt, d); err != nil {
			return err
		}
		if s, name, ok := volumeOf(r, d); ok && d["media"] != "cdrom" && r.W.Has(state.ISOIsCDROM) {
			if n, err := s.ParseName(name); err == nil && n.Content == "iso" {
				return perl.Invalid(opt, "explicit 'media=cdrom' is required for iso images")
			}
		}
		if d["import-from"] != "" {
			if size := newDisk.FindStringSubmatch(d.File()); len(size) == 0 || size[2] != "0" {
				return perl.Invalid(opt, "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>")
			}
			required := map[string][]string{"efidisk0": {"efitype", "pre-enrolled-keys"}, "tpmstate0": {"version"}}[opt]
			for _, key := range required {
				if d[key] == "" {
					return perl.Invalid(opt, fmt.Sprintf("need to specify '%s' when using 'import-from'", key))
				}
			}
		}
		params[opt] = Print(r.Engine, opt, d)
	}
	return nil
}

// CheckReplication refuses drives that a replicated VM cannot get (API2/Qemu.pm update_vm_api, $check_replication).
// Only ZFS replicates (pve-storage ZFSPoolPlugin.pm storage_can_replicate).
func CheckReplication(r *engine.Request, params map[string]string) error {
	if r.W.ReplicationOf(r.VMID()) == nil {
		return nil
	}
	for _, opt := range slices.Sorted(maps.Keys(params)) {
		if !IsDrive(opt) {
			continue
		}
		d := Parse(r.Engine, opt, params[opt])
		if d.File() == "" || d["replicate"] == "0" || d.IsCDROM() {
			continue
		}
		id, name, _ := strings.Cut(d.File(), ":")
		s := r.W.Storages[id]
		switch {
		case strings.HasPrefix(d.File(), "/") || name == "":
			return perl.Die("cannot add non-managed/pass-through volume to a replicated VM")
		case name == "cloudinit" || s != nil && (s.Shared || s.Type == "zfspool"):
			continue
		}
		return perl.Die("cannot add non-replicatable volume to a replicated VM")
	}
	return nil
}

// toVolume makes the id of a volume out of the path of a file. A raw image of btrfs is in a directory of its own, where
// PVE does not find it (QemuServer.pm cleanup_drive_path, pve-storage Storage.pm path_to_volume_id).
func toVolume(w *state.World, opt string, d Drive) error {
	file := d.File()
	if !strings.HasPrefix(file, "/") || strings.HasPrefix(file, "/dev/") {
		return nil
	}
	for _, v := range w.Volumes {
		s := w.Storages[v.Storage]
		if s != nil && s.VolumePath(v.Name) == file && !strings.HasSuffix(file, "/disk.raw") {
			d["file"] = v.Storage + ":" + v.Name
			return nil
		}
	}
	return perl.Invalid(opt, fmt.Sprintf("unable to associate path '%s' to any storage", file))
}
