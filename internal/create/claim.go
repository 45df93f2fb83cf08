package create

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// claimed is a VMID that was chosen for a create.
type claimed struct {
	vmid      int
	baselines guest.Baselines
	// done gives the VMID back to other creates of this process.
	done func()
}

// next returns a VMID and its baseline: the configured VMID, or a free one without leftovers.
func (i *idChooser) next(ctx context.Context) (claimed, error) {
	if vmid := i.request.VMID; vmid != 0 {
		done := i.creator.guests.Occupy(vmid)
		baselines, err := i.configured(ctx)
		if err != nil {
			done()
		}
		return claimed{vmid: vmid, baselines: baselines, done: done}, err
	}
	for i.lost < collisions && len(i.tried) < leftovers {
		vmid, done, err := i.choose(ctx)
		if err != nil {
			return claimed{}, err
		}
		all, free, err := i.claim(ctx, vmid)
		leftOver := err == nil && free && len(all.Orphans()) > 0
		if leftOver { // or a third party has made a VM there since
			free, err = i.creator.api.Cluster().IsFreeID(ctx, vmid)
		}
		switch {
		case err != nil:
			done()
			return claimed{}, err
		case leftOver && free: // it stays occupied: the next create here need not list the same leftovers
			i.tried = append(i.tried, vmid)
		case leftOver:
			done()
			i.collide(vmid)
		case !free:
			done()
			i.passed[vmid] = true
		default:
			return claimed{vmid: vmid, baselines: all, done: done}, nil
		}
		i.taken[vmid] = true
	}
	if i.lost == collisions {
		return claimed{}, fmt.Errorf("no free VMID: %d ids in a row were taken by others between the look and the create",
			collisions)
	}
	return claimed{}, fmt.Errorf("no free VMID: the last %d tried all have volumes left over from other VMs (%s)",
		leftovers, i.triedIDs())
}

// claim takes the baseline of a chosen VMID. Meanwhile it asks which VMIDs PVE would give out, and whether this one is
// mentioned elsewhere.
func (i *idChooser) claim(ctx context.Context, vmid int) (all guest.Baselines, free bool, err error) {
	var asking sync.WaitGroup
	var notListed, notAsked error
	var spokenFor []int
	asking.Go(func() { all, notListed = i.baseline(ctx, vmid) })
	asking.Go(func() { spokenFor, notAsked = i.spokenFor(ctx, vmid) })
	free, err = i.isGiven(ctx, vmid)
	asking.Wait()
	for _, other := range spokenFor {
		i.passed[other], i.named = true, true
	}
	return all, free && len(spokenFor) == 0, errors.Join(err, notListed, notAsked)
}

// configured takes the baseline of the VMID that the user chose. Volumes under it are refused, or destroyed if the user
// wants that and none of them is to be copied.
func (i *idChooser) configured(ctx context.Context) (guest.Baselines, error) {
	vmid := i.request.VMID
	if i.request.OnOrphans == DestroyOrphans {
		if err := i.addAllStorages(ctx); err != nil {
			return nil, err
		}
	}
	if err := i.findNamed(ctx); err != nil {
		return nil, err
	}
	all, err := i.baseline(ctx, vmid)
	if err == nil {
		err = i.adoptable(ctx, all)
	}
	if err != nil || len(i.leftovers(all)) == 0 {
		return all, err
	}
	drives := ""
	var at, named []string // the volumes of each node; those of shared storages once
	for _, f := range all {
		volumes := slices.DeleteFunc(i.leftovers(guest.Baselines{f}), func(volume string) bool {
			listed, _ := i.resources.Storage(f.Node, volid.Storage(volume))
			return listed.Shared && slices.Contains(named, volume)
		})
		if named = append(named, volumes...); len(volumes) > 0 {
			at = append(at, fmt.Sprintf("%s on node %s", strings.Join(volumes, ", "), f.Node))
			drives += guest.FreeDrives(f.Node, volumes)
		}
	}
	orphans := strings.Join(at, "; ")
	switch {
	case i.creator.guests.Destroyed.Has(vmid):
		i.warnings = append(i.warnings, guest.Warning{Summary: fmt.Sprintf("Volumes with the id %d were left", vmid),
			Detail: fmt.Sprintf("There are volumes with the id of the VM that this apply has removed, and they "+
				"were none of its disks: %s. They were not touched: on_orphaned_volumes is about what earlier VMs have left. Look "+
				"whose they are before you remove any", orphans)})
		return all, nil
	case slices.ContainsFunc(i.leftovers(all), i.isSource):
		return nil, &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("Volumes of another VM %d are still there", vmid),
			Detail: fmt.Sprintf("There are volumes with this id that no VM owns: %s. %s", orphans,
				guest.SourceUnderItsID)}
	case i.request.OnOrphans != DestroyOrphans:
		return nil, &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("Volumes of another VM %d are still there", vmid),
			Detail: fmt.Sprintf("There are volumes with this id that no VM owns: %s. They may hold another user's "+
				"data, so they were not touched. Find their owner and remove them, choose another vmid, set on_orphaned_volumes = "+
				"\"destroy\", or take them over as disks with imported_disk%s", orphans, drives)}
	}
	return all, i.destroyOrphans(ctx, all)
}

// destroyOrphans destroys the volumes under the VMID that the user chose, on the VM's own node, for which the plan has
// named them. A copy is first made on the node of its source; those that are there are refused.
func (i *idChooser) destroyOrphans(ctx context.Context, all guest.Baselines) error {
	vmid, here := i.request.VMID, []string{}
	for _, f := range all {
		volumes := i.leftovers(guest.Baselines{f})
		if f.Node == i.node {
			here = volumes
			continue
		}
		elsewhere := slices.DeleteFunc(volumes, func(volume string) bool {
			listed, _ := i.resources.Storage(f.Node, volid.Storage(volume))
			return listed.Shared
		})
		if len(elsewhere) > 0 {
			return &guest.FieldError{Path: "on_orphaned_volumes",
				Summary: fmt.Sprintf("Volumes of another VM %d are there", vmid),
				Detail: fmt.Sprintf("On node %s, on which the copy is made first, there are volumes with this id that no VM owns: "+
					"%s. Only those on the VM's own node are destroyed, which is %s. None was touched. Find their owner and remove "+
					"them, or choose another vmid", f.Node, strings.Join(elsewhere, ", "), i.node)}
		}
	}
	if err := i.creator.destroyer.ProveOrphaned(ctx, i.node, vmid, here); err != nil {
		return &guest.FieldError{Path: "on_orphaned_volumes", Summary: "Cannot destroy orphaned volumes",
			Detail: "They were not touched, and VM " + fmt.Sprint(vmid) + " was not created", Err: err}
	}
	seen := guest.OwnBaseline(i.node, vmid, here) // and none that comes meanwhile
	seen.Resources = i.resources
	sweep := destroy.Target{VMID: vmid, Nodes: []string{i.node}, Baseline: seen, Tasks: &request.Tasks{},
		HalfMade: destroy.NewHalfMade("", nil),
		Pool:     i.request.Pool,
		Mark:     i.creator.guests.NewMark(guest.ClusterName(i.resources), vmid)}
	if err := i.creator.destroyer.RemoveVolumes(ctx, sweep); err != nil {
		return &guest.FieldError{Path: "on_orphaned_volumes", Summary: "Cannot destroy orphaned volumes",
			Detail: "The volumes " + strings.Join(here, ", ") + " could not be removed", Err: err}
	}
	for _, f := range all {
		maps.DeleteFunc(f.Before, func(volume string, _ struct{}) bool { return slices.Contains(here, volume) })
	}
	return nil
}

// addAllStorages adds the storages of the VM's node that the create does not write to: a user who wants all volumes
// under the VMID destroyed means those too.
func (i *idChooser) addAllStorages(ctx context.Context) error {
	for n, at := range i.places {
		if at.node != i.node {
			continue
		}
		all, err := i.creator.guests.ImageStorages(ctx, i.resources, at.node)
		if err != nil {
			return err
		}
		i.places[n].storages = sortedIDs(append(all, at.storages...))
	}
	return nil
}

// baseline lists the volumes that already carry a VMID, after it was chosen.
func (i *idChooser) baseline(ctx context.Context, vmid int) (guest.Baselines, error) {
	var all guest.Baselines
	for _, at := range i.places {
		f, err := i.creator.guests.NewBaseline(ctx, i.resources, at.node, vmid, at.storages)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
