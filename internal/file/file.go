// Package file puts files onto storages and removes them again: ISO images, images that disks are imported from, and
// snippets. A node downloads a file from a URL, the provider uploads it over the API, or it writes a snippet over SSH.
//
// The name of an image carries the beginning of its checksum, because PVE keeps no checksums. The same image therefore
// has the same name, and a different one never has it. A snippet keeps its name, and is compared by its content.
package file

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// The content types of storages that this package writes.
const (
	Import   = "import"
	ISO      = "iso"
	Snippets = "snippets"
)

// Spec is a file that is wanted on a storage of a node. It comes from URL or from Source.
type Spec struct {
	Node, Storage string
	// Content is Import, ISO or Snippets.
	Content string
	// Name is the name of the file on the storage. Name makes that of an image.
	Name string

	URL         string
	Checksum    Checksum // of the downloaded bytes, before decompression; zero: not verified
	Compression string   // gz, lzo, zst or bz2: the node decompresses the download
	Insecure    bool     // the node does not verify certificates

	// Source is the file of this machine; nil with URL. A snippet has its text in Source.Data.
	Source *Source
	// Executable is for hook scripts: PVE accepts no others (pve-guest-common GuestHelpers.pm check_hookscript).
	Executable bool
	// StaysExecutable is for a rewrite of another file: guests may name it as a hook script all the same.
	StaysExecutable bool

	// Replaces: the file comes in the place of another one, which goes before.
	Replaces bool
}

// Volume returns the volume id of the file.
func (s Spec) Volume() string { return s.Storage + ":" + s.Content + "/" + s.Name }

// File is a file on a storage.
type File struct {
	guard.MadeFile
	// Made: this create put it there, so its resource may remove it.
	Made bool
}

// Files puts files onto the storages of one cluster.
type Files struct {
	api    *pve.Client
	clock  pve.Clock
	runner *request.Runner
	guard  guard.Files
	shell  Shell // nil without SSH

	mu      sync.Mutex
	turns   map[string][]turn  // as places are
	sources map[string]Source  // read so far, by algorithm and path
	owned   places             // files of resources in state
	reused  places             // files that a create has found there
	found   places             // likewise, by a resource that is planned to stay
	leaving places             // files of resources that are planned to go, and their files with them
	claims  map[string][]Claim // what the plans so far want in files, as places are
	finders places             // files that an object in state has found there, which are another's or no object's
	yielded places             // files that this process has left to such an object
	gone    places             // files of such objects that this process has destroyed
	fetched map[string][]fetch // downloads of this process, as places are

	heads  request.Recent[about] // by node and address
	asking chan struct{}         // held while a node asks for one of them
	isDeaf bool                  // a server did not answer; read and written by the holder of asking
}

// New makes Files. shell may be nil: without SSH there are no snippets.
func New(runner *request.Runner, guard *guard.Guard, shell Shell) *Files {
	return &Files{api: runner.API, clock: runner.Clock, runner: runner, guard: guard.Files(), shell: shell,
		turns: map[string][]turn{}, sources: map[string]Source{}, owned: places{}, reused: places{},
		found: places{}, leaving: places{}, finders: places{}, yielded: places{}, gone: places{},
		claims: map[string][]Claim{}, fetched: map[string][]fetch{},
		heads: request.Recent[about]{Life: time.Minute}, asking: make(chan struct{}, 1)}
}

// Read returns an image as the storage lists it now; false: it is gone.
func (f *Files) Read(ctx context.Context, node, storage, content, volume string) (File, bool, error) {
	by, left, err := f.via(ctx, node, storage)
	if err != nil {
		return File{}, false, err
	}
	found, err := f.find(ctx, by, storage, content, volume)
	if err != nil || len(found) == 0 {
		return File{}, false, cmp.Or(err, left)
	}
	return listed(node, found[len(found)-1]), true, nil
}

// find returns the entries that a storage lists under the name of a volume. There can be two: PVE looks for the
// extension anywhere in the name (pve-storage Plugin.pm get_subdir_files, import). It therefore lists the temporary
// file of a download under the name of the image as well, while the download runs and after it was killed.
func (f *Files) find(ctx context.Context, node, storage, content, volume string) ([]pve.Volume, error) {
	all, err := f.guard.List(ctx, node, storage, content)
	var found []pve.Volume
	for _, v := range all {
		if v.ID == volume {
			found = append(found, v)
		}
	}
	return found, err
}

func listed(node string, v pve.Volume) File {
	return File{MadeFile: guard.MadeFile{Node: node, Volume: v.ID, Size: v.Size, CreatedAt: v.CreatedAt}}
}

// Delete removes an image that a create has made, unless a guest uses it. Its error is a *guard.OtherFileError if a
// different file has taken its place, and ErrReused if another object of this process has it.
func (f *Files) Delete(ctx context.Context, made guard.MadeFile) error {
	storage, name, _ := strings.Cut(made.Volume, ":")
	by, left, err := f.via(ctx, made.Node, storage)
	if err != nil {
		return err
	}
	if left != nil {
		content, _, _ := strings.Cut(name, "/")
		if found, err := f.find(ctx, by, storage, content, made.Volume); err != nil || len(found) == 0 {
			return cmp.Or(err, left)
		}
	}
	made.Node = by
	return f.remove(ctx, made.Node, made.Volume, func() error { return f.guard.Free(ctx, &request.Tasks{}, made) })
}

// ErrReused says that a file stays because a create of this process has found it there and uses it. An object that is
// replaced with create_before_destroy is destroyed last. One that gets another address is destroyed while the object of
// the new address is created.
var ErrReused = errors.New("another resource has found it there in this run, and uses it")

// remove removes a file in its turn, so that no create is about to find it there, unless one has.
func (f *Files) remove(ctx context.Context, node, volume string, free func() error) error {
	at := place{node, volume}
	release, err := f.turn(ctx, at)
	if err != nil {
		return err
	}
	defer release()
	if f.isAmong(ctx, f.reused, at) || f.isAmong(ctx, f.yielded, at) {
		return ErrReused
	}
	return free()
}

// Local reads a file of this machine and its checksum. It reads the file once, and again only after a change. wanted is
// the checksum that the configuration demands, if any: a different one is a *SumError. The error of a file that does
// not exist is a *MissingError.
func (f *Files) Local(ctx context.Context, path string, wanted Checksum) (Source, error) {
	is, err := sourceAt(path, cmp.Or(wanted.Algorithm, "sha256"))
	if err != nil {
		return Source{}, err
	}
	key := is.Checksum.Algorithm + " " + path
	f.mu.Lock()
	known := f.sources[key]
	f.mu.Unlock()
	if known.Size == is.Size && known.Changed.Equal(is.Changed) {
		is = known
	} else if err := is.read(ctx); err != nil {
		return Source{}, err
	}
	f.mu.Lock()
	f.sources[key] = is
	f.mu.Unlock()
	if wanted.Value != "" && wanted.Value != is.Checksum.Value {
		return Source{}, &SumError{Path: path, Wanted: wanted, Is: is.Checksum}
	}
	return is, nil
}

// Owned records a file that a resource in state has made. If that resource is replaced, its file goes before the new
// one comes. The plan of the new one knows nothing of the old one, and must not report its file as a conflict.
func (f *Files) Owned(node, volume string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owned.add(place{node, volume})
}

// NotOwned takes back that a resource has made its file: a third party has put other content there since.
func (f *Files) NotOwned(node, volume string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owned.drop(place{node, volume})
}

// Stays notes that a resource is planned to stay which has found its file there. It reports whether the resource that
// has made the file is planned to go. Terraform plans the two in any order, so the later one of them learns it.
func (f *Files) Stays(ctx context.Context, node, volume string) bool {
	f.mu.Lock()
	f.found.add(place{node, volume})
	f.mu.Unlock()
	return f.isAmong(ctx, f.leaving, place{node, volume})
}

// Goes notes that the resource which has made a file is planned to go, with the file. It reports whether another is
// planned to stay that has found the file there.
func (f *Files) Goes(ctx context.Context, node, volume string) bool {
	f.mu.Lock()
	f.leaving.add(place{node, volume})
	f.mu.Unlock()
	return f.isAmong(ctx, f.found, place{node, volume})
}

// Replaces notes that an object is planned without prior state which is to make the very file that a resource in state
// has made: as a rule that resource is tainted, or replaced by -replace, and its file goes first. The answer is that of
// Goes.
func (f *Files) Replaces(ctx context.Context, node, volume string) bool {
	f.mu.Lock()
	isMade := slices.Contains(f.owned[nameOf(volume)], place{node, volume})
	f.mu.Unlock()
	return isMade && f.Goes(ctx, node, volume)
}

// Finds notes that an object in state has found its file there.
func (f *Files) Finds(node, volume string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finders.add(place{node, volume})
}

// IsFound reports whether an object in state has found a file there that another one has made.
func (f *Files) IsFound(ctx context.Context, node, volume string) bool {
	return f.isAmong(ctx, f.finders, place{node, volume})
}

// Yield leaves the file of a deposed object to the one that has found it there, unless this process has destroyed that
// one. Only the destroy of a deposed object is planned once more within the apply, and so in the process that carries
// it out (terraform internal/terraform, node_resource_destroy_deposed.go): any other goes with its file.
func (f *Files) Yield(ctx context.Context, node, volume string) {
	at := place{node, volume}
	if !f.isAmong(ctx, f.leaving, at) || f.isAmong(ctx, f.gone, at) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.yielded.add(at)
}

// Inherits notes the destroy of an object that has found its file there. It reports whether the file was left to it.
func (f *Files) Inherits(ctx context.Context, node, volume string) bool {
	at := place{node, volume}
	isLeft := f.isAmong(ctx, f.yielded, at)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone.add(at)
	if isLeft { // a create of this process may have found it there: that stays
		f.yielded.drop(at)
	}
	return isLeft
}

func (f *Files) isReplaced(ctx context.Context, spec Spec) bool {
	return f.isAmong(ctx, f.owned, place{spec.Node, spec.Volume()})
}

// undoTime bounds the undo of a failed create.
const undoTime = 5 * time.Minute

func refused(path, summary, detail string) error {
	return &guest.FieldError{Path: path, Summary: summary, Detail: detail}
}
