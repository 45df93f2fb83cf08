package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// MadeFile is a file (ISO image, image to import) that was put on a storage, as the storage listed it right after.
// PVE keeps neither an owner nor a checksum of a file. Size and time of the last change prove that it is still that
// one: a file that replaces it, or a write to it, has another time (pve-storage Plugin.pm get_subdir_files lists the
// ctime of the inode).
type MadeFile struct {
	Node      string    `json:"-"`
	Volume    string    `json:"volume"`
	Size      int64     `json:"size"`
	CreatedAt time.Time `json:"created_at"`
}

// Is reports whether a volume of a listing is the file.
func (m MadeFile) Is(v pve.Volume) bool {
	return v.ID == m.Volume && v.Size == m.Size && !m.CreatedAt.IsZero() && v.CreatedAt.Equal(m.CreatedAt)
}

// content is the content type of the file, as its volume id has it.
func (m MadeFile) content() string {
	_, name, _ := strings.Cut(m.Volume, ":")
	kind, _, _ := strings.Cut(name, "/")
	return kind
}

// OtherFileError says that a file is not, or no longer, the one that was to be removed. It was not touched.
type OtherFileError struct {
	Wanted MadeFile
	Found  pve.Volume
}

// Error compares the file that was made with the one that is there.
func (o *OtherFileError) Error() string {
	return fmt.Sprintf("%s on node %s has %d bytes, last changed %s; the one that was made here had %d, last changed "+
		"%s. It was not touched",
		o.Wanted.Volume, o.Wanted.Node, o.Found.Size, o.Found.CreatedAt.UTC().Format(time.RFC3339), o.Wanted.Size,
		o.Wanted.CreatedAt.UTC().Format(time.RFC3339))
}

// Files removes files and snippets from storages.
type Files struct{ *Guard }

// Files returns the part of the guard that handles files.
func (g *Guard) Files() Files { return Files{g} }

// Free removes a file of ours that no guest uses. It reads the disks of all guests, pending ones and snapshots too,
// also of containers. An identity that does not see all guests removes none. A missing file is a success.
//
// A create of another run that imports from the file right now cannot be seen: its VM's configuration names no source,
// and neither does the log of its task (qemu-server API2/Qemu.pm create_disks, QemuServer/QemuImage.pm convert). It
// loses nothing. On a file system of the node QEMU has the file open, and reads it to its end. Elsewhere its task
// fails, and PVE and that run remove the half-made VM.
func (f Files) Free(ctx context.Context, tasks *request.Tasks, file MadeFile) error {
	return f.free(ctx, tasks, file, Claim{Node: file.Node, Volumes: []string{file.Volume}, Compares: true})
}

// FreeNew does the same for a file that a create has just made and takes back at once.
func (f Files) FreeNew(ctx context.Context, tasks *request.Tasks, file MadeFile) error {
	return f.free(ctx, tasks, file, Claim{Node: file.Node, Volumes: []string{file.Volume}, Untouched: true})
}

func (f Files) free(ctx context.Context, tasks *request.Tasks, file MadeFile, c Claim) error {
	// First too: a file that is gone, or another one, needs no look at all guests.
	if there, err := f.isThere(ctx, file); err != nil || !there {
		return err
	}
	e, err := f.proveFile(ctx, file, c)
	if err != nil {
		return err
	}
	err = f.Guard.Free(ctx, tasks, e, file.Volume)
	if pve.IsKind(err, pve.Denied) && f.shell != nil {
		err = f.FreeByRoot(ctx, file.Node, file.Volume, func(ctx context.Context) (Evidence, error) {
			if f.CheckFresh(e) != nil {
				return f.proveFile(ctx, file, c)
			}
			return e, nil
		})
	}
	look, cancel := f.jobs.LookAfter(ctx)
	defer cancel()
	there, lookErr := f.isThere(look, file)
	switch {
	case lookErr == nil && !there: // whatever the answer was
		return nil
	case err != nil:
		return err
	case lookErr != nil:
		return fmt.Errorf("whether %s is gone from node %s: %w", file.Volume, file.Node, lookErr)
	}
	return fmt.Errorf("%s is still on node %s, although PVE says that it was removed", file.Volume, file.Node)
}

// proveFile makes evidence that the file is the one that was made, and that no guest uses it by any name.
func (f Files) proveFile(ctx context.Context, file MadeFile, c Claim) (Evidence, error) {
	e, err := f.Prove(ctx, c)
	if err == nil {
		err = f.isNotElsewhere(ctx, e, file)
	}
	if err == nil {
		_, err = f.isThere(ctx, file) // to remove one that is gone by now does no harm
	}
	return e, err
}

// isNotElsewhere is an error if a guest uses the file by its name on another storage that may be the same directory or
// the same export. There the file has the same size and the same time; a copy that has both is taken for it, too.
func (f Files) isNotElsewhere(ctx context.Context, e Evidence, file MadeFile) error {
	if e.use == nil { // untouched: the guests were not read
		return nil
	}
	for _, user := range e.use.Namesakes(file.Volume) {
		twin := MadeFile{Node: user.Guest.Node, Volume: user.As, Size: file.Size, CreatedAt: file.CreatedAt}
		same, err := f.isThere(ctx, twin)
		if other := (*OtherFileError)(nil); errors.As(err, &other) {
			continue
		}
		if err != nil {
			return fmt.Errorf("whether %s is the same file as %s, which %s uses, cannot be told: %w", file.Volume, twin.Volume,
				user, err)
		}
		if same {
			return &InUseError{Volume: file.Volume + " (as " + twin.Volume + ")", Users: []string{user.String()}}
		}
	}
	return nil
}

// List lists the files of a content type on a storage. PVE lists none of a type that the storage is not configured
// for, though there may be some (pve-storage Storage.pm volume_list), and none of a node that is away: both are
// errors.
func (f Files) List(ctx context.Context, node, storage, content string) ([]pve.Volume, error) {
	resources, err := f.api.Listing().Shared(ctx)
	if err != nil {
		return nil, err
	}
	if err := guest.CheckNode(resources, node); err != nil {
		return nil, err
	}
	at, ok := resources.Storage(node, storage)
	switch {
	case !ok:
		return nil, &guest.FieldError{Path: "storage", Summary: fmt.Sprintf("Node %s has no storage %s", node, storage),
			Detail: "It is not there, or disabled, or this identity may not see it (Datastore.Audit)"}
	case !slices.Contains(strings.Split(at.Content, ","), content):
		return nil, &guest.FieldError{Path: "content", Summary: fmt.Sprintf("Storage %s is not for %s content", storage,
			content),
			Detail: fmt.Sprintf("It is configured for %s, and PVE lists nothing else of it", at.Content)}
	}
	return f.api.Storage(node, storage).Content(ctx, content, 0)
}

// isThere looks for the file. Another file of its name is an *OtherFileError.
func (f Files) isThere(ctx context.Context, file MadeFile) (bool, error) {
	volumes, err := f.List(ctx, file.Node, volid.Storage(file.Volume), file.content())
	if err != nil {
		return false, err
	}
	other := error(nil)
	for _, v := range volumes {
		switch {
		case file.Is(v):
			return true, nil
		case v.ID == file.Volume:
			other = &OtherFileError{Wanted: file, Found: v}
		}
	}
	return false, other
}

// Snippet is a snippet on a storage: its place, and the SHA-256 of its content.
type Snippet struct{ Node, Volume, Path, SHA256 string }

// FreeSnippet removes a snippet that has the content which it had when it was last seen, and that no guest uses: in
// cicustom or as its hookscript, now, pending or in a snapshot. An identity that does not see all guests removes
// none. A missing snippet is a success.
func (f Files) FreeSnippet(ctx context.Context, file Snippet) error {
	return f.freeSnippet(ctx, file, Claim{Node: file.Node, Volumes: []string{file.Volume}, Compares: true})
}

// FreeNewSnippet does the same for a snippet that a create has just written and takes back at once.
func (f Files) FreeNewSnippet(ctx context.Context, file Snippet) error {
	return f.freeSnippet(ctx, file, Claim{Node: file.Node, Volumes: []string{file.Volume}, Untouched: true})
}

// freeSnippet removes a snippet. If the answer is lost, it proves again and removes what is still there: the removal
// itself looks at the content first.
func (f Files) freeSnippet(ctx context.Context, file Snippet, c Claim) error {
	prove := func(ctx context.Context) (Evidence, error) {
		e, err := f.Prove(ctx, c)
		if err == nil {
			err = f.isNoNamesake(ctx, e, file)
		}
		return e, err
	}
	err := f.RemoveByRoot(ctx, file, prove)
	if pve.IsKind(err, pve.Ambiguous) {
		err = f.RemoveByRoot(ctx, file, prove)
	}
	return err
}

// isNoNamesake is an error if a guest uses the snippet by its name on another storage that may be the same directory.
func (f Files) isNoNamesake(ctx context.Context, e Evidence, file Snippet) error {
	if e.use == nil || len(e.use.Namesakes(file.Volume)) == 0 {
		return nil
	}
	listed, err := f.List(ctx, file.Node, volid.Storage(file.Volume), "snippets")
	at := slices.IndexFunc(listed, func(v pve.Volume) bool { return v.ID == file.Volume })
	switch {
	case err != nil:
		return err
	case at < 0: // hidden, or gone: the file itself is removed by its path
		return InUse(e.use, []string{file.Volume}, 0)
	}
	return f.isNotElsewhere(ctx, e, MadeFile{Node: file.Node, Volume: file.Volume, Size: listed[at].Size,
		CreatedAt: listed[at].CreatedAt})
}
