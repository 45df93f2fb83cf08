package handle

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// downloadLimit is how much of a file the simulator is willing to read.
const downloadLimit = 256 << 20

// transferTarget does the checks that upload and download-url share.
func (r *Request) transferTarget(filename string) (*state.Storage, string, error) {
	s, err := r.W.StorageEnabled(r.node(), r.Params["storage"])
	if err != nil {
		return nil, "", err
	}
	if !s.IsDir() {
		return nil, "", Die("can't upload to storage type '%s'", s.Type)
	}
	name, err := r.contentFile(s, filename)
	return s, name, err
}

// contentUpload is POST upload: an existing file is overwritten.
func contentUpload(r *Request) (any, error) {
	if r.Upload == nil {
		return nil, Invalid("filename", "property is missing and it is not optional")
	}
	filename := r.Upload.Filename
	if filename == "" {
		filename = r.Params["filename"]
	}
	s, name, err := r.transferTarget(filename)
	if err != nil {
		return nil, err
	}
	data := r.Upload.Data
	return r.taskFor("imgcopy", "", func(w *Worker) error {
		if err := checkSum(r.Params["checksum-algorithm"], r.Params["checksum"], data); err != nil {
			return err
		}
		if err := w.Checkpoint(); err != nil {
			return err
		}
		w.Logf("starting file import from: %s", filename)
		w.Logf("target file: %s", s.VolumePath(name))
		if _, err := w.W.StorageActive(r.node(), s.ID); err != nil {
			return err
		}
		r.store(s, name, data)
		w.Logf("finished file import successfully")
		return nil
	}), nil
}

// contentDownload is POST download-url: the node fetches the file.
func contentDownload(r *Request) (any, error) {
	s, name, err := r.transferTarget(r.Params["filename"])
	if err != nil {
		return nil, err
	}
	file := name[strings.IndexByte(name, '/')+1:]
	return r.taskFor("download", url.QueryEscape(file), func(w *Worker) error { return r.download(w, s, name) }), nil
}

func (r *Request) download(w *Worker, s *state.Storage, name string) error {
	if _, err := w.W.StorageActive(r.node(), s.ID); err != nil {
		return err
	}
	path, sum := s.VolumePath(name), r.Params["checksum"]
	w.Logf("downloading %s to %s", r.Params["url"], path)
	if old := w.W.Volume(r.node(), s.ID+":"+name); old != nil {
		if sum == "" {
			return Die("refusing to override existing file '%s'", path)
		}
		if err := checkSum(r.Params["checksum-algorithm"], sum, old.Raw); err != nil {
			return Die("%s, aborting", text(err))
		}
		return nil
	}
	w.Logf("--%s--  %s", r.W.Clock.Now().UTC().Format(time.DateTime), r.Params["url"]) // wget's
	data, err := w.fetch(r.Params["url"])
	if err != nil {
		return Die("download failed: %s", text(err))
	}
	if err := checkSum(r.Params["checksum-algorithm"], sum, data); err != nil {
		return Die("%s, aborting", text(err))
	}
	if err := w.Checkpoint(); err != nil {
		return err
	}
	r.store(s, name, data)
	w.Logf("download of '%s' to '%s' finished", r.Params["url"], path)
	return nil
}

// fetch gets a file over HTTP with the world's mutex released, and words failures as wget does.
func (w *Worker) fetch(address string) ([]byte, error) {
	w.Server.world.Unlock()
	defer w.Server.world.Lock()
	req, err := http.NewRequestWithContext(w.Server.ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && errors.Is(err, syscall.ECONNREFUSED) {
			return nil, Die("Connecting to %s... failed: Connection refused.", op.Addr)
		}
		return nil, Die("%s", strings.TrimPrefix(err.Error(), `Get "`+address+`": `))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, Die("ERROR %s.", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, downloadLimit))
}

// store writes the file. A qcow2 image counts with its virtual size.
func (r *Request) store(s *state.Storage, name string, data []byte) {
	n, err := s.ParseName(name)
	if err != nil {
		return // transferTarget has made the name
	}
	size := int64(len(data))
	if bytes.HasPrefix(data, []byte("QFI\xfb")) && len(data) >= 32 && n.Content == "import" {
		size = int64(binary.BigEndian.Uint64(data[24:32]))
	}
	sum := sha256.Sum256(data)
	r.W.Put(&state.Volume{Storage: s.ID, Node: s.Key(r.node(), "").Node, Name: name, Content: n.Content, Format: n.Format,
		Size: size, Data: "sha256:" + hex.EncodeToString(sum[:]), Raw: data})
}

func checkSum(algorithm, want string, data []byte) error {
	if want == "" {
		return nil
	}
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
	if got := hex.EncodeToString(h.Sum(nil)); !strings.EqualFold(got, want) {
		return fmt.Errorf("checksum mismatch: got '%s' != expect '%s'", got, strings.ToLower(want))
	}
	return nil
}
