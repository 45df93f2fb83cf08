package create

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// claimed is an id that was chosen for a create.
type claimed struct {
	vmid   int
	fences guest.Fences
	// done gives the id back to those here who look for one.
	done func()
}

// next gives an id and its fence: the configured one, or a free one without leftovers.
func (i *idChooser) next(ctx context.Context) (claimed, error) {
	if vmid := i.request.VMID; vmid != 0 {
		done := i.s.guests.Occupy(vmid)
		fences, err := i.configured(ctx)
		if err != nil {
			done()
		}
		return claimed{vmid: vmid, fences: fences, done: done}, err
	}
	for i.lost < collisions && len(i.tried) < leftovers {
		vmid, done, err := i.choose(ctx)
		if err != nil {
			return claimed{}, err
		}
		all, free, err := i.claim(ctx, vmid)
		leftOver := err == nil && free && len(all.Orphans()) > 0
		if leftOver { // or somebody has made a VM there since
			free, err = i.s.api.IsFreeID(ctx, vmid)
		}
		switch {
		case err != nil:
			done()
			return claimed{}, err
		case leftOver && free: // it stays occupied: the next create here need not look at the same leftovers
			i.tried = append(i.tried, vmid)
		case leftOver:
			done()
			i.collide(vmid)
		case !free:
			done()
			i.passed[vmid] = true
		default:
			return claimed{vmid: vmid, fences: all, done: done}, nil
		}
		i.taken[vmid] = true
	}
	if i.lost == collisions {
		return claimed{}, fmt.Errorf("no free VMID: %d ids in a row were taken by others between the look and the create", collisions)
	}
	return claimed{}, fmt.Errorf("no free VMID: the last %d tried all have volumes left over from other VMs (%s)", leftovers, i.triedIDs())
}

// claim fences an id that was chosen, and asks meanwhile what PVE tells of the ids that are free and of this one.
func (i *idChooser) claim(ctx context.Context, vmid int) (all guest.Fences, free bool, err error) {
	var asking sync.WaitGroup
	var notFenced, notAsked error
	var spokenFor []int
	asking.Go(func() { all, notFenced = i.fence(ctx, vmid) })
	asking.Go(func() { spokenFor, notAsked = i.spokenFor(ctx, vmid) })
	free, err = i.isGiven(ctx, vmid)
	asking.Wait()
	for _, other := range spokenFor {
		i.passed[other], i.named = true, true
	}
	return all, free && len(spokenFor) == 0, errors.Join(err, notFenced, notAsked)
}

// configured fences the id that the user chose. What lies under it is refused, or destroyed where the user says so.
func (i *idChooser) configured(ctx context.Context) (guest.Fences, error) {
	vmid := i.request.VMID
	if guest, ok := i.resources.Guest(vmid); ok {
		if err := i.s.checkTaken(ctx, i.resources, guest, i.request); err != nil {
			return nil, err
		}
	}
	if i.request.OnOrphans == DestroyOrphans {
		if err := i.addAllStorages(ctx); err != nil {
			return nil, err
		}
	}
	all, err := i.fence(ctx, vmid)
	if err == nil {
		err = i.adoptable(ctx, all)
	}
	if err != nil || len(i.leftovers(all)) == 0 {
		return all, err
	}
	orphans := strings.Join(i.leftovers(all), ", ")
	if i.request.OnOrphans != DestroyOrphans {
		return nil, &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("Volumes of another VM %d are still there", vmid),
			Detail: fmt.Sprintf("On node %s there are volumes with this id that no VM owns: %s. "+
				"They may hold somebody's data, so they were not touched. "+
				"Remove them (pvesm free VOLUME), choose another vmid, set on_orphaned_volumes = \"destroy\", or take them over as disks "+
				"with imported_disk", all.Nodes(), orphans)}
	}
	for _, f := range all {
		volumes := i.leftovers(guest.Fences{f})
		if len(volumes) == 0 {
			continue
		}
		if err := i.s.remover.ProveLeftOver(ctx, f.Node, vmid, volumes); err != nil {
			return nil, &guest.FieldError{Path: "on_orphaned_volumes", Summary: "Cannot destroy orphaned volumes",
				Detail: "They were not touched, and VM " + fmt.Sprint(vmid) + " was not created", Err: err}
		}
	}
	for _, f := range all {
		volumes := i.leftovers(guest.Fences{f})
		if len(volumes) == 0 {
			continue
		}
		seen := guest.OwnFence(f.Node, vmid, volumes) // and nothing that comes meanwhile
		seen.Resources = f.Resources
		maps.DeleteFunc(f.Before, func(volume string, _ struct{}) bool { return !i.adopts(volume) })
		sweep := remove.Target{VMID: vmid, Nodes: []string{f.Node}, Fence: seen, Tasks: &job.Tasks{}, Stub: remove.NewStub("", nil),
			Pool:  i.request.Pool,
			Stamp: i.s.guests.NewStamp(guest.ClusterName(i.resources), vmid)}
		if err := i.s.remover.Remove(ctx, sweep); err != nil {
			return nil, &guest.FieldError{Path: "on_orphaned_volumes", Summary: "Cannot destroy orphaned volumes",
				Detail: "The volumes " + orphans + " could not be removed", Err: err}
		}
	}
	return all, nil
}

// addAllStorages adds the storages that the create does not write to: whoever wants all that carries the id to go means those too.
func (i *idChooser) addAllStorages(ctx context.Context) error {
	for n, at := range i.places {
		all, err := i.s.guests.ImageStorages(ctx, i.resources, at.node)
		if err != nil {
			return err
		}
		i.places[n].storages = sortedIDs(append(all, at.storages...))
	}
	return nil
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
