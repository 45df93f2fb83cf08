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
	"net/url"
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
	data := r.Upload.Data
	w.Logf("starting file import from: %s", temporary)
	if err := r.verifySum(w, data); err != nil {
		return err
	}
	if err := w.verifyFile(name, temporary, data); err != nil {
		return err
	}
	w.Logf("target node: %s", r.node())
	w.Logf("target file: %s", s.VolumePath(name))
	w.Logf("file size is: %d", len(data))
	w.Logf("command: cp -- %s %s", temporary, s.VolumePath(name))
	if err := w.Checkpoint(); err != nil {
		return err
	}
	if s.Offline {
		return Die("import failed: exit code 1")
	}
	r.store(s, name, data)
	w.Logf("finished file import successfully")
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

// contentDownload is POST download-url: the node fetches the file.
func contentDownload(r *Request) (any, error) {
	s, err := r.W.StorageEnabled(r.node(), r.Params["storage"])
	if err != nil {
		return nil, err
	}
	content := r.Params["content"]
	switch {
	case !s.IsDir():
		return nil, Die("can't upload to storage type '%s', not a file based storage!", s.Type)
	case !s.Has(content):
		return nil, Die("storage '%s' is not configured for content-type '%s'", s.ID, content)
	}
	name, err := r.contentFile(r.Params["filename"])
	if err != nil {
		return nil, err
	}
	if _, err := r.W.StorageActive(r.node(), s.ID); err != nil {
		return nil, err
	}
	file := name[strings.IndexByte(name, '/')+1:]
	return r.taskFor("download", url.QueryEscape(file), func(w *Worker) error { return r.download(w, s, name) }), nil
}

// download is pve-common's download_file_from_url (Tools.pm).
func (r *Request) download(w *Worker, s *state.Storage, name string) error {
	path, sum := s.VolumePath(name), r.Params["checksum"]
	w.Logf("downloading %s to %s", r.Params["url"], path)
	if old := w.W.Volume(r.node(), s.ID+":"+name); old != nil {
		if sum == "" {
			return Die("refusing to override existing file '%s'", path)
		}
		if got := fileSum(r.Params["checksum-algorithm"], old.Raw); !strings.EqualFold(got, sum) {
			w.Logf("calculating checksum of existing file...")
			return Die("checksum mismatch: got '%s' != expect '%s', aborting", got, sum)
		}
		w.Logf("calculating checksum of existing file...OK, got correct file already, no need to download")
		return nil
	}
	temporary := path + ".tmp_dwnl." + itoa(0x2e9c+w.Server.forks)
	data, err := w.fetch(r.Params["url"], temporary)
	if err != nil {
		return Die("download failed: %s", text(err))
	}
	if err := r.verifySum(w, data); err != nil {
		return err
	}
	if err := w.verifyFile(name, temporary, data); err != nil {
		return Die("failed to verify file: %s", text(err))
	}
	if err := w.Checkpoint(); err != nil {
		return err
	}
	r.store(s, name, data)
	w.Logf("download of '%s' to '%s' finished", r.Params["url"], path)
	return nil
}

// store writes the file. A qcow2 image counts with its virtual size.
func (r *Request) store(s *state.Storage, name string, data []byte) {
	n, err := s.ParseName(name)
	if err != nil {
		return // contentFile has made the name
	}
	size := int64(len(data))
	if n.Format == "qcow2" && n.Content == "import" && len(data) >= 32 {
		size = int64(binary.BigEndian.Uint64(data[24:32]))
	}
	r.W.Put(&state.Volume{Storage: s.ID, Node: s.Key(r.node(), "").Node, Name: name, Content: n.Content, Format: n.Format,
		Size: size, Data: "sha256:" + fileSum("sha256", data), Raw: slices.Clone(data)})
}

// verifySum holds new data against the checksum of the request, if it has one.
func (r *Request) verifySum(w *Worker, data []byte) error {
	want := r.Params["checksum"]
	if want == "" {
		return nil
	}
	if got := fileSum(r.Params["checksum-algorithm"], data); !strings.EqualFold(got, want) {
		w.Logf("calculating checksum...")
		return Die("checksum mismatch: got '%s' != expect '%s'", got, want)
	}
	w.Logf("calculating checksum...OK, checksum verified")
	return nil
}

func fileSum(algorithm string, data []byte) string {
	var h hash.Hash
	switch algorithm {
	case "md5":
		h = md5.New()
	case "sha1":
		h = sha1.New()
	case "sha224":
		h = sha256.New224()
	case "sha384":
		h = sha512.New384()
	case "sha512":
		h = sha512.New()
	default:
		h = sha256.New()
	}
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}
