package snippet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/host"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// undoTime bounds what is done after a create has failed.
const undoTime = 2 * time.Minute

// Check tells at plan time what would certainly fail of a new snippet. What cannot be looked at it does not report.
func (s *Snippets) Check(ctx context.Context, spec Spec) error {
	if s.shell == nil {
		return errNoSSH()
	}
	resources, err := s.api.SharedResources(ctx)
	if err != nil {
		return err
	}
	if err := guest.CheckNode(resources, spec.Node); err != nil {
		return err
	}
	c := &creation{Snippets: s, spec: spec}
	err = c.look(ctx)
	if field := (*guest.FieldError)(nil); errors.As(err, &field) {
		return err
	}
	return nil // who cannot look does not judge
}

// Create puts a snippet onto a storage. made: by this create; the same one that is there already is used as it is. Another one of
// its name is refused. What a failure leaves, the *tx.Error names.
func (s *Snippets) Create(ctx context.Context, spec Spec) (made bool, err error) {
	if s.shell == nil {
		return false, errNoSSH()
	}
	c := &creation{Snippets: s, spec: spec}
	err = tx.Run(ctx, undoTime,
		tx.Step{Name: "look what is on storage " + spec.Storage, Do: c.look},
		tx.Step{Name: "write " + spec.Volume(), Do: c.write, Undo: c.takeBack})
	return c.wrote, err
}

// creation is a snippet on its way.
type creation struct {
	*Snippets
	spec    Spec
	path    string
	present bool // it was there
	wrote   bool // it was written, or may have been
}

func (c *creation) look(ctx context.Context) error {
	if err := c.ready(ctx, c.spec.Node, c.spec.Storage); err != nil {
		return err
	}
	var err error
	if c.path, err = c.shell.VolumePath(ctx, c.spec.Node, c.spec.Volume()); err != nil {
		return err
	}
	c.present, err = c.isThere(ctx)
	return err
}

// isThere reports whether the file is there as it is wanted. Another one of its name is refused.
func (c *creation) isThere(ctx context.Context) (bool, error) {
	data, err := c.shell.ReadFile(ctx, c.spec.Node, c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case string(data) != c.spec.Content:
		return false, refused("name", fmt.Sprintf("There is %s on node %s already", c.spec.Volume(), c.spec.Node), fmt.Sprintf(
			"It holds something else (%d bytes, sha256 %s). It was not touched. Adopt it with terraform import, remove it if nobody needs it, "+
				"or set name to another one", len(data), host.SHA256Of(data)))
	}
	return true, nil
}

func (c *creation) write(ctx context.Context) error {
	if c.present {
		return nil
	}
	err := c.shell.CreateFile(ctx, c.spec.Node, c.path, []byte(c.spec.Content), c.spec.mode())
	if errors.Is(err, fs.ErrExist) { // somebody was faster
		there, err := c.isThere(ctx)
		if err == nil && !there {
			err = fmt.Errorf("%s came and went on node %s meanwhile", c.spec.Volume(), c.spec.Node)
		}
		return err
	}
	c.wrote = true
	if err == nil || ctx.Err() != nil {
		return err
	}
	look, cancel := c.jobs.LookAfter(ctx)
	defer cancel()
	if there, lookErr := c.isThere(look); there && lookErr == nil { // the answer was lost
		return nil
	}
	return err
}

// takeBack removes what was written. It was not there before, and holds what was written.
func (c *creation) takeBack(ctx context.Context) error {
	if !c.wrote {
		return nil
	}
	err := c.remover.FreeNewSnippet(ctx, remove.Snippet{Node: c.spec.Node, Volume: c.spec.Volume(), Path: c.path, SHA256: c.spec.SHA256()})
	changed := (*host.ChangedError)(nil)
	if err == nil || errors.As(err, &changed) { // somebody else has put his there
		c.wrote = false
		return nil
	}
	return &tx.LeftError{Err: err, Left: []tx.Residue{{Kind: "snippet", Node: c.spec.Node, ID: c.spec.Volume(),
		What: "snippet " + c.spec.Volume(), Reason: "it may have been written, and could not be removed again",
		Command: "pvesm free " + c.spec.Volume()}}}
}
