package provision

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// idSource chooses VMIDs for a create and fences each: no id is used whose leftovers could be mistaken for ours.
type idSource struct {
	s         *Service
	resources pve.Resources
	request   CreateRequest
	writeNode string
	storages  []string
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
func (i *idSource) next(ctx context.Context) (int, *fence, error) {
	if i.storages == nil {
		storages, err := i.s.imageStorages(ctx, i.resources, i.writeNode)
		if err != nil {
			return 0, nil, err
		}
		i.storages = storages
	}
	if i.request.VMID != 0 {
		return i.configured(ctx)
	}
	for range collisions {
		vmid, err := i.choose(ctx)
		if err != nil {
			return 0, nil, err
		}
		f, err := i.s.newFence(ctx, i.writeNode, vmid, i.storages)
		if err != nil {
			return 0, nil, err
		}
		if len(f.before) == 0 {
			return vmid, f, nil
		}
		i.skip(vmid)
	}
	return 0, nil, fmt.Errorf("no free VMID: the last %d tried all have volumes left over from other VMs (%s)", collisions, joinInts(i.skipped))
}

// configured fences the id that the user chose. What lies under it is refused, or destroyed where the user says so.
func (i *idSource) configured(ctx context.Context) (int, *fence, error) {
	vmid := i.request.VMID
	if guest, ok := i.resources.Guest(vmid); ok {
		if err := i.s.reclaim(ctx, i.resources, guest); err != nil {
			return 0, nil, err
		}
	}
	f, err := i.s.newFence(ctx, i.writeNode, vmid, i.storages)
	if err != nil || len(f.before) == 0 {
		return vmid, f, err
	}
	orphans := strings.Join(f.orphans(), ", ")
	if i.request.OnOrphans != DestroyOrphans {
		return 0, nil, &FieldError{Path: "vmid", Summary: fmt.Sprintf("Volumes of another VM %d are still there", vmid),
			Detail: fmt.Sprintf("On node %s there are volumes with this id that no VM owns: %s. They may hold somebody's data, so they were not touched. "+
				"Remove them (pvesm free VOLUME), choose another vmid, or set on_orphaned_volumes = \"destroy\"", i.writeNode, orphans)}
	}
	cleared := &fence{node: f.node, vmid: vmid, storages: f.storages, blind: f.blind, before: map[string]struct{}{}}
	sweep := &removal{s: i.s, vmid: vmid, nodes: []string{i.writeNode}, fence: cleared, ledger: &ledger{},
		stamp: newStamp(clusterName(i.resources), vmid, i.s.deadline(0))}
	if err := sweep.run(ctx); err != nil {
		return 0, nil, &FieldError{Path: "on_orphaned_volumes", Summary: "Cannot destroy orphaned volumes",
			Detail: "The volumes " + orphans + " could not be removed", Err: err}
	}
	return vmid, cleared, nil
}

// choose asks for the next free id, and after a collision takes a random free one, so that many creates at once do not
// follow each other from id to id.
func (i *idSource) choose(ctx context.Context) (int, error) {
	lower, upper := i.request.Range[0], i.request.Range[1]
	if upper == 0 && len(i.skipped) == 0 {
		return i.s.api.NextID(ctx)
	}
	if upper == 0 {
		lower = slices.Max(i.skipped) + 1
		upper = lower + 1000
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
	return 0, &FieldError{Path: "vmid", Summary: "No free VMID", Detail: fmt.Sprintf("Every id tried from %d to %d is taken", lower, upper),
		Err: errors.New("range exhausted")}
}

func joinInts(ids []int) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = fmt.Sprint(id)
	}
	return strings.Join(texts, ", ")
}
