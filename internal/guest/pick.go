package guest

import (
	"context"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Choice is a VM that somebody names by its id, and what else must be true of it; "" is not checked.
type Choice struct {
	VMID       int
	Node, UUID string
}

// Pick finds the VM, wherever it is, and reads its configuration.
func (s *Guests) Pick(ctx context.Context, c Choice) (Location, error) {
	resources, err := s.api.Resources(ctx)
	if err != nil {
		return Location{}, fmt.Errorf("list the cluster's guests: %w", err)
	}
	listed, ok := resources.Guest(c.VMID)
	switch {
	case !ok:
		return Location{}, s.notListed(ctx, c.VMID)
	case listed.Type != "qemu":
		return Location{}, noVM(listed)
	}
	at, _, err := s.Find(ctx, Ref{VMID: c.VMID, Node: listed.Node}, resources)
	if err != nil {
		return at, err
	}
	return at, c.Check(at)
}

// Check refuses a VM that is not the one which was chosen.
func (c Choice) Check(at Location) error {
	seen := IdentityOf(at.Config.Current())
	switch {
	case c.Node != "" && c.Node != at.Node:
		return &FieldError{Path: "node", Summary: fmt.Sprintf("VM %d is on another node", c.VMID),
			Detail: fmt.Sprintf("It is on node %s, not on %s; it was not touched", at.Node, c.Node)}
	case c.UUID != "" && !strings.EqualFold(c.UUID, seen.UUID):
		return &FieldError{Path: "uuid", Summary: fmt.Sprintf("VM %d is another VM", c.VMID),
			Detail: fmt.Sprintf("The VM on node %s that has this id now has %s, not uuid %s; it was not touched", at.Node, seen, c.UUID)}
	}
	return nil
}

// notListed says of an id that has no guest in the list what that means.
func (s *Guests) notListed(ctx context.Context, vmid int) error {
	free, err := s.api.IsFreeID(ctx, vmid)
	switch {
	case err != nil:
		return err
	case !free:
		return &FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d cannot be seen", vmid),
			Detail: fmt.Sprintf("A guest has this id, but this identity may not see it: that takes VM.Audit on /vms/%d", vmid)}
	}
	return &FieldError{Path: "vmid", Summary: fmt.Sprintf("There is no VM %d", vmid), Detail: "No guest of the cluster has this id"}
}

// Never is why nothing can ever be done to the guest of a VM that is chosen, as far as that shows now: its id has a container, a
// template or another VM. It is nil for a VM that is not there, or could not be looked at: that may be another matter later.
func (s *Guests) Never(ctx context.Context, c Choice) error {
	resources, err := s.api.Resources(ctx)
	if err != nil {
		return nil //nolint:nilerr // whoever acts looks again, and says it
	}
	listed, ok := resources.Guest(c.VMID)
	switch {
	case !ok:
		return nil
	case listed.Type != "qemu":
		return noVM(listed)
	}
	at, _, err := s.Find(ctx, Ref{VMID: c.VMID, Node: listed.Node}, resources)
	switch {
	case err != nil:
		return nil //nolint:nilerr // likewise
	case at.Config.Current()["template"] == "1":
		return IsTemplate(c.VMID)
	}
	return Choice{VMID: c.VMID, UUID: c.UUID}.Check(at) // it may have moved by then
}

// noVM refuses a container.
func noVM(listed pve.Resource) error {
	return &FieldError{Path: "vmid", Summary: fmt.Sprintf("%d is no VM", listed.VMID),
		Detail: fmt.Sprintf("%s on node %s has this id; it was not touched", Named(listed), listed.Node)}
}

// IsTemplate refuses a template, which has no guest.
func IsTemplate(vmid int) error {
	return &FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d is a template", vmid),
		Detail: "A template has no guest, and nothing was done"}
}
