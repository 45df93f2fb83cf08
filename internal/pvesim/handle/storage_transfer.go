package handle

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// The names that an upload or a download may give a file (pve-storage Storage.pm, ISO_EXT_RE_0 and its like).
var (
	isoFile      = regexp.MustCompile(`(?i)^[^/]+\.(?:iso|img)$`)
	templateFile = regexp.MustCompile(`(?i)^[^/]+\.tar\.(?:gz|xz|zst|bz2)$`)
	importFile   = regexp.MustCompile(`^[a-zA-Z0-9\-.+=_]+\.(ova|qcow2|raw|vmdk)$`)
	unsafe       = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)
)

// contentFile is the volume name of a file that is to be put onto a storage (API2/Storage/Status.pm, upload and download_url).
func (r *Request) contentFile(filename string) (string, error) {
	file := unsafe.ReplaceAllString(filename[strings.LastIndexAny(filename, `/\`)+1:], "_")
	content := r.Params["content"]
	switch {
	case content == "iso" && !isoFile.MatchString(file), content == "vztmpl" && !templateFile.MatchString(file):
		return "", Invalid("filename", "wrong file extension")
	case content == "import" && !importFile.MatchString(file):
		return "", Invalid("filename", "invalid filename or wrong extension")
	}
	return content + "/" + file, nil
}

// contentUpload is POST upload: an existing file is overwritten.
func contentUpload(r *Request) (any, error) {
	s, err := r.W.StorageEnabled(r.node(), r.Params["storage"])
	if err != nil {
		return nil, err
	}
	if !s.IsDir() {
		return nil, Die("can't upload to storage type '%s'", s.Type)
	}
	if r.Upload == nil {
		return nil, Die("missing temporary file name")
	}
	name, err := r.contentFile(r.Params["filename"])
	if err != nil {
		return nil, err
	}
	if content := r.Params["content"]; !s.Has(content) {
		return nil, Die("storage '%s' does not support '%s' content", s.ID, content)
	}
	if _, err := r.W.StorageActive(r.node(), s.ID); err != nil {
		return nil, err
	}
	temporary := "/var/tmp/pveupload-" + strings.ReplaceAll(r.W.UUID(), "-", "")
	return r.taskFor("imgcopy", "", func(w *Worker) error { return r.upload(w, s, name, temporary) }), nil
}

func (r *Request) upload(w *Worker, s *state.Storage, name, temporary string) error {
	up := r.Upload
	node := r.W.Nodes[r.node()]
	node.WriteFile(temporary, "an upload")
	w.Logf("starting file import from: %s", temporary)
	err := r.verifySum(w, func(algorithm string) string { return up.sums[algorithm] })
	if err == nil {
		err = w.verifyFile(name, temporary, up.Data)
	}
	if err != nil {
		delete(node.Files, temporary)
		return err
	}
	w.Logf("target node: %s", r.node())
	w.Logf("target file: %s", s.VolumePath(name))
	w.Logf("file size is: %d", up.Size)
	w.Logf("command: cp -- %s %s", temporary, s.VolumePath(name))
	err = r.copyUpload(w, s, name)
	delete(node.Files, temporary)
	if err != nil {
		if !w.CleanupFails() {
			delete(r.W.Volumes, s.Key(r.node(), name))
		} else {
			w.Logf("cleanup failed: Input/output error")
		}
		return err
	}
	w.Logf("finished file import successfully")
	return nil
}

// copyUpload is cp, which begins with a part of the file in the place of what was there.
func (r *Request) copyUpload(w *Worker, s *state.Storage, name string) error {
	up := r.Upload
	if err := r.room(s, up.Size); err != nil {
		return Die("import failed: cp: error writing '%s': %s", s.VolumePath(name), text(err))
	}
	r.store(s, name, up.Data[:len(up.Data)/2], up.Size/2)
	if err := w.Checkpoint(); err != nil {
		return err
	}
	if s.Offline {
		return Die("import failed: exit code 1")
	}
	r.store(s, name, up.Data, up.Size)
	return nil
}

// room reports a storage that is full.
func (r *Request) room(s *state.Storage, size int64) error {
	if s.Total-r.W.Used(r.node(), s) < size {
		return Die("No space left on device")
	}
	return nil
}

// verifyFile looks whether an image is of the format that its name says (Plugin.pm, file_size_info of an untrusted file;
// Status.pm, assert_ova_contents).
func (w *Worker) verifyFile(name, path string, data []byte) error {
	if strings.HasPrefix(name, "iso/") || strings.HasPrefix(name, "vztmpl/") {
		return nil
	}
	switch format := name[strings.LastIndexByte(name, '.')+1:]; {
	case format == "qcow2" && !bytes.HasPrefix(data, []byte("QFI\xfb")),
		format == "vmdk" && !bytes.HasPrefix(data, []byte("KDMV")) && !bytes.HasPrefix(data, []byte("# Disk Desc")):
		w.Logf("command '/usr/bin/qemu-img info '--output=json' %s -f %s' failed: exit code 1", path, format)
		return Die("qemu-img: Could not open '%s': Image is not in %s format", path, format)
	case format == "ova":
		if _, err := readOVA(data); err != nil {
			return Die("%s", err)
		}
	}
	return nil
}

// store writes the file, or that part of it which is known. A qcow2 image counts with its virtual size.
func (r *Request) store(s *state.Storage, name string, data []byte, length int64) {
	n, err := s.ParseName(name)
	if err != nil {
		return // contentFile has made the name
	}
	size := length
	if n.Format == "qcow2" && n.Content == "import" && len(data) >= 32 {
		size = int64(binary.BigEndian.Uint64(data[24:32]))
	}
	v := &state.Volume{Storage: s.ID, Node: s.Key(r.node(), "").Node, Name: name, Content: n.Content, Format: n.Format, Size: size}
	if length == int64(len(data)) {
		v.Data, v.Raw = "sha256:"+fileSum("sha256", data), slices.Clone(data)
	} else {
		v.Data, v.Length = "sha256:"+r.Upload.sums["sha256"], length
	}
	r.W.Put(v)
}

// verifySum holds new data against the checksum of the request, if it has one.
func (r *Request) verifySum(w *Worker, sum func(algorithm string) string) error {
	want := r.Params["checksum"]
	if want == "" {
		return nil
	}
	if got := sum(r.Params["checksum-algorithm"]); !strings.EqualFold(got, want) {
		w.Logf("calculating checksum...")
		return Die("checksum mismatch: got '%s' != expect '%s'", got, want)
	}
	w.Logf("calculating checksum...OK, checksum verified")
	return nil
}

func newHash(algorithm string) hash.Hash {
	switch algorithm {
	case "md5":
		return md5.New()
	case "sha1":
		return sha1.New()
	case "sha224":
		return sha256.New224()
	case "sha384":
		return sha512.New384()
	case "sha512":
		return sha512.New()
	}
	return sha256.New()
}

func fileSum(algorithm string, data []byte) string {
	h := newHash(algorithm)
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}
