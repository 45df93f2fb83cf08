package storage

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/storage/appliance"
)

// The names that an upload or a download may give a file (pve-storage Storage.pm, ISO_EXT_RE_0 and its like).
var (
	isoFile      = regexp.MustCompile(`(?i)^[^/]+\.(?:iso|img)$`)
	templateFile = regexp.MustCompile(`(?i)^[^/]+\.tar\.(?:gz|xz|zst|bz2)$`)
	importFile   = regexp.MustCompile(`^[a-zA-Z0-9\-.+=_]+\.(ova|qcow2|raw|vmdk)$`)
	unsafe       = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)
)

// contentFile is the volume name of a file that is to be put onto a storage (API2/Storage/Status.pm, upload and
// download_url).
func contentFile(r *engine.Request, filename string) (string, error) {
	file := unsafe.ReplaceAllString(filename[strings.LastIndexAny(filename, `/\`)+1:], "_")
	content := r.Params["content"]
	switch {
	case content == "iso" && !isoFile.MatchString(file), content == "vztmpl" && !templateFile.MatchString(file):
		return "", perl.Invalid("filename", "wrong file extension")
	case content == "import" && !importFile.MatchString(file):
		return "", perl.Invalid("filename", "invalid filename or wrong extension")
	}
	return content + "/" + file, nil
}

// contentUpload is POST upload: an existing file is overwritten.
func contentUpload(r *engine.Request) (any, error) {
	s, err := r.W.StorageEnabled(r.Node(), r.Params["storage"])
	if err != nil {
		return nil, err
	}
	if !s.IsDir() {
		return nil, perl.Die("can't upload to storage type '%s'", s.Type)
	}
	if r.Upload == nil {
		return nil, perl.Die("missing temporary file name")
	}
	name, err := contentFile(r, r.Params["filename"])
	if err != nil {
		return nil, err
	}
	if content := r.Params["content"]; !s.Has(content) {
		return nil, perl.Die("storage '%s' does not support '%s' content", s.ID, content)
	}
	if _, err := r.W.StorageActive(r.Node(), s.ID); err != nil {
		return nil, err
	}
	temporary := "/var/tmp/pveupload-" + strings.ReplaceAll(r.W.UUID(), "-", "")
	// No proxyto: the worker is on the node that took the request (pve-manager HTTPServer.pm rest_handler).
	return r.Fork(engine.Home(r.W), "imgcopy", "", func(w *engine.Worker) error {
		return perl.Stringify(upload(r, w, s, name, temporary))
	}), nil
}

func upload(r *engine.Request, w *engine.Worker, s *state.Storage, name, temporary string) error {
	up := r.Upload
	node := r.W.Nodes[w.Task.Node]
	node.WriteFile(temporary, "an upload")
	w.Logf("starting file import from: %s", temporary)
	guest.Progress(w) // the checksum of a large file takes its time
	err := verifySum(r, w, func(algorithm string) string { return up.Sums[algorithm] })
	if err == nil {
		err = verifyFile(w, name, temporary, up.Data)
	}
	if err != nil {
		delete(node.Files, temporary)
		return err
	}
	w.Logf("target node: %s", r.Node())
	w.Logf("target file: %s", s.VolumePath(name))
	w.Logf("file size is: %d", up.Size)
	command := "cp -- %s %s"
	if w.Task.Node != r.Node() {
		command = "/usr/bin/scp -p -- %s [" + r.Node() + "]:%s"
	}
	w.Logf("command: "+command, temporary, s.VolumePath(name))
	err = copyUpload(r, w, s, name)
	delete(node.Files, temporary)
	if err != nil {
		if !w.CleanupFails() {
			delete(r.W.Volumes, s.Key(r.Node(), name))
		} else {
			w.Logf("cleanup failed: Input/output error")
		}
		return err
	}
	w.Logf("finished file import successfully")
	return nil
}

// copyUpload is cp, which begins with a part of the file in the place of the old one.
func copyUpload(r *engine.Request, w *engine.Worker, s *state.Storage, name string) error {
	up := r.Upload
	if err := room(r, s, up.Size); err != nil {
		return perl.Die("import failed: cp: error writing '%s': %s", s.VolumePath(name), perl.Message(err))
	}
	store(r, s, name, up.Data[:len(up.Data)/2], up.Size/2)
	if err := w.Checkpoint(); err != nil {
		return err
	}
	if s.Offline {
		return perl.Die("import failed: exit code 1")
	}
	store(r, s, name, up.Data, up.Size)
	return nil
}

// room reports a storage that is full.
func room(r *engine.Request, s *state.Storage, size int64) error {
	if s.Total-r.W.Used(r.Node(), s) < size {
		return perl.Die("No space left on device")
	}
	return nil
}

// verifyFile looks whether an image is of the format that its name says (Plugin.pm, file_size_info of an untrusted
// file; Status.pm, assert_ova_contents).
func verifyFile(w *engine.Worker, name, path string, data []byte) error {
	if strings.HasPrefix(name, "iso/") || strings.HasPrefix(name, "vztmpl/") {
		return nil
	}
	switch format := name[strings.LastIndexByte(name, '.')+1:]; {
	case format == "qcow2" && !bytes.HasPrefix(data, []byte("QFI\xfb")),
		format == "vmdk" && !bytes.HasPrefix(data, []byte("KDMV")) && !bytes.HasPrefix(data, []byte("# Disk Desc")):
		w.Logf("command '/usr/bin/qemu-img info '--output=json' %s -f %s' failed: exit code 1", path, format)
		return perl.Die("qemu-img: Could not open '%s': Image is not in %s format", path, format)
	case format == "ova":
		if _, err := appliance.ReadOVA(data); err != nil {
			return perl.Die("%s", err)
		}
	}
	return nil
}

// store writes the file, or that part of it which is known. A qcow2 image counts with its virtual size.
func store(r *engine.Request, s *state.Storage, name string, data []byte, length int64) {
	n, err := s.ParseName(name)
	if err != nil {
		return // contentFile has made the name
	}
	size := length
	if n.Format == "qcow2" && n.Content == "import" && len(data) >= 32 {
		size = int64(binary.BigEndian.Uint64(data[24:32]))
	}
	v := &state.Volume{Storage: s.ID, Node: s.Key(r.Node(), "").Node, Name: name, Content: n.Content, Format: n.Format,
		Size: size}
	if length == int64(len(data)) {
		v.Data, v.Raw = "sha256:"+fileSum("sha256", data), slices.Clone(data)
	} else {
		v.Data, v.Length = "sha256:"+r.Upload.Sums["sha256"], length
	}
	r.W.Put(v)
}

// verifySum holds new data against the checksum of the request, if it has one.
func verifySum(r *engine.Request, w *engine.Worker, sum func(algorithm string) string) error {
	want := r.Params["checksum"]
	if want == "" {
		return nil
	}
	if got := sum(r.Params["checksum-algorithm"]); !strings.EqualFold(got, want) {
		w.Logf("calculating checksum...")
		return perl.Die("checksum mismatch: got '%s' != expect '%s'", got, want)
	}
	w.Logf("calculating checksum...OK, checksum verified")
	return nil
}

func fileSum(algorithm string, data []byte) string {
	h := perl.NewHash(algorithm)
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}
