package create

import (
	"slices"
)

// place is a node on which the create can make volumes, and the storages that they can be on.
type place struct {
	node     string
	storages []string
}

// placesOf are those of a create on a node: the node itself, or, for a clone, its source's node, and what the volumes can be on
// that only the other node has.
func placesOf(found findings, r Request) []place {
	storages := writtenTo(r, found.from)
	if found.from == nil || found.from.node == found.node {
		return []place{{node: found.node, storages: storages}}
	}
	landing := slices.DeleteFunc(slices.Clone(storages), func(id string) bool {
		listed, _ := found.resources.Storage(found.node, id)
		return listed.Shared
	})
	return []place{{node: found.from.node, storages: storages}, {node: found.node, storages: landing}}
}

// writtenTo are the storages that the create can make volumes on: the ones that the configuration names, and the source's, where a
// clone's are made unless it says otherwise.
func writtenTo(r Request, from *cloneSource) []string {
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
