package storage

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// contentList is GET content: what lies on a storage, as far as the caller may touch it (pve-storage
// API2/Storage/Content.pm, index; Plugin.pm, list_volumes: vmid narrows images and backups, hides ISO images and
// templates, and leaves the rest).
func contentList(r *engine.Request) (any, error) {
	s, err := r.W.StorageActive(r.Node(), r.Params["storage"])
	if err != nil {
		return nil, err
	}
	vmid, _ := strconv.Atoi(r.Params["vmid"])
	var found []*state.Volume
	for _, v := range r.W.VolumesOn(r.Node(), s) {
		content := state.ContentOf(r.W, v)
		others := content == "import" || content == "snippets"
		switch {
		case r.Params["content"] != "" && r.Params["content"] != content:
		case vmid != 0 && vmid != v.VMID && !others:
		case !s.Has(content):
		case s.IsDir() && isHidden(v.Name):
		case s.Type == "esxi" && v.Format != "vmx": // the host's machines are listed, not their disks
		case drive.VolumeAccess(r, 0, s.Volid(v)) != nil:
		default:
			found = append(found, v)
		}
	}
	if s.Has("import") && (r.Params["content"] == "" || r.Params["content"] == "import") {
		found = append(found, halfDownloaded(r, s)...)
	}
	slices.SortStableFunc(found, func(a, b *state.Volume) int {
		return strings.Compare(strings.ToLower(a.Volid()), strings.ToLower(b.Volid()))
	})
	list := make([]any, 0, len(found))
	for _, v := range found {
		list = append(list, contentItem(r.W, s, v))
	}
	return list, nil
}

// isHidden reports whether a listing leaves a file out: "*" matches no name that begins with a dot (Plugin.pm,
// get_subdir_files and list_images).
func isHidden(name string) bool {
	return strings.HasPrefix(name[strings.LastIndexByte(name, '/')+1:], ".")
}

// halfDownloaded are temporary files in the import directory, which are listed as the files that they are to
// become: the pattern for the names does not end where the name ends (Plugin.pm, get_subdir_files).
func halfDownloaded(r *engine.Request, s *state.Storage) (found []*state.Volume) {
	if !s.IsDir() || drive.VolumeAccess(r, 0, s.ID+":import/any.raw") != nil {
		return nil
	}
	for path, data := range r.W.Nodes[r.Node()].Files {
		m := halfImport.FindStringSubmatch(strings.TrimPrefix(path, s.Path+"/import/"))
		if m == nil || !strings.HasPrefix(path, s.Path+"/import/") {
			continue
		}
		v := &state.Volume{Storage: s.ID, Name: "import/" + m[1], Content: "import", Format: m[2], Size: int64(len(data)),
			Raw: []byte(data)}
		for _, task := range r.W.Tasks {
			if pid, err := strconv.Atoi(m[3]); err == nil && strings.Contains(task.UPID, fmt.Sprintf(":%08X:", pid)) {
				v.Created = task.Start
			}
		}
		found = append(found, v)
	}
	return found
}

var halfImport = regexp.MustCompile(`^([a-zA-Z0-9\-.+=_]+\.(ova|ovf|qcow2|raw|vmdk))\.tmp_d[a-z]+\.(\d+)$`)

// listedName is a volume's name in a listing of files: names of files are bytes to Perl, which it encodes once more.
func listedName(s *state.Storage, volid string) string {
	if !s.IsDir() {
		return volid
	}
	twice := make([]rune, 0, len(volid))
	for _, b := range []byte(volid) {
		twice = append(twice, rune(b))
	}
	return string(twice)
}

// fileName undoes that, if there is something to undo: a listed name finds its file.
func fileName(listed string) string {
	once := make([]byte, 0, len(listed))
	for _, c := range listed {
		if c > 0xff {
			return listed
		}
		once = append(once, byte(c))
	}
	if !utf8.Valid(once) {
		return listed
	}
	return string(once)
}

func contentItem(w *state.World, s *state.Storage, v *state.Volume) map[string]any {
	content := state.ContentOf(w, v)
	out := map[string]any{"volid": listedName(s, s.Volid(v)), "content": content, "format": v.Format, "size": v.Size}
	if v.VMID != 0 {
		out["vmid"] = v.VMID
	}
	if v.Allocated != 0 { // LVMPlugin.pm, list_images
		if out["size"] = nil; w.Has(state.ListsApproximateSize) {
			delete(out, "size")
			out["approximate-size"] = v.Allocated
		}
	}
	image := content == "images" || content == "rootdir"
	switch {
	case s.Type == "zfspool", s.Type == "rbd": // no time (ZFSPoolPlugin.pm and RBDPlugin.pm, list_images)
		n, err := s.ParseName(v.Name)
		if err == nil {
			out["name"] = n.File
		}
		out["parent"] = nil
		if v.Parent != "" {
			out["parent"] = v.Parent[strings.LastIndexByte(v.Parent, '/')+1:] + "@__base__"
		}
	case s.Type == "iscsi": // ISCSIPlugin.pm, list_images
	case s.Type == "esxi": // ESXiPlugin.pm, list_volumes
		out["size"], out["name"] = int64(0), strings.TrimSuffix(v.Name[strings.LastIndexByte(v.Name, '/')+1:], ".vmx")
	case image && s.IsDir():
		out["ctime"], out["used"], out["parent"] = v.Ctime(), v.Size, nil
		if v.Parent != "" {
			out["parent"] = "../" + v.Parent
		}
		if v.Backing != "" { // one below the images is taken for a base (Plugin.pm list_images)
			out["parent"] = v.Backing
			if base, ok := strings.CutPrefix(v.Backing, "../"); ok && strings.Count(base, "/") == 1 {
				out["volid"] = listedName(s, s.ID+":"+base+"/"+v.Name)
			}
		}
	case volume.IsLVM(s):
		out["ctime"] = strconv.FormatInt(v.Ctime(), 10) // as lvs printed it (LVMPlugin.pm, lvm_list_volumes)
	default:
		out["ctime"] = v.Ctime()
		if length := max(v.Length, int64(len(v.Raw))); length > 0 {
			out["size"] = length // of the file; only GET of the volume itself tells an image's virtual size
		}
	}
	if content == "backup" {
		if v.Notes != "" {
			out["notes"] = v.Notes
		}
		if v.Protected {
			out["protected"] = 1
		}
		if v.Unverified != "" { // pve-storage PBSPlugin.pm, list_volumes
			out["verification"] = map[string]string{"state": "failed", "upid": v.Unverified}
		}
		out["subtype"] = "qemu"
		if strings.Contains(v.Name, "/vzdump-lxc-") {
			out["subtype"] = "lxc"
		}
	}
	return out
}

// contentAlloc is POST content: allocate an image with a given name.
func contentAlloc(r *engine.Request) (any, error) {
	if err := r.Check("/storage/"+r.Params["storage"], "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	size, ok := allocSize(r.Params["size"])
	if !ok {
		return nil, perl.Invalid("size", "value does not match the regex pattern")
	}
	s, err := r.W.StorageConfig(r.Params["storage"])
	if err != nil {
		return nil, err
	}
	name, format := r.Params["filename"], r.Params["format"]
	for _, f := range []string{"raw", "qcow2", "vmdk"} {
		if !strings.HasSuffix(name, "."+f) || !s.IsDir() && f != "raw" {
			continue
		}
		if format != "" && format != f {
			return nil, perl.Invalid("format", fmt.Sprintf("different storage formats (%s != %s)", format, f))
		}
		format = f
	}
	v, err := volume.Alloc(engine.Process{Request: r, Worker: nil}, r.Node(), s.ID, r.VMID(), name, format, size)
	if err != nil {
		return nil, err
	}
	return v.Volid(), nil
}

// allocSize reads a size in KiB, or with the unit M or G.
func allocSize(word string) (int64, bool) {
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n << 10, true
	}
	return schema.ParseSize(word)
}

// volid is the volume that the path names: with its storage in front or without.
func volid(r *engine.Request) (string, error) {
	name := r.Params["volume"]
	if id, _, ok := state.SplitVolid(name); ok {
		if id != r.Params["storage"] {
			return "", perl.Invalid("volume", fmt.Sprintf("storage ID mismatch (%s != %s)\n", id, r.Params["storage"]))
		}
		return known(r, name), nil
	}
	return known(r, r.Params["storage"]+":"+name), nil
}

// known is the volume's name as it was given, or as its file has it.
func known(r *engine.Request, volid string) string {
	if file := fileName(volid); r.W.Volume(r.Node(), volid) == nil && r.W.Volume(r.Node(), file) != nil {
		return file
	}
	return volid
}

func contentInfo(r *engine.Request) (any, error) {
	volid, err := volid(r)
	if err != nil {
		return nil, err
	}
	if err := drive.VolumeAccess(r, 0, volid); err != nil {
		return nil, err
	}
	id, name, _ := state.SplitVolid(volid)
	s, err := r.W.StorageActive(r.Node(), id)
	if err != nil {
		return nil, err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return nil, err
	}
	v := r.W.Volume(r.Node(), volid)
	if v == nil {
		switch s.Type {
		case "zfspool":
			return nil, perl.Die("zfs error: cannot open '%s/%s': dataset does not exist", s.Path, n.File)
		case "lvm", "lvmthin":
			return nil, perl.Die("can't get size of '%s':   Failed to find logical volume \"%s/%s\"", s.VolumePath(name), s.VG(),
				n.File)
		}
		return nil, perl.Die("volume_size_info on '%s' failed - no format", volid)
	}
	out := map[string]any{"path": s.VolumePath(name), "size": v.Size, "used": 0, "format": n.Format}
	if s.IsDir() {
		out["used"] = v.Size
	}
	if n.Content != "images" && n.Content != "import" {
		out["format"] = "raw"
	}
	if n.Content == "backup" && s.IsDir() {
		out["notes"], out["protected"] = v.Notes, perl.Flag(v.Protected)
	}
	return out, nil
}

// DeleteContent is DELETE content/{volume}: no check whether a configuration refers to the volume.
func DeleteContent(r *engine.Request) (any, error) {
	volid, err := volid(r)
	if err != nil {
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
	if err := mayDelete(r, id, n); err != nil {
		return nil, err
	}
	task := id
	if n.VMID != 0 {
		task = fmt.Sprintf("%d@%s", n.VMID, id)
	}
	upid := guest.ForkFor(r, "imgdel", task, func(w *engine.Worker) error {
		if err := w.Checkpoint(); err != nil {
			return err
		}
		if err := removeContent((engine.Process{Request: r, Worker: w}), volid, s, n); err != nil {
			return err
		}
		w.Logf("Removed volume '%s'", volid)
		return nil
	})
	if delay, _ := strconv.Atoi(r.Params["delay"]); delay > 0 {
		return drive.Await(r, upid, delay, "")
	}
	return upid, nil
}

// mayDelete: Datastore.Allocate, whatever the content type, but for the backup of a guest AllocateSpace and VM.Backup:
// there Allocate is neither enough nor needed (pve-storage API2/Storage/Content.pm delete).
func mayDelete(r *engine.Request, storage string, n state.VolumeName) error {
	path := "/storage/" + storage
	if n.Content == "backup" && n.VMID != 0 {
		if err := r.Check(path, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		return drive.CheckVM(r, n.VMID, "", "VM.Backup")
	}
	return r.Check(path, "Datastore.Allocate")
}

func removeContent(p engine.Process, volid string, s *state.Storage, n state.VolumeName) error {
	if n.Content == "images" {
		return volume.Free(p, p.Node(), volid)
	}
	if _, err := p.W.StorageActive(p.Node(), s.ID); err != nil {
		return err
	}
	_, name, _ := state.SplitVolid(volid)
	key := s.Key(p.Node(), name)
	if v := p.W.Volumes[key]; v != nil && v.Protected {
		return perl.Die("cannot remove protected volume '%s' on '%s'", name, s.ID)
	}
	if p.W.Volumes[key] == nil {
		p.Logf("disk image '%s' does not exist", s.VolumePath(name)) // no more than a warning (Plugin.pm, free_image)
	}
	delete(p.W.Volumes, key)
	s.DropDirectory(p.W, p.Node(), n.Content)
	return nil
}
