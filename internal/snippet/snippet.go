// Package snippet puts snippets onto storages of nodes and takes them away again. PVE has no request for that in any version, so it is
// done as root on the node, by SFTP. A file that somebody else has written, or changed, is not touched.
package snippet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/host"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// Shell is what is done on the nodes; package host provides it over SSH.
type Shell interface {
	// VolumePath is the path of a volume that is a file, whether it is there or not.
	VolumePath(ctx context.Context, node, volume string) (string, error)
	// ReadFile reads a file; fs.ErrNotExist: there is none.
	ReadFile(ctx context.Context, node, path string) ([]byte, error)
	// CreateFile makes a file, whole or not at all; fs.ErrExist: there is one.
	CreateFile(ctx context.Context, node, path string, data []byte, mode fs.FileMode) error
	// ReplaceFile writes a file anew, whole or not at all, if its SHA-256 is still the one given, else *host.ChangedError.
	ReplaceFile(ctx context.Context, node, path, sha256 string, data []byte, mode fs.FileMode) error
}

// Spec is a snippet that is wanted on a storage of a node.
type Spec struct {
	Node, Storage, Name string
	Content             string
	// Executable is for hook scripts: PVE takes no others (pve-guest-common GuestHelpers.pm check_hookscript).
	Executable bool
}

// Volume is its volume id.
func (s Spec) Volume() string { return s.Storage + ":snippets/" + s.Name }

// SHA256 is the checksum of what it is to hold.
func (s Spec) SHA256() string { return host.SHA256Of([]byte(s.Content)) }

// mode lets nobody but root read it: PVE reads snippets as root, and there may be secrets in it.
func (s Spec) mode() fs.FileMode {
	if s.Executable {
		return 0o700
	}
	return 0o600
}

// Snippets puts snippets onto the storages of one cluster.
type Snippets struct {
	api     *pve.Client
	jobs    *job.Runner
	remover *remove.Remover
	shell   Shell // nil without SSH
}

// New makes Snippets. shell may be nil: no SSH.
func New(jobs *job.Runner, remover *remove.Remover, shell Shell) *Snippets {
	return &Snippets{api: jobs.API, jobs: jobs, remover: remover, shell: shell}
}

func refused(path, summary, detail string) error {
	return &guest.FieldError{Path: path, Summary: summary, Detail: detail}
}

// errNoSSH is the refusal of everything without SSH.
func errNoSSH() error {
	return refused("", "A snippet takes SSH", "PVE takes no snippets over its API, in no version. Give the provider ssh, or use "+
		"proxmox_cloud_init_iso, which takes none")
}

// ready makes sure that a storage takes snippets on a node, and is mounted there: else a file would be written under its mount point,
// and one that is on it would be taken for gone. PVE activates the storage for this answer.
func (s *Snippets) ready(ctx context.Context, node, storage string) error {
	all, err := s.api.Storages(ctx, node, "")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(at pve.Storage) bool { return at.ID == storage })
	switch {
	case i < 0:
		return refused("storage", fmt.Sprintf("Node %s has no storage %s", node, storage),
			"It is not there, or this identity may not see it (Datastore.Audit)")
	case !all[i].Holds("snippets"):
		return refused("storage", fmt.Sprintf("Storage %s is not for snippets", storage), fmt.Sprintf("It is of type %s and configured for %s. "+
			"As root, for a storage of files: `pvesm set %s --content %s`", all[i].Type, strings.Join(all[i].Content, ","), storage,
			strings.Join(append(slices.Clone(all[i].Content), "snippets"), ",")))
	case !all[i].Enabled || !all[i].Active:
		return refused("storage", fmt.Sprintf("Storage %s is not available on node %s", storage, node),
			"It is disabled, or its server cannot be reached. Whether a file is on it cannot be told, and none can be put there")
	}
	return nil
}

// Content is what a snippet holds.
type Content struct {
	Text   string
	SHA256 string
}

func contentOf(data []byte) Content { return Content{Text: string(data), SHA256: host.SHA256Of(data)} }

// Read is what a snippet holds now; false: it is gone. It is gone only if its storage is there.
func (s *Snippets) Read(ctx context.Context, spec Spec) (Content, bool, error) {
	if s.shell == nil {
		return Content{}, false, errNoSSH()
	}
	path, err := s.shell.VolumePath(ctx, spec.Node, spec.Volume())
	if err != nil {
		return Content{}, false, err
	}
	data, err := s.shell.ReadFile(ctx, spec.Node, path)
	if errors.Is(err, fs.ErrNotExist) {
		return Content{}, false, s.ready(ctx, spec.Node, spec.Storage)
	}
	return contentOf(data), err == nil, err
}

// Update writes a snippet anew that holds what the plan has shown.
func (s *Snippets) Update(ctx context.Context, spec Spec, seen string) error {
	if s.shell == nil {
		return errNoSSH()
	}
	if err := s.ready(ctx, spec.Node, spec.Storage); err != nil {
		return err
	}
	path, err := s.shell.VolumePath(ctx, spec.Node, spec.Volume())
	if err != nil {
		return err
	}
	err = s.shell.ReplaceFile(ctx, spec.Node, path, seen, []byte(spec.Content), spec.mode())
	changed := (*host.ChangedError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &changed) && changed.SHA256 == spec.SHA256(): // an earlier try has done it
		return nil
	case errors.As(err, &changed):
		return refused("content", "The snippet is not what the plan has shown", fmt.Sprintf("Somebody has changed %s on node %s since: its "+
			"sha256 is %s. It was not touched. The next plan shows the change", spec.Volume(), spec.Node, changed.SHA256))
	}
	look, cancel := s.jobs.LookAfter(ctx)
	defer cancel()
	if data, readErr := s.shell.ReadFile(look, spec.Node, path); readErr == nil && string(data) == spec.Content {
		return nil // the answer was lost
	}
	return err
}

// Delete removes a snippet that no guest uses and that holds what was written. One that is gone is a success.
func (s *Snippets) Delete(ctx context.Context, spec Spec, written string) error {
	if s.shell == nil {
		return errNoSSH()
	}
	if err := s.ready(ctx, spec.Node, spec.Storage); err != nil {
		return err
	}
	path, err := s.shell.VolumePath(ctx, spec.Node, spec.Volume())
	if err != nil {
		return err
	}
	err = s.remover.FreeSnippet(ctx, remove.Snippet{Node: spec.Node, Volume: spec.Volume(), Path: path, SHA256: written})
	changed := (*host.ChangedError)(nil)
	if errors.As(err, &changed) {
		return refused("content", "Somebody has changed the snippet", fmt.Sprintf("%s on node %s is not what was written there: "+
			"its sha256 is %s. It was not touched. Apply the configuration, which shows the change and writes it over, and destroy then; "+
			"or leave it to whoever has changed it with terraform state rm", spec.Volume(), spec.Node, changed.SHA256))
	}
	return err
}
