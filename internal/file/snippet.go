package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
)

// Shell reads and writes files of a node as root, which package ssh does over SSH. PVE has no request that writes a
// snippet, in any version.
type Shell interface {
	diskimport.Shell
	// VolumePath returns the path of a volume that is a file, whether the file exists or not.
	VolumePath(ctx context.Context, node, volume string) (string, error)
	// ReadFile reads a file. Its error is fs.ErrNotExist if there is none.
	ReadFile(ctx context.Context, node, path string) ([]byte, error)
	// CreateFile makes a file, whole or not at all. Its error is fs.ErrExist if there is one, and ssh.ErrUntold if it
	// cannot be told whether it was made.
	CreateFile(ctx context.Context, node, path string, data []byte, mode fs.FileMode) error
	// ReplaceFile replaces the content of a file, whole or not at all, if the SHA-256 of the old content is still the
	// given one. Otherwise its error is a *ssh.ChangedError. The new file keeps those bits of kept that the old one has.
	ReplaceFile(ctx context.Context, node, path, sha256 string, data []byte, mode, kept fs.FileMode) error
}

// mode keeps everybody but root from reading a snippet: PVE reads it as root, and it may hold secrets.
func (s Spec) mode() fs.FileMode {
	if s.Executable {
		return 0o700
	}
	return 0o600
}

// kept are the bits that a rewrite leaves as they are: PVE starts no guest whose hook script is not executable
// (pve-guest-common GuestHelpers.pm check_hookscript, exec_hookscript). The bits to read are not kept: the new content
// may hold secrets.
func (s Spec) kept() fs.FileMode {
	if s.StaysExecutable {
		return 0o111
	}
	return 0
}

func errNoSSH() error {
	return refused("", "A snippet takes SSH", "PVE takes no snippets over its API, in no version. Give the provider "+
		"ssh, or use proxmox_cloud_init_iso, which takes none")
}

// ready makes sure that a storage takes snippets on a node, and is mounted there. On an unmounted storage the provider
// would write below the mount point, and would take an existing file for gone. PVE activates the storage for this
// answer.
func (f *Files) ready(ctx context.Context, node, storage string) error {
	all, err := f.api.Node(node).Storages(ctx, "")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(at pve.Storage) bool { return at.ID == storage })
	switch {
	case i < 0:
		return refused("storage", fmt.Sprintf("Node %s has no storage %s", node, storage),
			"It is not there, or this identity may not see it (Datastore.Audit)")
	case !all[i].Holds(Snippets):
		return refused("storage", fmt.Sprintf("Storage %s is not for snippets", storage), fmt.Sprintf("It is of type %s and "+
			"configured for %s. As root, for a storage of files: %s", all[i].Type, strings.Join(all[i].Content, ","),
			widening(storage, append(slices.Clone(all[i].Content), Snippets))))
	case !all[i].Enabled || !all[i].Active:
		return refused("storage", fmt.Sprintf("Storage %s is not available on node %s", storage, node),
			"It is disabled, or its server cannot be reached. Whether a file is on it cannot be told, and none can be put there")
	}
	return nil
}

// locate returns the path of a snippet on a storage that is ready.
func (f *Files) locate(ctx context.Context, spec Spec) (string, error) {
	if f.shell == nil {
		return "", errNoSSH()
	}
	if err := f.ready(ctx, spec.Node, spec.Storage); err != nil {
		return "", err
	}
	return f.shell.VolumePath(ctx, spec.Node, spec.Volume())
}

// writing is the create of a snippet over SSH.
type writing struct {
	*Files
	spec    Spec
	path    string
	present bool // the identical file was there
	wrote   bool // it was written, or may have been
}

func (w *writing) steps() []saga.Step {
	return []saga.Step{
		{Name: "look what is on storage " + w.spec.Storage, Do: w.look},
		{Name: "write " + w.spec.Volume(), Do: w.write, Undo: w.undo},
	}
}

func (w *writing) made() (File, []guest.Warning) {
	return File{MadeFile: guard.MadeFile{Node: w.spec.Node, Volume: w.spec.Volume(), Size: w.spec.Source.Size},
		Made: w.wrote}, nil
}

func (w *writing) look(ctx context.Context) error {
	var err error
	if w.path, err = w.locate(ctx, w.spec); err == nil {
		w.present, err = w.isThere(ctx)
	}
	return err
}

// isThere reports whether the wanted file exists. A different file of its name is an error.
func (w *writing) isThere(ctx context.Context) (bool, error) {
	data, err := w.shell.ReadFile(ctx, w.spec.Node, w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !bytes.Equal(data, w.spec.Source.Data):
		return false, refused("name", fmt.Sprintf("There is %s on node %s already", w.spec.Volume(), w.spec.Node),
			fmt.Sprintf(
				"It has other content (%d bytes, sha256 %s). It was not touched. Adopt it with terraform import, remove it if it "+
					"is not needed, or set name to another one", len(data), ssh.SHA256Of(data)))
	}
	return true, nil
}

func (w *writing) write(ctx context.Context) error {
	if w.present {
		return nil
	}
	err := w.shell.CreateFile(ctx, w.spec.Node, w.path, w.spec.Source.Data, w.spec.mode())
	if errors.Is(err, fs.ErrExist) { // a third party was faster
		there, err := w.isThere(ctx)
		if err == nil && !there {
			err = fmt.Errorf("%s came and went on node %s meanwhile", w.spec.Volume(), w.spec.Node)
		}
		return err
	}
	w.wrote = err == nil || errors.Is(err, ssh.ErrUntold)
	if err == nil || !w.wrote || ctx.Err() != nil {
		return err
	}
	look, cancel := w.runner.LookAfter(ctx)
	defer cancel()
	if there, lookErr := w.isThere(look); there && lookErr == nil { // ours, or the equal one of another run: it stays
		w.wrote = false
		return nil
	}
	return err
}

// undo removes the snippet that was written. It was not there before, and must still have the written content.
func (w *writing) undo(ctx context.Context) error {
	if !w.wrote {
		return nil
	}
	err := w.guard.FreeNewSnippet(ctx, guard.Snippet{Node: w.spec.Node, Volume: w.spec.Volume(), Path: w.path,
		SHA256: w.spec.Source.Checksum.Value})
	changed := (*ssh.ChangedError)(nil)
	if err == nil || errors.As(err, &changed) { // a third party has put another file there
		w.wrote = false
		return nil
	}
	return &saga.LeftError{Err: err, Left: []saga.Residue{{Kind: "snippet", Node: w.spec.Node, ID: w.spec.Volume(),
		What: "snippet " + w.spec.Volume(), Reason: "it may have been written, and could not be removed again. By now a " +
			"third party's file may have its name: compare its content before you remove it"}}}
}

// ReadSnippet returns the content of a snippet; false: it is gone. It is gone only if its storage is available.
func (f *Files) ReadSnippet(ctx context.Context, spec Spec) (*Source, bool, error) {
	if f.shell == nil {
		return nil, false, errNoSSH()
	}
	found, there, err := f.readSnippet(ctx, spec)
	if err == nil {
		return found, there, nil
	}
	by, left, unreached := f.via(ctx, spec.Node, spec.Storage)
	if by == spec.Node || unreached != nil {
		return nil, false, cmp.Or(unreached, err)
	}
	spec.Node = by
	if found, there, err = f.readSnippet(ctx, spec); err == nil && !there {
		err = left
	}
	return found, there, err
}

func (f *Files) readSnippet(ctx context.Context, spec Spec) (*Source, bool, error) {
	path, err := f.shell.VolumePath(ctx, spec.Node, spec.Volume())
	if err != nil {
		return nil, false, err
	}
	data, err := f.shell.ReadFile(ctx, spec.Node, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := f.ready(ctx, spec.Node, spec.Storage); err != nil {
			return nil, false, err
		}
		if data, err = f.shell.ReadFile(ctx, spec.Node, path); errors.Is(err, fs.ErrNotExist) { // mounted by now
			return nil, false, nil
		}
	}
	return Of(spec.Name, data), err == nil, err
}

// UpdateSnippet replaces the content of a snippet. seen is the SHA-256 of the content that the plan has shown: a
// snippet that has changed since is refused.
func (f *Files) UpdateSnippet(ctx context.Context, spec Spec, seen string) error {
	path, err := f.locate(ctx, spec)
	if err != nil {
		return err
	}
	err = f.shell.ReplaceFile(ctx, spec.Node, path, seen, spec.Source.Data, spec.mode(), spec.kept())
	changed := (*ssh.ChangedError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &changed) && changed.SHA256 == spec.Source.Checksum.Value: // an earlier try did it
		return nil
	case errors.As(err, &changed):
		return refused("content", "The snippet is not what the plan has shown", fmt.Sprintf("A third party has changed %s "+
			"on node %s since: its sha256 is %s. It was not touched. The next plan shows the change", spec.Volume(), spec.Node,
			changed.SHA256))
	}
	look, cancel := f.runner.LookAfter(ctx)
	defer cancel()
	if data, readErr := f.shell.ReadFile(look, spec.Node, path); readErr == nil &&
		bytes.Equal(data, spec.Source.Data) {
		return nil // the answer was lost
	}
	return err
}

// DeleteSnippet removes a snippet that no guest uses and whose content has the SHA-256 written. One that is gone is a
// success. The error is ErrReused if another object of this process has it.
func (f *Files) DeleteSnippet(ctx context.Context, spec Spec, written string) error {
	by, left, err := f.via(ctx, spec.Node, spec.Storage)
	if err != nil {
		return err
	}
	spec.Node = by
	if left != nil {
		if _, there, err := f.readSnippet(ctx, spec); err != nil || !there {
			return cmp.Or(err, left)
		}
	}
	return f.remove(ctx, spec.Node, spec.Volume(), func() error { return f.freeSnippet(ctx, spec, written) })
}

func (f *Files) freeSnippet(ctx context.Context, spec Spec, written string) error {
	path, err := f.locate(ctx, spec)
	if err != nil {
		return err
	}
	err = f.guard.FreeSnippet(ctx, guard.Snippet{Node: spec.Node, Volume: spec.Volume(), Path: path, SHA256: written})
	changed := (*ssh.ChangedError)(nil)
	if errors.As(err, &changed) {
		return refused("content", "A third party has changed the snippet", fmt.Sprintf("%s on node %s has other content "+
			"than the "+
			"resource wrote: its sha256 is %s. It was not touched. Either apply the configuration, which overwrites the "+
			"change, "+
			"and destroy then; or leave the file in place with terraform state rm", spec.Volume(), spec.Node, changed.SHA256))
	}
	return err
}
