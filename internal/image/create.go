package image

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// Create puts a file onto a storage: it is whole and verified there, or nothing of it is; what could not be removed the
// *tx.Error names. The same file is used if it is there already, and another one of its name is refused.
func (s *Images) Create(ctx context.Context, spec Spec) (File, []guest.Warning, error) {
	give, err := s.turn(ctx, spec.Node, spec.Volume())
	if err != nil {
		return File{}, nil, err
	}
	defer give()
	c := &creation{Images: s, spec: spec}
	err = tx.Run(ctx, undoTime,
		tx.Step{Name: "look what is on storage " + spec.Storage, Do: c.look},
		tx.Step{Name: c.verb() + " " + spec.Name, Do: c.put, Undo: c.takeBack},
		tx.Step{Name: "look for " + spec.Volume(), Do: c.readBack})
	if err != nil {
		return File{}, nil, err
	}
	return c.file, c.warnings, nil
}
