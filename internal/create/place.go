package create

import (
	"context"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// place is a node on which the create can make volumes, and the storages that they can be on.
type place struct {
	node     string
	storages []string
}

// widen adds the storages that the create does not write to: whoever wants all that carries the id to go means those too.
func (i *idChooser) widen(ctx context.Context) error {
	for n, at := range i.places {
		all, err := i.s.guests.ImageStorages(ctx, i.resources, at.node)
		if err != nil {
			return err
		}
		i.places[n].storages = sortedIDs(append(all, at.storages...))
	}
	return nil
}

// placesOf are those of a create on a node: the node itself, or, for a clone, its source's node, and what the volumes can be on
// that only the other node has.
func placesOf(resources pve.Resources, r Request, node string, from *cloneSource) []place {
	storages := r.storages(from)
	if from == nil || from.node == node {
		return []place{{node: node, storages: storages}}
	}
	landing := slices.DeleteFunc(slices.Clone(storages), func(id string) bool {
		listed, _ := resources.Storage(node, id)
		return listed.Shared
	})
	return []place{{node: from.node, storages: storages}, {node: node, storages: landing}}
}

// storages are those that the create can make volumes on: the ones that the configuration names, and the source's, where a
// clone's are made unless it says otherwise.
func (r Request) storages(from *cloneSource) []string {
	ids := []string{r.Spec.CloudInit.Storage}
	for _, d := range r.Spec.Disks {
		ids = append(ids, d.Storage)
	}
	if d := r.Spec.EFIDisk; d != nil {
		ids = append(ids, d.Storage)
	}
	if d := r.Spec.TPMState; d != nil {
		ids = append(ids, d.Storage)
	}
	if from != nil {
		ids = append(append(ids, r.Clone.Storage), from.storages...)
	}
	return sortedIDs(ids)
}

// sortedIDs sorts ids and drops repeated and empty ones.
func sortedIDs(ids []string) []string {
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" })
}

// fence lists what carries an id already, after the id was chosen.
func (i *idChooser) fence(ctx context.Context, vmid int) (guest.Fences, error) {
	var all guest.Fences
	for _, at := range i.places {
		f, err := i.s.guests.NewFence(ctx, i.resources, at.node, vmid, at.storages)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
