package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// MadeFile is a file (ISO image, image to import) that was put on a storage, as the storage listed it right after. PVE keeps neither an
// owner nor a checksum of a file. Size and time of the last change prove that it is still that one: whatever takes its place, or
// writes to it, has another time (pve-storage Plugin.pm get_subdir_files lists the ctime of the inode).
type MadeFile struct {
	Node      string    `json:"-"`
	Volume    string    `json:"volume"`
	Size      int64     `json:"size"`
	CreatedAt time.Time `json:"created_at"`
}

// Is reports whether a volume of a listing is the file.
func (f MadeFile) Is(v pve.Volume) bool {
	return v.ID == f.Volume && v.Size == f.Size && !f.CreatedAt.IsZero() && v.CreatedAt.Equal(f.CreatedAt)
}

// content is the content type of the file, as its volume id has it.
func (f MadeFile) content() string {
	_, name, _ := strings.Cut(f.Volume, ":")
	kind, _, _ := strings.Cut(name, "/")
	return kind
}

// OtherFileError says that a file is not, or not any more, the one that was to be removed. It was not touched.
type OtherFileError struct {
	Wanted MadeFile
	Found  pve.Volume
}

// Error says what was made and what is there.
func (e *OtherFileError) Error() string {
	return fmt.Sprintf("%s on node %s has %d bytes, last changed %s; the one that was made here had %d, last changed %s. It was "+
		"not touched",
		e.Wanted.Volume, e.Wanted.Node, e.Found.Size, e.Found.CreatedAt.UTC().Format(time.RFC3339), e.Wanted.Size,
		e.Wanted.CreatedAt.UTC().Format(time.RFC3339))
}

// FreeFile removes a file of ours that no guest uses: its own disks, pending ones and snapshots are looked at, also of containers. An
// identity that does not see all guests removes none. One that is gone is a success.
func (s *Remover) FreeFile(ctx context.Context, l *job.Tasks, f MadeFile) error {
	return s.freeFile(ctx, l, f, claim{node: f.Node, volumes: []string{f.Volume}})
}

// FreeNewFile does the same for a file that a create has just made and takes back at once.
func (s *Remover) FreeNewFile(ctx context.Context, l *job.Tasks, f MadeFile) error {
	return s.freeFile(ctx, l, f, claim{node: f.Node, volumes: []string{f.Volume}, untouched: true})
}

func (s *Remover) freeFile(ctx context.Context, l *job.Tasks, f MadeFile, c claim) error {
	// Looked at first too: what is gone, or another's, needs no look at all guests.
	if there, err := s.isThere(ctx, f); err != nil || !there {
		return err
	}
	e, err := s.prove(ctx, c)
	if err != nil {
		return err
	}
	if err := s.isNotElsewhere(ctx, e, f); err != nil {
		return err
	}
	if there, err := s.isThere(ctx, f); err != nil || !there {
		return err
	}
	err = s.freeVolume(ctx, l, e, f.Volume)
	if pve.IsKind(err, pve.Denied) && s.shell != nil {
		err = s.freeByShell(ctx, e, f.Volume)
	}
	look, cancel := s.jobs.LookAfter(ctx)
	defer cancel()
	there, lookErr := s.isThere(look, f)
	switch {
	case lookErr == nil && !there: // whatever the answer was
		return nil
	case err != nil:
		return err
	case lookErr != nil:
		return fmt.Errorf("whether %s is gone from node %s: %w", f.Volume, f.Node, lookErr)
	}
	return fmt.Errorf("%s is still on node %s, although PVE says that it was removed", f.Volume, f.Node)
}

// isNotElsewhere is an error where a guest uses the file by the name that it has on another storage, which is the same directory or the
// same export: PVE knows nothing of that. There it has the same size and the same time; a copy that has the same is taken for it, too.
func (s *Remover) isNotElsewhere(ctx context.Context, e Evidence, f MadeFile) error {
	for storage, users := range e.others.Namesakes(f.Volume) {
		for _, user := range users {
			_, name, _ := strings.Cut(f.Volume, ":")
			twin := MadeFile{Node: user.Guest.Node, Volume: storage + ":" + name, Size: f.Size, CreatedAt: f.CreatedAt}
			same, err := s.isThere(ctx, twin)
			if other := (*OtherFileError)(nil); errors.As(err, &other) {
				continue
			}
			if err != nil {
				return fmt.Errorf("whether %s is the same file as %s, which %s uses, cannot be told: %w", f.Volume, twin.Volume, user, err)
			}
			if same {
				return &InUseError{Volume: f.Volume + " (as " + twin.Volume + ")", Users: []string{user.String()}}
			}
		}
	}
	return nil
}

// Files lists the files of a content type on a storage. Of a type that the storage is not configured for PVE lists none, though
// there may be some (pve-storage Storage.pm volume_list), and of a node that is away nothing is known: both are errors.
func (s *Remover) Files(ctx context.Context, node, storage, content string) ([]pve.Volume, error) {
	resources, err := s.api.SharedResources(ctx)
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
		return nil, &guest.FieldError{Path: "content", Summary: fmt.Sprintf("Storage %s is not for %s content", storage, content),
			Detail: fmt.Sprintf("It is configured for %s, and PVE lists nothing else of it", at.Content)}
	}
	return s.api.Content(ctx, node, storage, content, 0)
}

// isThere looks for the file. Another one of its name is an *OtherFileError.
func (s *Remover) isThere(ctx context.Context, f MadeFile) (bool, error) {
	volumes, err := s.Files(ctx, f.Node, vm.VolumeStorage(f.Volume), f.content())
	if err != nil {
		return false, err
	}
	other := error(nil)
	for _, v := range volumes {
		switch {
		case f.Is(v):
			return true, nil
		case v.ID == f.Volume:
			other = &OtherFileError{Wanted: f, Found: v}
		}
	}
	return false, other
}

// Snippet is a snippet on a storage: where it is, and what it holds.
type Snippet struct{ Node, Volume, Path, SHA256 string }

// FreeSnippet removes a snippet that holds what it did when it was last seen, and that no guest uses: in cicustom or as its hookscript,
// now, pending or in a snapshot. An identity that does not see all guests removes none. One that is gone is a success.
func (s *Remover) FreeSnippet(ctx context.Context, f Snippet) error {
	return s.freeSnippet(ctx, f, claim{node: f.Node, volumes: []string{f.Volume}})
}

// FreeNewSnippet does the same for one that a create has just written and takes back at once.
func (s *Remover) FreeNewSnippet(ctx context.Context, f Snippet) error {
	return s.freeSnippet(ctx, f, claim{node: f.Node, volumes: []string{f.Volume}, untouched: true})
}

func (s *Remover) freeSnippet(ctx context.Context, f Snippet, c claim) error {
	e, err := s.prove(ctx, c)
	if err != nil {
		return err
	}
	return s.removeByShell(ctx, e, f)
}
