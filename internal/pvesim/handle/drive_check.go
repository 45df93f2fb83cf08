package handle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// checkVM checks privileges on a VM, or on the pool that it will be in (RPCEnvironment.pm check_vm_perm).
func (r *Request) checkVM(vmid int, pool string, privs ...string) error {
	if pool != "" && r.Check("/pool/"+pool, privs...) == nil {
		return nil
	}
	return r.Check("/vms/"+strconv.Itoa(vmid), privs...)
}

// volumeAccess is PVE::Storage::check_volume_access: may the caller use the volume for the VM? vmid 0 is no VM.
func (r *Request) volumeAccess(vmid int, volid string) error {
	id, name, ok := state.SplitVolid(volid)
	if !ok {
		if r.Auth.IsRoot() {
			return nil
		}
		return Die("Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 581.")
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
		return r.checkVM(n.VMID, "", "VM.Backup")
	case n.Content == "images" && n.VMID != 0:
		if err := r.Check(path, "Datastore.Audit"); err != nil {
			return err
		}
		return r.checkVM(n.VMID, "", "VM.Config.Disk")
	}
	return Die("missing privileges to access %s", volid)
}

// checkStorageAccess checks every drive of a create or update against the storages (qemu-server API2/Qemu.pm,
// check_storage_access). fallback is the create's storage parameter.
func (r *Request) checkStorageAccess(vmid int, params map[string]string, fallback string) error {
	for _, opt := range slices.Sorted(maps.Keys(params)) {
		if hasIndex(opt, "unused") {
			if err := r.volumeAccess(vmid, params[opt]); err != nil {
				return err
			}
		}
		if !isDrive(opt) {
			continue
		}
		d := r.Server.parseDrive(opt, params[opt])
		if d == nil {
			return Invalid(opt, "unable to parse drive options")
		}
		if err := r.driveAccess(vmid, opt, d, fallback); err != nil {
			return err
		}
		if src := d["import-from"]; src != "" {
			if err := r.importAccess(vmid, opt, src); err != nil {
				return err
			}
		}
	}
	if s := params["vmstatestorage"]; s != "" {
		return r.Check("/storage/"+s, "Datastore.AllocateSpace")
	}
	return nil
}

func (r *Request) driveAccess(vmid int, opt string, d drive, fallback string) error {
	file := d.file()
	id, name, isVolume := state.SplitVolid(file)
	switch {
	case file == "" || file == "none" || file == "cloudinit" || name == "cloudinit":
		return nil
	case d.isCDROM() && file == "cdrom":
		return r.Check("/", "Sys.Console")
	case !d.isCDROM() && newDisk.MatchString(file):
		m := newDisk.FindStringSubmatch(file)
		id = m[1]
		if id == "" {
			id = fallback
		}
		if id == "" {
			return Die("no storage ID specified (and no default storage)")
		}
		if err := r.Check("/storage/"+id, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		s, err := r.W.StorageConfig(id)
		if err != nil {
			return err
		}
		if !s.Has("images") {
			return Invalid("storage", fmt.Sprintf("storage '%s' does not support vm images", id))
		}
		return nil
	}
	if err := r.volumeAccess(vmid, file); err != nil {
		return err
	}
	if !isVolume {
		return nil
	}
	if n, err := r.W.Storages[id].ParseName(name); err == nil && n.Content != "images" && n.Content != "iso" {
		return Invalid(opt, "content type needs to be 'images' or 'iso'")
	}
	return nil
}

func (r *Request) importAccess(vmid int, opt, src string) error {
	id, name, ok := state.SplitVolid(src)
	if !ok {
		return r.volumeAccess(vmid, src)
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
		return Invalid(opt, fmt.Sprintf("%s has wrong type '%s' - needs to be 'images' or 'import'", src, n.Content))
	}
	if strings.HasPrefix(n.Format, "ova+") {
		if err := r.extractionAccess(opt, id); err != nil {
			return err
		}
	}
	if n.VMID != 0 {
		return r.checkVM(n.VMID, "", "VM.Clone")
	}
	return r.volumeAccess(vmid, src)
}

// imageFormat refuses what QEMU cannot open (Drive.pm, checked_parse_volname).
func imageFormat(volid string, n state.VolumeName) error {
	if n.Content != "import" || strings.HasPrefix(n.Format, "ova+") || slices.Contains([]string{"raw", "qcow2", "vmdk"}, n.Format) {
		return nil
	}
	return Die("volume '%s' - not a QEMU image format '%s'", volid, n.Format)
}

// extractionAccess checks the storage on which a disk of an appliance is unpacked: it must hold images as files.
func (r *Request) extractionAccess(opt, source string) error {
	id, param := source, opt
	if work := r.Params["import-working-storage"]; work != "" {
		id, param = work, "import-working-storage"
	}
	s, err := r.W.StorageConfig(id)
	if err != nil {
		return err
	}
	if !s.Has("images") || !s.IsDir() {
		return Invalid(param, fmt.Sprintf("import working storage '%s' does not support 'images' content type or is not file based.", id))
	}
	return r.Check("/storage/"+id, "Datastore.AllocateSpace")
}

// checkDrives parses the drives of a request, refuses what their syntax forbids and writes them back canonically
// (API2/Qemu.pm, check_drive_param).
func (r *Request) checkDrives(params map[string]string) error {
	for _, opt := range slices.Sorted(maps.Keys(params)) {
		if !isDrive(opt) {
			continue
		}
		d := r.Server.parseDrive(opt, params[opt])
		if d == nil {
			return Invalid(opt, "unable to parse drive options")
		}
		if d["import-from"] != "" {
			if size := newDisk.FindStringSubmatch(d.file()); len(size) == 0 || size[2] != "0" {
				return Invalid(opt, "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>")
			}
			required := map[string][]string{"efidisk0": {"efitype", "pre-enrolled-keys"}, "tpmstate0": {"version"}}[opt]
			for _, key := range required {
				if d[key] == "" {
					return Invalid(opt, fmt.Sprintf("need to specify '%s' when using 'import-from'", key))
				}
			}
		}
		params[opt] = r.Server.printDrive(opt, d)
	}
	return nil
}
