package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// fence is the list of volumes that carried our id before the first write. What is in it is not ours, whatever happens.
type fence struct {
	node     string
	vmid     int
	storages []string            // images storages of the node that could be listed
	blind    map[string]error    // images storages that could not, and why: nothing is ever removed there
	before   map[string]struct{} // volume ids
	// only are the volumes that are ours, where they are known by name since a configuration of ours named them: then before
	// does not count. Nil: all that came after before.
	only map[string]bool
	// targets are the storages that our volumes can be on; nil: any. Others need not be there for a look.
	targets []string
	// told are volumes that PVE said it could not remove, and why. It counts for blind storages. heard: there was such a log
	// to read, and it names all of them.
	told  map[string]string
	heard bool
}

// ownFence is the fence of a VM whose volumes are known by name.
func ownFence(node string, vmid int, volumes []string) *fence {
	f := &fence{node: node, vmid: vmid, blind: map[string]error{}, before: map[string]struct{}{}, only: map[string]bool{}}
	f.own(volumes)
	return f
}

// own adds volumes that are ours.
func (f *fence) own(volumes []string) {
	for _, volume := range volumes {
		f.only[volume] = true
		storage := vm.VolumeStorage(volume)
		if _, blind := f.blind[storage]; !blind && !slices.Contains(f.storages, storage) {
			f.storages = append(f.storages, storage)
		}
	}
	slices.Sort(f.storages)
}

// ours reports whether a volume with our id is ours.
func (f *fence) ours(volume string) bool {
	if f.only != nil {
		return f.only[volume]
	}
	_, old := f.before[volume]
	return !old
}

// fences are those of one create, the one of the node written to first: two where a clone ends up on another node.
type fences []*fence

func (fs fences) orphans() []string {
	var all []string
	for _, f := range fs {
		all = append(all, f.orphans()...)
	}
	return all
}

func (fs fences) nodes() string {
	var names []string
	for _, f := range fs {
		names = append(names, f.node)
	}
	return strings.Join(names, ", ")
}

// newFence lists, storage by storage and never from a cache, the volumes that carry vmid on node.
func (s *Service) newFence(ctx context.Context, node string, vmid int, storages []string) (*fence, error) {
	f := &fence{node: node, vmid: vmid, blind: map[string]error{}, before: map[string]struct{}{}}
	for _, storage := range storages {
		volumes, err := s.api.Content(ctx, node, storage, "images", vmid)
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			f.blind[storage] = err
			continue
		}
		f.storages = append(f.storages, storage)
		for _, v := range volumes {
			f.before[v.ID] = struct{}{}
		}
	}
	return f, nil
}

// orphans are the volumes that carried the id although no guest had it, sorted.
func (f *fence) orphans() []string { return slices.Sorted(maps.Keys(f.before)) }

// strays are the volumes with our id that came after the fence was made, sorted. A storage that none of them can be on, and
// that cannot be listed now, is passed over.
func (f *fence) strays(ctx context.Context, s *Service) ([]string, error) {
	var strays []string
	for volume := range f.told {
		if _, blind := f.blind[vm.VolumeStorage(volume)]; blind {
			strays = append(strays, volume)
		}
	}
	for _, storage := range slices.Clone(f.storages) {
		volumes, err := s.api.Content(ctx, f.node, storage, "images", f.vmid)
		if err != nil && ctx.Err() == nil && f.targets != nil && !slices.Contains(f.targets, storage) {
			f.blind[storage] = err
			f.storages = slices.DeleteFunc(f.storages, func(other string) bool { return other == storage })
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the volumes of VM %d on %s: %w", f.vmid, storage, err)
		}
		for _, v := range volumes {
			if f.ours(v.ID) {
				strays = append(strays, v.ID)
			}
		}
	}
	slices.Sort(strays)
	return slices.Compact(strays), nil
}

// release opens the fence for the volumes that a configuration of ours owns: those that carry its own id. A volume of
// another id is somebody else's, and PVE only detaches it.
func (f *fence) release(config map[string]string, vmid int) {
	for volume := range f.before {
		owner, ok := vm.VolumeOwner(volume)
		if ok && owner == vmid && uses(config, volume) {
			delete(f.before, volume)
		}
	}
}

// sees reports whether the identity could see an orphan volume on every listed storage: PVE leaves out of a listing, in
// silence, what the caller may not access (pve-storage check_volume_access). Storages where it cannot tell count as blind.
func (f *fence) sees(ctx context.Context, s *Service) error {
	if s.api.Identity().IsRootTicket() {
		return nil
	}
	guest, err := s.api.Permissions(ctx, "/vms")
	if err != nil {
		return err
	}
	// On /vms, for all below, and not on the id itself: what the VM's pool gives was not there before the VM was.
	disks := guest["/vms"]["VM.Config.Disk"]
	var seen []string
	for _, storage := range f.storages {
		privs, err := s.privileges(ctx, "/storage/"+storage)
		if err != nil {
			return err
		}
		if privs["Datastore.Allocate"] || privs["Datastore.Audit"] && disks {
			seen = append(seen, storage)
			continue
		}
		f.blind[storage] = errors.New("needs Datastore.Allocate on the storage, or Datastore.Audit there and VM.Config.Disk on /vms, to see volumes without a VM")
	}
	f.storages = seen
	return nil
}

// privileges are the ones held on a path. PVE's value only says whether one propagates; being listed is having it.
func (s *Service) privileges(ctx context.Context, path string) (map[string]bool, error) {
	all, err := s.api.Permissions(ctx, path)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	for priv := range all[path] {
		held[priv] = true
	}
	return held, nil
}

// notes says, for people, where nothing could be looked for.
func (f *fence) notes() []string {
	var notes []string
	if f.heard {
		return nil
	}
	for _, storage := range slices.Sorted(maps.Keys(f.blind)) {
		notes = append(notes, fmt.Sprintf("volumes on storage %s were not looked for: %v", storage, f.blind[storage]))
	}
	return notes
}

// imageStorages are the storages of a node that can hold disks. The cluster's listing has them where the identity has
// Datastore.Audit; otherwise the node is asked.
func (s *Service) imageStorages(ctx context.Context, resources pve.Resources, node string) ([]string, error) {
	var ids []string
	for _, r := range resources.Storages(node) {
		if slices.Contains(strings.Split(r.Content, ","), "images") {
			ids = append(ids, r.Storage)
		}
	}
	if len(ids) == 0 {
		storages, err := s.api.Storages(ctx, node, "images")
		if err != nil {
			return nil, fmt.Errorf("list the storages of node %s: %w", node, err)
		}
		for _, st := range storages {
			if st.Enabled {
				ids = append(ids, st.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}
