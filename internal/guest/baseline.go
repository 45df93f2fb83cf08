package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Baseline is the list of volumes that carried our VMID before the first write. They are never ours.
type Baseline struct {
	Node     string
	vmid     int
	Storages []string            // those that our volumes can be on and that could be listed
	Unlisted map[string]error    // those that could not, and why: nothing is ever removed there
	Before   map[string]struct{} // volume ids
	// Named are the volumes that are ours, where they are known by name since a configuration of ours named them: then
	// Before does not count. Nil: all that came after Before.
	Named  map[string]bool
	former map[string]bool // the names that the VM had on another node (MoveTo)
	// Unremoved are volumes that PVE said it could not remove, and why. It counts for blind storages. HasLog: there was
	// such a log to read, and it names all of them.
	Unremoved map[string]string
	HasLog    bool
	// Others are volumes with our id that OwnVolumes has seen last, and that are not known to be ours.
	Others []string
	// Away are the storages that it could not list then.
	Away []string
	// Resources tell what the storages are, if they are known.
	Resources pve.Resources
}

// BaselineRecord is a node on which a create could make volumes, as it was before the first write.
type BaselineRecord struct {
	Node     string   `json:"node"`
	Storages []string `json:"storages"` // that were listed
	Before   []string `json:"before"`   // volumes of the VMID that were there
	// Named are the volumes of a create that are known by name instead (Leftover).
	Named []string `json:"named,omitempty"`
}

// OwnBaseline is the baseline of a VM whose volumes are known by name.
func OwnBaseline(node string, vmid int, volumes []string) *Baseline {
	f := &Baseline{Node: node, vmid: vmid, Unlisted: map[string]error{}, Before: map[string]struct{}{},
		Named: map[string]bool{}}
	f.Own(volumes)
	return f
}

// Own adds volumes that are ours.
func (f *Baseline) Own(volumes []string) {
	for _, volume := range volumes {
		f.Named[volume] = true
		storage := volid.Storage(volume)
		if _, blind := f.Unlisted[storage]; !blind && !slices.Contains(f.Storages, storage) {
			f.Storages = append(f.Storages, storage)
		}
	}
	slices.Sort(f.Storages)
}

// HasNamed reports whether a volume is known by name to be ours, or was where the VM was before.
func (f *Baseline) HasNamed(volume string) bool { return f.Named[volume] || f.former[volume] }

// Disown takes out a volume that is not ours any more.
func (f *Baseline) Disown(volume string) {
	delete(f.Named, volume)
	delete(f.former, volume)
}

// MoveTo has the baseline of a VM whose volumes are known by name follow the VM to another node. There the names may be
// others': PVE gives a disk another name where its own is taken (qemu-server QemuMigrate.pm, allow_rename). So none is
// ours until a configuration that is read there names it (Own).
func (f *Baseline) MoveTo(node string) {
	if f.former == nil {
		f.former = map[string]bool{}
	}
	maps.Copy(f.former, f.Named)
	f.Node, f.Named, f.Storages = node, map[string]bool{}, nil
}

// ours reports whether a volume with our id is ours.
func (f *Baseline) ours(volume string) bool {
	if f.Named != nil {
		return f.Named[volume]
	}
	_, old := f.Before[volume]
	return !old
}

// Baselines are those of one create. The first is the one of the node written to first: there are two where a clone
// ends up on another node.
type Baselines []*Baseline

// Orphans are those of all baselines.
func (fs Baselines) Orphans() []string {
	var all []string
	for _, f := range fs {
		all = append(all, f.orphans()...)
	}
	return all
}

// NewBaseline lists, storage by storage and never from a cache, the volumes that carry vmid on node. storages are
// those that our volumes can be on; resources tell their kinds.
func (g *Guests) NewBaseline(ctx context.Context, resources pve.Resources, node string, vmid int,
	storages []string) (*Baseline, error) {
	f := &Baseline{Node: node, vmid: vmid, Unlisted: map[string]error{}, Before: map[string]struct{}{},
		Resources: resources}
	listings := make([]listing, len(storages))
	var looks sync.WaitGroup
	for i, storage := range storages {
		looks.Go(func() { listings[i].volumes, listings[i].err = g.volumes(ctx, resources, node, storage, vmid) })
	}
	looks.Wait()
	for i, storage := range storages {
		err := listings[i].err
		if interrupted := ctx.Err(); interrupted != nil { // also right after the answer
			return nil, errors.Join(err, interrupted)
		}
		if err != nil {
			f.Unlisted[storage] = err
			continue
		}
		f.Storages = append(f.Storages, storage)
		for _, v := range listings[i].volumes {
			f.Before[v.ID] = struct{}{}
		}
	}
	return f, nil
}

// BaselineOf is the baseline of a VM that was found: on a node, and of the volumes with its VMID there, those that its
// configuration names are ours.
func (g *Guests) BaselineOf(ctx context.Context, resources pve.Resources, node string, vmid int,
	config map[string]string) (*Baseline, error) {
	storages, err := g.ImageStorages(ctx, resources, node)
	if err != nil {
		return nil, err
	}
	b, err := g.NewBaseline(ctx, resources, node, vmid, storages)
	if err != nil {
		return nil, err
	}
	b.Release(config, vmid)
	return b, nil
}

// listing is what is on a storage, or why that cannot be told.
type listing struct {
	volumes []pve.Volume
	err     error
}

// volumes lists, never from a cache, the volumes on a storage that carry a VMID. On a storage whose plugin lists all
// of them anyway one listing that begins after this call may serve other VMIDs too. The plugins of directories run
// qemu-img for each file, but for those that the filter leaves out (pve-storage Plugin.pm list_images): there each
// VMID has a listing of its own.
func (g *Guests) volumes(ctx context.Context, resources pve.Resources, node, storage string, vmid int) ([]pve.Volume,
	error) {
	listed, _ := resources.Storage(node, storage)
	if !ListsAtOnce(listed) {
		return g.api.Storage(node, storage).Content(ctx, "images", vmid)
	}
	l := g.lists.of(node, storage)
	l.want(vmid, 1)
	defer l.want(vmid, -1)
	all, err := l.Get(ctx, func(ctx context.Context) ([]pve.Volume, error) {
		return g.api.Storage(node, storage).Content(ctx, "images", l.filter())
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(v pve.Volume) bool { return v.VMID != vmid }), nil
}

// ListsAtOnce reports whether the plugin of a storage lists the volumes of all guests with one command.
func ListsAtOnce(storage pve.Resource) bool {
	return slices.Contains([]string{"zfspool", "zfs", "lvm", "lvmthin", "rbd"}, storage.PluginType)
}

// Volumes are those on a storage that carry a VMID, read after this call; many who ask at once share an answer where
// one serves them.
func (g *Guests) Volumes(ctx context.Context, node, storage string, vmid int) ([]pve.Volume, error) {
	resources, _, err := g.api.Listing().Recent(ctx)
	if err != nil {
		return nil, err
	}
	return g.volumes(ctx, resources, node, storage, vmid)
}

// orphans are the volumes that carried the id although no guest had it, sorted.
func (f *Baseline) orphans() []string { return slices.Sorted(maps.Keys(f.Before)) }

// OwnVolumes returns the volumes of ours that are there now, sorted: those with our VMID that are not in the
// baseline. With an error, which is that of the first storage that could not be listed, they are those of the others.
func (f *Baseline) OwnVolumes(ctx context.Context, s *Guests) ([]pve.Volume, error) {
	var own []pve.Volume
	var failed error
	f.Others, f.Away = nil, nil
	for volume := range f.Unremoved {
		if _, blind := f.Unlisted[volid.Storage(volume)]; blind {
			own = append(own, pve.Volume{ID: volume, VMID: f.vmid})
		}
	}
	for _, storage := range f.Storages {
		volumes, err := s.volumes(ctx, f.Resources, f.Node, storage, f.vmid)
		if err != nil {
			f.Away = append(f.Away, storage)
			failed = cmp.Or(failed, fmt.Errorf("list the volumes of VM %d on %s: %w", f.vmid, storage, err))
			continue
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
	return slices.CompactFunc(own, func(a, b pve.Volume) bool { return a.ID == b.ID }), failed
}

// Narrow keeps of the storages that were looked at those on which volumes of ours can be.
func (f *Baseline) Narrow(storages []string) {
	other := func(id string) bool { return !slices.Contains(storages, id) }
	f.Storages = slices.DeleteFunc(f.Storages, other)
	maps.DeleteFunc(f.Unlisted, func(id string, _ error) bool { return other(id) })
}

// Release takes the volumes out of the baseline that go with a VM of ours (OwnVolumes).
func (f *Baseline) Release(config map[string]string, vmid int) {
	for _, volume := range OwnVolumes(vmid, config) {
		delete(f.Before, volume)
	}
}

// HoldsImages reports whether a storage of the listing is configured for disk images, or may be.
func HoldsImages(at pve.Resource) bool {
	return at.Content == "" || slices.Contains(strings.Split(at.Content, ","), "images")
}

// leaveOutOtherContent moves storages to Unlisted that are not configured for disk images any more: PVE lists none of
// them, though VMs still have theirs there (pve-storage 9.1.7 Storage.pm volume_list).
func (f *Baseline) leaveOutOtherContent(ctx context.Context, s *Guests) (err error) {
	if f.Resources == nil {
		if f.Resources, _, err = s.api.Listing().Recent(ctx); err != nil {
			return err
		}
	}
	f.Storages = slices.DeleteFunc(f.Storages, func(storage string) bool {
		at, ok := f.Resources.Storage(f.Node, storage)
		if !ok || HoldsImages(at) {
			return false
		}
		f.Unlisted[storage] = errors.New("it is not configured for disk images, so PVE lists none of them")
		return true
	})
	return nil
}

// CheckVisible finds out whether the identity could see an orphaned volume on every listed storage: PVE leaves
// volumes that the caller may not access out of a listing, in silence (pve-storage check_volume_access). A storage
// where it cannot tell moves to Unlisted.
func (f *Baseline) CheckVisible(ctx context.Context, s *Guests) error {
	if err := f.leaveOutOtherContent(ctx, s); err != nil || s.api.Identity().IsRootTicket() {
		return err
	}
	// On /vms, for all below, and not on the id itself: what the VM's pool gives was not there before the VM was.
	guests, err := s.api.Access().Privileges(ctx, "/vms")
	if err != nil {
		return err
	}
	var seen []string
	for _, storage := range f.Storages {
		privs, err := s.api.Access().Privileges(ctx, "/storage/"+storage)
		if err != nil {
			return err
		}
		if privs["Datastore.Allocate"] || privs["Datastore.Audit"] && guests["VM.Config.Disk"] {
			seen = append(seen, storage)
			continue
		}
		f.Unlisted[storage] = errors.New("needs Datastore.Allocate on the storage, or Datastore.Audit there and " +
			"VM.Config.Disk on /vms, to see volumes without a VM")
	}
	f.Storages = seen
	return nil
}

// Notes says, for people, where nothing could be looked for.
func (f *Baseline) Notes() []string {
	var notes []string
	if f.HasLog {
		return nil
	}
	for _, storage := range slices.Sorted(maps.Keys(f.Unlisted)) {
		notes = append(notes, fmt.Sprintf("volumes on storage %s were not looked for: %v", storage, f.Unlisted[storage]))
	}
	return notes
}

// Record is the baseline for a proof.
func (f *Baseline) Record() BaselineRecord {
	return BaselineRecord{Node: f.Node, Storages: f.Storages, Before: f.orphans()}
}

// FreeDrives says how to remove the cloud-init drives among volumes that no VM names, "" for none. PVE generates them,
// and gives each the one name that it has for the VMID (qemu-server QemuServer/Cloudinit.pm), so one that a dead create
// has left is in the way of the next one.
func FreeDrives(node string, volumes []string) string {
	said := ""
	for _, volume := range volumes {
		if volid.IsCloudInit(volume) {
			said += fmt.Sprintf(". %s is a cloud-init drive, which PVE generates, and maybe of a create that was cut off, "+
				"unless a VM of another cluster has it: %s as root on node %s removes it", volume,
				shell.Or(shell.FreeUnused(volume), shell.ByHand), node)
		}
	}
	return said
}
