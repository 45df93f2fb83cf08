package create

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// idSource chooses VMIDs for a create and fences each: no id is used whose leftovers could be mistaken for ours.
type idSource struct {
	s         *Creator
	resources pve.Resources
	request   Request
	writeNode string
	landNode  string         // where a clone ends up, if that is another node
	places    []*guest.Fence // of no id yet: the nodes and storages to be fenced
	targets   []string       // storages that the create's volumes can be on; nil: any
	skipped   []int
	contended bool
}

// skip excludes an id that cannot be used.
func (i *idSource) skip(vmid int) { i.skipped = append(i.skipped, vmid) }

// collide excludes an id that somebody else took first.
func (i *idSource) collide(vmid int) {
	i.skip(vmid)
	i.contended = true
}

// next gives an id and its fence: the configured one, or a free one without leftovers.
func (i *idSource) next(ctx context.Context) (int, guest.Fences, error) {
	if i.places == nil {
		if err := i.survey(ctx); err != nil {
			return 0, nil, err
		}
	}
	if i.request.VMID != 0 {
		return i.configured(ctx)
	}
	for range collisions {
		vmid, err := i.choose(ctx)
		if err != nil {
			return 0, nil, err
		}
		all, err := i.fences(ctx, vmid)
		if err != nil {
			return 0, nil, err
		}
		if len(all.Orphans()) == 0 {
			return vmid, all, nil
		}
		i.skip(vmid)
	}
	return 0, nil, fmt.Errorf("no free VMID: the last %d tried all have volumes left over from other VMs (%s)", collisions, joinInts(i.skipped))
}

// configured fences the id that the user chose. What lies under it is refused, or destroyed where the user says so.
func (i *idSource) configured(ctx context.Context) (int, guest.Fences, error) {
	vmid := i.request.VMID
	if guest, ok := i.resources.Guest(vmid); ok {
		if err := i.s.reclaim(ctx, i.resources, guest); err != nil {
			return 0, nil, err
		}
	}
	all, err := i.fences(ctx, vmid)
	if err != nil || len(all.Orphans()) == 0 {
		return vmid, all, err
	}
	orphans := strings.Join(all.Orphans(), ", ")
	if i.request.OnOrphans != DestroyOrphans {
		return 0, nil, &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("Volumes of another VM %d are still there", vmid),
			Detail: fmt.Sprintf("On node %s there are volumes with this id that no VM owns: %s. They may hold somebody's data, so they were not touched. "+
				"Remove them (pvesm free VOLUME), choose another vmid, or set on_orphaned_volumes = \"destroy\"", all.Nodes(), orphans)}
	}
	if err := i.s.remover.Unattached(ctx, i.resources, all.Orphans()); err != nil {
		return 0, nil, &guest.FieldError{Path: "on_orphaned_volumes", Summary: "Cannot destroy orphaned volumes",
			Detail: "They were not touched, and VM " + fmt.Sprint(vmid) + " was not created", Err: err}
	}
	for _, f := range all {
		if len(f.Before) == 0 {
			continue
		}
		f.Before = map[string]struct{}{}
		sweep := remove.Target{VMID: vmid, Nodes: []string{f.Node}, Fence: f, Ledger: &job.Ledger{}, Pool: i.request.Pool,
			Stamp: guest.NewStamp(guest.ClusterName(i.resources), vmid, i.s.guests.Deadline(0))}
		if err := i.s.remover.Remove(ctx, sweep); err != nil {
			return 0, nil, &guest.FieldError{Path: "on_orphaned_volumes", Summary: "Cannot destroy orphaned volumes",
				Detail: "The volumes " + orphans + " could not be removed", Err: err}
		}
	}
	return vmid, all, nil
}

// survey finds the storages that the create may write to: those of the node written to, and those that only the node has
// on which a clone ends up.
func (i *idSource) survey(ctx context.Context) error {
	storages, err := i.s.guests.ImageStorages(ctx, i.resources, i.writeNode)
	if err != nil {
		return err
	}
	if i.landNode == i.writeNode {
		i.places = []*guest.Fence{{Node: i.writeNode, Storages: i.request.withTargets(storages)}}
		return nil
	}
	landing, err := i.s.guests.ImageStorages(ctx, i.resources, i.landNode)
	if err != nil {
		return err
	}
	landing = slices.DeleteFunc(landing, func(id string) bool {
		r, _ := i.resources.Storage(i.landNode, id)
		return r.Shared && slices.Contains(storages, id)
	})
	i.places = []*guest.Fence{{Node: i.writeNode, Storages: storages}, {Node: i.landNode, Storages: landing}}
	return nil
}

// withTargets adds the storages that the configuration names. An identity with Datastore.AllocateSpace alone may write to a
// storage that no listing shows it.
func (r Request) withTargets(storages []string) []string {
	return sortedIDs(append(r.namedStorages(), storages...))
}

// namedStorages are those that the configuration puts volumes on.
func (r Request) namedStorages() []string {
	named := []string{r.Spec.CloudInit.Storage}
	for _, d := range r.Spec.Disks {
		named = append(named, d.Storage)
	}
	if d := r.Spec.EFIDisk; d != nil {
		named = append(named, d.Storage)
	}
	if d := r.Spec.TPMState; d != nil {
		named = append(named, d.Storage)
	}
	if r.Clone != nil {
		named = append(named, r.Clone.Storage)
	}
	return named
}

// targets are the storages that volumes of the create can be on: those named, and those of the source, where a clone's are
// made unless it says otherwise. Nil: any, since a snapshot's may be elsewhere than its VM's.
func (r Request) targets(from *origin) []string {
	if from == nil {
		return sortedIDs(r.namedStorages())
	}
	if r.Clone.Snapshot != "" {
		return nil
	}
	return sortedIDs(append(r.namedStorages(), from.storages...))
}

// sortedIDs sorts ids and drops repeated and empty ones.
func sortedIDs(ids []string) []string {
	all := slices.Clone(ids)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return id == "" })
}

func (i *idSource) fences(ctx context.Context, vmid int) (guest.Fences, error) {
	var all guest.Fences
	for _, place := range i.places {
		f, err := i.s.guests.NewFence(ctx, place.Node, vmid, place.Storages)
		if err != nil {
			return nil, err
		}
		f.Targets = i.targets
		all = append(all, f)
	}
	return all, nil
}

// choose asks for the next free id, and after a collision takes a random free one, so that many creates at once do not
// follow each other from id to id.
func (i *idSource) choose(ctx context.Context) (int, error) {
	lower, upper := i.request.Range[0], i.request.Range[1]
	if upper == 0 && len(i.skipped) == 0 {
		return i.s.api.NextID(ctx)
	}
	if upper == 0 {
		lower, upper = i.beyond(ctx)
	}
	for attempt := range 1000 {
		vmid := lower + attempt
		if i.contended {
			vmid = lower + rand.IntN(upper-lower+1) //nolint:gosec // spreads processes, guards nothing
		}
		if vmid > upper {
			break
		}
		if _, ok := i.resources.Guest(vmid); ok || slices.Contains(i.skipped, vmid) {
			continue
		}
		free, err := i.s.api.IsFreeID(ctx, vmid)
		if err != nil {
			return 0, err
		}
		if free {
			return vmid, nil
		}
		i.skip(vmid)
	}
	return 0, &guest.FieldError{Path: "vmid", Summary: "No free VMID", Detail: fmt.Sprintf("Every id tried from %d to %d is taken", lower, upper),
		Err: errors.New("range exhausted")}
}

// beyond is where to look after the ids that were skipped, inside the datacenter's own range where PVE tells it.
func (i *idSource) beyond(ctx context.Context) (lower, upper int) {
	const spread = 1000
	lower = slices.Max(i.skipped) + 1
	upper = lower + spread
	first, last, err := i.s.api.IDRange(ctx)
	if err != nil || last == 0 || upper <= last {
		return lower, upper
	}
	return max(first, min(lower, last-spread)), last
}

func joinInts(ids []int) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = fmt.Sprint(id)
	}
	return strings.Join(texts, ", ")
}
