package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Fence is the list of volumes that carried our id before the first write. What is in it is not ours, whatever happens.
type Fence struct {
	Node     string
	vmid     int
	Storages []string            // those that our volumes can be on and that could be listed
	Blind    map[string]error    // those that could not, and why: nothing is ever removed there
	Before   map[string]struct{} // volume ids
	// Only are the volumes that are ours, where they are known by name since a configuration of ours named them: then before
	// does not count. Nil: all that came after before.
	Only map[string]bool
	// Unremoved are volumes that PVE said it could not remove, and why. It counts for blind storages. HasLog: there was such a log
	// to read, and it names all of them.
	Unremoved map[string]string
	HasLog    bool
	// Others are volumes with our id that OwnVolumes has seen last, and that are not known to be ours.
	Others []string
	// Resources tell what the storages are, if they are known.
	Resources pve.Resources
}

// FenceRecord is a node on which a create could make volumes, as it was before the first write.
type FenceRecord struct {
	Node     string   `json:"node"`
	Storages []string `json:"storages"` // that were listed
	Before   []string `json:"before"`   // volumes of the VMID that were there
}

// OwnFence is the fence of a VM whose volumes are known by name.
func OwnFence(node string, vmid int, volumes []string) *Fence {
	f := &Fence{Node: node, vmid: vmid, Blind: map[string]error{}, Before: map[string]struct{}{}, Only: map[string]bool{}}
	f.Own(volumes)
	return f
}

// Own adds volumes that are ours.
func (f *Fence) Own(volumes []string) {
	for _, volume := range volumes {
		f.Only[volume] = true
		storage := vm.VolumeStorage(volume)
		if _, blind := f.Blind[storage]; !blind && !slices.Contains(f.Storages, storage) {
			f.Storages = append(f.Storages, storage)
		}
	}
	slices.Sort(f.Storages)
}

// ours reports whether a volume with our id is ours.
func (f *Fence) ours(volume string) bool {
	if f.Only != nil {
		return f.Only[volume]
	}
	_, old := f.Before[volume]
	return !old
}

// Fences are those of one create, the one of the node written to first: two where a clone ends up on another node.
type Fences []*Fence

// Orphans are those of all fences.
func (fs Fences) Orphans() []string {
	var all []string
	for _, f := range fs {
		all = append(all, f.orphans()...)
	}
	return all
}

// Nodes names the nodes, for people.
func (fs Fences) Nodes() string {
	var names []string
	for _, f := range fs {
		names = append(names, f.Node)
	}
	return strings.Join(names, ", ")
}

// NewFence lists, storage by storage and never from a cache, the volumes that carry vmid on node. storages are those that
// volumes of ours can be on; resources tell what they are.
func (s *Guests) NewFence(ctx context.Context, resources pve.Resources, node string, vmid int, storages []string) (*Fence, error) {
	f := &Fence{Node: node, vmid: vmid, Blind: map[string]error{}, Before: map[string]struct{}{}, Resources: resources}
	listings := make([]listing, len(storages))
	var looks sync.WaitGroup
	for i, storage := range storages {
		looks.Go(func() { listings[i].volumes, listings[i].err = s.volumes(ctx, resources, node, storage, vmid) })
	}
	looks.Wait()
	for i, storage := range storages {
		err := listings[i].err
		if interrupted := ctx.Err(); interrupted != nil { // also right after the answer
			return nil, errors.Join(err, interrupted)
		}
		if err != nil {
			f.Blind[storage] = err
			continue
		}
		f.Storages = append(f.Storages, storage)
		for _, v := range listings[i].volumes {
			f.Before[v.ID] = struct{}{}
		}
	}
	return f, nil
}

// listing is what is on a storage, or why that cannot be told.
type listing struct {
	volumes []pve.Volume
	err     error
}

// volumes lists, never from a cache, the volumes on a storage that carry a VMID. On a storage whose plugin lists all of them
// anyway one listing that begins after this call may serve other VMIDs too. The plugins of directories run qemu-img for each
// file, but for those that the filter leaves out (pve-storage Plugin.pm list_images): there each VMID has a listing of its own.
func (s *Guests) volumes(ctx context.Context, resources pve.Resources, node, storage string, vmid int) ([]pve.Volume, error) {
	listed, _ := resources.Storage(node, storage)
	if !slices.Contains([]string{"zfspool", "zfs", "lvm", "lvmthin", "rbd"}, listed.PluginType) {
		return s.api.Content(ctx, node, storage, "images", vmid)
	}
	l := s.lists.of(node, storage)
	l.want(vmid, 1)
	defer l.want(vmid, -1)
	all, err := l.Get(ctx, func(ctx context.Context) ([]pve.Volume, error) {
		return s.api.Content(ctx, node, storage, "images", l.filter())
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(v pve.Volume) bool { return v.VMID != vmid }), nil
}

// Volumes are those on a storage that carry a VMID, read after this call; many who ask at once share an answer where one serves them.
func (s *Guests) Volumes(ctx context.Context, node, storage string, vmid int) ([]pve.Volume, error) {
	resources, _, err := s.api.RecentResources(ctx)
	if err != nil {
		return nil, err
	}
	return s.volumes(ctx, resources, node, storage, vmid)
}

// orphans are the volumes that carried the id although no guest had it, sorted.
func (f *Fence) orphans() []string { return slices.Sorted(maps.Keys(f.Before)) }

// OwnVolumes are the volumes of ours that are there now: those with our id that came after the fence was made, sorted.
func (f *Fence) OwnVolumes(ctx context.Context, s *Guests) ([]pve.Volume, error) {
	var own []pve.Volume
	f.Others = nil
	for volume := range f.Unremoved {
		if _, blind := f.Blind[vm.VolumeStorage(volume)]; blind {
			own = append(own, pve.Volume{ID: volume, VMID: f.vmid})
		}
	}
	for _, storage := range f.Storages {
		volumes, err := s.volumes(ctx, f.Resources, f.Node, storage, f.vmid)
		if err != nil {
			return nil, fmt.Errorf("list the volumes of VM %d on %s: %w", f.vmid, storage, err)
		}
		for _, v := range volumes {
			if f.ours(v.ID) {
				own = append(own, v)
			} else {
				f.Others = append(f.Others, v.ID)
			}
		}
	}
	slices.SortFunc(own, func(a, b pve.Volume) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(own, func(a, b pve.Volume) bool { return a.ID == b.ID }), nil
}

// Narrow keeps of the storages that were looked at those on which volumes of ours can be.
func (f *Fence) Narrow(storages []string) {
	other := func(id string) bool { return !slices.Contains(storages, id) }
	f.Storages = slices.DeleteFunc(f.Storages, other)
	maps.DeleteFunc(f.Blind, func(id string, _ error) bool { return other(id) })
}

// Release opens the fence for the volumes that a configuration of ours owns: those that carry its own id. A volume of
// another id is somebody else's, and PVE only detaches it.
func (f *Fence) Release(config map[string]string, vmid int) {
	for volume := range f.Before {
		owner, ok := vm.VolumeOwner(volume)
		if ok && owner == vmid && Uses(config, volume) {
			delete(f.Before, volume)
		}
	}
}

// Sees reports whether the identity could see an orphan volume on every listed storage: PVE leaves out of a listing, in
// silence, what the caller may not access (pve-storage check_volume_access). Storages where it cannot tell count as blind.
func (f *Fence) Sees(ctx context.Context, s *Guests) error {
	if s.api.Identity().IsRootTicket() {
		return nil
	}
	// On /vms, for all below, and not on the id itself: what the VM's pool gives was not there before the VM was.
	guests, err := s.api.Privileges(ctx, "/vms")
	if err != nil {
		return err
	}
	var seen []string
	for _, storage := range f.Storages {
		privs, err := s.api.Privileges(ctx, "/storage/"+storage)
		if err != nil {
			return err
		}
		if privs["Datastore.Allocate"] || privs["Datastore.Audit"] && guests["VM.Config.Disk"] {
			seen = append(seen, storage)
			continue
		}
		f.Blind[storage] = errors.New("needs Datastore.Allocate on the storage, or Datastore.Audit there and VM.Config.Disk on /vms, " +
			"to see volumes without a VM")
	}
	f.Storages = seen
	return nil
}

// Notes says, for people, where nothing could be looked for.
func (f *Fence) Notes() []string {
	var notes []string
	if f.HasLog {
		return nil
	}
	for _, storage := range slices.Sorted(maps.Keys(f.Blind)) {
		notes = append(notes, fmt.Sprintf("volumes on storage %s were not looked for: %v", storage, f.Blind[storage]))
	}
	return notes
}

// Record is the fence for a proof.
func (f *Fence) Record() FenceRecord {
	return FenceRecord{Node: f.Node, Storages: f.Storages, Before: f.orphans()}
}
