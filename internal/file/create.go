package file

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
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
	if !file.Made {
		f.mu.Lock()
		f.reused.add(place{file.Node, file.Volume})
		f.mu.Unlock()
	}
	return file, warnings, nil
}
