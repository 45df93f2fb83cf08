package storage

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// contentDownload is POST download-url: the node fetches the file.
func contentDownload(r *engine.Request) (any, error) {
	s, err := r.W.StorageEnabled(r.Node(), r.Params["storage"])
	if err != nil {
		return nil, err
	}
	content := r.Params["content"]
	switch {
	case !s.IsDir():
		return nil, perl.Die("can't upload to storage type '%s', not a file based storage!", s.Type)
	case !s.Has(content):
		return nil, perl.Die("storage '%s' is not configured for content-type '%s'", s.ID, content)
	}
	name, err := contentFile(r, r.Params["filename"])
	if err != nil {
		return nil, err
	}
	if _, err := r.W.StorageActive(r.Node(), s.ID); err != nil {
		return nil, err
	}
	file := name[strings.IndexByte(name, '/')+1:]
	return guest.ForkFor(r, "download", url.QueryEscape(file),
		func(w *engine.Worker) error { return download(r, w, s, name) }), nil
}

// download is pve-common's download_file_from_url (Tools.pm).
func download(r *engine.Request, w *engine.Worker, s *state.Storage, name string) error {
	path, sum := s.VolumePath(name), r.Params["checksum"]
	if content := r.Params["content"]; r.Params["compression"] != "" && content != "iso" {
		return perl.Die("decompression not supported for %s", content)
	}
	if c := r.Params["compression"]; c != "" && !slices.Contains([]string{"gz", "lzo", "zst", "bz2"}, c) {
		return perl.Die("no decompression method found")
	}
	w.Logf("downloading %s to %s", r.Params["url"], path)
	if old := w.W.Volume(r.Node(), s.ID+":"+name); old != nil {
		if sum == "" {
			return perl.Die("refusing to override existing file '%s'", path)
		}
		if got := fileSum(r.Params["checksum-algorithm"], old.Raw); !strings.EqualFold(got, sum) {
			w.Logf("calculating checksum of existing file...")
			return perl.Die("checksum mismatch: got '%s' != expect '%s', aborting", got, sum)
		}
		w.Logf("calculating checksum of existing file...OK, got correct file already, no need to download")
		return nil
	}
	data, err := fetchTo(r, w, s, path, name)
	if err != nil {
		return err
	}
	store(r, s, name, data, int64(len(data)))
	w.Logf("download of '%s' to '%s' finished", r.Params["url"], path)
	return nil
}

// fetchTo downloads to a temporary file, which is removed unless the worker is killed.
func fetchTo(r *engine.Request, w *engine.Worker, s *state.Storage, path, name string) (data []byte, err error) {
	node := r.W.Nodes[r.Node()]
	temporary := fmt.Sprintf("%s.tmp_dwnl.%d", path, process(w))
	if data, err = fetch(w, r.Params["url"], temporary); err == nil {
		if err = room(r, s, int64(len(data))); err != nil {
			err = perl.Die("Cannot write to '%s' (%s).", temporary, perl.Message(err))
		}
	}
	if err != nil {
		return nil, perl.Die("download failed: %s", perl.Message(err))
	}
	node.WriteFile(temporary, string(data))
	unpacked := ""
	err = verifySum(r, w, func(algorithm string) string { return fileSum(algorithm, data) })
	if packed := r.Params["compression"]; err == nil && packed != "" {
		unpacked = fmt.Sprintf("%s.tmp_dcom.%d", path, process(w))
		w.Logf("decompressing %s to %s", temporary, unpacked)
		if data, err = decompress(packed, data); err == nil {
			node.WriteFile(unpacked, string(data))
			delete(node.Files, temporary)
		}
	}
	if err == nil {
		if err = verifyFile(w, name, temporary, data); err != nil {
			err = perl.Die("failed to verify file: %s", perl.Message(err))
		}
	}
	if err == nil {
		err = w.Checkpoint()
	}
	if err != nil && w.CleanupFails() {
		w.Logf("could not cleanup temporary file: Input/output error")
		return nil, err
	}
	delete(node.Files, temporary)
	delete(node.Files, unpacked)
	return data, err
}

// decompress undoes a compression (pve-storage Storage.pm decompressor_info, iso). Those that need a program of the
// node are not simulated.
func decompress(format string, data []byte) ([]byte, error) {
	var from io.Reader
	var err error
	switch format {
	case "gz":
		from, err = gzip.NewReader(bytes.NewReader(data))
	case "bz2":
		from = bzip2.NewReader(bytes.NewReader(data))
	default:
		return nil, perl.Die("command for %s is not simulated", format)
	}
	if err != nil {
		return nil, perl.Die("command 'zcat' failed: exit code 1")
	}
	data, err = io.ReadAll(io.LimitReader(from, downloadLimit))
	if err != nil {
		return nil, perl.Die("command 'zcat' failed: exit code 1")
	}
	return data, nil
}

// process is the id of the worker's process, as its UPID has it.
func process(w *engine.Worker) int64 {
	pid, _ := strconv.ParseInt(strings.Split(w.Task.UPID, ":")[2], 16, 64) // newWorker has made it
	return pid
}
