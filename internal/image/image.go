// Package image puts files onto storages and takes them away again: ISO images, and images that disks are imported from. A node
// fetches them from a URL, or they are uploaded from here. A file has the beginning of its checksum in its name, since PVE keeps no
// checksums: the same file is there under the same name, and another one never is.
package image

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Spec is a file that is wanted on a storage of a node. It comes from URL or from Source.
type Spec struct {
	Node, Storage string
	// Content is "import" or "iso".
	Content string
	// Name is what the file is called there; FileName makes it.
	Name string

	URL         string
	Checksum    Checksum // of what is downloaded, before it is decompressed; zero: it is not verified
	Compression string   // gz, lzo, zst or bz2: the node decompresses it
	Insecure    bool     // certificates are not verified

	Source *Source
}

// Volume is the volume id of the file.
func (s Spec) Volume() string { return s.Storage + ":" + s.Content + "/" + s.Name }

// isVerifiable reports whether PVE can tell that a file which is there already is the right one: it compares the checksum with that of
// the file on the storage, which a compressed source does not have (pve-common Tools.pm download_file_from_url).
func (s Spec) isVerifiable() bool {
	return s.URL != "" && s.Checksum.Value != "" && s.Compression == ""
}

// File is a file on a storage.
type File struct {
	remove.MadeFile
	// Made is whether it was put there by this create, so that it may be removed with its resource.
	Made bool
}

// Images puts files onto the storages of one cluster.
type Images struct {
	api     *pve.Client
	clock   pve.Clock
	jobs    *job.Runner
	remover *remove.Remover

	mu      sync.Mutex
	turns   map[string]chan struct{} // by node and volume
	sources map[string]Source        // those that were read, by path
	owned   map[string]bool          // files of resources in state, by node and volume
}

// New makes Images.
func New(jobs *job.Runner, remover *remove.Remover) *Images {
	return &Images{api: jobs.API, clock: jobs.Clock, jobs: jobs, remover: remover, turns: map[string]chan struct{}{},
		sources: map[string]Source{}, owned: map[string]bool{}}
}

// Read is the file as it is now; false: it is gone.
func (s *Images) Read(ctx context.Context, node, storage, content, volume string) (File, bool, error) {
	found, err := s.find(ctx, node, storage, content, volume)
	if err != nil || len(found) == 0 {
		return File{}, false, err
	}
	return fileOf(node, found[len(found)-1]), true, nil
}

// find is what a storage lists under the name of a volume. While a download to that name runs, and after one that was killed, its
// temporary file is listed under the name of the image, too: PVE looks for the extension anywhere in the name (pve-storage Plugin.pm
// get_subdir_files, import).
func (s *Images) find(ctx context.Context, node, storage, content, volume string) ([]pve.Volume, error) {
	all, err := s.remover.Files(ctx, node, storage, content)
	var found []pve.Volume
	for _, v := range all {
		if v.ID == volume {
			found = append(found, v)
		}
	}
	return found, err
}

func fileOf(node string, v pve.Volume) File {
	return File{MadeFile: remove.MadeFile{Node: node, Volume: v.ID, Size: v.Size, CreatedAt: v.CreatedAt}}
}

// Delete removes a file that a create has made, unless a guest uses it.
func (s *Images) Delete(ctx context.Context, f remove.MadeFile) error {
	give, err := s.turn(ctx, f.Node, f.Volume)
	if err != nil {
		return err
	}
	defer give()
	return s.remover.FreeFile(ctx, &job.Tasks{}, f)
}

// turn lets one at a time of this process be at work on a file: the second of two that want the same finds it there. On a shared
// storage it is the same file for all nodes.
func (s *Images) turn(ctx context.Context, node, volume string) (give func(), err error) {
	resources, err := s.api.SharedResources(ctx)
	if err != nil {
		return nil, err
	}
	key := node + " " + volume
	if storage, ok := resources.Storage(node, vm.VolumeStorage(volume)); ok && storage.Shared {
		key = volume
	}
	s.mu.Lock()
	turn := s.turns[key]
	if turn == nil {
		turn = make(chan struct{}, 1)
		s.turns[key] = turn
	}
	s.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Local reads a file of this machine and its checksum. It is read once, unless it changes meanwhile. wanted is the checksum that
// it must have, if it is known: another is a *SumError. The error of a file that is not there is a *MissingError.
func (s *Images) Local(ctx context.Context, path string, wanted Checksum) (Source, error) {
	is, err := sourceAt(path, cmp.Or(wanted.Algorithm, "sha256"))
	if err != nil {
		return Source{}, err
	}
	key := is.Checksum.Algorithm + " " + path
	s.mu.Lock()
	known := s.sources[key]
	s.mu.Unlock()
	if known.Size == is.Size && known.Changed.Equal(is.Changed) {
		is = known
	} else if is.Checksum.Value, err = sumOf(ctx, path, is.Checksum.Algorithm); err != nil {
		return Source{}, err
	}
	s.mu.Lock()
	s.sources[key] = is
	s.mu.Unlock()
	if wanted.Value != "" && wanted.Value != is.Checksum.Value {
		return Source{}, &SumError{Path: path, Wanted: wanted, Is: is.Checksum}
	}
	return is, nil
}

// undoTime bounds what is done after a create has failed.
const undoTime = 5 * time.Minute
