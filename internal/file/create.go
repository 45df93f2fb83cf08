package file

import (
	"context"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// creation is the create of one file: over the API (transfer), or over SSH (writing).
type creation interface {
	// steps are the steps of the saga, the first of which changes nothing.
	steps() []saga.Step
	// made is the result of steps that succeeded.
	made() (File, []guest.Warning)
}

// Create puts a file onto a storage: afterwards the file is there, whole and verified, or nothing of it is. A
// *saga.Error names whatever could not be removed. An identical file that exists already is used as it is; a different
// one of the same name is refused.
func (f *Files) Create(ctx context.Context, spec Spec) (File, []guest.Warning, error) {
	release, err := f.turn(ctx, place{spec.Node, spec.Volume()})
	if err != nil {
		return File{}, nil, err
	}
	defer release()
	var c creation = &transfer{Files: f, spec: spec}
	if spec.Content == Snippets {
		if f.shell == nil {
			return File{}, nil, errNoSSH()
		}
		c = &writing{Files: f, spec: spec}
	}
	if err := saga.Run(ctx, undoTime, c.steps()...); err != nil {
		return File{}, nil, err
	}
	file, warnings := c.made()
	f.mu.Lock()
	if !file.Made {
		f.reused.add(place{file.Node, file.Volume})
	}
	if name := nameOf(file.Volume); spec.URL != "" {
		f.fetched[name] = append(f.fetched[name], fetch{spec, file})
	}
	f.mu.Unlock()
	return file, warnings, nil
}

// fetch is a download of this process, and the file that has come of it.
type fetch struct {
	spec Spec
	file File
}

// isFetched reports whether a create of this process has downloaded a listed file from the same address, for another
// node that shares the storage. The file is then as right as a download of its own would be.
func (f *Files) isFetched(ctx context.Context, spec Spec, found pve.Volume) bool {
	f.mu.Lock()
	all := slices.Clone(f.fetched[nameOf(found.ID)])
	f.mu.Unlock()
	return slices.ContainsFunc(all, func(other fetch) bool {
		was := other.file
		other.spec.Node, other.spec.Storage = spec.Node, spec.Storage
		return other.spec == spec && was.Size == found.Size && was.CreatedAt.Equal(found.CreatedAt) &&
			f.IsSame(ctx, spec.Node, found.ID, was.Node, was.Volume)
	})
}
